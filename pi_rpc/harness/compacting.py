"""Carrying out a compaction: plan, ask, record, tell.

Owns the events and the recording, and how a model is asked for a summary. What is summarised and
kept is ``pi_rpc.harness.compaction``'s, when is ``pi_rpc.harness.recovery``'s. A compaction that
fails or is stopped leaves the session as it was.
"""

from typing import Protocol

import anyio
from msgspec import UNSET
from msgspec.structs import replace

from pi_rpc.agent.events import (
    CompactionEnd,
    CompactionReason,
    CompactionStart,
    CompactionSummary,
    Diagnostic,
)
from pi_rpc.chance import random_hex
from pi_rpc.harness.compaction import (
    CompactionPlan,
    CompactionResult,
    NothingToCompactError,
    plan_compaction,
    settings_for,
    summarize_compaction,
)
from pi_rpc.harness.core import SessionCore
from pi_rpc.harness.hook_payloads import (
    SessionBeforeCompact,
    SessionBeforeCompactResult,
    SessionCompact,
)
from pi_rpc.harness.retry import should_retry
from pi_rpc.harness.settings import CompactionSettings
from pi_rpc.harness.summaries import Ask, SummaryCancelledError, SummaryFailedError, SummaryRequest
from pi_rpc.llm.abort import AbortController, AbortSignal
from pi_rpc.llm.messages import AssistantMessage, UserMessage, now_ms
from pi_rpc.llm.provider import Context

__all__ = ["Compactor", "Stoppable"]


class Stoppable(Protocol):
    """A run, or whatever else can be stopped."""

    controller: AbortController


