"""The loop, tools and queues. Touches no files and no wire."""
