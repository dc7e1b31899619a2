"""What a branch says: to the model, to clients, and about itself.

Owns the reading of a branch as messages. Pure: does not own where entries are kept, nor how a
message of a role reads to a model (``pi_rpc.agent.messages``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from pi_rpc.agent.messages import (
    AgentMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
)
from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from pi_rpc.session.entries import (
    ActiveToolsChangeEntry,
    AnyEntry,
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    ContextReplacement,
    CustomEntry,
    CustomMessageEntry,
    MessageEntry,
    ModelChangeEntry,
    ThinkingLevelChangeEntry,
    ms_of_iso,
)
from pi_rpc.session.stored import StoredEntry

__all__ = [
    "RUN_SETTLED",
    "SessionContext",
    "TranscriptItem",
    "build_context",
    "entry_message",
    "interrupted",
    "transcript",
]

RUN_SETTLED = "pi-rpc.settled"
"""``customType`` of an entry that says: the run before it ended, though its tail looks unfinished
(a terminating tool, a limit, a cancelled retry)."""


@dataclass(frozen=True, slots=True)
class SessionContext:
    """What the next run starts from."""

    messages: list[AgentMessage]
    """What the model is told, before roles are converted."""
    entry_ids: list[str]
    """The entry that each of ``messages`` comes from."""
    model: tuple[str, str] | None
    """Provider and id of the model used or chosen last."""
    thinking_level: str
    """The level chosen last, ``off`` when none was."""
    active_tools: list[str] | None = None
    """The tools chosen last; None when none were."""


@dataclass(frozen=True, slots=True)
class TranscriptItem:
    """A message as a client draws it."""

    entry_id: str
    message: AgentMessage


def build_context(branch: Sequence[StoredEntry]) -> SessionContext:
    """What the model is told after ``branch``, a path from the root to the leaf.

    The newest compaction stands for everything before what it keeps; the newest edit of a message
    counts; system messages stay out.
    """
    messages: list[AgentMessage] = []
    entry_ids: list[str] = []
    for stored, message in _visible(branch):
        messages.append(message)
        entry_ids.append(stored.id)
    return SessionContext(
        messages, entry_ids, _model(branch), _thinking_level(branch), _active_tools(branch)
    )


def _model(branch: Sequence[StoredEntry]) -> tuple[str, str] | None:
    for stored in reversed(branch):
        # Looked at first, because decoding every message would cost much and tell nothing.
        if stored.role != "assistant" and stored.type != "model_change":
            continue
        match stored.entry:
            case ModelChangeEntry(provider=provider, model_id=model_id):
                return provider, model_id
            case MessageEntry(message=AssistantMessage(provider=provider, model=name)):
                if provider and name:  # old files have replies that do not say whose they are
                    return provider, name
    return None


def _thinking_level(branch: Sequence[StoredEntry]) -> str:
    for stored in reversed(branch):
        if stored.type == "thinking_level_change":
            entry = stored.entry
            if isinstance(entry, ThinkingLevelChangeEntry):
                return entry.thinking_level
    return "off"


def _active_tools(branch: Sequence[StoredEntry]) -> list[str] | None:
    for stored in reversed(branch):
        if stored.type == "active_tools_change":
            entry = stored.entry
            if isinstance(entry, ActiveToolsChangeEntry):
                return list(entry.active_tool_names)
    return None


def _visible(branch: Sequence[StoredEntry]) -> list[tuple[StoredEntry, AgentMessage]]:
    """The entries that reach the model, with edits applied."""
    selected = _since_compaction(branch)
    edits: dict[str, ContextReplacement | None] = {}
    for stored in selected:
        if stored.type == "context_edit" and isinstance(stored.entry, ContextEditEntry):
            edits[stored.entry.target_id] = stored.entry.replacement
    visible: list[tuple[StoredEntry, AgentMessage]] = []
    for index, stored in enumerate(selected):
        if stored.role == "system" or (stored.type == "compaction" and index > 0):
            continue
        message = entry_message(stored.entry)
        if message is not None and stored.id in edits:
            message = _edited(message, edits[stored.id])
        if message is not None:
            visible.append((stored, message))
    return visible


def _since_compaction(branch: Sequence[StoredEntry]) -> Sequence[StoredEntry]:
    """The newest compaction, what it keeps, and what came after; else the whole branch."""
    for at in range(len(branch) - 1, -1, -1):
        stored = branch[at]
        if stored.type != "compaction" or not isinstance(stored.entry, CompactionEntry):
            continue
        kept = stored.entry.first_kept_entry_id
        first = next((i for i in range(at) if branch[i].id == kept), at)
        return [stored, *branch[first:at], *branch[at + 1 :]]
    return branch


def entry_message(entry: AnyEntry) -> AgentMessage | None:
    """The message that an entry is, or stands for; None when it is none."""
    match entry:
        case MessageEntry():
            return entry.agent_message()
        case CustomMessageEntry():
            return CustomMessage(
                custom_type=entry.custom_type,
                content=entry.content,
                display=entry.display,
                details=entry.details,
                timestamp=ms_of_iso(entry.timestamp) or 0,
            )
        case CompactionEntry():
            return CompactionSummaryMessage(
                summary=entry.summary,
                tokens_before=entry.tokens_before,
                timestamp=ms_of_iso(entry.timestamp) or 0,
            )
        case BranchSummaryEntry() if entry.summary:
            return BranchSummaryMessage(
                summary=entry.summary,
                from_id=entry.from_id,
                timestamp=ms_of_iso(entry.timestamp) or 0,
            )
    return None


def _edited(message: AgentMessage, replacement: ContextReplacement | None) -> AgentMessage | None:
    if replacement is None:
        return None
    content: Any = replacement.content
    match message:
        case AssistantMessage():
            allowed: tuple[type, ...] = (TextBlock, ThinkingBlock, ToolCall)
        case UserMessage() | ToolResultMessage() | CustomMessage():
            allowed = (TextBlock, ImageBlock)
        case _:
            return message
    if isinstance(content, list):
        content = [block for block in content if isinstance(block, allowed)]
    elif isinstance(message, AssistantMessage | ToolResultMessage):
        content = [TextBlock(text=content)]
    return msgspec.structs.replace(message, content=content)


def transcript(branch: Sequence[StoredEntry]) -> list[TranscriptItem]:
    """What a client draws of a branch: all that was said, summaries in their place.

    Nothing is left out for a compaction or an edit; system messages are.
    """
    items = []
    for stored in branch:
        if stored.role == "system":
            continue
        if stored.type in ("message", "custom_message", "compaction", "branch_summary"):
            message = entry_message(stored.entry)
            if message is not None:
                items.append(TranscriptItem(stored.id, message))
    return items


def interrupted(branch: Sequence[StoredEntry]) -> bool:
    """The branch ends in a run that never settled, as after a crash.

    Looks at the last message the model would see: one that asks for an answer, or an answer whose
    tool calls have no results.
    """
    for stored in reversed(branch):
        if stored.type in ("message", "compaction", "context_edit"):
            break
        if stored.type == "branch_summary":
            return False
        if stored.type == "custom":
            entry = stored.entry
            if isinstance(entry, CustomEntry) and entry.custom_type == RUN_SETTLED:
                return False
    for _, message in reversed(_visible(branch)):
        match message:
            case UserMessage() | ToolResultMessage():
                return True
            case AssistantMessage():
                if message.stop_reason in ("error", "aborted", "deferred"):
                    return False
                return any(isinstance(block, ToolCall) for block in message.content)
            case BranchSummaryMessage() | CompactionSummaryMessage():
                return False
    return False
