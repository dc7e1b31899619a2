"""Prompts that wait for their answer, and what happens once something is answered.

Owns that a cancellation reaches every prompt that came before it, wherever that has got to, and
nothing that came after. Does not own how a run is stopped (whoever serves the prompt says that).
"""

import logging
from collections.abc import Callable

import msgspec
from msgspec import Struct

from pi_rpc.jsonrpc.errors import RpcError
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.jsonrpc.watching import Watcher

__all__ = ["Turn", "Turns"]

_log = logging.getLogger("pi_rpc.acp")

_TURNS = frozenset({"session/prompt", "_pi/compact", "_pi/branch"})


class _Named(Struct, rename="camel"):
    session_id: str


_named = msgspec.json.Decoder(_Named)


class Turn:
    """Something that goes on in a session until it is answered."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.cancelled = False
        self._stop: Callable[[], None] | None = None

    def cancel(self) -> None:
        """Stop it as soon as it can be."""
        self.cancelled = True
        if self._stop is not None:
            self._stop()

    def stops_by(self, stop: Callable[[], None]) -> None:
        """From now on ``stop`` stops it; at once, if it was cancelled before."""
        self._stop = stop
        if self.cancelled:
            stop()


class Turns(Watcher):
    """Those of one connection."""

    def __init__(self) -> None:
        self._turns: dict[Request, Turn] = {}
        self._afterwards: dict[Request, list[Callable[[], None]]] = {}

    def of(self, request: Request) -> Turn:
        """The turn of a request; cancelling the request cancels it."""
        turn = self._turns.get(request) or Turn("")
        request.on_cancel(turn.cancel)
        return turn

    def cancel(self, session_id: str) -> None:
        """Stop everything that was asked of a session up to now."""
        for turn in list(self._turns.values()):
            if turn.session_id == session_id:
                turn.cancel()

    def is_going_on(self, session_id: str) -> bool:
        """Something was asked of a session that is not answered."""
        return any(turn.session_id == session_id for turn in self._turns.values())

    def after(self, request: Request, then: Callable[[], None]) -> None:
        """Call ``then`` as soon as ``request`` has been answered."""
        self._afterwards.setdefault(request, []).append(then)

    # --- the peer's watcher ----------------------------------------------------------------------

    def request_came(self, request: Request) -> None:
        """As ``Watcher``."""
        if request.method in _TURNS:
            try:
                session_id = _named.decode(request.params).session_id
            except (msgspec.MsgspecError, RecursionError):
                return  # It is refused in its turn.
            self._turns[request] = Turn(session_id)

    def answered(
        self, request: Request, seconds: float, error: RpcError | None, payload: bytes
    ) -> None:
        """As ``Watcher``."""
        del seconds, error, payload
        self._turns.pop(request, None)
        for then in self._afterwards.pop(request, ()):
            try:
                then()
            except Exception:  # noqa: BLE001 - a watcher must not raise; it is logged
                _log.exception("what was to follow on %s failed", request.method)
