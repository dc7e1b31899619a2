"""AWS's event stream encoding (``application/vnd.amazon.eventstream``), decoded as it arrives.

Owns where one frame ends and the next begins. Checksums and headers are botocore's work, which is
given exactly one frame at a time: its buffer copies what is left for every frame it takes out. Does
not own what the frames say.
"""

import struct
from typing import Any

import msgspec

from pi_rpc.llm.errors import MalformedStreamError
from pi_rpc.llm.sse import SseEvent

__all__ = ["FAILURE", "FrameDecoder"]

FAILURE = "!"
"""Begins the name of a frame that tells of a failure; the kind of failure follows."""

_PRELUDE_BYTES = 12
_SMALLEST_FRAME = _PRELUDE_BYTES + 4
_LARGEST_FRAME = 25 * 1024 * 1024
"""More than the encoding allows: headers of 128 KiB and a payload of 24 MiB."""


class FrameDecoder:
    """Turns reads into events: the name of each, and its payload.

    Every byte is looked at a fixed number of times, however frames and reads are cut. Needs the
    extra ``bedrock``: making one imports botocore.
    """

    def __init__(self) -> None:
        from botocore.eventstream import EventStreamBuffer, ParserError

        self._make_buffer = EventStreamBuffer
        # Broken frames also surface as errors of the library's own reading.
        self._broken = (ParserError, struct.error, LookupError, ValueError)
        self._pieces: list[bytes] = []
        self._size = 0
        self._needed = _PRELUDE_BYTES

    def feed(self, read: bytes) -> list[SseEvent]:
        """The frames that ``read`` completes, in order.

        Raises ``MalformedStreamError`` for a wrong checksum or an impossible length, the latter
        before the frame is waited for.
        """
        self._pieces.append(read)
        self._size += len(read)
        if self._size < self._needed:
            return []
        whole = b"".join(self._pieces)
        events: list[SseEvent] = []
        start, end = 0, len(whole)
        self._needed = _PRELUDE_BYTES
        while end - start >= _PRELUDE_BYTES:
            length = int.from_bytes(whole[start : start + 4], "big")
            if not _SMALLEST_FRAME <= length <= _LARGEST_FRAME:
                raise MalformedStreamError(f"the provider sent a frame of {length} bytes")
            if end - start < length:
                # With a wrong length we would wait for bytes that never come.
                self._parse(whole[start : start + _PRELUDE_BYTES])
                self._needed = length
                break
            events.append(self._read(whole[start : start + length]))
            start += length
        rest = whole[start:]
        self._pieces, self._size = [rest], len(rest)
        return events

    def eof(self) -> list[SseEvent]:
        """Nothing; raises ``MalformedStreamError`` when the stream ends inside a frame."""
        if self._size:
            raise MalformedStreamError("the stream ended without the rest of a frame")
        return []

    def _read(self, frame: bytes) -> SseEvent:
        message = self._parse(frame)
        if message is None:
            raise MalformedStreamError("the provider sent a frame of another length than it says")
        headers: dict[str, Any] = message.headers
        kind = headers.get(":message-type")
        if kind == "event":
            return str(headers.get(":event-type", "")), message.payload
        if kind == "exception":
            return f"{FAILURE}{headers.get(':exception-type', '')}", message.payload
        said = {"message": str(headers.get(":error-message", ""))}
        return f"{FAILURE}{headers.get(':error-code', kind)}", msgspec.json.encode(said)

    def _parse(self, data: bytes) -> Any:
        """The library's message; None when ``data`` is a prelude alone, which it has checked."""
        buffer = self._make_buffer()
        buffer.add_data(data)
        try:
            return next(buffer, None)
        except self._broken as error:
            reason = str(error) or type(error).__name__
            raise MalformedStreamError(
                f"the provider sent a frame that cannot be read: {reason}"
            ) from error
