"""The envelope: which of request, notification, answer or none of them a frame is.

Owns reading and writing of JSON-RPC's own fields. ``params`` and ``result`` stay raw. Pure.
"""

import contextlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from pi_rpc.jsonrpc._repair import (
    BOM,
    has_only_utf8,
    salvage,
    with_whole_surrogates,
    without_bad_utf8,
)
from pi_rpc.jsonrpc.errors import RpcError, invalid_request, parse_error
from pi_rpc.jsonrpc.framing import MAX_FRAME_BYTES, BadFrame, Frame

__all__ = [
    "Id",
    "Incoming",
    "Notification",
    "RequestMessage",
    "Response",
    "Unreadable",
    "error_payload",
    "notification_payload",
    "read",
    "request_payload",
    "result_payload",
]

Id: TypeAlias = int | float | str
"""A number is whole; a float is one that was written as 3.0, and is answered so."""

_BAD_ID = "The id of a request is a whole number or a string"
_EMPTY = Raw(b"{}")
_NULL = Raw(b"null")
# What clients send for no parameters; Lua cannot tell an empty array from an empty object.
_NO_PARAMS = frozenset({b"", b"null", b"[]", b"[null]"})
_LONGEST_NO_PARAMS = 64
# More than everything around params or result.
_ENVELOPE_BYTES = 64 * 1024
_LONGEST_ERROR = 64 * 1024
"""Bytes. Nobody reads more, and what is quoted in an error may be as long as a frame."""
_LONGEST_MESSAGE = 2048
"""Characters of an error that is longer."""


class _Envelope(msgspec.Struct, gc=False):
    id: Id | UnsetType | None = UNSET
    method: str | None = None
    params: Raw = Raw()
    result: Raw = Raw()
    error: Raw = Raw()


class _Outline(msgspec.Struct, gc=False):
    """The same with nothing promised: to see what is wrong."""

    id: Raw = Raw()
    method: Raw = Raw()


class _WireError(msgspec.Struct, gc=False):
    code: Any = None
    message: Any = None
    data: Any = None


class RequestMessage(msgspec.Struct, gc=False):
    """Wants one answer."""

    id: Id
    method: str
    params: Raw


class Notification(msgspec.Struct, gc=False):
    """Wants none."""

    method: str
    params: Raw


class Response(msgspec.Struct, gc=False):
    """Answers a request of ours. ``id`` is None where the other end could not read the id."""

    id: Id | None
    result: Raw
    error: RpcError | None
    is_bare: bool = False
    """Neither result nor error: an answer only if it answers something, as Lua sends for nil."""


class Unreadable(msgspec.Struct, gc=False):
    """Neither of them; ``error`` is the answer, with ``id`` where it is known."""

    id: Id | None
    error: RpcError
    is_response: bool = False


Incoming: TypeAlias = RequestMessage | Notification | Response | Unreadable

_decoder = msgspec.json.Decoder(_Envelope)
_encoder = msgspec.json.Encoder()
_encode = _encoder.encode


def read(frame: Frame) -> Incoming:
    """What a frame is. Never raises."""
    if isinstance(frame, BadFrame):
        error = parse_error(frame.reason) if frame.code == -32700 else invalid_request(frame.reason)
        return Unreadable(frame.id, error, is_response=frame.is_response)
    try:
        # A raw value is not checked for this, and would fail only in the handler.
        if not frame.isascii() and not has_only_utf8(frame):
            frame = without_bad_utf8(frame)
        envelope = _decoder.decode(frame)
    except (msgspec.DecodeError, RecursionError):
        return _read_again(frame)
    return _classify(envelope)


def _classify(envelope: _Envelope) -> Incoming:
    id, method = envelope.id, envelope.method
    if isinstance(id, float) and not id.is_integer():
        return Unreadable(None, invalid_request(_BAD_ID))
    if method is not None:
        if isinstance(id, UnsetType):
            return Notification(method, _params(envelope.params))
        if id is None:
            return Unreadable(None, invalid_request(_BAD_ID))
        return RequestMessage(id, method, _params(envelope.params))
    known_id = None if isinstance(id, UnsetType) else id
    result, error = bytes(envelope.result), bytes(envelope.error)
    if error and error != b"null":
        return Response(known_id, _NULL, _error_from(error))
    if result or error:
        return Response(known_id, envelope.result if result else _NULL, None)
    if known_id is not None:
        return Response(known_id, _NULL, None, is_bare=True)
    return Unreadable(None, invalid_request("Not a request: it has no method"))


