"""Stored entries: lines of a session file, read but never altered.

Owns reading a line in two steps (what places it in the tree at once, its content when somebody
asks) and keeping the original bytes. Does not own the tree (``pi_rpc.session._tree``).
"""

import re
from functools import cache
from typing import Any, Protocol

import msgspec
from msgspec import Raw, Struct

from pi_rpc.agent.messages import (
    MessageDecodeError,
    MessageRoles,
    OpaqueMessage,
    default_roles,
    role_of,
)
from pi_rpc.session._repair import clean_json, is_number, plain_object, repaired_message
from pi_rpc.session.entries import (
    ENTRY_TYPES,
    AnyEntry,
    Entry,
    MessageEntry,
    SessionHeader,
    UnknownEntry,
    ms_of_iso,
)

__all__ = ["EntryReader", "LineSource", "StoredEntry", "is_json", "parse_header"]


class _Role(Struct):
    role: str = ""


class _Head(Struct, rename="camel"):
    type: str
    id: str = ""
    parent_id: str | None = None
    timestamp: str = ""
    message: Raw = Raw(b"null")


class _Body(Struct):
    message: Raw


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_role = msgspec.json.Decoder(_Role).decode
_decode_body = msgspec.json.Decoder(_Body).decode
_USUAL_HEAD = re.compile(
    rb'\{"type":"\w+","id":"[^"\\]*","parentId":(?:null|"[^"\\]*"),"timestamp":"([^"\\]*)"'
).match
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@cache
def _decoder(entry_type: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(ENTRY_TYPES[entry_type])


class LineSource(Protocol):
    """Where lines are read again."""

    def line(self, position: int) -> bytes:
        """The line at a position. Raises ``SessionStorageError``."""
        ...

    def decoded(self, position: int, stored: "StoredEntry") -> None:
        """The entry at a position was decoded."""
        ...


class StoredEntry:
    """An entry as it is stored.

    ``id``, ``parent_id``, ``type`` and ``role`` are known at once; the rest may be read from the
    file when it is asked for, which raises ``SessionStorageError`` when that is not possible.
    """

    __slots__ = (
        "_clean",
        "_entry",
        "_position",
        "_raw",
        "_reader",
        "_source",
        "_timestamp",
        "id",
        "parent_id",
        "role",
        "type",
    )

    def __init__(
        self,
        raw: bytes | None,
        *,
        id: str,
        parent_id: str | None,
        type: str,
        timestamp: str | None,
        role: str | None,
        reader: "EntryReader",
        entry: AnyEntry | None = None,
        clean: bytes | None = None,
        source: LineSource | None = None,
        position: int = -1,
    ) -> None:
        self.id = id
        self.parent_id = parent_id
        self.type = type
        self.role = role
        """The role, when this is a message."""
        self._raw = raw
        self._timestamp = timestamp
        self._reader = reader
        self._entry = entry
        self._clean = clean
        self._source = source
        self._position = position

    @property
    def raw(self) -> bytes:
        """Its line without the line end, byte for byte (of files of version 1 and 2: as version 3
        would write it)."""
        return self.parts()[0]

    @property
    def timestamp(self) -> str:
        """When it was appended, ISO 8601."""
        if self._timestamp is None:
            self._timestamp = self.parts()[2]
        return self._timestamp

    @property
    def entry(self) -> AnyEntry:
        """The entry; an ``UnknownEntry`` when its type or shape is not one we know."""
        if self._entry is None:
            self._entry = self._reader.decode(self)
            if self._source is not None:
                self._source.decoded(self._position, self)
        return self._entry

    @property
    def json(self) -> bytes:
        """The entry as valid JSON in valid UTF-8: ``raw``, unless that is neither."""
        return self.parts()[1]

    def parts(self) -> tuple[bytes, bytes, str]:
        """The line as it is, as valid JSON, and the timestamp in it."""
        if self._raw is not None:
            if self._clean is None:
                self._clean = _valid_utf8(self._raw)
            return self._raw, self._clean, self._timestamp or ""
        raw = self._read()
        again = self._reader.line(raw)
        if again is None:
            return raw, _valid_utf8(raw), ""
        return raw, again.json, again.timestamp

    def parts_to_decode(self) -> tuple[bytes, bytes, str]:
        """``parts``, where nothing depends on the JSON being valid."""
        if self._raw is None:
            raw = self._read()
            head = _USUAL_HEAD(raw)
            if head is not None and _is_utf8(raw):
                return raw, raw, head[1].decode()
        return self.parts()

    def _read(self) -> bytes:
        if self._source is None:
            raise RuntimeError("a stored entry has its line or knows where it is")
        return self._source.line(self._position)

    def bind(self, source: LineSource, position: int) -> None:
        """From now on the line can be read again."""
        self._source, self._position = source, position

    def forget_line(self) -> None:
        """Let go of the line, if it can be read again."""
        if self._source is not None:
            self._raw = self._clean = None

    def __repr__(self) -> str:
        return f"StoredEntry({self.type} {self.id})"


def _valid_utf8(line: bytes) -> bytes:
    return line if _is_utf8(line) else line.decode(errors="replace").encode()


def _is_utf8(line: bytes) -> bool:
    if line.isascii():
        return True
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def parse_header(line: bytes) -> SessionHeader | None:
    """The header that a line holds; None when it holds none."""
    fields = plain_object(line.removeprefix(b"\xef\xbb\xbf"))
    if fields is None or fields.get("type") != "session":
        return None
    fields = {key: value for key, value in fields.items() if value is not None}
    for name in ("timestamp", "cwd"):
        if not isinstance(fields.get(name), str):
            fields[name] = ""
    if not isinstance(fields.get("parentSession", ""), str):
        del fields["parentSession"]
    if not isinstance(fields.get("metadata", {}), dict):
        del fields["metadata"]
    fields.setdefault("version", 1)
    try:
        header = msgspec.convert(fields, SessionHeader, strict=False)
    except msgspec.ValidationError:
        return None
    return header if header.id and header.version >= 1 else None


def is_json(line: bytes) -> bool:
    """The line is JSON that says something, be it an entry or not."""
    try:
        return msgspec.json.decode(line) is not None
    except _UNREADABLE:
        return plain_object(line) is not None


class EntryReader:
    """Reads lines. Knows the message roles of the application."""

    def __init__(self, roles: MessageRoles | None = None) -> None:
        self.roles = default_roles() if roles is None else roles

    def line(self, line: bytes) -> StoredEntry | None:
        """The entry that a line holds; None for blank and malformed lines and for headers."""
        try:
            head = _decode_head(line)
        except _UNREADABLE:
            return self._unclean_line(line)
        if not head.id or head.type == "session":
            return None
        role: str | None = None
        if head.type == "message":
            try:
                role = _decode_role(head.message).role
            except _UNREADABLE:
                return self._unclean_line(line)
        return StoredEntry(
            line,
            id=head.id,
            parent_id=head.parent_id or None,
            type=head.type,
            timestamp=head.timestamp,
            role=role,
            reader=self,
        )

    def written(self, entry: Entry, line: bytes) -> StoredEntry:
        """What ``line`` will read as, given that ``entry`` was just written to it."""
        role = role_of(entry.message) if isinstance(entry, MessageEntry) else None
        return StoredEntry(
            line,
            id=entry.id,
            parent_id=entry.parent_id,
            type=str(entry.__struct_config__.tag),
            timestamp=entry.timestamp,
            role=role,
            reader=self,
            entry=entry,
        )

    def _unclean_line(self, line: bytes) -> StoredEntry | None:
        fields = plain_object(line) if line.strip() else None
        if fields is None:
            return None
        kind, id, parent = fields.get("type"), fields.get("id"), fields.get("parentId")
        if not (isinstance(kind, str) and isinstance(id, str) and id) or kind == "session":
            return None
        message = fields.get("message")
        role = message.get("role") if isinstance(message, dict) else ""
        timestamp = fields.get("timestamp")
        return StoredEntry(
            line,
            id=id,
            parent_id=parent if isinstance(parent, str) and parent else None,
            type=kind,
            timestamp=timestamp if isinstance(timestamp, str) else "",
            role=(role if isinstance(role, str) else "") if kind == "message" else None,
            reader=self,
            clean=clean_json(fields),
        )

    def decode(self, stored: StoredEntry) -> AnyEntry:
        """The content of a stored entry. Whatever its line says: what we cannot read is unknown."""
        raw, line, timestamp = stored.parts_to_decode()
        entry: AnyEntry | None = None
        if stored.type == "message":
            entry = self._message_entry(stored, line, timestamp)
        elif stored.type in ENTRY_TYPES:
            try:
                entry = _decoder(stored.type).decode(line)
            except _UNREADABLE:
                entry = self._repaired_entry(stored, line, timestamp)
        if entry is not None:
            return entry
        return UnknownEntry(
            id=stored.id,
            parent_id=stored.parent_id,
            timestamp=timestamp,
            type=stored.type,
            raw=raw,
        )

    def _message_entry(
        self, stored: StoredEntry, line: bytes, timestamp: str
    ) -> MessageEntry | None:
        try:
            raw = bytes(_decode_body(line).message)
        except _UNREADABLE:
            return None
        message: Any
        try:
            message = self.roles.decode(raw)
        except (MessageDecodeError, *_UNREADABLE):
            message = self._repaired_message(raw, stored.role, timestamp)
        if message is None:
            return None
        return MessageEntry(
            id=stored.id, parent_id=stored.parent_id, timestamp=timestamp, message=message
        )

    def _repaired_message(self, raw: bytes, role: str | None, timestamp: str) -> Any:
        fields = plain_object(raw)
        if fields is None or not role:
            return None
        fixed = repaired_message(fields, ms_of_iso(timestamp) or 0)
        try:
            return self.roles.decode(clean_json(fixed))
        except (MessageDecodeError, *_UNREADABLE):
            return OpaqueMessage(role, raw)

    def _repaired_entry(self, stored: StoredEntry, line: bytes, timestamp: str) -> AnyEntry | None:
        """Read again, with the fields that every entry has and without nulls."""
        fields = plain_object(line)
        if fields is None:
            return None
        kept = {"replacement", "targetId", "fromId"}
        fields = {key: value for key, value in fields.items() if value is not None or key in kept}
        fields |= {"id": stored.id, "parentId": stored.parent_id, "timestamp": timestamp}
        if stored.type == "custom_message":
            as_message = repaired_message({**fields, "role": "custom", "timestamp": 0}, 0)
            fields |= {"content": as_message["content"], "display": as_message["display"]}
        elif stored.type == "compaction":
            fields.setdefault("firstKeptEntryId", stored.id)
            before = fields.get("tokensBefore")
            fields["tokensBefore"] = int(before) if is_number(before) else 0
        elif stored.type == "branch_summary":
            fields.setdefault("fromId", None)
        try:
            return msgspec.convert(fields, ENTRY_TYPES[stored.type], strict=False)
        except msgspec.ValidationError:
            return None
