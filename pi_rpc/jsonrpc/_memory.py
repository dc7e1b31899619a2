"""Two transports joined in memory, for tests and for a client in the same process.

Owns the joint. The bytes are real: each side frames what it sends and decodes what it receives, and
what one side does not take waits at the other.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pi_rpc.jsonrpc._writer import LOW_WATER_BYTES
from pi_rpc.jsonrpc.framing import Frame, FrameDecoder, Framing, encode_frames

if TYPE_CHECKING:
    import anyio

__all__ = ["MemoryTransport", "memory_pair"]


class _Joint:
    """Wakes whoever waits for a change on either side."""

    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def changed(self) -> None:
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        import anyio

        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()


class MemoryTransport:
    """One side of a pair; a ``Transport``, and raw bytes for whoever wants to send those."""

    def __init__(self, framing: Framing | None, joint: _Joint) -> None:
        self._decoder = FrameDecoder(framing)
        self._joint = joint
        self._other: MemoryTransport | None = None
        self._unframed: list[bytes] = []
        self._outgoing = bytearray()
        self._sent_bytes = 0
        self._input_ended = False
        self._output_ended = False

    @property
    def framing(self) -> Framing | None:
        return self._decoder.framing

    @property
    def waiting_bytes(self) -> int:
        return len(self._outgoing)

    @property
    def sent_bytes(self) -> int:
        return self._sent_bytes

    @property
    def closed(self) -> bool:
        return self._output_ended

    async def receive(self) -> list[Frame] | None:
        import anyio.lowlevel

        await anyio.lowlevel.checkpoint()
        while not self._input_ended:
            data = await self.receive_bytes()
            if not data:
                self._input_ended = True
            frames = self._decoder.feed(data) if data else self._decoder.eof()
            if self._unframed and self.framing is not None:
                unframed, self._unframed = self._unframed, []
                self.send(unframed)
            if frames:
                return frames
        return None

    async def receive_bytes(self) -> bytes:
        """What the other side has sent, as it is; nothing at the end of input."""
        other = self._other
        assert other is not None
        while not other._outgoing and not other._output_ended and not self._input_ended:
            await self._joint.wait()
        data = bytes(other._outgoing)
        other._outgoing.clear()
        self._joint.changed()
        return data

    def send(self, payloads: Sequence[bytes]) -> None:
        if self.framing is None:
            self._unframed += payloads
        else:
            self.send_bytes(encode_frames(self.framing, payloads))

    def send_bytes(self, data: bytes) -> None:
        """Sends bytes as they are."""
        if not self._output_ended:
            self._outgoing += data
            self._sent_bytes += len(data)
            self._joint.changed()

    async def drained(self) -> None:
        while len(self._outgoing) > LOW_WATER_BYTES and not self._output_ended:
            await self._joint.wait()

    async def flush(self, stall_s: float) -> bool:
        import anyio

        while self._outgoing and not self._output_ended:
            before = len(self._outgoing)
            with anyio.move_on_after(stall_s):
                await self._joint.wait()
            if len(self._outgoing) >= before:
                break
        return not self._outgoing

    def end_output(self) -> None:
        """Says that nothing more will be sent; what was sent can still be received."""
        self._output_ended = True
        self._joint.changed()

    def stop_reading(self) -> None:
        self._input_ended = True
        self._joint.changed()

    def close(self) -> None:
        self._input_ended = True
        self.end_output()
        # Nobody takes the other side's bytes any more: to it this is a broken pipe.
        if self._other is not None and not self._other._output_ended:
            self._other._outgoing.clear()
            self._other._output_ended = True
            self._other._input_ended = True
            self._joint.changed()


def memory_pair(
    framing: Framing | None = None, other_framing: Framing = Framing.LINES
) -> tuple[MemoryTransport, MemoryTransport]:
    """Two joined transports. By default the first learns its framing from what the second sends."""
    joint = _Joint()
    first, second = MemoryTransport(framing, joint), MemoryTransport(other_framing, joint)
    first._other, second._other = second, first
    return first, second
