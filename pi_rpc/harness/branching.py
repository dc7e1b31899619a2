"""Moving to another place of the session's tree, with a note of what was left.

Owns ``branch`` in place: where the leaf goes, the summary and the label. What is handed back for
editing is ``given_back``'s, what of a branch is summarised ``branch_summary``'s. A move that fails
or is stopped leaves the session as it was.
"""

from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pi_rpc.harness.branch_summary import (
    BranchSummaryResult,
    left_behind,
    plan_branch_summary,
    summarize_branch,
)
from pi_rpc.harness.compacting import Compactor, Stoppable
from pi_rpc.harness.configuration import label_entry
from pi_rpc.harness.core import SessionCore
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.given_back import GivenBack, given_back
from pi_rpc.harness.hook_payloads import SessionBeforeTree, SessionBeforeTreeResult, SessionTree
from pi_rpc.harness.persistence import MakeEntry
from pi_rpc.harness.summaries import SummaryCancelledError
from pi_rpc.llm.messages import ImageBlock
from pi_rpc.session.entries import Entry, LeafEntry
from pi_rpc.session.stored import StoredEntry

__all__ = ["BranchOutcome", "BranchRequest", "Brancher"]


class BranchRequest(Struct, frozen=True):
    """Where to go, and what to leave behind."""

    entry_id: str | None
    """The entry; None for the root."""
    summarize: bool = False
    custom_instructions: str | None = None
    replace_instructions: bool = False
    label: str | None = None


class BranchOutcome(Struct, frozen=True):
    """Where the session stands now."""

    leaf_id: str | None
    cancelled: bool = False
    editor_text: str | None = None
    """Text of the message that was gone back to, for the person to change and send again."""
    images: tuple[ImageBlock, ...] = ()
    attachments: tuple[Any, ...] = ()
    summary_entry: StoredEntry | None = None


