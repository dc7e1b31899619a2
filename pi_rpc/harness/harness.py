"""AgentHarness: one coding session - agent, session and tools in one working directory.

Owns who may start what and when: phases, runs, the queue's promises, and the one settled event of
each run. Delegates storing to ``pi_rpc.harness.persistence``, a run's books to
``pi_rpc.harness.runs``, what the next turn uses to ``pi_rpc.harness.configuration`` and what is
going on right now to ``pi_rpc.harness.live``. Knows no wire and no other session.

Decisions are taken in plain functions, before the first ``await``, so that requests take effect in
the order they arrive. Listeners are plain functions too and must not block.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias

import anyio
from anyio.abc import TaskGroup

from pi_rpc.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentSettled,
    AgentStart,
    Diagnostic,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Queue,
    QueueUpdate,
    SessionChanged,
    TurnEnd,
)
from pi_rpc.agent.ports import ToolContext
from pi_rpc.harness.configuration import (
    SessionConfiguration,
    custom_entry,
    model_change,
    session_info,
    thinking_level_change,
)
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.live import Live
from pi_rpc.harness.loop_setup import LoopSetup, unanswered_calls
from pi_rpc.harness.persistence import Recorder
from pi_rpc.harness.queue import MessageQueue, QueuedMessage, QueueKind, queue_of
from pi_rpc.harness.runs import Run, RunOutcome
from pi_rpc.harness.usage import Totals, context_tokens
from pi_rpc.llm.messages import AssistantMessage, ThinkingLevel, UserMessage
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import StreamFn
from pi_rpc.session.context import RUN_SETTLED, build_context, interrupted, transcript
from pi_rpc.session.storage import SessionError, SessionStorage

__all__ = ["AgentHarness", "Listener", "Phase"]

Phase: TypeAlias = Literal["idle", "turn", "compaction", "branch_summary", "retry"]
Listener: TypeAlias = Callable[[Sequence[AgentEvent]], None]

_log = logging.getLogger("pi_rpc.harness")


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
        self.totals = Totals()
        self.queue = MessageQueue()
        self.live = Live()
        self.phase: Phase = "idle"
        self._task_group = task_group
        self._pressure = pressure
        self._listeners: list[Listener] = []
        self._run: Run | None = None
        self._stopped = False
        self._recorder = Recorder(session, self.queue, self.totals, self._notify)
        self._loop = LoopSetup(configuration, self.queue, stream_fn, tool_context)
        self.totals.recount(session)

    # --- looking ---------------------------------------------------------------------------------

    @property
    def run(self) -> Run | None:
        """The run that goes on."""
        return self._run

    @property
    def is_streaming(self) -> bool:
        """A run is going on."""
        return self._run is not None

    @property
    def interrupted(self) -> bool:
        """The session ends in a run that never settled."""
        return self._run is None and interrupted(self.session.branch())

    @property
    def message_count(self) -> int:
        """Messages on the active branch, system messages left out."""
        return len(transcript(self.session.branch()))

    def context_usage(self) -> tuple[int, int] | None:
        """Tokens in the model's window and its size; None without a model."""
        model = self.configuration.model
        if model is None:
            return None
        return context_tokens(build_context(self.session.branch()).messages), model.context_window

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear every event, in batches; returns the end of the subscription."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # --- the verbs -------------------------------------------------------------------------------

    def prompt(self, prompt: PromptInput, behavior: QueueKind | None = None) -> Run | QueuedMessage:
        """Start a run; while one goes on, queue with ``behavior`` or refuse as ``sessionBusy``."""
        if self._run is None:
            return self._start(prompt)
        if behavior is None:
            raise HarnessError(
                "sessionBusy",
                "a run is going on; send streamingBehavior 'steer' or 'followUp', or wait for"
                " agent_settled",
            )
        return self._enqueue(behavior, prompt)

    def send(self, kind: QueueKind, prompt: PromptInput) -> Run | QueuedMessage:
        """Steer or follow up: queue while a run goes on, otherwise start one."""
        return self._start(prompt) if self._run is None else self._enqueue(kind, prompt)

    def continue_(self) -> Run:
        """Go on without a new prompt: after an interruption or failure, or with what is queued."""
        if self._run is not None:
            raise HarnessError("sessionBusy", "a run is going on already")
        messages = build_context(self.session.branch()).messages
        if not len(self.queue) and not _resumable(messages):
            raise HarnessError(
                "nothingToContinue", "the session ends in a finished answer; send a prompt instead"
            )
        return self._launch(None)

    async def abort(self, *, clear_queue: bool = True) -> tuple[bool, Queue]:
        """Stop whatever goes on and return once idle.

        Returns whether anything was stopped, and what waited if it was cleared. A message that was
        on its way to the model but not yet delivered counts as waiting.
        """
        run = self._run
        removed = self._cleared() if clear_queue else []
        if run is not None:
            run.abort()
            await run.wait()
        if clear_queue:
            removed += self._cleared()
        return run is not None, queue_of(removed)

    def clear_queue(self) -> Queue:
        """Remove everything that waits and return it."""
        return queue_of(self._cleared())

    def _cleared(self) -> list[QueuedMessage]:
        removed = self.queue.clear()
        if removed:
            self._announce_queue()
        return removed

    def withdraw(self, queued: QueuedMessage) -> None:
        """Take back one message: out of the queue, or by stopping the run that has taken it."""
        if self.queue.remove(queued.item.id) is not None:
            self._announce_queue()
        elif self._run is not None and not queued.removed:
            self._run.abort()

    def stop(self) -> None:
        """Tell the run that goes on to end, and every later one as it starts; returns at once."""
        self._stopped = True
        self.queue.clear()
        if self._run is not None:
            self._run.abort()

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

    async def record(self, make: Callable[[str, str | None, str], Any]) -> None:
        """Store an entry that is no message; while a run goes on, at the end of its turn."""
        await self._recorder.record(make, now=self._run is None)

    def changed(self, **changes: Any) -> None:
        """Tell listeners that fields of the session's state changed (by their wire names)."""
        removed = [name for name, value in changes.items() if value is None]
        kept = {name: value for name, value in changes.items() if value is not None}
        event = SessionChanged(changes=kept)
        self._notify([SessionChanged(changes=kept, removed=removed) if removed else event])

    def report(self, diagnostic: Diagnostic) -> None:
        """Tell listeners something that ends nothing."""
        self._notify([diagnostic])

    async def aclose(self) -> None:
        """End the run that goes on, if any, and let go of the session."""
        try:
            await self.abort(clear_queue=True)
        finally:
            with anyio.CancelScope(shield=True):
                await self._loop.tool_context.shell.aclose()
                await self.session.aclose()

    # --- a run -----------------------------------------------------------------------------------

    def _enqueue(self, kind: QueueKind, prompt: PromptInput) -> QueuedMessage:
        queued = self.queue.add(kind, prompt)
        if self._stopped:
            self.queue.clear()
        self._announce_queue()
        return queued

    def _start(self, prompt: PromptInput) -> Run:
        return self._launch(prompt)

    def _launch(self, prompt: PromptInput | None) -> Run:
        if self.session.read_only:
            raise HarnessError("storage", "the session was opened read-only")
        self.configuration.require_model()
        run = Run()
        was_interrupted = self.interrupted
        self._run = run
        self.phase = "turn"
        removed = {"interrupted": None} if was_interrupted else {}
        self.changed(phase="turn", isStreaming=True, **removed)
        if self._stopped:
            run.abort()
        self._task_group.start_soon(self._execute, run, prompt)
        return run

    async def _execute(self, run: Run, prompt: PromptInput | None) -> None:
        seconds = self.configuration.limits.seconds
        if seconds is not None:
            self._task_group.start_soon(self._stop_at_deadline, run, seconds)
        try:
            await self._drive(run, prompt)
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

    async def _drive(self, run: Run, prompt: PromptInput | None) -> None:
        await self._take_in_foreign_entries()
        await self._record_choices()
        messages = list(build_context(self.session.branch()).messages)
        first: list[Any] = []
        if prompt is not None:
            message = prompt.message()
            self._recorder.expect(message, prompt)
            first = [message]
        elif _resumable(messages):
            messages = await self._repair(run, _without_failed_replies(messages))
        else:
            first = self._take_queued()
        while True:
            await self._loop.run(
                run,
                first,
                messages,
                lambda events: self._emit(run, events),
                self.session.session_id,
            )
            if run.controller.signal.aborted or run.limit or _failed(run.last_reply):
                return
            # Something may have been queued between the loop's last look and here.
            first = self._take_queued()
            if not first:
                return
            messages = list(build_context(self.session.branch()).messages)

    def _take_queued(self) -> list[UserMessage]:
        taken = self.queue.take("steer") or self.queue.take("followUp")
        return [queued.message for queued in taken]

    async def _repair(self, run: Run, messages: list[Any]) -> list[Any]:
        """Answer tool calls that a crash left open, so that the model can go on."""
        for result in unanswered_calls(messages):
            events = self._recorder.start(MessageStart(message=result))
            self._notify(events)
            self._notify(await self._recorder.end(MessageEnd(message=result), run))
            messages = [*messages, result]
        return messages

    async def _take_in_foreign_entries(self) -> None:
        change = await self.session.refresh()
        if change == "unchanged":
            return
        self.totals.recount(self.session)
        what = "added to" if change == "grown" else "replaced"
        message = f"another program {what} the file of this session; it was read again"
        self.report(Diagnostic(severity="info", message=message))

    async def _record_choices(self) -> None:
        for make in self.configuration.unrecorded(build_context(self.session.branch())):
            await self._recorder.record(make, now=True)

    async def _stop_at_deadline(self, run: Run, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await run.wait()
            return
        run.limit = run.limit or f"the time limit of {seconds:g} s was reached"
        run.abort()

    async def _emit(self, run: Run, events: Sequence[AgentEvent]) -> None:
        """Take what the loop says: store, fill in ids, tell listeners; wait if they are full."""
        if type(events[0]) is MessageUpdate and type(events[-1]) is MessageUpdate:
            # A batch of deltas holds nothing else: a message's start and end come by themselves.
            self._notify(self._recorder.updates(events))  # type: ignore[arg-type]
        else:
            for event in events:
                await self._emit_one(run, event)
        signal = run.controller.signal
        if self._pressure is not None and not signal.aborted:
            # A receiver that has stopped reading must not keep a run from being stopped.
            with signal.cancel_scope():
                await self._pressure()

    async def _emit_one(self, run: Run, event: AgentEvent) -> None:
        match event:
            case MessageUpdate():
                self._notify(self._recorder.updates([event]))
            case MessageStart():
                self._notify(self._recorder.start(event))
            case MessageEnd():
                self._notify(await self._recorder.end(event, run))
            case AgentStart():
                run.attempt_open = True
                self._notify([AgentStart(run_id=run.id)])
            case AgentEnd():
                run.attempt_open = False
                self._notify([AgentEnd(messages=event.messages, run_id=run.id, will_retry=False)])
            case TurnEnd():
                self._notify([event])
                self._notify([await self._recorder.save_point()])
                self._announce_usage()
            case _:
                self._notify([event])

    async def _settle(self, run: Run) -> None:
        if self.queue.put_back():
            self._announce_queue()
        try:
            await self._recorder.flush()
            if interrupted(self.session.branch()) and not run.failure:
                await self._recorder.record(custom_entry(RUN_SETTLED), now=True)
        except (SessionError, TimeoutError) as error:
            run.failure = run.failure or str(error)
        place = {}
        try:
            place = self._place()
        except SessionError as error:
            run.failure = run.failure or str(error)
        if run.attempt_open:
            # What broke the run may have kept it from saying so; what had begun is closed.
            self._notify([AgentEnd(messages=[], run_id=run.id, will_retry=False)])
        outcome = run.conclude()
        self._run = None
        self.phase = "idle"
        self.changed(phase="idle", isStreaming=False, **place)
        self._notify([_settled_event(outcome)])
        run.settle(outcome)

    # --- telling ---------------------------------------------------------------------------------

    def _announce_queue(self) -> None:
        now = self.queue.snapshot()
        self._notify([QueueUpdate(steering=now.steering, follow_up=now.follow_up, items=now.items)])

    def _announce_usage(self) -> None:
        self.changed(**self.usage_fields(), **self._place())

    def _place(self) -> dict[str, Any]:
        return {"messageCount": self.message_count, "leafId": self.session.leaf_id}

    def usage_fields(self) -> dict[str, Any]:
        """``contextUsage``, ``tokens`` and ``cost`` as the session's state has them."""
        usage = self.totals.usage
        fields: dict[str, Any] = {
            "tokens": {
                "input": usage.input,
                "output": usage.output,
                "cacheRead": usage.cache_read,
                "cacheWrite": usage.cache_write,
                "total": usage.total_tokens,
            },
            "cost": usage.cost.total,
        }
        if (context := self.context_usage()) is not None:
            tokens, window = context
            fields["contextUsage"] = {
                "tokens": tokens,
                "contextWindow": window,
                "percent": round(100 * tokens / window, 2) if window else None,
            }
        return fields

    def _notify(self, events: Sequence[AgentEvent]) -> None:
        if not events:
            return
        self.live.follow(events)
        for listener in list(self._listeners):
            try:
                listener(events)
            except Exception:  # noqa: BLE001 - one listener must not take events from the others
                _log.exception("a listener raised; it missed an event")


def _settled_event(outcome: RunOutcome) -> AgentSettled:
    from msgspec import UNSET

    return AgentSettled(
        run_id=outcome.run_id,
        stop_reason=outcome.stop_reason,
        aborted=outcome.aborted,
        error_message=outcome.error_message or UNSET,
        usage=outcome.usage,
        cost=outcome.cost,
    )


def _failed(reply: AssistantMessage | None) -> bool:
    return reply is not None and reply.stop_reason in {"error", "aborted"}


def _without_failed_replies(messages: list[Any]) -> list[Any]:
    end = len(messages)
    while end and isinstance(messages[end - 1], AssistantMessage) and _failed(messages[end - 1]):
        end -= 1
    return messages[:end]


def _resumable(messages: list[Any]) -> bool:
    """The conversation waits for a reply: it ends in a prompt, a result or an open tool call."""
    rest = _without_failed_replies(messages)
    if not rest:
        return False
    last = rest[-1]
    return not isinstance(last, AssistantMessage) or bool(unanswered_calls(rest))
