"""The wire types of the native protocol, and how in-process events become them. Does no I/O."""
