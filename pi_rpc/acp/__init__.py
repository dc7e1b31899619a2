"""The Agent Client Protocol front door (not built yet)."""
