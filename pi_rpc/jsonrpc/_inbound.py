"""Requests of the other end: what may start when.

Owns the order of starts (barrier, lanes by key) and the state of each request. Decides only; the
peer runs, cancels and answers. No I/O.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import anyio
from msgspec import Raw

from pi_rpc.jsonrpc._envelope import Id, Notification

__all__ = ["BARRIER", "Request", "StartOrder"]

BARRIER: Final = "\x00barrier"
"""As an ordering key: nothing that arrives later starts before this request has finished."""

_log = logging.getLogger("pi_rpc.jsonrpc")


class Request:
    """A request of the other end, as its handler sees it."""

    __slots__ = (
        "_answered",
        "_came",
        "_cancelled",
        "_key",
        "_on_cancel",
        "_on_started",
        "_running",
        "_scope",
        "id",
        "method",
        "params",
    )

    def __init__(
        self, id: Id, method: str, params: Raw, on_started: Callable[["Request"], None]
    ) -> None:
        self.id = id
        """As the other end gave it. Not unique over time."""
        self.method = method
        """Its name."""
        self.params = params
        """The text of an object; ``{}`` where there was none. Anything else the client sent is kept
        as it is: decoding it as a struct fails with the right error."""
        self._on_started = on_started
        self._came = time.monotonic()
        self._scope = anyio.CancelScope()
        self._key: str | None = None
        self._on_cancel: Callable[[], None] | None = None
        self._cancelled = False
        self._running = False
        self._answered = False

    @property
    def cancelled(self) -> bool:
        """The other end has asked for its cancellation."""
        return self._cancelled

    def started(self) -> None:
        """Lets the next request with the same ordering key start. Implied when this one ends."""
        self._on_started(self)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """The handler answers a cancellation itself: ``callback`` is called once instead.

        At once if the cancellation is already there. A handler that calls this before it first
        awaits anything is never cancelled by the other end in any other way.
        """
        self._on_cancel = callback
        if self._cancelled:
            self._call_back()

    def _cancel(self) -> None:
        """The other end wants it cancelled. Once; not before it runs."""
        if self._on_cancel is not None:
            self._call_back()
        else:
            self._scope.cancel()

    def _call_back(self) -> None:
        callback, self._on_cancel = self._on_cancel, _nothing
        assert callback is not None
        try:
            callback()
        except Exception:  # noqa: BLE001 - a callback of the application; it is logged
            _log.exception("The cancellation of %s failed", self.method)


def _nothing() -> None:
    """Stands in for a callback that has been called."""


class StartOrder:
    """Says what starts next. ``start`` and ``deliver`` are called as soon as something may.

    ``key_of`` gives a request's ordering key at the moment it could start; it may answer the
    request instead.
    """

    def __init__(
        self,
        key_of: Callable[[Request], str | None],
        start: Callable[[Request], None],
        deliver: Callable[[Notification], None],
    ) -> None:
        self._key_of = key_of
        self._start = start
        self._deliver = deliver
        self._barrier: Request | None = None
        self._held: deque[Request | Notification] = deque()
        # In each lane the first is the one that is starting, the others wait for it.
        self._lanes: dict[str, deque[Request]] = {}

    def arrive(self, item: Request | Notification) -> None:
        """Something arrived: starts it, or keeps it until its turn."""
        if self._barrier is not None or self._held:
            self._held.append(item)
        else:
            self._begin(item)

    def started(self, request: Request) -> None:
        """The next of its lane may start."""
        key = request._key
        if key is None or key == BARRIER:
            return
        request._key = None
        lane = self._lanes[key]
        lane.popleft()
        while lane and lane[0]._answered:
            lane.popleft()._key = None
        if lane:
            self._start(lane[0])
        else:
            del self._lanes[key]

    def finished(self, request: Request) -> None:
        """It ended: whatever waited for that may start."""
        self.started(request)
        if request is not self._barrier:
            return
        self._barrier = None
        while self._held and self._barrier is None:
            self._begin(self._held.popleft())

    def stop(self) -> None:
        """Forgets what is held behind a barrier: the connection has ended."""
        self._held.clear()

    def _begin(self, item: Request | Notification) -> None:
        if isinstance(item, Notification):
            self._deliver(item)
            return
        # Answered before its turn (cancelled), or by a failure to find its place.
        key = None if item._answered else self._key_of(item)
        if item._answered:
            return
        item._key = key
        if key is None:
            self._start(item)
        elif key == BARRIER:
            self._barrier = item
            self._start(item)
        else:
            lane = self._lanes.setdefault(key, deque())
            lane.append(item)
            if lane[0] is item:
                self._start(item)
