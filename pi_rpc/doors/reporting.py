"""Telling what passes between client and daemon: ``$/logTrace``, and the log at level debug.

Owns the words. Events are not told of, the client has them anyway. Imported only when somebody
wants to be told.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from pi_rpc.doors.masking import Masks
from pi_rpc.jsonrpc.errors import RpcError
from pi_rpc.jsonrpc.watching import Id, Notification, Watcher

if TYPE_CHECKING:
    from pi_rpc.jsonrpc.peer import Peer, Request

__all__ = ["ClientTrace", "DebugLog", "Report"]

_LOG_TRACE = "$/logTrace"
_MOST_VERBOSE = 16 * 1024

_log = logging.getLogger("pi_rpc.doors")


class _Params(Struct):
    params: Raw = Raw(b"{}")


class _Result(Struct):
    result: Raw = Raw(b"null")


_params = msgspec.json.Decoder(_Params)
_result = msgspec.json.Decoder(_Result)


class Report(Watcher):
    """Puts into words what it is told."""

    def __init__(self, masks: Masks, tell: Callable[[str, str], None], *, verbose: bool) -> None:
        """``tell`` is given a line and, with ``verbose``, what the message held."""
        self._masks = masks
        self._tell = tell
        self._verbose = verbose

    def request_came(self, request: "Request") -> None:
        """As ``Watcher``."""
        name = _named(request.method, request.id)
        self._say(f"Received request {name}.", lambda: self._came(request.method, request.params))

    def answered(
        self, request: "Request", seconds: float, error: RpcError | None, payload: bytes
    ) -> None:
        """As ``Watcher``."""
        line = f"Sent response {_named(request.method, request.id)} in {_ms(seconds)}."
        if error is not None:
            self._say(f"{line} {_failed(error)}", str)
        else:
            self._say(line, lambda: f"Result: {self._sent(payload, _result)}")

    def refused(self, id: Id | None, error: RpcError) -> None:
        """As ``Watcher``."""
        self._say(
            f"Refused a message (id {'none' if id is None else _short(id)}). {_failed(error)}", str
        )

    def notification_came(self, notification: Notification) -> None:
        """As ``Watcher``."""
        method = notification.method
        line = f"Received notification '{_short(method)}'."
        self._say(line, lambda: self._came(method, notification.params))

    def asked(self, id: Id, method: str, payload: bytes) -> None:
        """As ``Watcher``."""
        told = f"Sent request {_named(method, id)}."
        # Looked at in any case: its answer may be a secret.
        params = self._sent(payload, _params)
        self._say(told, lambda: f"Params: {params}")

    def answer_came(
        self, id: Id, method: str, seconds: float, error: RpcError | None, result: bytes
    ) -> None:
        """As ``Watcher``."""
        line = f"Received response {_named(method, id)} in {_ms(seconds)}."
        if error is not None:
            self._say(f"{line} {_failed(error)}", str)
        elif not result:
            self._say(f"Gave up request {_named(method, id)} after {_ms(seconds)}.", str)
        else:
            frame = b'{"id":%b,"result":%b}' % (msgspec.json.encode(id), result)
            self._say(line, lambda: f"Result: {self._shown(self._masks.came(frame), _result)}")

    def told(self, method: str, payload: bytes) -> None:
        """As ``Watcher``."""
        if method != _LOG_TRACE:
            line = f"Sent notification '{method}'."
            self._say(line, lambda: f"Params: {self._sent(payload, _params)}")

    def _say(self, line: str, held: Callable[[], str]) -> None:
        self._tell(self._masks.text(line), held() if self._verbose else "")

    def _came(self, method: str, params: Raw) -> str:
        frame = b'{"method":%b,"params":%b}' % (msgspec.json.encode(method), bytes(params))
        return f"Params: {self._shown(self._masks.came(frame), _params)}"

    def _sent(self, payload: bytes, decoder: "_Decoder") -> str:
        return self._shown(self._masks.sent(payload), decoder)

    def _shown(self, masked: bytes, decoder: "_Decoder") -> str:
        try:
            held = decoder.decode(masked)
        except (msgspec.MsgspecError, RecursionError):
            return "(not to be read)"
        raw = bytes(held.params if isinstance(held, _Params) else held.result)
        text = raw[:_MOST_VERBOSE].decode("utf-8", "replace")
        return text if len(raw) <= _MOST_VERBOSE else f"{text}… ({len(raw)} bytes)"


_Decoder = msgspec.json.Decoder[_Params] | msgspec.json.Decoder[_Result]


class ClientTrace(Report):
    """Tells the client, as LSP's ``$/logTrace``."""

    def __init__(self, masks: Masks, peer: "Peer", *, verbose: bool) -> None:
        def tell(line: str, held: str) -> None:
            params = {"message": line, "verbose": held} if held else {"message": line}
            peer.notify(_LOG_TRACE, params)

        super().__init__(masks, tell, verbose=verbose)


class DebugLog(Report):
    """Tells the log of the daemon."""

    def __init__(self, masks: Masks) -> None:
        super().__init__(masks, lambda line, _: _log.debug("%s", line), verbose=False)


def _named(method: str, id: object) -> str:
    return f"'{_short(method)} - ({_short(id)})'"


def _short(value: object) -> str:
    text = "".join(each if each.isprintable() else "�" for each in str(value)[:100])
    return text if len(str(value)) <= 100 else f"{text}…"


def _failed(error: RpcError) -> str:
    return f"Request failed: {error.message} ({error.code})."


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"
