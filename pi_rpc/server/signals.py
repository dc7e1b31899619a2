"""Signals that end the daemon, from its first moment on.

Owns them until the event loop takes over: a signal that comes while the daemon still waits for its
client ends it at once, one that comes while it starts is kept for the orderly end.
"""

import os
import signal
from types import FrameType

__all__ = ["ENDING", "SIGNAL_BASE", "EarlySignals"]

ENDING: tuple[signal.Signals, ...] = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
SIGNAL_BASE = 128
"""A process that a signal ended has this and the signal's number as its exit code."""


class EarlySignals:
    """Takes the ending signals until the event loop does."""

    def __init__(self) -> None:
        self.pending: int | None = None
        """A signal that came while the daemon started."""
        self.waiting = True
        """Nothing has been said to the client yet: there is nothing to end in order."""

    def install(self) -> None:
        """From now on. Only in the main thread."""
        for number in ENDING:
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.pending is not None:
            os._exit(SIGNAL_BASE + number)
        self.pending = number
        if self.waiting:
            raise SystemExit(SIGNAL_BASE + number)
