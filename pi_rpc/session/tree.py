"""A session as the tree it is: pages of nodes, common ancestors, what a person may edit again.

Owns how a tree is shown and walked, for any ``SessionStorage``. Does not own moving the leaf
(``SessionStorage.set_leaf_id``) nor what a branch says to a model (``pi_rpc.session.context``).
"""

from collections.abc import Iterator, Sequence

import anyio.lowlevel
from msgspec import Struct

from pi_rpc.agent.messages import BashExecutionMessage, CustomMessage, OpaqueMessage
from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    SystemMessage,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_of,
)
from pi_rpc.session._entry_list import earlier
from pi_rpc.session.entries import (
    ActiveToolsChangeEntry,
    AnyEntry,
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    ThinkingLevelChangeEntry,
    UsageEntry,
)
from pi_rpc.session.storage import SessionStorage
from pi_rpc.session.stored import StoredEntry

__all__ = [
    "SessionStats",
    "TreeNode",
    "TreePage",
    "common_ancestor",
    "entries_between",
    "preview_of",
    "session_stats",
    "tree_page",
    "user_images_of",
    "user_text_of",
]

_PREVIEW = 120
"""Characters of a preview."""
_LOOKED_AT = 2000
"""Characters of a text that a preview is made from."""
_AT_ONCE = 200
"""Entries read before others get their turn."""


class TreeNode(Struct, frozen=True):
    """An entry in the tree."""

    entry_id: str
    parent_id: str | None
    """The node it hangs below; None for a root, and for one whose parent is missing."""
    type: str
    role: str | None
    """The role, when it is a message."""
    preview: str
    """The beginning of what it says, on one line; empty when it says nothing."""
    timestamp: str
    label: str | None
    """The bookmark on it."""


class TreePage(Struct, frozen=True):
    """Nodes in the order they were written: parents before their children."""

    nodes: list[TreeNode]
    leaf_id: str | None
    next_cursor: str | None
    """Names the next page; None on the last."""


async def tree_page(
    session: SessionStorage,
    *,
    query: str | None = None,
    limit: int = 500,
    cursor: str | None = None,
) -> TreePage:
    """A page of the whole tree, all branches of it.

    ``query`` leaves only nodes with that text in their preview or label, in any case. A page stays
    what it is when the session grows. Raises ``ValueError`` for a ``cursor`` that is none.
    """
    entries = session.entries()
    labels = session.labels
    text = (query or "").casefold()
    nodes: list[TreeNode] = []
    parent_of = earlier(entries)
    start = 0 if cursor is None else _place(cursor, len(entries))
    for place in range(start, len(entries)):
        if place % _AT_ONCE == 0:
            await anyio.lowlevel.checkpoint()
        stored = entries[place]
        label = labels.get(stored.id)
        preview = preview_of(stored)
        if text and text not in f"{preview}\n{label.text if label else ''}".casefold():
            continue
        if len(nodes) >= max(1, limit):
            return TreePage(nodes, session.leaf_id, str(place))
        nodes.append(
            TreeNode(
                entry_id=stored.id,
                parent_id=parent_of(stored, place),
                type=stored.type,
                role=stored.role,
                preview=preview,
                timestamp=stored.entry.timestamp,
                label=label.text if label else None,
            )
        )
    return TreePage(nodes, session.leaf_id, None)


def _place(cursor: str, end: int) -> int:
    if not (cursor.isascii() and cursor.isdigit()) or len(cursor) > 12 or int(cursor) > end:
        raise ValueError(f"{cursor[:60]!r} is no cursor of this tree")
    return int(cursor)


def preview_of(stored: StoredEntry) -> str:
    """The beginning of what an entry says, on one line."""
    line = " ".join(_said(stored.entry)[:_LOOKED_AT].split())
    return line if len(line) <= _PREVIEW else line[: _PREVIEW - 1] + "…"


