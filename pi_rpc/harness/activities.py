"""What goes on in a session: one thing at a time, from its start until the session is idle again.

Owns phases, that a run settles exactly once whatever breaks, and that what was queued meanwhile is
not forgotten. Does not own what a run does (``pi_rpc.harness.driving``), nor what a person may ask
for (``pi_rpc.harness.harness``).

Decisions are taken in plain functions, before the first ``await``, so that requests take effect in
the order they arrive.
"""

import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from msgspec import UNSET, Struct, field

from pi_rpc.agent.events import AgentEnd, AgentSettled, AgentStart, Diagnostic
from pi_rpc.agent.ports import FileChange
from pi_rpc.harness.checkpoints import Checkpoints, Restored, SettledChanges
from pi_rpc.harness.configuration import custom_entry
from pi_rpc.harness.core import Phase, SessionCore
from pi_rpc.harness.driving import RunDriver, resumable
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.queue import QueuedMessage
from pi_rpc.harness.run_diff import cut_diff
from pi_rpc.harness.runs import Run, RunOutcome
from pi_rpc.llm.abort import AbortController
from pi_rpc.session.context import RUN_SETTLED, interrupted
from pi_rpc.session.storage import SessionError

__all__ = ["Activities", "Operation"]

_log = logging.getLogger("pi_rpc.harness")

_MAX_SETTLED_DIFF = 64 * 1024
"""Bytes of a diff in ``agent_settled``, which should not push other events out of what is kept of
them; the checkpoint has more."""


class Operation(Struct, eq=False):
    """A compaction or a move that a person asked for, while it goes on."""

    controller: AbortController = field(default_factory=AbortController)
    ended: anyio.Event = field(default_factory=anyio.Event)

    def abort(self) -> None:
        """Stop as soon as possible."""
        self.controller.abort()

    async def wait(self) -> None:
        """Return once it has ended."""
        await self.ended.wait()


