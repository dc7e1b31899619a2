"""Framing: where one JSON value ends and the next begins, in both ways of saying so.

Owns the two framings (``Content-Length`` headers and lines), their detection from the first byte
and the size limit. Does not look into the JSON, save for the id of a frame it has to refuse. No
I/O, and cheap to import: this runs before anything asynchronous has been loaded.
"""

import enum
import re
from collections.abc import Sequence
from typing import TypeAlias

from pi_rpc.jsonrpc._repair import BOM, salvage

__all__ = [
    "MAX_FRAME_BYTES",
    "BadFrame",
    "Frame",
    "FrameDecoder",
    "Framing",
    "encode_frame",
    "encode_frames",
]

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""A longer frame is refused, and none of ours is longer."""

_HEAD_BYTES = 64 * 1024
_TAIL_BYTES = 4096
_MAX_HEADER_LINE = 64 * 1024

_MAX_DIGITS = 18

_NAME = b"Content-Length: "
_BLOCK_END = b"\r\n\r\n"
# A body whose length nobody gave may stand directly before the name. Compiled when it is needed.
_LENGTH = rb"(?i)(?:\A|[}\]])[ \t]*content-length[ \t]*:[ \t]*([0-9]{1,18})[ \t]*\Z"


class Framing(enum.Enum):
    """How one message is told from the next."""

    HEADERS = "headers"
    LINES = "lines"


class BadFrame:
    """A frame that is not passed on.

    ``reason`` is for people, ``code`` the JSON-RPC error code, ``id`` the id if it could be made
    out, ``is_response`` whether it would have answered a request of ours.
    """

    __slots__ = ("code", "id", "is_response", "reason")

    def __init__(
        self, reason: str, id: int | str | None, *, code: int = -32600, is_response: bool = False
    ) -> None:
        self.reason = reason
        self.id = id
        self.code = code
        self.is_response = is_response

    def __repr__(self) -> str:
        return f"BadFrame({self.reason!r}, {self.id!r}, code={self.code})"

    __hash__ = None  # type: ignore[assignment]  # it can be compared, and is no key

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BadFrame):
            return NotImplemented
        return (self.reason, self.id, self.code) == (other.reason, other.id, other.code)


Frame: TypeAlias = bytes | BadFrame
"""The raw bytes of one JSON value, or the refusal of one."""


class FrameDecoder:
    """Cuts a stream of bytes into frames. The cost is linear for any cutting of the stream.

    ``framing`` is None until the first byte that tells has been seen, unless it is given.
    """

    def __init__(
        self, framing: Framing | None = None, *, max_frame_bytes: int = MAX_FRAME_BYTES
    ) -> None:
        self.framing = framing
        self._max = max_frame_bytes
        self._at_start = True
        # An unfinished line or body. Never longer than the limit.
        self._buffer = bytearray()
        # Headers: bytes of the current body still to come (0: between frames), the length found in
        # the header block so far (-1: none), whether a line of it has been seen.
        self._missing = 0
        self._length = -1
        # The frame is too large: what is kept of it, else None.
        self._head: bytearray | None = None
        self._tail = b""
        self._line_is_junk = False

    def feed(self, data: bytes) -> list[Frame]:
        """Takes the next bytes of the stream; gives the frames that they complete."""
        if self._at_start:
            data = self._detect(data)
            if not data:
                return []
        if self.framing is Framing.HEADERS:
            return self._feed_headers(data)
        return self._feed_lines(data)

    def eof(self) -> list[Frame]:
        """The stream ended: an unterminated last line counts, a body cut short is refused."""
        if self.framing is Framing.HEADERS:
            if not self._missing:
                return []
            self._missing = 0
            rest, self._buffer = bytes(self._buffer), bytearray()
            if self._head is not None:
                return [self._refusal()]
            lost = salvage(rest, complete=False)
            reason = "The input ended inside a frame"
            return [BadFrame(reason, lost.id, code=-32700, is_response=lost.is_response)]
        frames: list[Frame] = []
        self._end_line(frames)
        return frames

    def _detect(self, data: bytes) -> bytes:
        start = bytes(self._buffer) + data
        if len(start) < len(BOM) and BOM.startswith(start):
            self._buffer[:] = start
            return b""
        self._buffer.clear()
        self._at_start = False
        start = start.removeprefix(BOM)
        if not start:
            self._at_start = True
            return b""
        if self.framing is None:
            self.framing = Framing.HEADERS if start[:1].isalpha() else Framing.LINES
        return start

    # Lines.

    def _feed_lines(self, data: bytes) -> list[Frame]:
        first, *lines = data.split(b"\n")
        if not lines:
            self._extend_line(first)
            return []
        frames: list[Frame] = []
        if self._buffer or self._head is not None:
            self._extend_line(first)
            self._end_line(frames)
        else:
            lines.insert(0, first)
        rest = lines.pop()
        for line in lines:
            if len(line) > self._max:
                self._extend_line(line)
                self._end_line(frames)
            elif line.strip():
                frames.append(line.removesuffix(b"\r"))
        self._extend_line(rest)
        return frames

    def _extend_line(self, data: bytes) -> None:
        if self._head is not None:
            self._tail = (self._tail + data)[-_TAIL_BYTES:]
            return
        self._buffer += data
        # One byte more for the CR, which is not counted.
        if len(self._buffer) > self._max + 1:
            self._refuse_rest()

    def _end_line(self, frames: list[Frame]) -> None:
        if self._head is not None:
            frames.append(self._refusal())
            return
        line = bytes(self._buffer).removesuffix(b"\r")
        if len(line) > self._max:
            self._refuse_rest()
            frames.append(self._refusal())
            return
        self._buffer.clear()
        if line.strip():
            frames.append(line)

    # Headers.

    def _feed_headers(self, data: bytes) -> list[Frame]:
        frames: list[Frame] = []
        position = 0
        while position < len(data):
            if self._missing:
                position = self._take_body(data, position, frames)
                continue
            if not self._buffer and self._length < 0:
                body = self._plain_header(data, position, frames)
                if body:
                    position = body
                    continue
            position = self._take_header_line(data, position, frames)
        return frames

    def _plain_header(self, data: bytes, position: int, frames: list[Frame]) -> int:
        """Takes a header block in the form that nearly all have: gives its end, or 0."""
        if not data.startswith(_NAME, position):
            return 0
        start = position + len(_NAME)
        end = data.find(_BLOCK_END, start, start + _MAX_DIGITS + len(_BLOCK_END))
        length = data[start : max(end, start)]
        if not length.isdigit():
            return 0
        self._begin_body(int(length), frames)
        return end + len(_BLOCK_END)

    def _take_header_line(self, data: bytes, position: int, frames: list[Frame]) -> int:
        end = data.find(b"\n", position)
        if end < 0:
            self._buffer += data[position:]
            if len(self._buffer) > _MAX_HEADER_LINE:
                # Not a header. Its end is kept, for a header may follow without a line end.
                del self._buffer[:-_TAIL_BYTES]
                self._line_is_junk = True
            return len(data)
        self._buffer += data[position:end]
        line = bytes(self._buffer).removesuffix(b"\r")
        self._buffer.clear()
        was_junk, self._line_is_junk = self._line_is_junk, False
        if line or was_junk:
            length = re.search(_LENGTH, line)
            if length is not None:
                self._length = int(length[1])
        else:
            length_found, self._length = self._length, -1
            if length_found >= 0:
                self._begin_body(length_found, frames)
        return end + 1

    def _begin_body(self, length: int, frames: list[Frame]) -> None:
        self._missing = length
        if length > self._max:
            self._head, self._tail = bytearray(), b""
        elif not length:
            frames.append(b"")

    def _take_body(self, data: bytes, position: int, frames: list[Frame]) -> int:
        end = min(position + self._missing, len(data))
        taken = end - position
        self._missing -= taken
        if self._head is not None:
            self._keep_ends(data[position:end])
            if not self._missing:
                frames.append(self._refusal())
        elif self._missing:
            self._buffer += data[position:end] if position or end < len(data) else data
        elif self._buffer:
            self._buffer += data[position:end]
            frames.append(bytes(self._buffer))
            # A new one, so that the memory of a large frame is given back.
            self._buffer = bytearray()
        else:
            frames.append(data[position:end])
        return end

    # Too large.

    def _refuse_rest(self) -> None:
        whole, self._buffer = self._buffer, bytearray()
        self._head = whole[:_HEAD_BYTES]
        self._tail = bytes(whole[-_TAIL_BYTES:])

    def _keep_ends(self, data: bytes) -> None:
        head = self._head
        if head is not None and len(head) < _HEAD_BYTES:
            head += data[: _HEAD_BYTES - len(head)]
        self._tail = (self._tail + data[-_TAIL_BYTES:])[-_TAIL_BYTES:]

    def _refusal(self) -> BadFrame:
        head, self._head = bytes(self._head or b""), None
        lost = salvage(head, tail=self._tail)
        self._tail = b""
        reason = f"The frame is larger than {self._max} bytes"
        return BadFrame(reason, lost.id, code=-32600, is_response=lost.is_response)


_LINE_ENDS = (
    (b"\n", b" "),
    (b"\r", b" "),
)
_UNICODE_LINE_ENDS = (
    ("\u0085".encode(), rb"\u0085"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)


def encode_frame(framing: Framing, payload: bytes) -> bytes:
    """One JSON value as a frame.

    As a line it has no line end within: raw ones can only stand between tokens and become blanks,
    and what Unicode counts as one is escaped.
    """
    if framing is Framing.HEADERS:
        return b"Content-Length: %d\r\n\r\n%b" % (len(payload), payload)
    for end, blank in _LINE_ENDS:
        if end in payload:
            payload = payload.replace(end, blank)
    if not payload.isascii():
        for end, escape in _UNICODE_LINE_ENDS:
            payload = payload.replace(end, escape)
    return payload + b"\n"


def _has_odd_line_ends(lines: bytes) -> bool:
    return b"\r" in lines or (
        not lines.isascii() and any(end in lines for end, _ in _UNICODE_LINE_ENDS)
    )


def encode_frames(framing: Framing, payloads: Sequence[bytes]) -> bytes:
    """Several JSON values, one after the other."""
    if framing is Framing.LINES and len(payloads) > 1:
        lines = b"\n".join([*payloads, b""])
        # One look at all of them: what would have to be replaced is rare.
        if lines.count(b"\n") == len(payloads) and not _has_odd_line_ends(lines):
            return lines
    return b"".join([encode_frame(framing, payload) for payload in payloads])
