"""Answering ``initialize``, before anything heavy is imported.

Owns the fast path of start-up: an editor waits for this answer before it shows anything. What the
daemon is made of is imported behind it.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

import msgspec
from msgspec import Raw

from pi_rpc import __version__
from pi_rpc._os.running import is_running
from pi_rpc.jsonrpc.opening import answer_initialize
from pi_rpc.jsonrpc.stdio import OpeningTransport
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.handshake import (
    InitializeParams,
    InitializeResult,
    client_features,
    default_session_params,
    initialize_result,
)

__all__ = ["Greeting", "answer_first_frame", "greet"]


class Greeting(NamedTuple):
    """An ``initialize`` that was accepted."""

    params: InitializeParams
    result: InitializeResult
    client_was_there: bool
    """The process that the client named ran at that moment."""


def greet(params: InitializeParams) -> Greeting:
    """The answer to ``initialize``. Raises ``msgspec.ValidationError``."""
    if params.cwd and not os.path.isabs(params.cwd):  # noqa: PTH117 - pathlib is not imported yet
        raise msgspec.ValidationError("Expected an absolute path - at `$.cwd`")
    if params.cwd and not os.path.isdir(params.cwd):  # noqa: PTH112
        raise msgspec.ValidationError("Expected a directory that exists - at `$.cwd`")
    default_session_params(params)
    client_features(params)
    return Greeting(
        params, initialize_result(params, __version__), is_running(params.process_id or None)
    )


def answer_first_frame(
    transport: OpeningTransport, on_frame: Callable[[], None] = lambda: None
) -> Greeting | None:
    """As ``answer_initialize``."""

    def greeted(params: Raw | None) -> tuple[Greeting, InitializeResult]:
        greeting = greet(decode_params(InitializeParams, params))
        return greeting, greeting.result

    return answer_initialize(transport, greeted, on_frame)
