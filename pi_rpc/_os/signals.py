"""Signals that end the daemon, from its first moment on, and the end of one that is stuck.

Owns the handlers, and the last resort: people's code runs in this process, and a function that
blocks the event loop must not make the daemon immortal. Does not own the orderly end (the front
door's).

While the daemon waits for its client's first word a signal ends it at once, by the system's own
action: nothing has begun, and a handler could not interrupt a read that is just about to block.
From the first word on a signal is kept for the orderly end.
"""

import _thread
import os
import signal
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

__all__ = ["ENDING", "SIGNAL_BASE", "STUCK", "EarlySignals", "end_if_stuck", "end_on_signal"]

ENDING: tuple[signal.Signals, ...] = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
SIGNAL_BASE = 128
"""A process that ended in order because of a signal has this and its number as exit code."""


STUCK = 1
"""Exit code of a daemon whose client has gone and whose event loop no longer runs."""

_LIMIT_S = 1.7
"""What an orderly end may take after a signal; the rest of two seconds is for the children."""
_BEAT_S = 1.0
_PATIENCE_S = 2.0
_BLOCKED_S = 0.05
"""A process that uses less time of a processor while it is waited for is not merely slow."""


def _end_within(seconds: float, code: int) -> None:
    """End the process by then, if it has not ended itself. May be called by a signal handler."""

    def end() -> None:
        time.sleep(seconds)
        os._exit(code)

    # Not threading.Thread: its locks may be held by what the signal has interrupted.
    _thread.start_new_thread(end, ())


def end_if_stuck(loop: "AbstractEventLoop") -> None:
    """Watch ``loop`` to its end, and end the process when nothing runs on it; blocks.

    That is when it does nothing for two seconds, or one thing for two seconds of a processor's.
    """
    while True:
        beaten = threading.Event()
        try:
            loop.call_soon_threadsafe(beaten.set)
        except RuntimeError:
            return  # It has been closed.
        used = 0.0
        before = time.process_time()
        while not beaten.wait(_PATIENCE_S) and not loop.is_closed():
            now = time.process_time()
            used += now - before
            # On a busy machine it may only have had no turn.
            if now - before < _BLOCKED_S or used > _PATIENCE_S:
                os._exit(STUCK)
            before = now
        time.sleep(_BEAT_S)


class EarlySignals:
    """Takes the ending signals until the event loop does. Only in the main thread."""

    def __init__(self) -> None:
        self.pending: int | None = None
        """The first signal that came."""

    def leave(self) -> None:
        """Leave them to the system, whatever the parent has left us: ignored, or blocked."""
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)

    def keep(self) -> None:
        """Note the first, which ends the process in time; a second does so at once.

        Beside an event loop that hears of signals too these handlers run first, and also while
        something blocks it.
        """
        for number in ENDING:
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.pending is not None:
            os._exit(SIGNAL_BASE + number)
        self.pending = number
        _end_within(_LIMIT_S, SIGNAL_BASE + number)


async def end_on_signal(early: EarlySignals, end: "Callable[[int], None]") -> None:
    """Call ``end`` with the exit code once a signal comes, or has come; with a second one the
    process ends at once. Serves until cancelled."""
    import anyio

    with anyio.open_signal_receiver(*ENDING) as received:
        early.keep()
        ending = early.pending is not None
        if early.pending is not None:
            end(SIGNAL_BASE + early.pending)
        async for number in received:
            if ending:
                os._exit(SIGNAL_BASE + number)
            ending = True
            end(SIGNAL_BASE + number)
