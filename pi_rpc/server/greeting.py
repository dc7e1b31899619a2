"""``initialize`` of the native protocol: what client and daemon tell each other first.

Owns the answer. Light enough to be imported before it: an editor waits for it before it shows
anything.
"""

import os
from typing import NamedTuple

import msgspec
from msgspec import Raw

from pi_rpc import __version__
from pi_rpc._os.running import is_running
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.handshake import (
    InitializeParams,
    InitializeResult,
    client_features,
    default_session_params,
    initialize_result,
)

__all__ = ["Greeting", "greet"]


class Greeting(NamedTuple):
    """An ``initialize`` that was accepted."""

    params: InitializeParams
    client_was_there: bool
    """The process that the client named ran at that moment."""


def greet(params: Raw | None) -> tuple[Greeting, InitializeResult]:
    """The params and the answer to them. Raises ``msgspec.MsgspecError``."""
    said = decode_params(InitializeParams, params)
    if said.cwd and not os.path.isabs(said.cwd):  # noqa: PTH117 - pathlib is not imported yet
        raise msgspec.ValidationError("Expected an absolute path - at `$.cwd`")
    if said.cwd and not os.path.isdir(said.cwd):  # noqa: PTH112
        raise msgspec.ValidationError("Expected a directory that exists - at `$.cwd`")
    default_session_params(said)
    client_features(said)
    was_there = is_running(said.process_id or None)
    return Greeting(said, was_there), initialize_result(said, __version__)
