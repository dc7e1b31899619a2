"""Entries: the lines of a session file, as typed structs.

Owns the shape of every kind of line and of the header, writing them, and the table of known types.
Does not own how lines are read back and kept (``pi_rpc.session.stored``), nor their order.

Timestamps of entries are ISO 8601 texts in UTC with milliseconds; timestamps of the messages inside
are Unix milliseconds.
"""

from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from pi_rpc.agent.messages import AgentMessage, encode_hook
from pi_rpc.chance import now_ms
from pi_rpc.llm.messages import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
    UserContent,
    Wire,
)

__all__ = [
    "ENTRY_TYPES",
    "SESSION_VERSION",
    "ActiveToolsChangeEntry",
    "AnyEntry",
    "BranchSummaryEntry",
    "CompactionEntry",
    "ContextEditEntry",
    "ContextReplacement",
    "CustomEntry",
    "CustomMessageEntry",
    "Entry",
    "LabelEntry",
    "LeafEntry",
    "MessageEntry",
    "ModelChangeEntry",
    "SessionHeader",
    "SessionInfoEntry",
    "ThinkingLevelChangeEntry",
    "UnknownEntry",
    "UsageEntry",
    "encode_entry",
    "encode_header",
    "iso_now",
    "iso_of_ms",
    "ms_of_iso",
    "normal_name",
]

SESSION_VERSION = 3
"""The version of the files we write."""


class SessionHeader(Wire, tag_field="type", tag="session", frozen=True, kw_only=True):
    """The first line of a session file."""

    version: int
    """Version of the file's format; a file that names none has version 1."""
    id: str
    """The session's id."""
    timestamp: str
    """When the session was made."""
    cwd: str
    """The working directory, absolute."""
    parent_session: str | UnsetType = UNSET
    """The file this session was forked from."""
    metadata: dict[str, Any] | UnsetType = UNSET
    """Free form."""


class Entry(Wire, frozen=True, kw_only=True):
    """What every line after the header has."""

    id: str
    """Names the entry within its file; 8 hex digits."""
    parent_id: str | None
    """The entry before it on its branch, null at the root. Storage sets it when it appends."""
    timestamp: str
    """When it was appended."""


class MessageEntry(Entry, tag_field="type", tag="message", frozen=True, kw_only=True):
    """A message of the conversation."""

    message: Any
    """The message, of any role; an ``AgentMessage`` in process."""

    def agent_message(self) -> AgentMessage:
        """``message`` with its type."""
        message: AgentMessage = self.message
        return message


class ModelChangeEntry(Entry, tag_field="type", tag="model_change", frozen=True, kw_only=True):
    """Another model was chosen."""

    provider: str
    """Its provider."""
    model_id: str
    """Its id there."""


class ThinkingLevelChangeEntry(
    Entry, tag_field="type", tag="thinking_level_change", frozen=True, kw_only=True
):
    """Another thinking level was chosen."""

    thinking_level: str
    """The level."""


class UsageEntry(Entry, tag_field="type", tag="usage", frozen=True, kw_only=True):
    """Tokens spent beside the conversation: part of the totals, not of the context."""

    kind: str
    """What they were spent on; a free word."""
    provider: str
    """Who was asked."""
    model: str
    """Which model answered."""
    usage: Usage
    """Tokens and cost."""
    note: str | UnsetType = UNSET
    """A remark for people."""


class CompactionEntry(Entry, tag_field="type", tag="compaction", frozen=True, kw_only=True):
    """A summary that stands for what came before it."""

    summary: str
    """The summary."""
    first_kept_entry_id: str
    """From here on the branch before this entry is kept; its own id keeps nothing."""
    tokens_before: int
    """Tokens of the context before."""
    usage: Usage | UnsetType = UNSET
    """What the summary cost."""
    details: Any | UnsetType = UNSET
    """Files read and modified, or whatever a hook left."""
    from_hook: bool | UnsetType = UNSET
    """A hook wrote the summary."""
    system_message: Any | UnsetType = UNSET
    """Prompt and tools at this point, in files that pi wrote."""


class BranchSummaryEntry(Entry, tag_field="type", tag="branch_summary", frozen=True, kw_only=True):
    """What happened on the branch that was left."""

    from_id: str | None
    """The leaf of that branch; ``root`` at the root."""
    summary: str
    """The summary."""
    usage: Usage | UnsetType = UNSET
    """What the summary cost."""
    details: Any | UnsetType = UNSET
    """Files read and modified, or whatever a hook left."""
    from_hook: bool | UnsetType = UNSET
    """A hook wrote the summary."""


class ContextReplacement(Wire, frozen=True, kw_only=True):
    """What the model reads in place of a message's content."""

    content: str | list[TextBlock | ThinkingBlock | ImageBlock | ToolCall]
    """The new content."""


