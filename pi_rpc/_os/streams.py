"""Standard output and standard error of a command that a person or a script starts.

Owns what happens when one of them cannot be written: an answer that is lost ends the command with a
reason, a note that is lost ends nothing. Does not own what is written, nor the streams of a daemon.
"""

import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

__all__ = ["OutputLost", "guarded_streams"]

_FAILED = 1
_UNREAD = 141


class OutputLost(Exception):
    """Standard output cannot be written; the text says why, for people."""

    def __init__(self, reason: str, *, is_unread: bool) -> None:
        super().__init__(f"standard output cannot be written: {reason}")
        self.is_unread = is_unread
        """Whoever read it has gone away."""


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Meanwhile standard error is written or not, and standard output is written or raises
    ``OutputLost``, which becomes ``SystemExit`` here. Where no terminal shows it, text is UTF-8
    whatever the locale; what has no encoding is a question mark."""
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _guarded(sys.stdout, is_answer=True), _guarded(sys.stderr)
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OutputLost as lost:
        if lost.is_unread:
            raise SystemExit(_UNREAD) from None
        sys.stderr.write(f"pi-rpc: {lost}\n")
        raise SystemExit(_FAILED) from None
    finally:
        sys.stderr.flush()
        sys.stdout, sys.stderr = kept


def _guarded(stream: TextIO | None, *, is_answer: bool = False) -> TextIO:
    raw: Any = None
    encoding = "utf-8"
    if stream is not None:
        raw = getattr(stream.buffer, "raw", stream.buffer)
        encoding = stream.encoding if stream.isatty() else encoding
    elif not is_answer:
        raw = io.FileIO(os.devnull, "w")
    guard = _Guard(raw, is_answer=is_answer)
    by_line = guard.isatty() or not is_answer
    return io.TextIOWrapper(io.BufferedWriter(guard), encoding, "replace", line_buffering=by_line)


class _Guard(io.RawIOBase):
    """``raw`` until it cannot be written; from then on nothing."""

    def __init__(self, raw: Any, *, is_answer: bool) -> None:
        """``raw`` is None where the stream was closed before we began."""
        self._raw = raw
        self._is_answer = is_answer
        self._is_lost = False

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._raw is not None and bool(self._raw.isatty())

    def fileno(self) -> int:
        return super().fileno() if self._raw is None else int(self._raw.fileno())

    def write(self, data: Any, /) -> int:
        if not self._is_lost:
            try:
                return self._written(data)
            except (OSError, ValueError) as error:
                self._is_lost = True
                if self._is_answer:
                    reason = getattr(error, "strerror", None) or str(error)
                    is_unread = isinstance(error, BrokenPipeError)
                    raise OutputLost(reason, is_unread=is_unread) from None
        return memoryview(data).nbytes

    def _written(self, data: Any) -> int:
        if self._raw is None:
            raise ValueError("it is closed")
        while (count := self._raw.write(data)) is None:
            # Others who have the same pipe may have made it one that does not block.
            select.select([], [self._raw], [])
        return int(count)
