"""``pi-rpc --stdio``: the native protocol at standard input and output.

Owns what this door answers first, and what it is made of. The order of its first milliseconds is
``pi_rpc.doors.opening``'s.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pi_rpc.doors.opening import run_door
from pi_rpc.server.greeting import greet

if TYPE_CHECKING:
    from argparse import Namespace

    from pi_rpc.server.connection import Connection

__all__ = ["run_stdio"]


def run_stdio(arguments: "Namespace") -> int:
    """As ``run_door``."""
    return run_door(arguments, greet, _load)


def _load() -> "Callable[..., Connection]":
    from pi_rpc.server.connection import Connection
    from pi_rpc.server.features import FEATURES

    return partial(Connection, FEATURES)
