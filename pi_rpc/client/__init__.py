"""A typed asynchronous client of the native protocol."""
