"""Driving a run: passes of the loop until there is nothing left to do.

Owns what happens around a pass: taking in what other programs wrote, retrying a reply that failed
in passing, compacting a conversation that fills the window, and delivering what was queued
meanwhile. Decisions are ``pi_rpc.harness.retry``'s and ``pi_rpc.harness.recovery``'s. Does not own
the loop, nor when a run may start and how it settles (``pi_rpc.harness.harness``).
"""

from collections.abc import Sequence
from typing import Any

import anyio
from msgspec import UNSET

from pi_rpc.agent.config import LoopTurnUpdate, TurnContext
from pi_rpc.agent.events import (
    AgentEnd,
    AgentEvent,
    AutoRetryEnd,
    AutoRetryStart,
    Diagnostic,
    MessageEnd,
    MessageStart,
)
from pi_rpc.agent.messages import BashExecutionMessage
from pi_rpc.harness.compacting import Compactor
from pi_rpc.harness.compaction import should_compact
from pi_rpc.harness.configuration import context_edit
from pi_rpc.harness.core import SessionCore
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.hook_payloads import BeforeAgentStart, BeforeAgentStartResult
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.loop_setup import unanswered_calls
from pi_rpc.harness.recovery import Recovery, attempt_entry_ids, recovery_after, renews_recovery
from pi_rpc.harness.retry import should_retry
from pi_rpc.harness.runs import Run
from pi_rpc.llm.messages import AssistantMessage, ImageBlock, UserMessage, text_of
from pi_rpc.session.context import build_context, newest_messages
from pi_rpc.session.stored import StoredEntry

__all__ = ["RunDriver", "resumable"]

_CANCELLED = "the retry was cancelled"


