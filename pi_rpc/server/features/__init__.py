"""One module per group of methods of the native protocol."""