class Brancher:
    """Moves the leaf of one session."""

    def __init__(self, core: SessionCore, compactor: Compactor) -> None:
        self._core = core
        self._compactor = compactor

    def target(self, entry_id: str | None) -> StoredEntry | None:
        """The entry to go to; None for the root. Raises ``entryNotFound``."""
        if entry_id is None:
            return None
        stored = self._core.session.entry(entry_id)
        if stored is None:
            raise HarnessError("entryNotFound", f"the session has no entry {entry_id!r}")
        return stored

    async def move(self, request: BranchRequest, activity: Stoppable) -> BranchOutcome:
        """Go there. Raises ``SummaryFailedError``; a stopped summary is a cancelled outcome."""
        core = self._core
        session = core.session
        target = self.target(request.entry_id)
        old_leaf = session.leaf_id
        if activity.controller.signal.aborted:
            return BranchOutcome(leaf_id=old_leaf, cancelled=True)
        written = given_back(session, target) if target is not None else None
        new_leaf = target.parent_id if target is not None and written else request.entry_id
        if new_leaf == old_leaf and request.label is None:
            return _outcome(old_leaf, written)
        summary: BranchSummaryResult | None = None
        try:
            if new_leaf != old_leaf:
                request, summary = await self._asked_hooks(request, activity, new_leaf)
            if request.summarize and summary is None:
                summary = await self._summary(request, activity, new_leaf)
        except SummaryCancelledError:
            return BranchOutcome(leaf_id=old_leaf, cancelled=True)
        entries = self._entries(request, old_leaf, new_leaf, summary)
        stored = await core.recorder.record_all(entries)
        entry = next((each for each in stored if each.type == "branch_summary"), None)
        if summary is not None and summary.usage is not None:
            core.totals.add(summary.usage)
        core.announce_usage()
        outcome = _outcome(session.leaf_id, written, entry)
        if new_leaf != old_leaf:
            from_hook = summary is not None and summary.from_hook
            await self._tell_hooks(outcome, old_leaf, activity, from_hook=from_hook)
        return outcome

    def _entries(
        self,
        request: BranchRequest,
        old_leaf: str | None,
        new_leaf: str | None,
        summary: BranchSummaryResult | None,
    ) -> list[Entry]:
        """The move, the summary and the label, to be stored together."""
        made = self._core.recorder.made
        entries: list[Entry] = []
        labelled = request.entry_id
        if new_leaf != old_leaf:
            entries.append(made(_leaf_entry(new_leaf)))
        if summary is not None:
            entries.append(made(partial(summary.entry, from_id=old_leaf)))
            labelled = entries[-1].id
        if request.label is not None and labelled is not None:
            entries.append(made(label_entry(labelled, request.label)))
        return entries

    async def _asked_hooks(
        self, request: BranchRequest, activity: Stoppable, new_leaf: str | None
    ) -> tuple[BranchRequest, BranchSummaryResult | None]:
        """The request as hooks want it, and their summary. Raises ``SummaryCancelledError``."""
        hooks, signal = self._core.loop.hooks, activity.controller.signal
        if not hooks.has("session_before_tree"):
            return request, None
        payload = SessionBeforeTree(
            target_id=request.entry_id,
            new_leaf_id=new_leaf,
            old_leaf_id=self._core.session.leaf_id,
            entries=tuple(self._left(new_leaf)),
            summarize=request.summarize,
            custom_instructions=request.custom_instructions,
            label=request.label,
            signal=signal,
        )
        answer: SessionBeforeTreeResult | None = await hooks.last(
            "session_before_tree", payload, signal
        )
        if signal.aborted or (answer is not None and answer.cancel):
            raise SummaryCancelledError
        if answer is None:
            return request, None
        changes = {
            name: value
            for name in ("custom_instructions", "replace_instructions", "label")
            if (value := getattr(answer, name)) is not None
        }
        summary = answer.summary
        return replace(request, **changes), summary and replace(summary, from_hook=True)

    async def _tell_hooks(
        self,
        outcome: BranchOutcome,
        old_leaf: str | None,
        activity: Stoppable,
        *,
        from_hook: bool,
    ) -> None:
        hooks, signal = self._core.loop.hooks, activity.controller.signal
        if not hooks.has("session_tree"):
            return
        payload = SessionTree(
            new_leaf_id=outcome.leaf_id,
            old_leaf_id=old_leaf,
            summary_entry=outcome.summary_entry,
            from_hook=from_hook,
            signal=signal,
        )
        await hooks.last("session_tree", payload, signal)

    def _left(self, new_leaf: str | None) -> list[StoredEntry]:
        session = self._core.session
        new_branch = session.branch(new_leaf) if new_leaf is not None else []
        return left_behind(session.branch(), new_branch)

    async def _summary(
        self, request: BranchRequest, activity: Stoppable, new_leaf: str | None
    ) -> BranchSummaryResult | None:
        core = self._core
        model = core.configuration.require_model()
        plan = plan_branch_summary(
            self._left(new_leaf),
            model.context_window,
            core.configuration.branch_reserve_tokens,
            roles=core.configuration.roles,
        )
        if plan is None:
            return None
        core.enter("branch_summary")
        return await summarize_branch(
            plan,
            self._compactor.asking(activity.controller.signal),
            request.custom_instructions,
            request.replace_instructions,
        )


def _leaf_entry(target_id: str | None) -> MakeEntry:
    return lambda entry_id, parent_id, timestamp: LeafEntry(
        id=entry_id, parent_id=target_id, timestamp=timestamp, target_id=target_id
    )


def _outcome(
    leaf_id: str | None, written: GivenBack | None, entry: StoredEntry | None = None
) -> BranchOutcome:
    if written is None:
        return BranchOutcome(leaf_id=leaf_id, summary_entry=entry)
    return BranchOutcome(
        leaf_id=leaf_id,
        editor_text=written.text,
        images=written.images,
        attachments=written.attachments,
        summary_entry=entry,
    )
