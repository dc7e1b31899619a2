"""What the front doors with a wire have in common: their first milliseconds, clients and ends."""
