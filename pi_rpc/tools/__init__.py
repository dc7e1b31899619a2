"""The built-in tools and the local implementations of the ports they use."""
