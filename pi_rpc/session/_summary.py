"""What a list of sessions shows of one file.

Owns reading a file for that, one piece at a time. All calls block and are short.
"""

import os
from pathlib import Path
from typing import Any, TypeGuard

import msgspec
from msgspec import Raw, Struct

from pi_rpc.session._file import SessionFile
from pi_rpc.session._loading import CHUNK, HEADER_SCAN, Lines, find_header
from pi_rpc.session._repair import clean_json, plain_object
from pi_rpc.session.entries import SessionHeader, iso_of_ms, ms_of_iso, normal_name
from pi_rpc.session.storage import SessionCorruptError

__all__ = ["StoredSession", "Summary", "read_header"]

_FIRST_MESSAGE = 500
"""Characters of the first message that are kept."""
_HEADER_PIECE = 1 << 16
_LAST_MOMENT = 8.64e15
"""Unix milliseconds that a date of JavaScript can have at most."""


class StoredSession(Struct, frozen=True):
    """A session on the disk, in brief."""

    session_id: str
    path: Path
    cwd: str
    name: str | None
    created: str
    """ISO 8601."""
    modified_ms: int
    """When its last message was stored, or it began; Unix milliseconds. The time that a message
    names itself is that of a reply's beginning, which may be long before."""
    message_count: int
    """Messages in the whole tree, system messages left out."""
    first_message: str
    """The beginning of what the person said first; empty when there is nothing yet."""
    parent_session: str | None
    """The file it was forked from."""

    @property
    def modified(self) -> str:
        """``modified_ms`` as ISO 8601."""
        return iso_of_ms(self.modified_ms)


class _Message(Struct):
    role: str = ""
    timestamp: Any = None
    content: Raw = Raw(b"null")


class _Line(Struct):
    type: str
    timestamp: Any = None
    name: Any = None
    message: Raw = Raw(b"null")


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_message = msgspec.json.Decoder(_Message).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Summary:
    """Reads one file: ``step`` until it is False, then ``result``, and ``close`` in any case."""

    def __init__(self, path: Path) -> None:
        """Raises ``OSError`` when it cannot be read or is no regular file."""
        self._path = path
        self._file = SessionFile.open(path, read_only=True)
        self._mtime_ms = os.fstat(self._file.fd).st_mtime_ns // 1_000_000
        self._lines = Lines()
        self._read = 0
        self._no_session = False
        self._header: SessionHeader | None = None
        self._name: str | None = None
        self._messages = 0
        self._first = ""
        self._active_ms = 0

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def step(self) -> bool:
        """Read a piece; False when there is no more to know."""
        chunk = os.read(self._file.fd, CHUNK)
        self._read += len(chunk)
        for line in self._lines.feed(chunk) if chunk else [self._lines.rest()]:
            self._add(line)
            if self._no_session:
                return False
        if self._header is None and self._read >= HEADER_SCAN:
            return False
        return bool(chunk)

    def _add(self, line: bytes) -> None:
        if self._header is None:
            try:
                self._header = find_header(line)
            except SessionCorruptError:
                self._no_session = True
            return
        entry = _readable(line)
        if entry is None:
            return
        if entry.type == "session_info":
            name = entry.name if isinstance(entry.name, str) else ""
            self._name = normal_name(name) or None
        elif entry.type == "message":
            self._add_message(entry)

    def _add_message(self, entry: _Line) -> None:
        try:
            message = _decode_message(entry.message)
        except _UNREADABLE:
            return
        if message.role == "system":
            return
        self._messages += 1
        stored = ms_of_iso(entry.timestamp) if isinstance(entry.timestamp, str) else None
        for moment in (stored, message.timestamp):
            if _is_moment(moment):
                self._active_ms = max(self._active_ms, int(moment))
        if message.role == "user" and not self._first:
            self._first = _text(message.content)

    def result(self) -> StoredSession | None:
        """What was found; None when the file is no session."""
        header = self._header
        if header is None or self._no_session:
            return None
        began = ms_of_iso(header.timestamp)
        return StoredSession(
            session_id=header.id,
            path=self._path,
            cwd=header.cwd,
            name=self._name,
            created=iso_of_ms(self._mtime_ms) if began is None else header.timestamp,
            modified_ms=max(self._active_ms, began or 0) or self._mtime_ms,
            message_count=self._messages,
            first_message=self._first[:_FIRST_MESSAGE],
            parent_session=header.parent_session or None,
        )


def _readable(line: bytes) -> _Line | None:
    try:
        return _decode_line(line)
    except _UNREADABLE:
        fields = plain_object(line) if line.strip() else None
    if fields is None or not isinstance(fields.get("type"), str):
        return None
    try:
        return _decode_line(clean_json(fields))
    except _UNREADABLE:
        return None


def _is_moment(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and abs(value) <= _LAST_MOMENT


def _text(content: Raw) -> str:
    try:
        value = msgspec.json.decode(content)
    except _UNREADABLE:
        return ""
    if isinstance(value, str):
        return value.strip()
    blocks = value if isinstance(value, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return " ".join(text for text in texts if isinstance(text, str)).strip()


def read_header(path: Path) -> SessionHeader | None:
    """The header of a session file; None when it cannot be read or there is none."""
    try:
        file = SessionFile.open(path, read_only=True)
    except OSError:
        return None
    lines = Lines()
    read = 0
    try:
        while read < HEADER_SCAN:
            chunk = os.read(file.fd, _HEADER_PIECE)
            read += len(chunk)
            for line in lines.feed(chunk) if chunk else [lines.rest()]:
                header = find_header(line)
                if header is not None:
                    return header
            if not chunk:
                break
    except (OSError, SessionCorruptError):
        return None
    finally:
        file.close()
    return None