class RunDriver:
    """Drives the runs of one session, one at a time."""

    def __init__(self, core: SessionCore, compactor: Compactor) -> None:
        self._core = core
        self._compactor = compactor

    async def drive(self, run: Run, prompt: PromptInput | None) -> None:
        """All of a run but its settling. Without ``prompt`` it goes on, or takes what is queued."""
        try:
            await self._drive(run, prompt)
        finally:
            self._core.loop.replaced_prompt = None

    async def _drive(self, run: Run, prompt: PromptInput | None) -> None:
        core = self._core
        await self.take_in_foreign_entries()
        await core.recorder.flush()
        await self._record_choices()
        if self._is_full():
            await self._compactor.compact(run, "threshold")
            core.enter("turn")
        messages = self._messages()
        first: list[Any] = []
        before: list[Any] = []
        if prompt is not None:
            message = prompt.message()
            core.recorder.expect(message, prompt)
            first, before = [message], self._take_asides()
        elif run.controller.signal.aborted:
            return
        elif resumable(core.session.branch()):
            messages = await self._repair(run, without_failed_replies(messages))
            first = run.first
        else:
            first = run.first or core.queue.take_next()
            if not first:
                # It was, when the run was accepted: another program has written since.
                raise HarnessError("nothingToContinue", "the session ends in a finished answer")
        first = [*before, *first, *await self._added_by_hooks(run, first)]
        while not run.controller.signal.aborted or first:
            await core.loop.run(
                run,
                first,
                messages,
                lambda events: self._emit(run, events),
                self._between_turns,
            )
            first = []
            if run.controller.signal.aborted or run.limit:
                self._give_up_retrying(run, _CANCELLED)
                return
            if not await self._goes_on(run):
                first = [] if failed(run.last_reply) else core.queue.take_next()
                if not first:
                    return
            messages = self._messages()

    # --- between passes --------------------------------------------------------------------------

    async def _goes_on(self, run: Run) -> bool:
        """After a pass: whether the same request is made again. Retries and compacts as needed."""
        reply = run.last_reply
        if reply is None:
            return False
        if run.retry is not None:
            return await self._wait_to_retry(run)
        if failed(reply):
            self._give_up_retrying(run, reply.error_message or "the reply failed")
        core = self._core
        model = core.configuration.require_model()
        recovery = recovery_after(
            reply,
            core.loop.last_error,
            model,
            self._compactor.settings(),
            context_tokens=core.context_tokens(),
            recovered=run.recovered,
        )
        again = await self._recover(run, recovery)
        core.enter("turn")
        return again

    async def _recover(self, run: Run, recovery: Recovery) -> bool:
        match recovery.action:
            case "compact":
                await self._compactor.compact(run, recovery.reason)
                return False
            case "compact_and_retry":
                await self._hide_attempt()
                run.recovered = True
                return await self._compactor.compact(
                    run, "overflow", overflowed=True, will_retry=True
                )
            case "give_up":
                self._compactor.tell_failure(recovery.reason, recovery.message)
                return False
            case _:
                return False

    async def _wait_to_retry(self, run: Run) -> bool:
        core = self._core
        assert run.retry is not None
        delay_ms, failure = run.retry
        run.retry = None
        run.retries += 1
        core.notify(
            [
                AutoRetryStart(
                    attempt=run.retries,
                    max_attempts=core.configuration.retry.max_retries,
                    delay_ms=delay_ms,
                    error_message=failure,
                )
            ]
        )
        await self._hide_attempt()
        core.enter("retry")
        with run.controller.signal.cancel_scope():
            await anyio.sleep(delay_ms / 1000)
        if run.controller.signal.aborted:
            self._give_up_retrying(run, _CANCELLED)
            return False
        core.enter("turn")
        return True

    def _give_up_retrying(self, run: Run, error: str) -> None:
        if run.retries:
            self._core.notify([AutoRetryEnd(success=False, attempt=run.retries, final_error=error)])
            run.retries = 0

    async def _hide_attempt(self) -> None:
        """The model is not shown the reply that failed; the file keeps it."""
        core = self._core
        hidden = attempt_entry_ids(core.session.branch())
        made = core.recorder.made
        await core.recorder.record_all([made(context_edit(entry_id)) for entry_id in hidden])

    async def _between_turns(self, run: Run, turn: TurnContext) -> LoopTurnUpdate:
        """Before another turn: store what waits, compact if the window is filling up; then the
        conversation as it is stored and the choices as they are now."""
        core = self._core
        await core.recorder.flush()
        if self._is_full():
            await self._compactor.compact(run, "threshold")
            core.enter("turn")
        elif not core.recorder.unseen:
            return core.loop.next_turn(list(turn.context.messages))
        return core.loop.next_turn(self._messages())

    def _is_full(self) -> bool:
        model = self._core.configuration.require_model()
        tokens = self._core.context_tokens()
        return should_compact(tokens, model.context_window, self._compactor.settings())

    # --- what the loop says ----------------------------------------------------------------------

    async def _emit(self, run: Run, events: Sequence[AgentEvent]) -> None:
        last = events[-1]
        if isinstance(last, AgentEnd):
            self._decide_retry(run)
        await self._core.take_in(run, events)
        if isinstance(last, MessageEnd):
            if renews_recovery(last.message):
                run.recovered = False
            if isinstance(last.message, AssistantMessage) and not failed(last.message):
                self._announce_success(run)

    def _decide_retry(self, run: Run) -> None:
        run.retry = None
        if run.last_reply is None or run.controller.signal.aborted or run.limit:
            return
        decision = should_retry(
            run.last_reply,
            self._core.loop.last_error,
            run.retries + 1,
            self._core.configuration.retry,
        )
        if decision.delay_ms is not None:
            run.retry = (decision.delay_ms, decision.message)

    def _announce_success(self, run: Run) -> None:
        if run.retries:
            self._core.notify([AutoRetryEnd(success=True, attempt=run.retries, final_error=UNSET)])
            run.retries = 0

    # --- before the first pass -------------------------------------------------------------------

    def _messages(self) -> list[Any]:
        self._core.recorder.unseen = False
        return list(build_context(self._core.session.branch()).messages)

    def _take_asides(self) -> list[Any]:
        asides = self._core.queue.asides.take()
        for aside in asides:
            if aside.prompt is not None:
                self._core.recorder.expect(aside.message, aside.prompt)
        return [aside.message for aside in asides]

    async def _added_by_hooks(self, run: Run, first: list[Any]) -> list[Any]:
        """What hooks say after the prompt; a system prompt of theirs holds for the run."""
        loop, signal = self._core.loop, run.controller.signal
        if not loop.hooks.has("before_agent_start") or signal.aborted:
            return []
        prompts = [each for each in first if isinstance(each, UserMessage)]
        blocks = [
            block for each in prompts if not isinstance(each.content, str) for block in each.content
        ]
        payload = BeforeAgentStart(
            prompt="\n\n".join(text_of(each.content) for each in prompts),
            images=tuple(block for block in blocks if isinstance(block, ImageBlock)),
            system_prompt=loop.system_prompt(),
            resources=self._core.configuration.resources,
            signal=signal,
        )
        result: BeforeAgentStartResult | None = await loop.hooks.last(
            "before_agent_start", payload, signal
        )
        if result is None:
            return []
        loop.replaced_prompt = result.system_prompt
        return list(result.messages)

    async def _repair(self, run: Run, messages: list[Any]) -> list[Any]:
        """Answer tool calls that a crash left open, so that the model can go on."""
        recorder = self._core.recorder
        for result in unanswered_calls(messages):
            self._core.notify(recorder.start(MessageStart(message=result)))
            self._core.notify(await recorder.end(MessageEnd(message=result), run))
            messages = [*messages, result]
        return messages

    async def take_in_foreign_entries(self) -> None:
        """Read what other programs wrote to the session's file since it was looked at last."""
        core = self._core
        count, stood = len(core.session.entries()), core.session.leaf_id
        change = await core.session.refresh()
        if change == "unchanged":
            return
        if core.session.session_id != core.loop.session_id:
            raise HarnessError(
                "storage",
                f"{core.session.path} holds another session now; close this one and open the file",
            )
        core.totals.recount(core.session)
        what = "added to" if change == "grown" else "replaced"
        message = f"another program {what} the file of this session; it was read again"
        is_there = stood is None or core.session.entry(stood) is not None
        if is_there and len(core.session.entries()) >= count:
            core.report(Diagnostic(severity="info", message=message))
        else:
            message += ", and entries that it had are gone"
            core.report(Diagnostic(severity="warning", message=message))

    async def _record_choices(self) -> None:
        core = self._core
        for make in core.configuration.unrecorded(build_context(core.session.branch())):
            await core.recorder.record(make, now=True)


def failed(reply: AssistantMessage | None) -> bool:
    """The reply ended in an error or an abort."""
    return reply is not None and reply.stop_reason in {"error", "aborted"}


def without_failed_replies(messages: list[Any]) -> list[Any]:
    """``messages`` up to the last one that did not fail."""
    end = len(messages)
    while end and isinstance(messages[end - 1], AssistantMessage) and failed(messages[end - 1]):
        end -= 1
    return messages[:end]


def resumable(branch: Sequence[StoredEntry]) -> bool:
    """The conversation waits for a reply: it ends in a prompt, a result or an open tool call.

    Reads no more of it than the end, so that it can be asked before anything is awaited.
    """
    for _, message in newest_messages(branch):
        if not isinstance(message, AssistantMessage):
            if not _is_kept_back(message):
                return True
        elif not failed(message):
            # Whatever answered its calls would have come first.
            return bool(unanswered_calls([message]))
    return False


def _is_kept_back(message: Any) -> bool:
    """A command of the person's that no model is told of."""
    return isinstance(message, BashExecutionMessage) and message.exclude_from_context is True
