"""The errors of the wire: one table from a stable word to its code and meaning.

Owns ``ERRORS`` and ``ProtocolError``, which code behind the wire raises; the server turns it into
an error response. Does not own how errors are framed (``pi_rpc.jsonrpc``)."""

from typing import Any

from msgspec import Struct

__all__ = ["COMMON_ERRORS", "ERRORS", "ErrorKind", "ProtocolError"]


class ErrorKind(Struct, frozen=True):
    """One kind of error response."""

    code: int
    """The JSON-RPC ``error.code``."""
    description: str
    """When it is answered."""
    fields: dict[str, str] = {}
    """What ``error.data`` carries beside ``kind``, by wire name, and what it means."""


ERRORS: dict[str, ErrorKind] = {
    "parseError": ErrorKind(-32700, "The frame is not JSON."),
    "invalidRequest": ErrorKind(
        -32600,
        "The value is no request, is a batch, is too large, reuses an id that is in flight, or does"
        " not fit the state of the connection (a second `initialize`, a request after `shutdown`).",
    ),
    "methodNotFound": ErrorKind(-32601, "This daemon does not have the method."),
    "invalidParams": ErrorKind(
        -32602,
        "The params do not fit; the message names the path and what was expected.",
        {
            "path": "The field to blame, for instance `limits.turns`; empty for the params as a"
            " whole; absent where no single field is to blame."
        },
    ),
    "internalError": ErrorKind(-32603, "A fault of the daemon; the log says more."),
    "serverNotInitialized": ErrorKind(-32002, "A request came before `initialize`."),
    "requestCancelled": ErrorKind(-32800, "The client cancelled this very request."),
    "sessionNotFound": ErrorKind(1001, "No session with this id is open, or the file is missing."),
    "sessionBusy": ErrorKind(
        1002, "The session is running and the request said nothing about waiting for it."
    ),
    "sessionLocked": ErrorKind(
        1003,
        "Another process writes this session; `session/open` with `readOnly` still works.",
        {"pid": "The process that holds it."},
    ),
    "entryNotFound": ErrorKind(1004, "The session has no such entry."),
    "nothingToCompact": ErrorKind(1005, "The conversation is too short to shorten."),
    "sessionCorrupt": ErrorKind(
        1006, "The file has no valid session header. It is left untouched."
    ),
    "checkpointNotFound": ErrorKind(1007, "The session has no such checkpoint; it may be pruned."),
    "nothingToContinue": ErrorKind(
        1008, "Nothing waits, and the conversation does not end where a model could go on."
    ),
    "modelNotFound": ErrorKind(
        1101, "No such model: the one that is named, or else that of `--model` or `initialize`."
    ),
    "modelRequired": ErrorKind(1102, "No model is configured; the message says how to."),
    "authRequired": ErrorKind(
        1103,
        "There is no credential for the provider; the message names the variable or command.",
        {"provider": "The provider's id."},
    ),
    "providerError": ErrorKind(
        1104,
        "A provider failed outside a run. Within a run it is a result with `stopReason: error`.",
        {"status": "The HTTP status, when there was one."},
    ),
    "permissionDenied": ErrorKind(1201, "The permission mode or a rule refuses it."),
    "untrusted": ErrorKind(
        1202,
        "Reserved: no request of this version needs the project to be trusted. What an untrusted"
        " project brings along is left out, and `trust/get` says so.",
    ),
    "overloaded": ErrorKind(
        1301,
        "Too many requests of this connection are in flight.",
        {"retryAfterMs": "How long to wait before trying again, in milliseconds."},
    ),
    "unsupported": ErrorKind(
        1302, "This daemon, or the client, lacks what it takes; the message says what."
    ),
    "storage": ErrorKind(
        1303, "The session file could not be written (full, read-only); nothing is half done."
    ),
}
"""Every kind, by its stable word: ``error.data.kind``."""

COMMON_ERRORS: tuple[str, ...] = (
    "parseError",
    "invalidRequest",
    "methodNotFound",
    "invalidParams",
    "internalError",
    "serverNotInitialized",
    "requestCancelled",
    "overloaded",
)
"""Kinds that any request may be answered with; the methods table does not repeat them."""


class ProtocolError(Exception):
    """A request cannot be served; the client is told so.

    ``kind`` is a key of ``ERRORS``; ``message`` is a sentence for the person; ``data`` are further
    fields of ``error.data`` by wire name."""

    def __init__(self, kind: str, message: str, **data: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.code = ERRORS[kind].code
        self.data: dict[str, Any] = {"kind": kind, **data}
        """``error.data``, kind included."""
