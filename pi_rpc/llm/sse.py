"""Server-sent events, decoded from bytes as they arrive.

Owns the framing of an event stream: line endings, fields, comments, the byte-order mark. Does not
own what the data means, nor where the bytes come from.
"""

from typing import TypeAlias

from pi_rpc.llm.errors import MalformedStreamError

__all__ = ["SseDecoder", "SseEvent"]

SseEvent: TypeAlias = tuple[str, bytes]
"""The event's name (``message`` where the server gave none) and its data, UTF-8."""

_BOM = b"\xef\xbb\xbf"
_MAX_EVENT_BYTES = 64 * 1024 * 1024
"""An event that has not ended by then is garbage; without a limit it would fill the memory."""


class SseDecoder:
    """Turns reads into events. Every read is looked at once, whatever the size of an event."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._at_line_end = False
        self._after_cr = False
        self._head: bytes | None = b""

    def feed(self, read: bytes) -> list[SseEvent]:
        """The events that ``read`` completes, in order.

        Raises ``MalformedStreamError`` when an event grows beyond 64 MiB.
        """
        if self._head is not None:
            read = self._without_bom(self._head + read)
        if self._after_cr and read:
            self._after_cr = False
            read = read.removeprefix(b"\n")
        if b"\r" in read:
            self._after_cr = read.endswith(b"\r")
            read = read.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not read:
            return []
        ends = b"\n\n" in read or (self._at_line_end and read.startswith(b"\n"))
        self._at_line_end = read.endswith(b"\n")
        self._pieces.append(read)
        self._size += len(read)
        if not ends:
            if self._size > _MAX_EVENT_BYTES:
                raise MalformedStreamError("the provider sent an event without an end")
            return []
        ended, _, rest = b"".join(self._pieces).rpartition(b"\n\n")
        self._pieces = [rest] if rest else []
        self._size = len(rest)
        self._at_line_end = rest.endswith(b"\n")
        return _decode_all(ended)

    def eof(self) -> list[SseEvent]:
        """What is left when the stream ends: an event whose closing blank line never came."""
        rest = (self._head or b"") + b"".join(self._pieces)
        self._pieces, self._head, self._size = [], None, 0
        return _decode_all(rest)

    def _without_bom(self, start: bytes) -> bytes:
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._head = start
            return b""
        self._head = None
        return start.removeprefix(_BOM)


def _decode_all(ended: bytes) -> list[SseEvent]:
    """The events of blocks with the blank lines between them."""
    # The two shapes that nearly all streams have, told by the number of their lines.
    if ended.startswith(b"data: "):
        values = ended[6:].split(b"\n\ndata: ")
        if ended.count(b"\n") == 2 * len(values) - 2:
            return [("message", value) for value in values]
    elif ended.startswith(b"event: "):
        blocks = ended[7:].split(b"\n\nevent: ")
        lines = ended.count(b"\n")
        if lines == 3 * len(blocks) - 2 and (events := _decode_named(blocks)) is not None:
            return events
    return [event for block in ended.split(b"\n\n") if (event := _decode(block)) is not None]


def _decode_named(blocks: list[bytes]) -> list[SseEvent] | None:
    """The events of blocks without the ``event: `` they begin with; None unless each has data.

    They have two lines each on average, so all of them have two when none has one.
    """
    events: list[SseEvent] = []
    names: dict[bytes, str] = {}
    for block in blocks:
        line, found, value = block.partition(b"\ndata: ")
        if not found:
            return None
        name = names.get(line)
        if name is None:
            name = names[line] = line.decode(errors="replace") or "message"
        events.append((name, value))
    return events


def _decode(block: bytes) -> SseEvent | None:
    name = b""
    values: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            values.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    if not values:
        return None
    return (name.decode(errors="replace") or "message", b"\n".join(values))