class Compactor:
    """Compacts one session."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core

    def settings(self) -> CompactionSettings:
        """The settings that hold for the current model."""
        configuration = self._core.configuration
        chosen = replace(configuration.compaction, enabled=configuration.auto_compaction)
        return settings_for(chosen, configuration.require_model())

    def plan(self, *, overflowed: bool = False) -> CompactionPlan:
        """What a compaction would do now. Raises ``NothingToCompactError``."""
        core = self._core
        return plan_compaction(
            core.session.branch(),
            self.settings(),
            roles=core.configuration.roles,
            context_window=core.configuration.require_model().context_window,
            overhead=core.loop.overhead(),
            overflowed=overflowed,
        )

    async def compact(
        self,
        activity: Stoppable,
        reason: CompactionReason,
        *,
        overflowed: bool = False,
        will_retry: bool = False,
    ) -> bool:
        """Compact by itself; False when there was nothing to do, or it failed or was stopped."""
        try:
            plan = self.plan(overflowed=overflowed)
        except NothingToCompactError as error:
            if overflowed:
                # Nothing can be made shorter, so what was too long stays so: that must be said.
                self.tell_failure(reason, str(error))
            return False
        try:
            await self.carry_out(plan, activity, reason, will_retry=will_retry)
        except (SummaryFailedError, SummaryCancelledError):
            return False
        return True

    def tell_failure(self, reason: CompactionReason, message: str) -> None:
        """Tell that a compaction that was needed cannot be had."""
        end = CompactionEnd(reason=reason, aborted=False, will_retry=False, error_message=message)
        self._core.notify([CompactionStart(reason=reason), end])

    async def carry_out(
        self,
        plan: CompactionPlan,
        activity: Stoppable,
        reason: CompactionReason,
        instructions: str | None = None,
        *,
        will_retry: bool = False,
    ) -> CompactionSummary:
        """Compact as planned, and tell. Raises what ``summarize_compaction`` raises."""
        core = self._core
        core.enter("compaction")
        core.notify([CompactionStart(reason=reason)])
        aborted, error = False, None
        summary: CompactionSummary | None = None
        try:
            signal = activity.controller.signal
            result = await self._from_hooks(plan, instructions, signal)
            if result is None:
                result = await summarize_compaction(plan, self.asking(signal), instructions)
            entry_id, summary = await self._record(result)
        except SummaryCancelledError:
            aborted = True
            raise
        except Exception as failure:
            error = str(failure)
            raise
        finally:
            core.notify(
                [
                    CompactionEnd(
                        reason=reason,
                        aborted=aborted,
                        will_retry=will_retry and summary is not None,
                        result=UNSET if summary is None else summary,
                        error_message=error or UNSET,
                    )
                ]
            )
            if summary is not None:
                core.announce_usage()
        await self._tell_hooks(entry_id, result, signal)
        return summary

    async def _from_hooks(
        self, plan: CompactionPlan, instructions: str | None, signal: AbortSignal
    ) -> CompactionResult | None:
        """The summary that a hook has; None without. Raises ``SummaryCancelledError``."""
        core = self._core
        hooks, branch = core.loop.hooks, core.session.branch()
        if not hooks.has("session_before_compact"):
            return None
        payload = SessionBeforeCompact(
            preparation=plan,
            branch_entries=tuple(branch),
            custom_instructions=instructions,
            signal=signal,
        )
        answer: SessionBeforeCompactResult | None = await hooks.last(
            "session_before_compact", payload, signal
        )
        if signal.aborted or (answer is not None and answer.cancel):
            raise SummaryCancelledError
        if answer is None or answer.compaction is None:
            return None
        kept = answer.compaction.first_kept_entry_id
        if kept is not None and all(stored.id != kept for stored in branch):
            message = f"a hook's compaction keeps from entry {kept!r}, which is not on the branch"
            core.report(Diagnostic(severity="error", message=f"{message}; it was ignored"))
            return None
        return replace(answer.compaction, from_hook=True)

    async def _tell_hooks(
        self, entry_id: str, result: CompactionResult, signal: AbortSignal
    ) -> None:
        hooks, entry = self._core.loop.hooks, self._core.session.entry(entry_id)
        if entry is not None and hooks.has("session_compact"):
            payload = SessionCompact(
                compaction_entry=entry, from_hook=result.from_hook, signal=signal
            )
            await hooks.last("session_compact", payload, signal)

    async def _record(self, result: CompactionResult) -> tuple[str, CompactionSummary]:
        core = self._core
        entry_id = await core.recorder.record(result.entry, now=True)
        if result.usage is not None:
            core.totals.add(result.usage)
        return entry_id, CompactionSummary(
            summary=result.summary,
            first_kept_entry_id=result.first_kept_entry_id or entry_id,
            tokens_before=result.tokens_before,
            estimated_tokens_after=result.estimated_tokens_after,
            usage=result.usage if result.usage is not None else UNSET,
            details=result.details if result.details is not None else UNSET,
        )

    def asking(self, signal: AbortSignal) -> Ask:
        """How summaries ask the session's model: no tools, no cache, retried as replies are."""

        async def ask(request: SummaryRequest) -> AssistantMessage:
            attempt = 0
            while True:
                attempt += 1
                reply, delay_ms = await self._ask_once(request, signal, attempt)
                if delay_ms is None:
                    return reply
                with signal.cancel_scope():
                    await anyio.sleep(delay_ms / 1000)

        return ask

    async def _ask_once(
        self, request: SummaryRequest, signal: AbortSignal, attempt: int
    ) -> tuple[AssistantMessage, int | None]:
        configuration = self._core.configuration
        message = UserMessage(content=request.text, timestamp=now_ms())
        model = configuration.require_model()
        options = replace(
            configuration.stream_options,
            signal=signal,
            thinking_level=configuration.level,
            max_tokens=request.max_tokens,
            session_id=f"{self._core.session.session_id}#{random_hex(8)}",
            cache_retention="none",
            idle_timeout_s=configuration.idle_timeout_s,
        )
        stream = self._core.loop.stream_fn(
            model,
            Context(messages=[message], system_prompt=request.system_prompt),
            await self._core.loop.prepared(model, options, signal),
        )
        reply = await stream.result()
        decision = should_retry(reply, stream.error, attempt, configuration.retry)
        return reply, None if signal.aborted else decision.delay_ms
