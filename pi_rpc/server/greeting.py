"""Answering ``initialize``, before anything heavy is imported.

Owns the fast path of start-up: an editor waits for this answer before it shows anything. What the
daemon is made of is imported behind it.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from pi_rpc import __version__
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


class _Opening(Struct):
    id: int | str
    method: str
    jsonrpc: str = ""
    params: Raw | UnsetType = UNSET


class _Answer(Struct, tag_field="jsonrpc", tag="2.0"):
    id: int | str
    result: InitializeResult


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
    return Greeting(params, initialize_result(params, __version__), _runs(params.process_id))


def _runs(process_id: int | UnsetType | None) -> bool:
    if not process_id or process_id < 0:
        return False
    try:
        os.kill(process_id, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def answer_first_frame(
    transport: OpeningTransport, on_frame: Callable[[], None] = lambda: None
) -> Greeting | None:
    """Read one frame and answer it if it is a well-formed ``initialize``.

    ``on_frame`` is called when the client has said something, before it is answered. Anything else
    is put back for the peer, which knows how to refuse it, and None returned.
    """
    frame = transport.read_first_frame()
    on_frame()
    if frame is None:
        return None
    try:
        opening = msgspec.json.decode(frame, type=_Opening) if isinstance(frame, bytes) else None
        if opening is None or opening.method != "initialize" or opening.jsonrpc != "2.0":
            transport.unread(frame)
            return None
        greeting = greet(decode_params(InitializeParams, opening.params or None))
        answer = _Answer(id=opening.id, result=greeting.result)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        transport.unread(frame)
        return None
    transport.send_blocking(msgspec.json.encode(answer))
    return greeting
