"""One module per wire dialect; each is imported when its first stream starts."""
