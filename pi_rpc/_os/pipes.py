"""Pipes that a program writes into and we read.

Owns the two ends of one pipe. Does not own the program (``pi_rpc._os.processes``).
"""

import contextlib
import os
import sys

import anyio

__all__ = ["READ_SIZE", "OutputPipe"]

READ_SIZE = 1 << 18
"""The most that is read at once, in bytes."""
_CAPACITY = 1 << 20
"""What the pipe holds, in bytes, where the system lets us choose: each turn of the event loop then
moves more, which halves what endless output costs."""


class OutputPipe:
    """A pipe: ``write_fd`` for a child, ``read`` for us. Close it, or use it in a ``with``."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        if sys.platform == "linux":
            import fcntl

            with contextlib.suppress(OSError):  # there is a limit on the pages of a user's pipes
                fcntl.fcntl(self.read_fd, fcntl.F_SETPIPE_SZ, _CAPACITY)

    def close_write(self) -> None:
        """Give up our copy of the end that the child writes into."""
        fd, self.write_fd = self.write_fd, -1
        if fd >= 0:
            os.close(fd)

    async def read(self) -> bytes:
        """The next bytes, at most ``READ_SIZE``; empty at the end.

        Every call passes through the event loop, so that a reader of endless output leaves room
        for everybody else.
        """
        while True:
            await anyio.wait_readable(self.read_fd)
            try:
                return os.read(self.read_fd, READ_SIZE)
            except BlockingIOError:
                continue

    def read_available(self) -> bytes:
        """What can be read without waiting, at most ``READ_SIZE``; empty when that is nothing."""
        try:
            return os.read(self.read_fd, READ_SIZE)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        """Close both ends."""
        self.close_write()
        fd, self.read_fd = self.read_fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> "OutputPipe":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
