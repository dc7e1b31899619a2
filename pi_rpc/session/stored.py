"""Stored entries: lines of a session file, read but never altered.

Owns reading a line in two steps (what places it in the tree at once, its content when somebody
asks) and keeping the original bytes. Does not own the tree (``pi_rpc.session._tree``).
"""

from functools import cache
from typing import Any

import msgspec
from msgspec import Raw, Struct

from pi_rpc.agent.messages import (
    MessageDecodeError,
    MessageRoles,
    OpaqueMessage,
    default_roles,
    role_of,
)
from pi_rpc.session._repair import clean_json, plain_object, repaired_message
from pi_rpc.session.entries import (
    ENTRY_TYPES,
    AnyEntry,
    Entry,
    MessageEntry,
    SessionHeader,
    UnknownEntry,
    ms_of_iso,
)

__all__ = ["EntryReader", "StoredEntry", "is_json", "parse_header"]


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
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@cache
def _decoder(entry_type: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(ENTRY_TYPES[entry_type])


class StoredEntry:
    """An entry as it is stored.

    ``raw`` is its line without the line end, byte for byte (of files of version 1 and 2: as version
    3 would write it). ``entry`` decodes it, on first use.
    """

    __slots__ = (
        "_clean",
        "_entry",
        "_reader",
        "id",
        "parent_id",
        "raw",
        "role",
        "timestamp",
        "type",
    )

    def __init__(
        self,
        raw: bytes,
        *,
        id: str,
        parent_id: str | None,
        type: str,
        timestamp: str,
        role: str | None,
        reader: "EntryReader",
        entry: AnyEntry | None = None,
        clean: bytes | None = None,
    ) -> None:
        self.raw = raw
        self.id = id
        self.parent_id = parent_id
        self.type = type
        self.timestamp = timestamp
        self.role = role
        """The role, when this is a message."""
        self._reader = reader
        self._entry = entry
        self._clean = clean

    @property
    def entry(self) -> AnyEntry:
        """The entry; an ``UnknownEntry`` when its type or shape is not one we know."""
        if self._entry is None:
            self._entry = self._reader.decode(self)
        return self._entry

    @property
    def json(self) -> bytes:
        """The entry as valid JSON in valid UTF-8: ``raw``, unless that is neither."""
        if self._clean is None:
            self._clean = (
                self.raw if _is_utf8(self.raw) else self.raw.decode(errors="replace").encode()
            )
        return self._clean

    def __repr__(self) -> str:
        return f"StoredEntry({self.type} {self.id}, {len(self.raw)} bytes)"


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
        """The content of a stored entry. Never raises: what cannot be read is unknown."""
        entry: AnyEntry | None = None
        if stored.type == "message":
            entry = self._message_entry(stored)
        elif stored.type in ENTRY_TYPES:
            try:
                entry = _decoder(stored.type).decode(stored.json)
            except _UNREADABLE:
                entry = self._repaired_entry(stored)
        if entry is not None:
            return entry
        return UnknownEntry(
            id=stored.id,
            parent_id=stored.parent_id,
            timestamp=stored.timestamp,
            type=stored.type,
            raw=stored.raw,
        )

    def _message_entry(self, stored: StoredEntry) -> MessageEntry | None:
        try:
            raw = bytes(_decode_body(stored.json).message)
        except _UNREADABLE:
            return None
        message: Any
        try:
            message = self.roles.decode(raw)
        except (MessageDecodeError, *_UNREADABLE):
            message = self._repaired_message(raw, stored)
        if message is None:
            return None
        return MessageEntry(
            id=stored.id, parent_id=stored.parent_id, timestamp=stored.timestamp, message=message
        )

    def _repaired_message(self, raw: bytes, stored: StoredEntry) -> Any:
        fields = plain_object(raw)
        if fields is None or not stored.role:
            return None
        fixed = repaired_message(fields, ms_of_iso(stored.timestamp) or 0)
        try:
            return self.roles.decode(clean_json(fixed))
        except (MessageDecodeError, *_UNREADABLE):
            return OpaqueMessage(stored.role, raw)

    def _repaired_entry(self, stored: StoredEntry) -> AnyEntry | None:
        """Read again, with the fields that every entry has and without nulls."""
        fields = plain_object(stored.json)
        if fields is None:
            return None
        kept = {"replacement", "targetId", "fromId"}
        fields = {key: value for key, value in fields.items() if value is not None or key in kept}
        fields |= {"id": stored.id, "parentId": stored.parent_id, "timestamp": stored.timestamp}
        if stored.type == "custom_message":
            as_message = repaired_message({**fields, "role": "custom", "timestamp": 0}, 0)
            fields |= {"content": as_message["content"], "display": as_message["display"]}
        elif stored.type == "compaction":
            fields.setdefault("firstKeptEntryId", stored.id)
            fields.setdefault("tokensBefore", 0)
        elif stored.type == "branch_summary":
            fields.setdefault("fromId", None)
        try:
            return msgspec.convert(fields, ENTRY_TYPES[stored.type], strict=False)
        except msgspec.ValidationError:
            return None
