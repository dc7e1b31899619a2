"""JSON-RPC errors: the one shape they have, the standard ones, and what any exception becomes.

Owns the codes of JSON-RPC itself and of this layer. What an application's exceptions mean is the
application's: it passes the peer a function of its own, which falls back on ``error_of``.

Wire form: ``{"code", "message", "data": {"kind", …}}``.
"""

import re
from typing import Any

import msgspec

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "OVERLOADED",
    "PARSE_ERROR",
    "REQUEST_CANCELLED",
    "SERVER_NOT_INITIALIZED",
    "PeerClosedError",
    "RpcError",
    "error_of",
    "internal_error",
    "invalid_params",
    "invalid_request",
    "method_not_found",
    "overloaded",
    "parse_error",
    "request_cancelled",
    "server_not_initialized",
]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_NOT_INITIALIZED = -32002
REQUEST_CANCELLED = -32800
OVERLOADED = 1301

_MAX_MESSAGE = 300


class RpcError(Exception):
    """A request that failed, as the other end is told, or as it told us.

    ``kind`` is a stable word for programs, ``message`` is for people, ``data`` has further fields
    of the wire's ``data``, without ``kind``.
    """

    def __init__(
        self, code: int, message: str, kind: str, data: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.kind = kind
        self.data = data

    def __repr__(self) -> str:
        return f"RpcError({self.code}, {self.message!r}, {self.kind!r}, {self.data!r})"

    def to_wire(self) -> dict[str, Any]:
        """The error object of a response. Text that is no Unicode is repaired."""
        message = self.message.encode("utf-8", "replace").decode()
        return {
            "code": self.code,
            "message": message,
            "data": {**(self.data or {}), "kind": self.kind},
        }


class PeerClosedError(Exception):
    """The connection ended before the other end had answered."""


def parse_error(message: str = "The frame is not valid JSON") -> RpcError:
    """-32700."""
    return RpcError(PARSE_ERROR, message, "parseError")


def invalid_request(message: str) -> RpcError:
    """-32600."""
    return RpcError(INVALID_REQUEST, message, "invalidRequest")


def method_not_found(method: str) -> RpcError:
    """-32601."""
    return RpcError(METHOD_NOT_FOUND, f"Unknown method: {_short(method)}", "methodNotFound")


def invalid_params(message: str, *, path: str | None = None) -> RpcError:
    """-32602. ``path`` names the field, for instance ``message[0].text``."""
    data = None if path is None else {"path": path}
    return RpcError(INVALID_PARAMS, message, "invalidParams", data)


def internal_error(message: str) -> RpcError:
    """-32603."""
    return RpcError(INTERNAL_ERROR, message, "internalError")


def server_not_initialized() -> RpcError:
    """-32002."""
    return RpcError(SERVER_NOT_INITIALIZED, "Send initialize first", "serverNotInitialized")


def request_cancelled() -> RpcError:
    """-32800."""
    return RpcError(REQUEST_CANCELLED, "The request was cancelled", "requestCancelled")


def overloaded(retry_after_ms: int) -> RpcError:
    """1301."""
    message = "Too many requests in flight; try again later"
    return RpcError(OVERLOADED, message, "overloaded", {"retryAfterMs": retry_after_ms})


def error_of(exc: BaseException) -> RpcError:
    """What an exception of a handler is on the wire. Pure; never a traceback.

    A group that holds a single exception counts as that one.
    """
    while isinstance(exc, BaseExceptionGroup) and len(exc.exceptions) == 1:
        exc = exc.exceptions[0]
    if isinstance(exc, RpcError):
        return exc
    if isinstance(exc, msgspec.ValidationError):
        return _of_validation(str(exc))
    if isinstance(exc, RecursionError) and "deserializing" in str(exc):
        return invalid_request("The params are nested too deeply")
    first_line = next(iter(str(exc).splitlines()), "")
    text = f"{type(exc).__name__}: {first_line}" if first_line else type(exc).__name__
    return internal_error(f"Internal error: {_short(text)}")


def _of_validation(text: str) -> RpcError:
    """msgspec says ``Expected `str`, got `int` - at `$.message```; people read it path first."""
    match = re.fullmatch(r"(.*?)(?: - at `\$\.?(.*)`)?", text, re.DOTALL)
    what, path = (match[1], match[2] or "") if match else (text, "")
    what = what[:1].lower() + what[1:]
    missing = re.fullmatch(r"object missing required field `(.*)`", what)
    if missing:
        what = "is required"
        path = f"{path}.{missing[1]}" if path else missing[1]
    return invalid_params(_short(f"{path or 'params'}: {what}"), path=path)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_MESSAGE else text[: _MAX_MESSAGE - 1] + "…"
