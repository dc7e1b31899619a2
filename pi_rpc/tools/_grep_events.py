"""What ripgrep writes with ``--json``, one event per line, however long the lines are.

Owns the decoding and its bounds. A match in a line of many megabytes comes as a line of JSON that
is longer still: its beginning and its line number are kept, the rest is let go as it comes.
"""

import base64
import re
from collections.abc import Iterator

import msgspec
from msgspec import Struct

__all__ = ["Event", "EventReader", "Text"]

_MOST_BYTES = 1 << 20
"""Bytes of an event that are kept whole."""
_HEAD = 1 << 16
_TEXT = 8192
"""Bytes kept of the text of a longer one."""
_OVERLAP = 64
_LINE_NUMBER = re.compile(rb'"\},"line_number":(\d+),')
# Quotes inside of strings are escaped, so neither can be part of a text that was searched.
_TEXT_START = re.compile(rb'"lines":\{"(text|bytes)":"')


class Text(Struct, frozen=True):
    """Text, or base64 of what is not UTF-8."""

    text: str | None = None
    bytes: str | None = None

    def decoded(self, errors: str) -> str:
        """As text; ``errors`` says what becomes of bytes that are none."""
        if self.text is not None:
            return self.text
        encoded = self.bytes or ""
        return base64.b64decode(encoded[: len(encoded) // 4 * 4]).decode("utf-8", errors)


class _Match(Struct, frozen=True):
    start: int


class _Body(Struct, frozen=True):
    path: Text | None = None
    lines: Text | None = None
    line_number: int | None = None
    submatches: tuple[_Match, ...] = ()


class Event(Struct, frozen=True):
    """One event: ``begin``, ``match``, ``context``, ``end`` or ``summary``."""

    type: str
    data: _Body


_decode = msgspec.json.Decoder(Event).decode


class EventReader:
    """Puts events together from pieces of output."""

    def __init__(self) -> None:
        self._rest = b""
        self._long: _LongEvent | None = None

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Take the next bytes; gives the events that end in them."""
        while piece:
            line, newline, after = piece.partition(b"\n")
            if self._long is not None:
                self._long.feed(line)
            elif len(self._rest) + len(line) > _MOST_BYTES:
                self._long = _LongEvent(self._rest + line)
                self._rest = b""
            else:
                self._rest += line
            piece = after
            if newline:
                whole = self._long.shortened() if self._long is not None else self._rest
                self._rest, self._long = b"", None
                if whole:
                    yield _decode(whole)


class _LongEvent:
    """An event that is too long to be kept."""

    def __init__(self, begin: bytes) -> None:
        self._head = begin[:_HEAD]
        self._tail = b""
        self._line_number: bytes | None = None
        self.feed(begin)

    def feed(self, piece: bytes) -> None:
        if self._line_number is not None:
            return
        window = self._tail + piece
        if found := _LINE_NUMBER.search(window):
            self._line_number = found[1]
        self._tail = window[-_OVERLAP:]

    def shortened(self) -> bytes:
        """The event with the beginning of its text; empty when it is no such event."""
        start = _TEXT_START.search(self._head)
        if start is None:
            return b""
        kind = start[1].decode()
        text = Text(**{kind: _beginning(kind, self._head[start.end() : start.end() + _TEXT])})
        number = self._line_number or b"null"
        before = self._head[: start.start()]
        return b'%s"lines":%s,"line_number":%s}}' % (before, msgspec.json.encode(text), number)


def _beginning(kind: str, raw: bytes) -> str:
    """The text of JSON that may end in the middle of a character or an escape."""
    if kind == "bytes":
        return raw.decode("ascii", "ignore")
    for end in range(len(raw), max(len(raw) - 16, 0), -1):
        try:
            return str(msgspec.json.decode(b'"%s"' % raw[:end]))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return ""
