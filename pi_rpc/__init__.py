"""pi-rpc: a coding agent as a long-running process.

This package name is importable at no cost: it pulls in nothing. Library users import the layer they
need, for instance ``pi_rpc.agent`` for the loop or ``pi_rpc.client`` to drive a daemon.
"""

__version__ = "0.1.0"
