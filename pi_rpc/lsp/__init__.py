"""The language-server front door (not built yet)."""