class ContextEditEntry(Entry, tag_field="type", tag="context_edit", frozen=True, kw_only=True):
    """Changes what the model reads of an earlier entry; the entry itself stays as it is."""

    target_id: str
    """The entry, on the same branch."""
    replacement: ContextReplacement | None
    """The new content; null hides the message."""


class CustomEntry(Entry, tag_field="type", tag="custom", frozen=True, kw_only=True):
    """State of an extension or application; the model never sees it."""

    custom_type: str
    """Whose it is; chosen by its author."""
    data: Any | UnsetType = UNSET
    """Free form."""


class CustomMessageEntry(Entry, tag_field="type", tag="custom_message", frozen=True, kw_only=True):
    """A message of an extension or application; the model reads it as a user's."""

    custom_type: str
    """Whose it is; chosen by its author."""
    content: str | list[UserContent]
    """What the model reads."""
    display: bool
    """Clients show it."""
    details: Any | UnsetType = UNSET
    """For its author and for clients."""


class LabelEntry(Entry, tag_field="type", tag="label", frozen=True, kw_only=True):
    """A bookmark on an entry."""

    target_id: str
    """The entry."""
    label: str | UnsetType = UNSET
    """Its name; absent or empty removes the bookmark."""


class SessionInfoEntry(Entry, tag_field="type", tag="session_info", frozen=True, kw_only=True):
    """The session's name."""

    name: str | UnsetType = UNSET
    """The name; absent or empty clears it."""


class LeafEntry(Entry, tag_field="type", tag="leaf", frozen=True, kw_only=True):
    """Moves the leaf: what follows continues another branch.

    Its parent is its target, so that pi, which goes on below the last line, goes on there too.
    """

    target_id: str | None
    """The new leaf, null for the root."""


class ActiveToolsChangeEntry(
    Entry, tag_field="type", tag="active_tools_change", frozen=True, kw_only=True
):
    """Other tools are offered to the model."""

    active_tool_names: list[str]
    """All that are offered from here on."""


class UnknownEntry(Struct, frozen=True, kw_only=True):
    """An entry of a type, or in a shape, that we do not know. Kept as it is."""

    id: str
    parent_id: str | None
    timestamp: str
    type: str
    raw: bytes
    """Its line, without the line end."""


AnyEntry: TypeAlias = Entry | UnknownEntry

ENTRY_TYPES: dict[str, type[Entry]] = {
    str(struct.__struct_config__.tag): struct
    for struct in (
        MessageEntry,
        ModelChangeEntry,
        ThinkingLevelChangeEntry,
        UsageEntry,
        CompactionEntry,
        BranchSummaryEntry,
        ContextEditEntry,
        CustomEntry,
        CustomMessageEntry,
        LabelEntry,
        SessionInfoEntry,
        LeafEntry,
        ActiveToolsChangeEntry,
    )
}
"""The struct of every type we know."""

_encoder = msgspec.json.Encoder(enc_hook=encode_hook)


def encode_entry(entry: AnyEntry) -> bytes:
    """The line of an entry, without the line end.

    Raises ``TypeError`` or ``NotImplementedError`` for content that JSON cannot express.
    """
    return entry.raw if isinstance(entry, UnknownEntry) else _line(entry)


def encode_header(header: SessionHeader) -> bytes:
    """The line of a header, without the line end."""
    return _line(header)


def _line(value: Wire) -> bytes:
    try:
        line = _encoder.encode(value)
    except UnicodeEncodeError:
        line = _line_with_surrogates(value)
    # A message kept as bytes may have been laid out over several lines by whoever made it. Line
    # ends inside JSON strings are escaped, so these are white space.
    if b"\n" in line or b"\r" in line:
        line = line.replace(b"\n", b" ").replace(b"\r", b" ")
    return line


def _line_with_surrogates(value: Wire) -> bytes:
    """Half a surrogate pair has no UTF-8 form; as an escape it is JSON that every reader takes."""
    import json

    plain = msgspec.to_builtins(value, enc_hook=_plain_hook)
    return json.dumps(plain, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def _plain_hook(value: Any) -> Any:
    return msgspec.json.decode(encode_hook(value))


def iso_now() -> str:
    """The current time as entries write it, for instance ``2026-01-31T12:00:00.000Z``."""
    return iso_of_ms(now_ms())


def iso_of_ms(milliseconds: float) -> str:
    """Unix milliseconds as entries write times. Out of range gives the epoch."""
    try:
        return _iso(datetime.fromtimestamp(milliseconds / 1000, UTC))
    except (ValueError, OverflowError, OSError):
        return "1970-01-01T00:00:00.000Z"


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ms_of_iso(timestamp: str) -> int | None:
    """Unix milliseconds of an entry's timestamp; None when it cannot be read."""
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def normal_name(name: str) -> str:
    """A session name on one line, trimmed; empty clears the name."""
    return " ".join(part for part in name.replace("\r", "\n").split("\n") if part).strip()
