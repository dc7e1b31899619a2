"""A typed, asynchronous client of the native protocol: see ``docs/client.md``.

Starts the daemon, asks it, iterates over its events and answers its questions. It knows the daemon
by its wire alone; params and results are the structs of ``pi_rpc.protocol``. Runs on asyncio."""

from pi_rpc.client._incoming import Handler
from pi_rpc.client.client import PiRpc
from pi_rpc.client.errors import DaemonEnded
from pi_rpc.client.events import Events, Missed, SessionEvent, UnknownEvent
from pi_rpc.client.session import Session
from pi_rpc.jsonrpc.errors import RpcError

__all__ = [
    "DaemonEnded",
    "Events",
    "Handler",
    "Missed",
    "PiRpc",
    "RpcError",
    "Session",
    "SessionEvent",
    "UnknownEvent",
]
