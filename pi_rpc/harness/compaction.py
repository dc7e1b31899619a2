"""Compaction: a summary takes the place of the older part of a conversation.

Owns when a conversation is too long, what is summarised and what stays, the request for the
summary, and the entry that records it. Pure but for the function it is given to ask a model with:
does not own phases, events, hooks, cancellation or storage (``pi_rpc.harness.harness``), so a
failure at any point has changed nothing.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from pi_rpc.agent.messages import AgentMessage, MessageRoles, default_roles
from pi_rpc.harness._cut_point import Cut, Piece, choose_cut, cut_within, pieces_of
from pi_rpc.harness.file_operations import FileOperations, without_file_lists
from pi_rpc.harness.settings import CompactionSettings
from pi_rpc.harness.summaries import Ask, asked_summary, element, focused, serialized
from pi_rpc.harness.usage import add_usage, branch_tokens
from pi_rpc.llm.messages import Usage
from pi_rpc.llm.models import Model
from pi_rpc.session.entries import CompactionEntry
from pi_rpc.session.stored import StoredEntry

__all__ = [
    "CompactionPlan",
    "CompactionResult",
    "NothingToCompactError",
    "plan_compaction",
    "settings_for",
    "should_compact",
    "summarize_compaction",
]

_SECTIONS = """\
## Goal
What the person wants to reach; several points if there are several.

## Constraints & Preferences
What they asked to respect, or turned out to want. "(none)" if nothing.

## Progress
### Done
- [x] What is finished.
### In Progress
- [ ] What is begun.
### Blocked
- What keeps work from going on, if anything does.

## Key Decisions
- **The decision**: the reason in a few words.

## Next Steps
1. What comes next, in order.

## Critical Context
- Facts, names, paths, error texts and numbers that are needed to go on. "(none)" if nothing."""

_FIRST = f"""\
The conversation above will be removed; your summary takes its place, and another model goes on \
from it. Write these sections, under exactly these headings:

{_SECTIONS}

Be brief. Give paths of files, names of functions and error messages letter by letter."""

_UPDATE = f"""\
The conversation above goes on from where the previous summary ends. It will be removed; your \
summary takes the place of both. Take over everything of the previous summary that still holds and \
add what is new. Move what was finished meanwhile from In Progress to Done, write Next Steps \
anew, and leave out only what no longer matters. Write these sections, under exactly these headings:

{_SECTIONS}

Be brief. Give paths of files, names of functions and error messages letter by letter."""

_TURN = """\
The conversation above is the start of one long turn: the end of it stays as it is and follows \
your summary. Write what is needed to understand that rest, under exactly these headings:

## Original Request
What the person asked for in this turn.

## Progress So Far
- What was found, decided and done at the start of the turn.

## Context Needed to Continue
- What the rest of the turn takes for granted.

