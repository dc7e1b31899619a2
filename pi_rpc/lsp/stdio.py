"""``pi-rpc --lsp``: the Language Server Protocol at standard input and output.

Owns what this door answers first, and what it is made of. The order of its first milliseconds is
``pi_rpc.doors.opening``'s. The libraries of this door take longer to import than all the rest: they
are, once the editor has its answer. That they are there at all is looked at before.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pi_rpc.doors.opening import run_door
from pi_rpc.jsonrpc.framing import Framing
from pi_rpc.lsp.handshake import greet

if TYPE_CHECKING:
    from argparse import Namespace

    from pi_rpc.lsp.connection import Connection

__all__ = ["run_lsp"]

_MISSING = (
    "pi-rpc: --lsp needs pygls, which is not installed; install pi-rpc with its extra `lsp`:"
    " pip install 'pi-rpc[lsp]'\n"
)


def run_lsp(arguments: "Namespace") -> int:
    """As ``run_door``."""
    if not _is_installed():
        sys.stderr.write(_MISSING)
        return 2
    return run_door(arguments, greet, _load, framing=Framing.HEADERS)


def _is_installed() -> bool:
    from importlib.util import find_spec

    return all(map(find_spec, ("pygls", "lsprotocol")))


def _load() -> "Callable[..., Connection]":
    from pi_rpc.lsp.connection import Connection
    from pi_rpc.lsp.features import FEATURES

    return partial(Connection, FEATURES)
