"""What a daemon has done so far, in numbers: by method and by session.

Owns the counters. They cost an addition each and are always kept. What they look like on the wire
is ``pi_rpc.protocol.statistics``'s.
"""

import secrets
import time

from msgspec import Struct

from pi_rpc.jsonrpc.errors import RpcError
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.jsonrpc.watching import Id, Notification, Watcher
from pi_rpc.protocol.handshake import METHOD_NAMES

__all__ = ["MethodCounters", "SessionCounters", "Statistics"]

_KNOWN = frozenset(METHOD_NAMES)


class MethodCounters(Struct):
    """Of one method of the client's."""

    count: int = 0
    errors: int = 0
    answered: int = 0
    seconds: float = 0.0
    longest_s: float = 0.0


class SessionCounters(Struct):
    """Of one session, over all its epochs."""

    prompts: int = 0
    events: int = 0
    deltas_merged: int = 0
    bytes: int = 0


class Statistics(Watcher):
    """The counters of a connection; the ``Watcher`` that keeps them."""

    def __init__(self) -> None:
        self.epoch = secrets.token_hex(8)
        self._began = time.monotonic()
        self.methods: dict[str, MethodCounters] = {}
        self.sessions: dict[str, SessionCounters] = {}
        self.refusals = 0

    @property
    def uptime_s(self) -> float:
        """Since the daemon began to serve."""
        return time.monotonic() - self._began

    def session(self, session_id: str) -> SessionCounters:
        """The counters of a session."""
        return self.sessions.setdefault(session_id, SessionCounters())

    def forget(self, session_id: str) -> None:
        """The session is closed."""
        self.sessions.pop(session_id, None)

    def request_came(self, request: Request) -> None:
        """As ``Watcher``."""
        if (counters := self._of(request.method)) is not None:
            counters.count += 1

    def answered(
        self, request: Request, seconds: float, error: RpcError | None, payload: bytes
    ) -> None:
        """As ``Watcher``."""
        del payload
        if (counters := self._of(request.method)) is None:
            self.refusals += 1
            return
        counters.answered += 1
        counters.errors += error is not None
        counters.seconds += seconds
        counters.longest_s = max(counters.longest_s, seconds)

    def refused(self, id: Id | None, error: RpcError) -> None:
        """As ``Watcher``."""
        del id, error
        self.refusals += 1

    def notification_came(self, notification: Notification) -> None:
        """As ``Watcher``."""
        if (counters := self._of(notification.method)) is not None:
            counters.count += 1
            counters.answered += 1

    def _of(self, method: str) -> MethodCounters | None:
        # Whoever sends names of its own does not fill our memory with them.
        if method not in _KNOWN:
            return None
        counters = self.methods.get(method)
        if counters is None:
            counters = self.methods[method] = MethodCounters()
        return counters
