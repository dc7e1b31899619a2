"""The wire types of the native protocol, and how in-process events become them. Does no I/O.

Importing this package costs nothing; import the module you need. ``base``, ``errors``, ``decode``
and ``handshake`` are all that answering ``initialize`` takes and pull in nothing but msgspec; the
others also pull in the structs of the agent."""
