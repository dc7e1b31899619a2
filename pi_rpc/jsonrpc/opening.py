"""Answering the first frame of a connection in the thread that starts, before anything heavy is
imported.

Owns which first frame is answered at once: a well-formed ``initialize``. What its params mean is
the front door's.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from pi_rpc.jsonrpc.stdio import OpeningTransport

__all__ = ["answer_initialize"]

T = TypeVar("T")


class _Opening(Struct):
    id: int | str
    method: str
    jsonrpc: str = ""
    params: Raw | UnsetType = UNSET


class _Answer(Struct, tag_field="jsonrpc", tag="2.0"):
    id: int | str
    result: Any


def answer_initialize(
    transport: OpeningTransport,
    greet: Callable[[Raw | None], tuple[T, Any]],
    on_frame: Callable[[], None] = lambda: None,
) -> T | None:
    """Read one frame and answer it if it is a well-formed ``initialize``.

    ``greet`` makes of the params what is returned, and the result to answer; it raises
    ``msgspec.MsgspecError`` for params that do not fit. ``on_frame`` is called when the client has
    said something, before it is answered. Anything else is put back for the peer, which knows how
    to refuse it, and None returned.
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
        greeting, result = greet(opening.params or None)
        answer = _Answer(id=opening.id, result=result)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        transport.unread(frame)
        return None
    transport.send_blocking(msgspec.json.encode(answer))
    return greeting
