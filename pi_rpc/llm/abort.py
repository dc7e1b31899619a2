"""Abort signals: how a run tells its model call, tools and hooks to stop.

Owns the link between "stop" and anyio's cancel scopes. An ``AbortSignal`` is read-only; only the
``AbortController`` that made it can fire it. Both belong to one event loop and are not thread-safe.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio

__all__ = ["AbortController", "AbortSignal"]


class AbortSignal:
    """Says whether, and lets others learn when, the work it belongs to should stop."""

    def __init__(self) -> None:
        self._aborted = False
        self._callbacks: dict[object, Callable[[], None]] = {}

    @property
    def aborted(self) -> bool:
        """True once the work should stop; never false again."""
        return self._aborted

    def on_abort(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` once on abort, at once if that was already; returns its removal."""
        if self._aborted:
            callback()
            return lambda: None
        key = object()
        self._callbacks[key] = callback
        return lambda: (self._callbacks.pop(key, None), None)[1]

    @contextmanager
    def cancel_scope(self) -> Iterator[anyio.CancelScope]:
        """A cancel scope that is cancelled on abort.

        After the block, ``scope.cancelled_caught`` tells whether the abort cut it short.
        """
        with anyio.CancelScope() as scope:
            remove = self.on_abort(scope.cancel)
            try:
                yield scope
            finally:
                remove()

    async def wait(self) -> None:
        """Return once aborted."""
        event = anyio.Event()
        remove = self.on_abort(event.set)
        try:
            await event.wait()
        finally:
            remove()


class AbortController:
    """Owns one signal and fires it."""

    def __init__(self) -> None:
        self.signal = AbortSignal()

    def abort(self) -> None:
        """Fire the signal. Firing it again does nothing. Callbacks must not raise."""
        signal = self.signal
        if signal._aborted:
            return
        signal._aborted = True
        callbacks = list(signal._callbacks.values())
        signal._callbacks.clear()
        for callback in callbacks:
            callback()