def _params(raw: Raw) -> Raw:
    """The params, with every way to say that there are none made an empty object."""
    if len(memoryview(raw)) > _LONGEST_NO_PARAMS:
        return raw
    return _EMPTY if b"".join(bytes(raw).split()) in _NO_PARAMS else raw


def _read_again(frame: bytes) -> Incoming:
    """Second thoughts on a frame that did not decode: repair it, or say what is wrong with it."""
    repaired = frame.removeprefix(BOM)
    if b"\\u" in repaired:
        repaired = with_whole_surrogates(repaired)
    try:
        if repaired != frame:
            with contextlib.suppress(msgspec.ValidationError):
                return _classify(_decoder.decode(repaired))
        # Whether it is JSON at all comes first.
        msgspec.json.decode(repaired, type=Raw)
    except RecursionError:
        return _unreadable(repaired, invalid_request("The frame is nested too deeply"))
    except msgspec.DecodeError as exc:
        return _unreadable(repaired, parse_error(f"The frame is not valid JSON: {exc}"))
    return _misfit(repaired)


def _misfit(frame: bytes) -> Unreadable:
    """JSON, but no message."""
    try:
        outline = msgspec.json.decode(frame, type=_Outline)
    except msgspec.ValidationError:
        is_batch = frame.lstrip()[:1] == b"["
        reason = "Batches are not supported" if is_batch else "Not a request: it is no object"
        return Unreadable(None, invalid_request(reason))
    id: Id | None = None
    if bytes(outline.id):
        try:
            id = msgspec.json.decode(outline.id, type=Id)
        except msgspec.ValidationError:
            return Unreadable(None, invalid_request(_BAD_ID))
        if isinstance(id, float) and not id.is_integer():
            return Unreadable(None, invalid_request(_BAD_ID))
    return Unreadable(id, invalid_request("The method of a request is a string"))


def _unreadable(frame: bytes, error: RpcError) -> Unreadable:
    found = salvage(frame)
    return Unreadable(found.id, error, is_response=found.is_response)


def _error_from(raw: bytes) -> RpcError:
    """The error of an answer, as far as it is one."""
    try:
        wire = msgspec.json.decode(raw, type=_WireError)
    except (msgspec.DecodeError, RecursionError):
        return RpcError(-32603, raw[:200].decode("utf-8", "replace"), "unknown")
    code = wire.code if type(wire.code) is int else -32603
    message = wire.message if isinstance(wire.message, str) else "The other end gave no message"
    data = dict(wire.data) if isinstance(wire.data, Mapping) else {}
    if wire.data is not None and not isinstance(wire.data, Mapping):
        data["value"] = wire.data
    kind = data.pop("kind", None)
    return RpcError(code, message, kind if isinstance(kind, str) else "unknown", data or None)


def result_payload(id: Id, result: Any) -> bytes:
    """A response with a result, null included.

    Raises TypeError, ValueError or RecursionError when it cannot be written.
    """
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode(id), _text_of(result))


def error_payload(id: Id | None, error: RpcError) -> bytes:
    """A response with an error; one that is too long for people is cut."""
    try:
        text = _encode_whole(error.to_wire())
    except (TypeError, ValueError, RecursionError):
        text = b""
    if not text or len(text) > _LONGEST_ERROR:
        # The message matters more than further fields that cannot be written.
        message = error.message
        if len(message) > _LONGEST_MESSAGE:
            message = f"{message[:_LONGEST_MESSAGE]}…"
        text = _encode_whole(RpcError(error.code, message, error.kind).to_wire())
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (_encode(id), text)


def notification_payload(method: str, params: Any) -> bytes:
    """A notification. Raises as ``result_payload``."""
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (_encode(method), _text_of(params))


def request_payload(id: Id, method: str, params: Any) -> bytes:
    """A request. Raises as ``result_payload``."""
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (
        _encode(id),
        _encode(method),
        _text_of(params),
    )


def _encode_whole(value: Any) -> bytes:
    """JSON in which half a surrogate pair, which has no UTF-8 form, is U+FFFD."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        import json

        plain = msgspec.to_builtins(value, enc_hook=_plain)
        return with_whole_surrogates(json.dumps(plain, separators=(",", ":")).encode("ascii"))


def _plain(value: Any) -> Any:
    if isinstance(value, Raw):
        return msgspec.json.decode(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _text_of(value: Any) -> bytes:
    text = _encode_whole(value)
    if len(text) > MAX_FRAME_BYTES - _ENVELOPE_BYTES:
        raise ValueError("The message is larger than a frame may be")
    return text
