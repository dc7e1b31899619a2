"""``pi-rpc --acp``: the Agent Client Protocol at standard input and output.

Owns what this door answers first, and what it is made of. The order of its first milliseconds is
``pi_rpc.doors.opening``'s. Messages are lines, whatever comes first.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pi_rpc.acp.handshake import greet
from pi_rpc.doors.opening import run_door
from pi_rpc.jsonrpc.framing import Framing

if TYPE_CHECKING:
    from argparse import Namespace

    from pi_rpc.acp.connection import Connection

__all__ = ["run_acp"]


def run_acp(arguments: "Namespace") -> int:
    """As ``run_door``."""
    return run_door(arguments, greet, _load, framing=Framing.LINES)


def _load() -> "Callable[..., Connection]":
    from pi_rpc.acp.connection import Connection
    from pi_rpc.acp.features import FEATURES

    return partial(Connection, FEATURES)
