"""AWS's event stream encoding (``application/vnd.amazon.eventstream``), decoded as it arrives.

Owns framing and checksums; headers are read by botocore. Its own buffer for all of it takes four
times as long as everything else done for a delta, and copies what is left for every frame it takes
out; in the tests it has to agree. Does not own what the frames say.
"""

import struct
from typing import Any
from zlib import crc32

import msgspec

from pi_rpc.llm.errors import MalformedStreamError
from pi_rpc.llm.sse import SseEvent

__all__ = ["FAILURE", "FrameDecoder"]

FAILURE = "!"
"""Begins the name of a frame that tells of a failure; the kind of failure follows."""

_PRELUDE = struct.Struct(">III")
"""The frame's length, its headers' length, and the checksum of both."""
_CHECKSUM_BYTES = 4
_AROUND_HEADERS = _PRELUDE.size + _CHECKSUM_BYTES
_LARGEST_FRAME = 25 * 1024 * 1024
"""More than the encoding allows: headers of 128 KiB and a payload of 24 MiB."""
_MOST_KNOWN = 64


class FrameDecoder:
    """Turns reads into events: the name of each, and its payload.

    Every byte is looked at a fixed number of times, however frames and reads are cut. Needs the
    extra ``bedrock``: making one imports botocore.
    """

    def __init__(self) -> None:
        from botocore.eventstream import EventStreamHeaderParser, ParserError

        self._headers = EventStreamHeaderParser()
        # What is no header also surfaces as errors of the library's own reading.
        self._no_headers = (ParserError, struct.error, LookupError, ValueError)
        self._known: dict[bytes, tuple[str, bytes | None]] = {}
        """What headers mean: nearly all frames of a stream have the same."""
        self._pieces: list[bytes] = []
        self._size = 0
        self._needed = _PRELUDE.size

    def feed(self, read: bytes) -> list[SseEvent]:
        """The frames that ``read`` completes, in order.

        Raises ``MalformedStreamError`` for a wrong checksum or an impossible length; the length is
        checked before the rest of a frame is waited for.
        """
        self._pieces.append(read)
        self._size += len(read)
        if self._size < self._needed:
            return []
        whole = b"".join(self._pieces)
        view = memoryview(whole)
        events: list[SseEvent] = []
        start, end = 0, len(whole)
        self._needed = _PRELUDE.size
        while end - start >= _PRELUDE.size:
            length, headers_length, checksum = _PRELUDE.unpack_from(whole, start)
            if crc32(view[start : start + 8]) != checksum:
                raise MalformedStreamError("the provider sent a frame with a wrong checksum")
            if not headers_length + _AROUND_HEADERS <= length <= _LARGEST_FRAME:
                raise MalformedStreamError(f"the provider sent a frame of {length} bytes")
            if end - start < length:
                self._needed = length
                break
            payload_end = start + length - _CHECKSUM_BYTES
            sent = int.from_bytes(view[payload_end : payload_end + _CHECKSUM_BYTES], "big")
            if crc32(view[start:payload_end]) != sent:
                raise MalformedStreamError("the provider sent a frame with a wrong checksum")
            payload_start = start + _PRELUDE.size + headers_length
            name, said = self._meaning(whole[start + _PRELUDE.size : payload_start])
            events.append((name, whole[payload_start:payload_end] if said is None else said))
            start += length
        rest = whole[start:]
        self._pieces, self._size = [rest], len(rest)
        return events

    def eof(self) -> list[SseEvent]:
        """Nothing; raises ``MalformedStreamError`` when the stream ends inside a frame."""
        if self._size:
            raise MalformedStreamError("the stream ended without the rest of a frame")
        return []

    def _meaning(self, headers: bytes) -> tuple[str, bytes | None]:
        """The event's name, and its payload where the headers hold it."""
        known = self._known.get(headers)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[headers] = self._read(headers)
        return known

    def _read(self, headers: bytes) -> tuple[str, bytes | None]:
        try:
            read: dict[str, Any] = self._headers.parse(headers)
        except self._no_headers as error:
            reason = str(error) or type(error).__name__
            raise MalformedStreamError(
                f"the provider sent a frame that cannot be read: {reason}"
            ) from error
        kind = read.get(":message-type")
        if kind == "event":
            return str(read.get(":event-type", "")), None
        if kind == "exception":
            return f"{FAILURE}{read.get(':exception-type', '')}", None
        said = {"message": str(read.get(":error-message", ""))}
        return f"{FAILURE}{read.get(':error-code', kind)}", msgspec.json.encode(said)
