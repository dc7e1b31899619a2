"""Transports: frames in and out over file descriptors, or in memory.

Owns what the bytes travel through, and the claim on descriptors 0 and 1. Does not know requests
from answers. Importing this loads nothing asynchronous, and the first frames can be read and
answered before an event loop exists.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from pi_rpc.jsonrpc._memory import MemoryTransport, memory_pair
from pi_rpc.jsonrpc._reader import Reader
from pi_rpc.jsonrpc._writer import LOW_WATER_BYTES, Writer
from pi_rpc.jsonrpc.framing import Frame, FrameDecoder, Framing, encode_frames

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

__all__ = [
    "LOW_WATER_BYTES",
    "MemoryTransport",
    "OpeningTransport",
    "StdioTransport",
    "Transport",
    "claim_stdio",
    "memory_pair",
]


class Transport(Protocol):
    """One end of a connection. All of it belongs to the event loop's thread."""

    @property
    def framing(self) -> Framing | None:
        """The framing in use; None as long as the other end has not spoken."""

    @property
    def waiting_bytes(self) -> int:
        """How much of what was sent has not left yet."""

    @property
    def sent_bytes(self) -> int:
        """How much was sent in all, what has not left yet included."""

    @property
    def closed(self) -> bool:
        """Nothing that is sent gets out any more."""

    async def receive(self) -> list[Frame] | None:
        """At least one frame, in order of arrival; None when no more will come."""

    def send(self, payloads: Sequence[bytes]) -> None:
        """Frames JSON values and sends them in one go. Never blocks, never raises.

        Before the framing is known they wait; after the end they are dropped.
        """

    async def drained(self) -> None:
        """Returns when at most ``LOW_WATER_BYTES`` wait, or the transport has closed."""

    async def flush(self, stall_s: float) -> bool:
        """Waits until everything is out, for as long as it moves every ``stall_s`` seconds.

        Whether everything is out.
        """

    def stop_reading(self) -> None:
        """Ends the input: ``receive`` gives what is there, then None."""

    def close(self) -> None:
        """Ends both ways at once and wakes everybody. Flush first. May be called again."""


class OpeningTransport(Transport, Protocol):
    """A transport over which the first frames can pass before there is an event loop."""

    def read_first_frame(self) -> Frame | None:
        """The next frame, waited for in this thread; None at the end of input."""

    def unread(self, frame: Frame) -> None:
        """Gives a frame back: it will be the next to be received."""

    def send_blocking(self, payload: bytes) -> None:
        """Sends one JSON value from this thread."""


def claim_stdio() -> tuple[int, int]:
    """Takes standard input and output away from everybody else in this process and its children.

    Gives private descriptors for both, not inherited by children. From then on descriptor 0 is
    empty and descriptor 1 is standard error, so that a stray ``print`` cannot break a frame. Call
    it before anything else is started.
    """
    null = os.open(os.devnull, os.O_RDWR)
    try:
        in_fd, out_fd = _private(0, null), _private(1, null)
        os.dup2(null, 0)
        try:
            os.dup2(2, 1)
        except OSError:
            # There is no standard error.
            os.dup2(null, 2)
            os.dup2(null, 1)
    finally:
        if null > 2:
            os.close(null)
    return in_fd, out_fd


def _private(fd: int, null: int) -> int:
    """A copy above the standard descriptors that children do not get."""
    try:
        copy = os.dup(fd)
    except OSError:
        # It was closed when we were started.
        copy = os.dup(null)
    if copy > 2:
        return copy
    low, copy = copy, _private(copy, null)
    os.close(low)
    return copy


class StdioTransport:
    """A ``Transport`` over two descriptors, which it owns and closes.

    They may be pipes, sockets, terminals, files or ``/dev/null``, blocking or not. Without
    ``framing`` the first byte that comes decides it.
    """

    def __init__(
        self,
        in_fd: int,
        out_fd: int,
        *,
        framing: Framing | None = None,
        at_end: "Callable[[AbstractEventLoop], None] | None" = None,
    ) -> None:
        """``at_end`` is called when the input has ended, in a thread of its own and told the event
        loop, which may be busy."""
        self._decoder = FrameDecoder(framing)
        self._reader = Reader(in_fd, self._decoder, at_end)
        self._writer = Writer(out_fd, self.close)
        self._unframed: list[bytes] = []

    @property
    def framing(self) -> Framing | None:
        return self._decoder.framing

    @property
    def waiting_bytes(self) -> int:
        return self._writer.waiting_bytes

    @property
    def sent_bytes(self) -> int:
        return self._writer.sent_bytes

    @property
    def closed(self) -> bool:
        return self._writer.closed

    def read_first_frame(self) -> Frame | None:
        """The next frame, read in this thread; None at the end of input.

        For use before an event loop runs, any number of times. What has been read beyond the frame
        is kept.
        """
        return self._reader.read_frame()

    def unread(self, frame: Frame) -> None:
        """Gives a frame back: it will be the next to be received."""
        self._reader.unread(frame)

    def send_blocking(self, payload: bytes) -> None:
        """Sends one JSON value from this thread. Only before an event loop runs."""
        self._writer.write_blocking(encode_frames(self.framing or Framing.LINES, [payload]))

    async def receive(self) -> list[Frame] | None:
        frames = await self._reader.receive()
        if self._unframed and self.framing is not None:
            unframed, self._unframed = self._unframed, []
            self.send(unframed)
        return frames

    def send(self, payloads: Sequence[bytes]) -> None:
        framing = self._decoder.framing
        if framing is None:
            self._unframed += payloads
        else:
            self._writer.write(encode_frames(framing, payloads))

    async def drained(self) -> None:
        await self._writer.drained()

    async def flush(self, stall_s: float) -> bool:
        return await self._writer.flush(stall_s)

    def stop_reading(self) -> None:
        self._reader.stop()

    def close(self) -> None:
        self._reader.stop()
        self._writer.close()