class Activities:
    """What one session does."""

    def __init__(
        self,
        core: SessionCore,
        driver: RunDriver,
        checkpoints: Checkpoints,
        tasks: TaskGroup | None,
    ) -> None:
        self.current: Run | Operation | None = None
        self.tasks = tasks
        """Carries the runs."""
        self._core = core
        self._driver = driver
        self._checkpoints = checkpoints
        self._stopped = False
        self._finishing = False

    @property
    def run(self) -> Run | None:
        """The run that goes on."""
        return self.current if isinstance(self.current, Run) else None

    @property
    def interrupted(self) -> bool:
        """The session ends in a run that never settled."""
        return self.run is None and interrupted(self._core.session.branch())

    def require_idle(self, advice: str = "wait until it is idle") -> None:
        """Refuses as busy while something goes on."""
        if self.current is not None:
            # Restoring files is no phase of its own.
            doing = self._core.phase if self._core.phase != "idle" else "restoring files"
            message = f"the session is busy ({doing}); {advice}"
            raise HarnessError("sessionBusy", message)

    def require_writable(self) -> None:
        """Refuses where nothing could be stored."""
        if self._core.session.read_only:
            raise HarnessError("storage", "the session was opened read-only")

    def launch(self, prompt: PromptInput | None) -> Run:
        """Start a run, with a prompt or with what there is. The session must be idle."""
        core = self._core
        self.require_writable()
        core.configuration.require_model()
        removed = {"interrupted": None} if self.interrupted else {}
        takes_queued = prompt is None and not resumable(core.session.branch())
        run = Run()
        self.start(self._execute, run, prompt)
        if takes_queued:
            # Now, so that nobody can take out of the queue what the run is to begin with.
            run.first = core.queue.take_next()
        self.current = run
        self._checkpoints.begin(run)
        core.phase = "turn"
        core.changed(phase="turn", isStreaming=True, **removed)
        if self._stopped:
            run.abort()
        return run

    def start(self, task: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        """Start a task that the session carries."""
        if self.tasks is None:
            raise HarnessError("unsupported", "open the harness first: async with harness")
        try:
            self.tasks.start_soon(task, *arguments)
        except RuntimeError:
            raise HarnessError("unsupported", "the harness is closed") from None

    @asynccontextmanager
    async def operation(
        self, phase: Phase, on_start: Callable[[Operation], None] | None
    ) -> AsyncIterator[Operation]:
        """Something a person asked for that is no run; the queue goes on when it has ended."""
        self.require_idle()
        operation = Operation()
        self.current = operation
        try:
            self._core.enter(phase)
            if self._stopped:
                operation.abort()
            if on_start is not None:
                on_start(operation)
            yield operation
        finally:
            try:
                with anyio.CancelScope(shield=True):
                    await self._core.recorder.flush()
            finally:
                self.current = None
                self._core.enter("idle")
                operation.ended.set()
                self._go_on(stopped=operation.controller.signal.aborted)

    async def restore(self, checkpoint_id: str, paths: Sequence[Path] | None = None) -> Restored:
        """Put files back as they were before a run, those at ``paths`` or all of them; see
        ``Checkpoints.restore``. Refused while something goes on, in a read-only session, and where
        rules deny changing one of the files."""
        self._core.configuration.require_writes_allowed("files are restored")
        named = (await self._checkpoints.find(checkpoint_id)).files if paths is None else paths
        await self._core.loop.permissions.require_edits_allowed(list(named))
        self.require_writable()
        async with self.operation("idle", None) as operation:
            result = await self._checkpoints.restore(
                checkpoint_id, paths, lambda: operation.controller.signal.aborted
            )
            changes = [FileChange(path, kind) for path, kind in result.restored]
            if changes:
                self._core.loop.tool_context.changes.changed(changes)
            return result

    async def wait_for_idle(self) -> None:
        """Return once nothing goes on."""
        while self.current is not None:
            await self.current.wait()

    def stop(self) -> None:
        """Tell what goes on to end, and every later run as it starts; returns at once."""
        self._stopped = True
        self._core.queue.clear()
        if self.current is not None:
            self.current.abort()

    def finish(self) -> None:
        """Nobody will start another run: what waits when the session is idle is given up."""
        self._finishing = True
        if self.current is None:
            self.cleared()

    def drop_if_stopped(self) -> None:
        """Give up what waits where no run will come for it."""
        if self._stopped:
            self._core.queue.clear()

    def cleared(self) -> list[QueuedMessage]:
        """Empty the queue; what was in it."""
        removed = self._core.queue.clear()
        if removed:
            self._core.announce_queue()
        return removed

    def _go_on(self, *, stopped: bool) -> None:
        """Idle again: what was queued too late for what has ended gets a run of its own."""
        if self._finishing:
            self.cleared()
        if self.current is None and len(self._core.queue) and not stopped:
            try:
                self.launch(None)
            except (SessionError, HarnessError) as error:
                message = f"messages wait that cannot be sent: {error}"
                self._core.report(Diagnostic(severity="error", message=message))

    # --- a run -----------------------------------------------------------------------------------

    async def _execute(self, run: Run, prompt: PromptInput | None) -> None:
        seconds = self._core.configuration.limits.seconds
        if seconds is not None and self.tasks is not None:
            self.tasks.start_soon(_stop_at_deadline, run, seconds)
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
        # Nobody hears of it where the session is being closed.
        changes = await self._checkpoints.settle(compare=not self._stopped)
        if core.queue.put_back():
            core.announce_queue()
        place: dict[str, Any] = {}
        try:
            await self._store_the_rest(run)
            place = core.place()
        except SessionError as error:
            run.failure = run.failure or str(error)
        except Exception as error:  # noqa: BLE001 - a session that cannot be read must still settle
            _log.exception("run %s could not be wound up", run.id)
            run.failure = run.failure or f"internal error: {type(error).__name__}: {error}"
        if not run.attempts:
            core.notify([AgentStart(run_id=run.id)])
        if run.attempt_open or not run.attempts:
            # What broke the run may have kept it from saying so; what had begun is closed.
            core.notify([AgentEnd(messages=[], run_id=run.id, will_retry=False)])
        outcome = run.conclude()
        self.current = None
        core.phase = "idle"
        core.changed(phase="idle", isStreaming=False, **place)
        core.notify([_settled_event(outcome, changes)])
        run.settle(outcome)
        self._go_on(stopped=outcome.stop_reason in {"error", "aborted", "limit"})

    async def _store_the_rest(self, run: Run) -> None:
        """What waited for the end of a turn. Returns without a checkpoint: nothing is left."""
        core = self._core
        await core.recorder.flush()
        if not run.failure and interrupted(core.session.branch()):
            await core.recorder.record(custom_entry(RUN_SETTLED), now=True)
            await core.recorder.flush()


async def _stop_at_deadline(run: Run, seconds: float) -> None:
    with anyio.move_on_after(seconds):
        await run.wait()
        return
    run.limit = run.limit or f"the time limit of {seconds:g} s was reached"
    run.abort()


def _settled_event(outcome: RunOutcome, changes: SettledChanges | None) -> AgentSettled:
    diff = None if changes is None else cut_diff(changes.diff, _MAX_SETTLED_DIFF)
    return AgentSettled(
        run_id=outcome.run_id,
        stop_reason=outcome.stop_reason,
        aborted=outcome.aborted,
        error_message=outcome.error_message or UNSET,
        usage=outcome.usage,
        cost=outcome.cost,
        diff=UNSET if diff is None else diff.text or UNSET,
        diff_truncated=UNSET if diff is None or not diff.truncated else True,
        checkpoint_id=UNSET if changes is None else changes.checkpoint_id,
    )