def _said(entry: AnyEntry) -> str:
    match entry:
        case MessageEntry(message=message):
            return _said_in(message)
        case CustomMessageEntry(content=content):
            return text_of(content)
        case CompactionEntry(summary=summary) | BranchSummaryEntry(summary=summary):
            return summary
        case ModelChangeEntry():
            return f"{entry.provider}/{entry.model_id}"
        case ThinkingLevelChangeEntry():
            return entry.thinking_level
        case ActiveToolsChangeEntry():
            return ", ".join(entry.active_tool_names)
        case LabelEntry():
            return entry.label or ""
        case SessionInfoEntry():
            return entry.name or ""
        case CustomEntry():
            return entry.custom_type
        case UsageEntry():
            return entry.kind
    return ""


def _said_in(message: object) -> str:
    match message:
        case AssistantMessage():
            calls = [block.name for block in message.content if isinstance(block, ToolCall)]
            return text_of(message.content) or message.error_message or ", ".join(calls)
        case ToolResultMessage():
            return f"{message.tool_name}: {text_of(message.content)}"
        case UserMessage() | SystemMessage() | CustomMessage():
            return text_of(message.content)
        case BashExecutionMessage():
            return f"$ {message.command}"
        case OpaqueMessage():
            return ""
    return str(getattr(message, "summary", ""))


def common_ancestor(session: SessionStorage, one: str | None, other: str | None) -> str | None:
    """The deepest entry on both paths; None when they share only the root.

    None stands for the root. Raises ``EntryNotFoundError``.
    """
    if one is None or other is None:
        return None
    shared: str | None = None
    for left, right in zip(session.branch(one), session.branch(other), strict=False):
        if left.id != right.id:
            break
        shared = left.id
    return shared


def entries_between(
    session: SessionStorage, old_leaf: str | None, target: str | None
) -> Sequence[StoredEntry]:
    """What is left behind by going from ``old_leaf`` to ``target``: the path from below their
    common ancestor to ``old_leaf``, oldest first. Raises ``EntryNotFoundError``."""
    if old_leaf is None:
        return []
    path = session.branch(old_leaf)
    there = session.branch(target) if target is not None else []
    shared = 0
    for left, right in zip(path, there, strict=False):
        if left.id != right.id:
            break
        shared += 1
    return path[shared:]


def user_text_of(entry: AnyEntry) -> str | None:
    """What a person may edit and send again: the text of a user's message, or of one that stands
    for a user's. None for any other entry."""
    content = _user_content(entry)
    return None if content is None else text_of(content)


def user_images_of(entry: AnyEntry) -> list[ImageBlock]:
    """The images beside ``user_text_of``."""
    content = _user_content(entry)
    return [block for block in content or [] if isinstance(block, ImageBlock)]


def _user_content(entry: AnyEntry) -> str | list[object] | None:
    match entry:
        case MessageEntry(message=UserMessage(content=content)):
            return content if isinstance(content, str) else list(content)
        case CustomMessageEntry(content=content):
            return content if isinstance(content, str) else list(content)
    return None


class SessionStats(Struct, frozen=True):
    """What is in all branches of a session."""

    user_messages: int
    assistant_messages: int
    tool_calls: int
    tool_results: int
    total_messages: int
    """Messages of any role but system."""
    usage: Usage


async def session_stats(session: SessionStorage) -> SessionStats:
    """Count what is in a session. Reads every reply."""
    user = assistant = calls = results = 0
    for place, stored in enumerate(_messages(session)):
        if place % _AT_ONCE == 0:
            await anyio.lowlevel.checkpoint()
        if stored.role == "user":
            user += 1
        elif stored.role == "toolResult":
            results += 1
        elif stored.role == "assistant":
            assistant += 1
            entry = stored.entry
            if isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage):
                calls += sum(isinstance(block, ToolCall) for block in entry.message.content)
    return SessionStats(
        user_messages=user,
        assistant_messages=assistant,
        tool_calls=calls,
        tool_results=results,
        total_messages=session.message_count,
        usage=session.usage_totals(),
    )


def _messages(session: SessionStorage) -> Iterator[StoredEntry]:
    return (stored for stored in session.entries() if stored.type == "message")
