"""AgentHarness: one coding session - agent, session and tools in one working directory.

Owns who may start what and when: phases, runs and other activities, the queue's promises, and the
one settled event of each run. Delegates what a run does to ``pi_rpc.harness.driving``, compaction
and branching to ``pi_rpc.harness.compacting`` and ``branching``, telling and storing to
``pi_rpc.harness.core``. Knows no wire and no other session.

Decisions are taken in plain functions, before the first ``await``, so that requests take effect in
the order they arrive. Listeners are plain functions too and must not block.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import TaskGroup
from msgspec import UNSET

from pi_rpc.agent.events import (
    AgentEnd,
    AgentSettled,
    AgentStart,
    CompactionSummary,
    Diagnostic,
    Queue,
)
from pi_rpc.agent.ports import ToolContext
from pi_rpc.harness.branching import Brancher, BranchOutcome, BranchRequest
from pi_rpc.harness.compacting import Compactor
from pi_rpc.harness.compaction import NothingToCompactError
from pi_rpc.harness.configuration import (
    SessionConfiguration,
    custom_entry,
    label_entry,
    model_change,
    session_info,
    thinking_level_change,
)
from pi_rpc.harness.core import Listener, Phase, SessionCore
from pi_rpc.harness.driving import RunDriver, resumable
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.extensions import Extensions
from pi_rpc.harness.hooks import Hooks
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.live import Live
from pi_rpc.harness.loop_setup import LoopSetup
from pi_rpc.harness.queue import MessageQueue, QueuedMessage, QueueKind, queue_of
from pi_rpc.harness.runs import Run, RunOutcome
from pi_rpc.harness.summaries import SummaryCancelledError, SummaryFailedError
from pi_rpc.harness.usage import Totals
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import ThinkingLevel
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import StreamFn
from pi_rpc.session.context import RUN_SETTLED, build_context, interrupted
from pi_rpc.session.storage import SessionError, SessionStorage

__all__ = ["AgentHarness", "Listener", "Phase"]

_log = logging.getLogger("pi_rpc.harness")


@dataclass(eq=False, slots=True)
class _Operation:
    """A compaction or a move that a person asked for, while it goes on."""

    controller: AbortController = field(default_factory=AbortController)
    ended: anyio.Event = field(default_factory=anyio.Event)

    def abort(self) -> None:
        self.controller.abort()

    async def wait(self) -> None:
        await self.ended.wait()


class AgentHarness:
    """One session, ready to be prompted."""

    def __init__(
        self,
        *,
        session: SessionStorage,
        configuration: SessionConfiguration,
        stream_fn: StreamFn,
        tool_context: ToolContext,
        task_group: TaskGroup,
        pressure: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``task_group`` carries the runs; ``pressure`` returns when listeners can take more."""
        self.session = session
        self.configuration = configuration
        self.queue = MessageQueue()
        self.hooks = Hooks(self._report)
        self._loop = LoopSetup(
            configuration, self.queue, stream_fn, tool_context, session.session_id, hooks=self.hooks
        )
        self._core = SessionCore(session, configuration, self._loop, self.queue, pressure)
        self._compactor = Compactor(self._core)
        self._brancher = Brancher(self._core, self._compactor)
        self._driver = RunDriver(self._core, self._compactor)
        self.extensions = Extensions(
            self.hooks,
            configuration,
            session.session_id,
            lambda: self._loop.tool_context.asker,
            self._report,
        )
        self._task_group = task_group
        self._activity: Run | _Operation | None = None
        self._stopped = False
        self._finishing = False
        self.subscribe = self._core.subscribe
        self.on = self.hooks.on
        self.changed = self._core.changed
        self.report = self._core.report
        self.usage_fields = self._core.usage_fields
        self.context_usage = self._core.context_usage

    # --- looking ---------------------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        """What goes on."""
        return self._core.phase

    @property
    def live(self) -> Live:
        """The message and the tools in progress."""
        return self._core.live

    @property
    def totals(self) -> Totals:
        """What the session has used so far."""
        return self._core.totals

    @property
    def run(self) -> Run | None:
        """The run that goes on."""
        return self._activity if isinstance(self._activity, Run) else None

    @property
    def is_streaming(self) -> bool:
        """A run is going on."""
        return self.run is not None

    @property
    def interrupted(self) -> bool:
        """The session ends in a run that never settled."""
        return self.run is None and interrupted(self.session.branch())

    @property
    def message_count(self) -> int:
        """Messages on the active branch, system messages left out."""
        return self._core.message_count

    # --- the verbs -------------------------------------------------------------------------------

    def prompt(self, prompt: PromptInput, behavior: QueueKind | None = None) -> Run | QueuedMessage:
        """Start a run; while something goes on, queue with ``behavior`` or refuse as busy."""
        if self._activity is None:
            return self._launch(prompt)
        if behavior is None:
            raise _busy(
                f"the session is busy ({self.phase}); send streamingBehavior 'steer' or 'followUp',"
                " or wait until it is idle"
            )
        return self._enqueue(behavior, prompt)

    def send(self, kind: QueueKind, prompt: PromptInput) -> Run | QueuedMessage:
        """Steer or follow up: queue while something goes on, otherwise start a run."""
        return self._launch(prompt) if self._activity is None else self._enqueue(kind, prompt)

    def continue_(self) -> Run:
        """Go on without a new prompt: after an interruption or failure, or with what is queued."""
        if self._activity is not None:
            raise _busy(f"the session is busy ({self.phase})")
        messages = build_context(self.session.branch()).messages
        if not len(self.queue) and not resumable(messages):
            raise HarnessError(
                "nothingToContinue", "the session ends in a finished answer; send a prompt instead"
            )
        return self._launch(None)

    async def compact(
        self, instructions: str | None = None, on_start: Callable[[_Operation], None] | None = None
    ) -> CompactionSummary | None:
        """Shorten the conversation; None when it was stopped. ``on_start`` gets what stops it."""
        self._require_writable()
        self.configuration.require_model()
        async with self._operation("compaction", on_start) as operation:
            try:
                plan = self._compactor.plan()
            except NothingToCompactError as error:
                raise HarnessError("nothingToCompact", str(error)) from None
            try:
                return await self._compactor.carry_out(plan, operation, "manual", instructions)
            except SummaryCancelledError:
                return None
            except SummaryFailedError as error:
                raise HarnessError("providerError", str(error)) from None

    async def branch(
        self, request: BranchRequest, on_start: Callable[[_Operation], None] | None = None
    ) -> BranchOutcome:
        """Go on from another place of the tree. ``on_start`` gets what stops a summary."""
        self._require_writable()
        self._brancher.target(request.entry_id)
        if request.summarize:
            self.configuration.require_model()
        async with self._operation("branch_summary", on_start) as operation:
            try:
                return await self._brancher.move(request, operation)
            except SummaryFailedError as error:
                raise HarnessError("providerError", str(error)) from None

    async def abort(self, *, clear_queue: bool = True) -> tuple[bool, Queue]:
        """Stop whatever goes on and return once idle.

        Returns whether anything was stopped, and what waited if it was cleared. A message that was
        on its way to the model but not yet delivered counts as waiting.
        """
        activity = self._activity
        removed = self._cleared() if clear_queue else []
        if activity is not None:
            activity.abort()
            await activity.wait()
        if clear_queue:
            removed += self._cleared()
        return activity is not None, queue_of(removed)

    def clear_queue(self) -> Queue:
        """Remove everything that waits and return it."""
        return queue_of(self._cleared())

    def remove_queued(self, item_id: str) -> Queue:
        """Remove one message that waits and return it; empty when it does not wait any more."""
        queued = self.queue.remove(item_id)
        if queued is not None:
            self._core.announce_queue()
        return queue_of([queued] if queued is not None else [])

    def withdraw(self, queued: QueuedMessage) -> None:
        """Take back one message: out of the queue, or by stopping the run that has taken it."""
        if self.queue.remove(queued.item.id) is not None:
            self._core.announce_queue()
        elif self.run is not None and not queued.removed:
            self.run.abort()

    def stop(self) -> None:
        """Tell what goes on to end, and every later run as it starts; returns at once."""
        self._stopped = True
        self.queue.clear()
        if self._activity is not None:
            self._activity.abort()

    def finish(self) -> None:
        """Nobody will start another run: what waits when the session is idle is given up."""
        self._finishing = True
        if self._activity is None:
            self._cleared()

    # --- choices ---------------------------------------------------------------------------------

    async def choose_model(self, model: Model) -> None:
        """Ask another model from the next turn on."""
        self.configuration.model = model
        await self.record(model_change(model))

    async def choose_thinking_level(self, level: ThinkingLevel) -> None:
        """Think more or less from the next turn on; the nearest level the model offers."""
        self.configuration.thinking_level = level
        await self.record(thinking_level_change(self.configuration.level))

    async def rename(self, name: str) -> None:
        """Give the session a name for people; empty for none."""
        cleaned = " ".join(name.split())
        self.configuration.name = cleaned or None
        await self.record(session_info(cleaned))
        self.changed(name=cleaned or None)

    async def label(self, entry_id: str, label: str | None) -> None:
        """Label an entry; without ``label`` take it off."""
        self._brancher.target(entry_id)
        await self.record(label_entry(entry_id, label))

    async def record(self, make: Callable[[str, str | None, str], Any]) -> None:
        """Store an entry that is no message; while a run goes on, at the end of its turn."""
        await self._core.recorder.record(make, now=self.run is None)

    async def aclose(self) -> None:
        """End what goes on, if anything, and let go of the session."""
        try:
            await self.abort(clear_queue=True)
        finally:
            self.extensions.close()
            with anyio.CancelScope(shield=True):
                await self._loop.tool_context.shell.aclose()
                await self.session.aclose()

    # --- activities ------------------------------------------------------------------------------

    def _report(self, diagnostic: Diagnostic) -> None:
        # Hooks and extensions exist before what tells.
        self._core.report(diagnostic)

    def _cleared(self) -> list[QueuedMessage]:
        removed = self.queue.clear()
        if removed:
            self._core.announce_queue()
        return removed

    def _enqueue(self, kind: QueueKind, prompt: PromptInput) -> QueuedMessage:
        queued = self.queue.add(kind, prompt)
        if self._stopped:
            self.queue.clear()
        self._core.announce_queue()
        return queued

    def _require_writable(self) -> None:
        if self.session.read_only:
            raise HarnessError("storage", "the session was opened read-only")

    def _launch(self, prompt: PromptInput | None) -> Run:
        self._require_writable()
        self.configuration.require_model()
        run = Run()
        removed = {"interrupted": None} if self.interrupted else {}
        self._activity = run
        self._core.phase = "turn"
        self.changed(phase="turn", isStreaming=True, **removed)
        if self._stopped:
            run.abort()
        self._task_group.start_soon(self._execute, run, prompt)
        return run

    @asynccontextmanager
    async def _operation(
        self, phase: Phase, on_start: Callable[[_Operation], None] | None
    ) -> AsyncIterator[_Operation]:
        """Something a person asked for that is no run; the queue goes on when it has ended."""
        if self._activity is not None:
            raise _busy(f"the session is busy ({self.phase})")
        operation = _Operation()
        self._activity = operation
        self._core.enter(phase)
        if self._stopped:
            operation.abort()
        if on_start is not None:
            on_start(operation)
        try:
            yield operation
        finally:
            self._activity = None
            self._core.enter("idle")
            operation.ended.set()
            if len(self.queue) and not operation.controller.signal.aborted:
                self._launch(None)

    async def _execute(self, run: Run, prompt: PromptInput | None) -> None:
        seconds = self.configuration.limits.seconds
        if seconds is not None:
            self._task_group.start_soon(_stop_at_deadline, run, seconds)
        try:
            await self._driver.drive(run, prompt)
        except (SessionError, HarnessError) as error:
            run.failure = str(error)
        except Exception as error:  # noqa: BLE001 - a run that breaks must still settle; it is logged
            _log.exception("run %s failed", run.id)
            run.failure = f"internal error: {type(error).__name__}: {error}"
        except BaseException:
            run.abort()
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await self._settle(run)

    async def _settle(self, run: Run) -> None:
        core = self._core
        if self.queue.put_back():
            core.announce_queue()
        try:
            await core.recorder.flush()
            if not run.failure and interrupted(self.session.branch()):
                await core.recorder.record(custom_entry(RUN_SETTLED), now=True)
        except (SessionError, TimeoutError) as error:
            run.failure = run.failure or str(error)
        except Exception as error:  # noqa: BLE001 - a session that cannot be read must still settle
            _log.exception("run %s could not be wound up", run.id)
            run.failure = run.failure or f"internal error: {type(error).__name__}: {error}"
        place: dict[str, Any] = {}
        try:
            place = core.place()
        except SessionError as error:
            run.failure = run.failure or str(error)
        if not run.attempts:
            core.notify([AgentStart(run_id=run.id)])
        if run.attempt_open or not run.attempts:
            # What broke the run may have kept it from saying so; what had begun is closed.
            core.notify([AgentEnd(messages=[], run_id=run.id, will_retry=False)])
        outcome = run.conclude()
        self._activity = None
        core.phase = "idle"
        self.changed(phase="idle", isStreaming=False, **place)
        core.notify([_settled_event(outcome)])
        run.settle(outcome)
        if self._finishing:
            self._cleared()


async def _stop_at_deadline(run: Run, seconds: float) -> None:
    with anyio.move_on_after(seconds):
        await run.wait()
        return
    run.limit = run.limit or f"the time limit of {seconds:g} s was reached"
    run.abort()


def _busy(message: str) -> HarnessError:
    return HarnessError("sessionBusy", message)


def _settled_event(outcome: RunOutcome) -> AgentSettled:
    return AgentSettled(
        run_id=outcome.run_id,
        stop_reason=outcome.stop_reason,
        aborted=outcome.aborted,
        error_message=outcome.error_message or UNSET,
        usage=outcome.usage,
        cost=outcome.cost,
    )
