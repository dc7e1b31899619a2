"""Signals that end the daemon, from its first moment on.

Owns them until the event loop takes over. While the daemon waits for its client's first word a
signal ends it at once, by the system's own action: nothing has begun, and a handler could not
interrupt a read that is just about to block. From the first word on a signal is kept for the
orderly end.
"""

import os
import signal
from types import FrameType

__all__ = ["ENDING", "SIGNAL_BASE", "EarlySignals"]

ENDING: tuple[signal.Signals, ...] = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
SIGNAL_BASE = 128
"""A process that ended in order because of a signal has this and its number as exit code."""


class EarlySignals:
    """Takes the ending signals until the event loop does. Only in the main thread."""

    def __init__(self) -> None:
        self.pending: int | None = None
        """A signal that came while the daemon started."""

    def leave(self) -> None:
        """Leave them to the system."""
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)

    def keep(self) -> None:
        """Note the first; a second ends the process."""
        for number in ENDING:
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.pending is not None:
            os._exit(SIGNAL_BASE + number)
        self.pending = number
