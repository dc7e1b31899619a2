"""Where the log goes, as the options of a front door say.

Owns the form of its lines, and that nobody waits for who reads them. Does not own what is logged.
"""

import logging
import os
import select
import sys
from collections import deque

__all__ = ["FORMAT", "log_to"]

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
"""A line of the log."""

_WAITING_BYTES = 1024 * 1024
_PIECE_BYTES = getattr(select, "PIPE_BUF", 512)
"""What takes a line now takes this much at once."""
_LAST_WORDS_MS = 500


def log_to(level: str | None, file: str | None) -> None:
    """Log to ``file``, or else standard error, from ``level`` (None: ``warn``) up.

    Lines for which there is no room, because nobody reads a pipe, wait for the next; beyond 1 MiB
    they are left out, and a line says how many. Raises ``OSError`` when the file cannot be written.
    """
    handler: logging.Handler
    if file:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        # A pipe that nobody reads is an error, not a reason to wait.
        handler = _LogHandler(os.open(file, flags | getattr(os, "O_NONBLOCK", 0), 0o666))
    elif sys.stderr is None:
        handler = logging.NullHandler()
    else:
        handler = _LogHandler(sys.stderr.fileno())
    handler.setFormatter(logging.Formatter(FORMAT))
    logger = logging.getLogger("pi_rpc")
    logger.addHandler(handler)
    logger.setLevel((level or "warn").upper())


class _LogHandler(logging.Handler):
    """Writes to a descriptor, and never waits for it."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._left_out = 0
        self._poll: select.poll | None = None
        """None where there is no such thing: then a pipe is waited for after all."""
        if hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(fd, select.POLLOUT)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - as every handler does with what cannot be formatted
            self.handleError(record)
            return
        self._write(0)
        if self._waiting_bytes > _WAITING_BYTES:
            self._left_out += 1
            return
        if self._left_out:
            self._append(f"{self._left_out} lines of the log were left out: nobody read them")
            self._left_out = 0
        self._append(line)
        self._write(0)

    def close(self) -> None:
        """Writes what waits, as long as somebody reads it."""
        self.acquire()
        try:
            self._write(_LAST_WORDS_MS)
            self._waiting.clear()
            self._waiting_bytes = 0
        finally:
            self.release()
        super().close()

    def _append(self, line: str) -> None:
        data = f"{line}\n".encode("utf-8", "backslashreplace")
        self._waiting.append(data)
        self._waiting_bytes += len(data)

    def _write(self, patience_ms: int) -> None:
        while self._waiting:
            if self._poll is not None and not self._poll.poll(patience_ms):
                return
            line = self._waiting[0]
            try:
                written = os.write(self._fd, line[:_PIECE_BYTES])
            except BlockingIOError:
                return
            except OSError:
                # A full disk, a reader that has gone: the daemon goes on without its log.
                written = len(line)
            self._waiting_bytes -= written
            if written < len(line):
                self._waiting[0] = line[written:]
            else:
                self._waiting.popleft()
