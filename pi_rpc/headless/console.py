"""The two streams of a run: the answer on standard output, everything about it on standard error.

Owns that nothing else gets onto standard output, that a run whose answer is lost ends, and the live
line at the bottom of a terminal. Does not own what is said, nor how a stream is lost
(``pi_rpc._os.streams``).
"""

import os
import sys
from collections.abc import Callable

from pi_rpc._os.streams import OutputLost
from pi_rpc.headless._table import harmless
from pi_rpc.headless.ending import Ending
from pi_rpc.headless.exit_codes import ExitCode

__all__ = ["Answer", "Notes"]

_CLEAR_LINE = "\r\x1b[K"


class Notes:
    """Standard error, with a line at its end that changes."""

    def __init__(self, *, quoted: Callable[[str], str] = str) -> None:
        """``quoted`` makes a text safe for whoever reads the log."""
        self._quoted = quoted
        self._live = ""
        self.is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def isatty(self) -> bool:
        """Somebody is watching."""
        return self.is_terminal

    def write(self, text: str) -> int:
        """Write above the live line."""
        self.clear()
        self._write(self._quoted(text))
        return len(text)

    def raw(self, text: str) -> None:
        """Write what is meant for whoever reads the log, and not quoted."""
        self.clear()
        self._write(text)

    def flush(self) -> None:
        """Nothing is kept back."""

    def show(self, line: str) -> None:
        """Make ``line`` the live line; on a terminal only."""
        if self.is_terminal and line != self._live:
            self._write(_CLEAR_LINE + line)
            self._live = line

    def clear(self) -> None:
        """Take the live line away."""
        if self._live:
            self._write(_CLEAR_LINE)
            self._live = ""

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


class Answer:
    """Standard output. When it cannot be written any more, the run is to end."""

    def __init__(self, notes: Notes, ending: Ending) -> None:
        self._notes = notes
        self._ending = ending
        self._lost = False
        self.is_terminal = sys.stdout.isatty()

    @property
    def descriptor(self) -> int:
        """Its number; -1 where it has none."""
        try:
            return sys.stdout.fileno()
        except OSError:
            return -1

    def isatty(self) -> bool:
        """Somebody is watching."""
        return self.is_terminal

    def write(self, text: str) -> int:
        """Write a text."""
        if self.is_terminal:
            self._notes.clear()
            shown = harmless(text)
        else:
            shown = text
        self.line(shown.encode("utf-8", "replace"))
        return len(text)

    def flush(self) -> None:
        """Nothing is kept back."""

    def line(self, data: bytes) -> None:
        """Write bytes, such as a line of JSON with its end."""
        if self._lost:
            return
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except OutputLost as lost:
            self._lost = True
            if lost.is_unread:
                self._ending.end(ExitCode.UNREAD)
            else:
                self._ending.end(ExitCode.FAILED, str(lost))