Be brief."""

_NO_HISTORY = "No prior history."


class NothingToCompactError(Exception):
    """There is nothing that a summary could replace. Not a failure of automatic compaction."""


class CompactionPlan(Struct, frozen=True):
    """What a compaction would do. Hooks may look at it; nothing has happened yet."""

    messages_to_summarize: list[AgentMessage]
    """Whole turns, context edits applied."""
    turn_prefix: list[AgentMessage]
    """The start of the turn that the cut goes through; empty when it goes between turns."""
    first_kept_entry_id: str | None
    """From this entry on everything stays; None when nothing does."""
    previous_summary: str | None
    """What the newest compaction said, without its lists of files."""
    tokens_before: int
    """The context now."""
    tokens_kept: int
    """Estimate of what stays, the system prompt and tools included if they were counted."""
    files: FileOperations
    """Of everything that is summarised, earlier summaries included."""
    room: int | None
    """Most tokens of conversation in one request; the middle of a longer one is left out."""
    roles: MessageRoles
    """How messages read."""

    @property
    def is_split_turn(self) -> bool:
        """The cut goes through a turn."""
        return bool(self.turn_prefix)


class CompactionResult(Struct, frozen=True):
    """A summary, ready to be recorded. A hook can make one, too."""

    summary: str
    first_kept_entry_id: str | None
    """None keeps nothing."""
    tokens_before: int
    estimated_tokens_after: int
    usage: Usage | None = None
    """What it cost; None when no model was asked."""
    details: Any = None
    """``{"readFiles", "modifiedFiles"}``, or whatever a hook left."""
    from_hook: bool = False

    def entry(self, id: str, parent_id: str | None, timestamp: str) -> CompactionEntry:
        """The entry that puts it into effect, once it is appended."""
        return CompactionEntry(
            id=id,
            parent_id=parent_id,
            timestamp=timestamp,
            summary=self.summary,
            first_kept_entry_id=id
            if self.first_kept_entry_id is None
            else self.first_kept_entry_id,
            tokens_before=self.tokens_before,
            usage=UNSET if self.usage is None else self.usage,
            details=UNSET if self.details is None else self.details,
            from_hook=True if self.from_hook else UNSET,
        )


def settings_for(settings: CompactionSettings, model: Model) -> CompactionSettings:
    """The settings that hold for ``model``: its override, value by value, fitted to its window.

    Numbers that could never work are lowered: a reserve that leaves no room, and a kept part that
    is by itself too long. Then half of the window, or half of the room, is used.
    """
    override = settings.model_overrides.get(model.ref)
    if override is not None:
        chosen = {
            name: value
            for name in ("enabled", "reserve_tokens", "keep_recent_tokens")
            if (value := getattr(override, name)) is not None
        }
        settings = replace(settings, **chosen)
    window = model.context_window
    if window <= 0:
        return settings
    reserve = settings.reserve_tokens if settings.reserve_tokens < window else window // 2
    room = window - reserve
    keep = settings.keep_recent_tokens if settings.keep_recent_tokens < room else room // 2
    return replace(settings, reserve_tokens=reserve, keep_recent_tokens=keep)


def should_compact(context_tokens: int, context_window: int, settings: CompactionSettings) -> bool:
    """The context has grown into what is reserved for the reply."""
    if not settings.enabled or context_window <= 0:
        return False
    return context_tokens > context_window - settings.reserve_tokens


def plan_compaction(
    branch: Sequence[StoredEntry],
    settings: CompactionSettings,
    *,
    roles: MessageRoles | None = None,
    context_window: int = 0,
    overhead: int = 0,
    overflowed: bool = False,
) -> CompactionPlan:
    """What compacting the session would summarise and keep, given the path to its leaf.

    ``settings`` are those of the model (``settings_for``), ``context_window`` is its window in
    tokens (0: unknown), ``overhead`` the size of system prompt and tools (``usage.prompt_tokens``).
    ``overflowed`` says that the provider refused the context as too long: then less than
    ``keep_recent_tokens`` stays where that would still be too much, and nothing at all rather than
    everything. Hide the failed attempt first.

    Raises ``NothingToCompactError``.
    """
    if branch and branch[-1].type == "compaction":
        raise NothingToCompactError("already compacted: nothing was said since")
    roles = default_roles() if roles is None else roles
    compaction, pieces = pieces_of(branch, roles)
    cut = choose_cut(pieces, settings.keep_recent_tokens)
    room = context_window - settings.reserve_tokens if context_window > 0 else None
    if overflowed:
        cut = _fitted(pieces, cut, None if room is None else room - overhead)
    history = _messages(pieces[: cut.turn_start])
    prefix = _messages(pieces[cut.turn_start : cut.at])
    if not history and not prefix:
        raise NothingToCompactError("nothing to compact: the conversation is too short")
    files = FileOperations()
    previous = None
    if compaction is not None:
        previous = without_file_lists(compaction.summary) or None
        if compaction.from_hook is not True:
            files.add_details(compaction.details)
    files.add_messages(history)
    files.add_messages(prefix)
    kept = pieces[cut.at :]
    return CompactionPlan(
        messages_to_summarize=history,
        turn_prefix=prefix,
        first_kept_entry_id=kept[0].entry_id if kept else None,
        previous_summary=previous,
        tokens_before=branch_tokens(branch, overhead),
        tokens_kept=overhead + sum(piece.tokens for piece in kept),
        files=files,
        room=room,
        roles=roles,
    )


async def summarize_compaction(
    plan: CompactionPlan, ask: Ask, custom_instructions: str | None = None
) -> CompactionResult:
    """Have ``plan`` summarised: one request, or two, one after the other, for a split turn.

    Raises ``SummaryFailedError`` and ``SummaryCancelledError``; lets a cancellation through.
    """
    summary, usage = plan.previous_summary or _NO_HISTORY, Usage.ZERO
    if plan.messages_to_summarize:
        text = _history_request(plan, custom_instructions)
        summary, usage = await asked_summary(ask, text, "history")
    if plan.turn_prefix:
        text = f"{_shown(plan, plan.turn_prefix)}\n\n{focused(_TURN, custom_instructions)}"
        turn, spent = await asked_summary(ask, text, "turn")
        summary = f"{summary}\n\n---\n\n**Turn Context (split turn):**\n\n{turn}"
        usage = add_usage(usage, spent)
    summary += plan.files.lists()
    return CompactionResult(
        summary=summary,
        first_kept_entry_id=plan.first_kept_entry_id,
        tokens_before=plan.tokens_before,
        estimated_tokens_after=plan.tokens_kept + -(-len(summary) // 4),
        usage=usage,
        details=plan.files.details(),
    )


def _history_request(plan: CompactionPlan, custom_instructions: str | None) -> str:
    parts = [_shown(plan, plan.messages_to_summarize)]
    instructions = _FIRST
    if plan.previous_summary is not None:
        parts.append(element("previous-summary", plan.previous_summary))
        instructions = _UPDATE
    parts.append(focused(instructions, custom_instructions))
    return "\n\n".join(parts)


def _shown(plan: CompactionPlan, messages: Sequence[AgentMessage]) -> str:
    return element("conversation", serialized(messages, plan.roles, max_tokens=plan.room))


def _messages(pieces: Sequence[Piece]) -> list[AgentMessage]:
    return [piece.message for piece in pieces if piece.message is not None]


def _fitted(pieces: Sequence[Piece], cut: Cut, room: int | None) -> Cut:
    """``cut``, or a later one when it would not help against a context that was refused."""
    kept = sum(piece.tokens for piece in pieces[cut.at :])
    summarises = any(piece.message is not None for piece in pieces[: cut.at])
    if summarises and (room is None or kept <= room):
        return cut
    half = sum(piece.tokens for piece in pieces) // 2
    return cut_within(pieces, half if room is None else min(room, half))
