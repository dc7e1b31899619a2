"""What a branch says: to the model, to clients, and about itself.

Owns the reading of a branch as messages. Pure: does not own where entries are kept, nor how a
message of a role reads to a model (``pi_rpc.agent.messages``).
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, overload

import msgspec

from pi_rpc.agent.messages import (
    AgentMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    OpaqueMessage,
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
from pi_rpc.session._entry_list import newest, place_of, places
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
    "Transcript",
    "TranscriptItem",
    "build_context",
    "entry_message",
    "interrupted",
    "newest_messages",
    "since_change",
    "transcript",
]

_SUMMARIES = ("custom_message", "compaction", "branch_summary")

RUN_SETTLED = "pi-rpc.settled"
"""``customType`` of an entry that says: the run before it ended, though its tail looks unfinished
(a terminating tool, a limit, a cancelled retry)."""


class SessionContext:
    """What the next run starts from. What is not asked for is not read."""

    def __init__(self, branch: Sequence[StoredEntry]) -> None:
        self._branch = branch

    @cached_property
    def _visible(self) -> list[tuple[StoredEntry, AgentMessage]]:
        visible = list(newest_messages(self._branch))
        visible.reverse()
        return visible

    @cached_property
    def messages(self) -> list[AgentMessage]:
        """What the model is told, before roles are converted."""
        return [message for _, message in self._visible]

    @cached_property
    def entry_ids(self) -> list[str]:
        """The entry that each of ``messages`` comes from."""
        return [stored.id for stored, _ in self._visible]

    @cached_property
    def model(self) -> tuple[str, str] | None:
        """Provider and id of the model used or chosen last."""
        return _model(self._branch)

    @cached_property
    def thinking_level(self) -> str:
        """The level chosen last, ``off`` when none was."""
        return _thinking_level(self._branch)

    @cached_property
    def active_tools(self) -> list[str] | None:
        """The tools chosen last; None when none were."""
        return _active_tools(self._branch)

    def _all(self) -> tuple[Any, ...]:
        return self.messages, self.entry_ids, self.model, self.thinking_level, self.active_tools

    def __eq__(self, other: object) -> bool:
        return self._all() == other._all() if isinstance(other, SessionContext) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # holds lists


class TranscriptItem:
    """A message as a client draws it."""

    __slots__ = ("_stored",)

    def __init__(self, stored: StoredEntry) -> None:
        self._stored = stored

    @property
    def entry_id(self) -> str:
        """The entry it comes from."""
        return self._stored.id

    @property
    def message(self) -> AgentMessage:
        """The message; one that cannot be read has no content."""
        message = entry_message(self._stored.entry)
        if message is None:
            role = self._stored.role or ""
            return OpaqueMessage(role, msgspec.json.encode({"role": role, "content": []}))
        return message

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TranscriptItem):
            return NotImplemented
        return (self.entry_id, self.message) == (other.entry_id, other.message)

    def __hash__(self) -> int:
        return hash(self.entry_id)

    def __repr__(self) -> str:
        return f"TranscriptItem({self.entry_id}, {self.message})"


def build_context(branch: Sequence[StoredEntry]) -> SessionContext:
    """What the model is told after ``branch``, a path from the root to the leaf.

    The newest compaction stands for everything before what it keeps; the newest edit of a message
    counts; system messages stay out.
    """
    return SessionContext(branch)


def _model(branch: Sequence[StoredEntry]) -> tuple[str, str] | None:
    for _, stored in newest(branch, ("message", "model_change")):
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
    for _, stored in newest(branch, ("thinking_level_change",)):
        entry = stored.entry
        if isinstance(entry, ThinkingLevelChangeEntry):
            return entry.thinking_level
    return "off"


def _active_tools(branch: Sequence[StoredEntry]) -> list[str] | None:
    for _, stored in newest(branch, ("active_tools_change",)):
        entry = stored.entry
        if isinstance(entry, ActiveToolsChangeEntry):
            return list(dict.fromkeys(entry.active_tool_names))
    return None


def newest_messages(branch: Sequence[StoredEntry]) -> Iterator[tuple[StoredEntry, AgentMessage]]:
    """What ``build_context`` would tell the model and where it comes from, the last first.

    Entries are read as they are asked for: looking at the end of a long branch costs little.
    """
    compaction, first_kept = _compaction(branch)
    start = 0 if compaction is None else first_kept
    edits = _edits(branch, start)
    for place in range(len(branch) - 1, start - 1, -1):
        stored = branch[place]
        if stored.role == "system" or stored.type == "compaction":
            continue
        message = entry_message(stored.entry)
        if message is not None and stored.id in edits:
            message = _edited(message, edits[stored.id])
        if message is not None:
            yield stored, message
    if compaction is not None:
        message = entry_message(compaction.entry)
        if message is not None:
            yield compaction, message


def since_change(branch: Sequence[StoredEntry]) -> Sequence[StoredEntry]:
    """The end of a branch, after the newest compaction or context edit."""
    changed = next((place for place, _ in newest(branch, ("compaction", "context_edit"))), -1)
    return branch[changed + 1 :]


def _compaction(branch: Sequence[StoredEntry]) -> tuple[StoredEntry | None, int]:
    """The newest compaction, and the place from where it keeps the branch."""
    for place, stored in newest(branch, ("compaction",)):
        entry = stored.entry
        if isinstance(entry, CompactionEntry):
            kept = place_of(branch, entry.first_kept_entry_id, place)
            return stored, place if kept is None else kept
    return None, 0


def _edits(branch: Sequence[StoredEntry], start: int) -> dict[str, ContextReplacement | None]:
    """The newest edit of every message that was edited from ``start`` on."""
    edits: dict[str, ContextReplacement | None] = {}
    for place, stored in newest(branch, ("context_edit",)):
        if place < start:
            break
        entry = stored.entry
        if isinstance(entry, ContextEditEntry):
            edits.setdefault(entry.target_id, entry.replacement)
    return edits


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


class Transcript(Sequence[TranscriptItem]):
    """What a client draws of a branch; messages are read as they are asked for."""

    def __init__(self, branch: Sequence[StoredEntry], places: Sequence[int]) -> None:
        self._branch = branch
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> TranscriptItem: ...
    @overload
    def __getitem__(self, index: slice) -> "Transcript": ...
    def __getitem__(self, index: int | slice) -> "TranscriptItem | Transcript":
        if isinstance(index, slice):
            return Transcript(self._branch, self._places[index])
        return TranscriptItem(self._branch[self._places[index]])

    def __eq__(self, other: object) -> bool:
        return list(self) == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as a list


def transcript(branch: Sequence[StoredEntry]) -> Transcript:
    """What a client draws of a branch: all that was said, summaries in their place.

    Nothing is left out for a compaction or an edit; system messages are.
    """
    return Transcript(branch, places(branch, _drawn, _says_something))


def _drawn(kind: str, role: str | None) -> bool:
    return kind in _SUMMARIES or (kind == "message" and role not in ("", "system"))


def _says_something(stored: StoredEntry) -> bool:
    return stored.type == "message" or entry_message(stored.entry) is not None


def interrupted(branch: Sequence[StoredEntry]) -> bool:
    """The branch ends in a run that never settled, as after a crash.

    Looks at the last message the model would see: one that asks for an answer, or an answer whose
    tool calls have no results.
    """
    for stored in reversed(branch):
        if stored.role == "bashExecution":
            continue  # A person ran it, whatever the run did.
        if stored.type in ("message", "compaction", "context_edit"):
            break
        if stored.type == "branch_summary":
            return False
        if stored.type == "custom":
            entry = stored.entry
            if isinstance(entry, CustomEntry) and entry.custom_type == RUN_SETTLED:
                return False
    for _, message in newest_messages(branch):
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
