"""Branch summaries: what is told about a branch when the session moves to another one.

Owns what of the branch is summarised, the request, and the entry that records the summary. Pure
but for the function it is given to ask a model with: does not own the move, phases, events, hooks
or storage (``pi_rpc.harness.harness``).
"""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct

from pi_rpc.agent.messages import AgentMessage, MessageRoles, convert_to_llm, default_roles
from pi_rpc.harness.file_operations import FileOperations
from pi_rpc.harness.summaries import Ask, asked_summary, element, focused, serialized
from pi_rpc.harness.usage import estimate_tokens
from pi_rpc.llm.messages import ToolResultMessage, Usage
from pi_rpc.session.context import build_context, entry_message
from pi_rpc.session.entries import BranchSummaryEntry
from pi_rpc.session.stored import StoredEntry

__all__ = [
    "BranchSummaryPlan",
    "BranchSummaryResult",
    "left_behind",
    "plan_branch_summary",
    "summarize_branch",
]

DEFAULT_CONTEXT_WINDOW = 128_000
"""Of a model that does not say."""
_SUMMARY_SHARE = 0.9
"""A summary that goes over the budget is still taken while less of it than this is used."""

_PREAMBLE = """\
The person went back to an earlier point of the conversation after exploring another branch. What \
happened on that branch:"""

_INSTRUCTIONS = """\
The conversation above is a branch that the person leaves to go on from an earlier point. Write \
down what must be known of it there, under exactly these headings:

## Goal
What the person wanted to reach on this branch.

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
1. What would have come next, in order.

Be brief. Give paths of files, names of functions and error messages letter by letter."""


class BranchSummaryPlan(Struct, frozen=True):
    """What of a branch would be summarised. Hooks may look at it; nothing has happened yet."""

    entries: list[StoredEntry]
    """All that is left, oldest first."""
    messages: list[AgentMessage]
    """What of it the model is shown: the newest that fits, edits applied, without tool results."""
    tokens: int
    """Estimate of ``messages``."""
    files: FileOperations
    """Of all that is left, summaries of branches that were left before included."""
    roles: MessageRoles
    """How messages read."""


class BranchSummaryResult(Struct, frozen=True):
    """A summary, ready to be recorded. A hook can make one, too."""

    summary: str
    usage: Usage | None = None
    """What it cost; None when no model was asked."""
    details: Any = None
    """``{"readFiles", "modifiedFiles"}``, or whatever a hook left."""
    from_hook: bool = False

    def entry(
        self, id: str, parent_id: str | None, timestamp: str, *, from_id: str | None
    ) -> BranchSummaryEntry:
        """The entry to append at the new place; ``from_id`` is the old leaf (None: the root)."""
        return BranchSummaryEntry(
            id=id,
            parent_id=parent_id,
            timestamp=timestamp,
            from_id="root" if from_id is None else from_id,
            summary=self.summary,
            usage=UNSET if self.usage is None else self.usage,
            details=UNSET if self.details is None else self.details,
            from_hook=True if self.from_hook else UNSET,
        )


def left_behind(
    old_branch: Sequence[StoredEntry], new_branch: Sequence[StoredEntry]
) -> list[StoredEntry]:
    """What is left by a move: the path to the old leaf without what it shares with the new one."""
    shared = {stored.id for stored in new_branch}
    start = len(old_branch)
    while start and old_branch[start - 1].id not in shared:
        start -= 1
    return list(old_branch[start:])


def plan_branch_summary(
    entries: Sequence[StoredEntry],
    context_window: int,
    reserve_tokens: int = 16_384,
    *,
    roles: MessageRoles | None = None,
) -> BranchSummaryPlan | None:
    """What to summarise of ``entries``, which are left, oldest first; None when they say nothing.

    ``context_window`` is the model's, in tokens (0 or less: 128,000 is taken). Of a branch that
    does not fit the newest part is shown.
    """
    roles = default_roles() if roles is None else roles
    said = _said(entries, roles)
    window = context_window if context_window > 0 else DEFAULT_CONTEXT_WINDOW
    budget = window - reserve_tokens if reserve_tokens < window else window // 2
    chosen: list[AgentMessage] = []
    total = 0
    for message, is_summary in reversed(said):
        if isinstance(message, ToolResultMessage):
            continue
        tokens = estimate_tokens(message)
        fits = total + tokens <= budget
        if fits or (is_summary and total < _SUMMARY_SHARE * budget):
            chosen.append(message)
            total += tokens
        if not fits:
            break
    if not chosen:
        return None
    chosen.reverse()
    return BranchSummaryPlan(list(entries), chosen, total, _files(entries, said), roles)


async def summarize_branch(
    plan: BranchSummaryPlan,
    ask: Ask,
    custom_instructions: str | None = None,
    replace_instructions: bool = False,
) -> BranchSummaryResult:
    """Have ``plan`` summarised with one request.

    ``custom_instructions`` are added to ours, or take their place with ``replace_instructions``.
    Raises ``SummaryFailedError`` and ``SummaryCancelledError``; lets a cancellation through.
    """
    own = (custom_instructions or "").strip()
    replaced = replace_instructions and own
    instructions = own if replaced else focused(_INSTRUCTIONS, custom_instructions)
    conversation = element("conversation", serialized(plan.messages, plan.roles))
    summary, usage = await asked_summary(ask, f"{conversation}\n\n{instructions}", "branch")
    return BranchSummaryResult(
        summary=f"{_PREAMBLE}\n\n{summary}{plan.files.lists()}",
        usage=usage,
        details=plan.files.details(),
    )


def _said(entries: Sequence[StoredEntry], roles: MessageRoles) -> list[tuple[AgentMessage, bool]]:
    """The messages of all entries, with edits; whether each is a summary."""
    # Without its compactions the branch reads in full, each edit applied.
    context = build_context([stored for stored in entries if stored.type != "compaction"])
    visible = dict(zip(context.entry_ids, context.messages, strict=True))
    said = []
    for stored in entries:
        if stored.type == "compaction":
            message = entry_message(stored.entry)
        else:
            message = visible.get(stored.id)
        if message is not None and convert_to_llm([message], roles):
            said.append((message, stored.type in ("compaction", "branch_summary")))
    return said


def _files(
    entries: Sequence[StoredEntry], said: Sequence[tuple[AgentMessage, bool]]
) -> FileOperations:
    files = FileOperations()
    for stored in entries:
        if stored.type == "branch_summary":
            entry = stored.entry
            if isinstance(entry, BranchSummaryEntry) and entry.from_hook is not True:
                files.add_details(entry.details)
    files.add_messages(message for message, _ in said)
    return files
