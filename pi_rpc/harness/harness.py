"""AgentHarness: one coding session - agent, session and tools in one working directory.

Owns what a person or an application may ask of a session, and refuses what cannot be. What is said
to it is in ``pi_rpc.harness._prompting``, what is chosen in ``_choices``. Delegates when things
happen to ``pi_rpc.harness.activities``, what a run does to ``pi_rpc.harness.driving``, compaction
and branching to ``pi_rpc.harness.compacting`` and ``branching``, telling and storing to
``pi_rpc.harness.core``. Knows no wire and no other session.

Decisions are taken in plain functions, before the first ``await``, so that requests take effect in
the order they arrive. Listeners are plain functions too and must not block.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType

import anyio
from anyio.abc import TaskGroup
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.events import Abort, CommandsChanged, CompactionSummary, Diagnostic, Queue
from pi_rpc.agent.ports import BusyShell, ToolContext
from pi_rpc.agent.queue import QueueMode
from pi_rpc.agent.tool import AgentTool
from pi_rpc.harness._choices import Choices
from pi_rpc.harness._prompting import Prompting
from pi_rpc.harness.activities import Activities, Operation
from pi_rpc.harness.assembly import ExecutionEnv, ModelSource, assembled
from pi_rpc.harness.branching import Brancher, BranchOutcome, BranchRequest
from pi_rpc.harness.checkpoint_store import CheckpointStore
from pi_rpc.harness.checkpoints import Checkpoints
from pi_rpc.harness.compacting import Compactor
from pi_rpc.harness.compaction import NothingToCompactError
from pi_rpc.harness.configuration import (
    PermissionMode,
    SessionConfiguration,
    SystemPrompt,
    label_entry,
)
from pi_rpc.harness.core import Listener, Phase, SessionCore
from pi_rpc.harness.driving import RunDriver
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.extensions import Extensions
from pi_rpc.harness.file_changes import ToldChanges
from pi_rpc.harness.hooks import Hooks
from pi_rpc.harness.live import Live
from pi_rpc.harness.loop_setup import LoopSetup
from pi_rpc.harness.permissions.gate import PermissionGate
from pi_rpc.harness.persistence import MakeEntry
from pi_rpc.harness.person_bash import PersonBash, PersonCommand
from pi_rpc.harness.queue import MessageQueue, QueuedMessage, queue_of
from pi_rpc.harness.resources import Resources
from pi_rpc.harness.runs import Limits
from pi_rpc.harness.summaries import SummaryCancelledError, SummaryFailedError
from pi_rpc.harness.usage import Totals
from pi_rpc.llm.messages import ThinkingLevel
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import StreamFn, StreamOptions
from pi_rpc.session.storage import SessionError, SessionStorage

__all__ = ["AgentHarness", "Listener", "Phase"]

_log = logging.getLogger("pi_rpc.harness")


class AgentHarness(Choices, Prompting):
    """One session, ready to be prompted.

    ``create`` makes one of what an application has; then, as ``async with harness``::

        outcome = await harness.prompt("What does this project do?")
        print(outcome.text)

    What a method returns can be awaited for the outcome of its run, or left alone. Everything that
    cannot be done raises ``HarnessError``; a model that fails does not, it is the outcome.
    """

    def __init__(
        self,
        *,
        session: SessionStorage,
        configuration: SessionConfiguration,
        stream_fn: StreamFn,
        tool_context: ToolContext,
        task_group: TaskGroup | None = None,
        pressure: Callable[[], Awaitable[None]] | None = None,
        checkpoints: CheckpointStore | None = None,
        permissions: PermissionGate | None = None,
    ) -> None:
        """Of parts that fit. ``task_group`` carries the runs; without one, ``async with`` opens
        one. ``pressure`` returns when listeners can take more. ``checkpoints``: where files are
        kept that runs change; None: in a temporary folder, until the session is closed.
        ``permissions``: what tools may do; None: as the configuration and pi's files say."""
        self.session = session
        self.configuration = configuration
        self.queue = MessageQueue()
        self.hooks = Hooks(self._report)
        self.permissions = permissions or PermissionGate(configuration)
        self.permissions.report = self._report
        self.checkpoints = Checkpoints(
            session,
            checkpoints or CheckpointStore(None),
            tool_context.files,
            configuration.cwd,
            self._report,
        )
        tool_context = replace(tool_context, files=self.checkpoints.files)
        self._loop = LoopSetup(
            configuration,
            self.queue,
            stream_fn,
            tool_context,
            session.session_id,
            hooks=self.hooks,
            permissions=self.permissions,
        )
        self._core = SessionCore(session, configuration, self._loop, self.queue, pressure)
        self.file_changes = ToldChanges(self._core.notify, self.checkpoints.changed)
        self._loop.tool_context = replace(tool_context, changes=self.file_changes)
        self._compactor = Compactor(self._core)
        self._brancher = Brancher(self._core, self._compactor)
        driver = RunDriver(self._core, self._compactor)
        self._activities = Activities(self._core, driver, self.checkpoints, task_group)
        self._take_in = driver.take_in_foreign_entries
        self._bash = PersonBash(self._core, self._activities, self._take_in)
        self.extensions = Extensions(
            self.hooks,
            configuration,
            session.session_id,
            lambda: self._loop.tool_context.asker,
            self._report,
            commands_changed=self.commands_changed,
        )
        self._own_tasks = AsyncExitStack()
        self._pass_on()

    def _pass_on(self) -> None:
        # What its parts do as they are asked, in their own words.
        self.subscribe = self._core.subscribe
        self.on = self.hooks.on
        self.changed = self._core.changed
        self.report = self._core.report
        self.usage_fields = self._core.usage_fields
        self.context_usage = self._core.context_usage
        self.wait_for_idle = self._activities.wait_for_idle
        self.finish = self._activities.finish
        self.restore = self._activities.restore

    @classmethod
    def create(
        cls,
        *,
        session: SessionStorage,
        env: ExecutionEnv | None = None,
        models: ModelSource | None = None,
        tools: Sequence[AgentTool] = (),
        resources: Resources | None = None,
        system_prompt: str | SystemPrompt | None = None,
        stream_options: StreamOptions | None = None,
        tool_context: ToolContext | None = None,
        model: Model | str | None = None,
        thinking_level: ThinkingLevel | None = None,
        active_tools: Sequence[str] | None = None,
        permission_mode: PermissionMode = "full",
        limits: Limits | None = None,
        steering_mode: QueueMode = "one-at-a-time",
        follow_up_mode: QueueMode = "one-at-a-time",
        stream_fn: StreamFn | None = None,
        task_group: TaskGroup | None = None,
        checkpoints: CheckpointStore | None = None,
    ) -> "AgentHarness":
        """A harness of what an application has. Only ``session`` is needed.

        ``env``: files and a shell; default: this machine's. ``models``: which there are and how one
        is asked; default: pi's. ``tools``: all there are; ``active_tools``: those the model is told
        of; default: as in the session, else all. ``resources``: as of ``load_resources``.
        ``system_prompt``: in place of ours, or a function that is asked before each turn.
        ``stream_options`` and ``tool_context`` are common to all requests and to all tools.
        ``model``: one, or its name; default: the one the session used last, else the one of
        ``models``. ``stream_fn`` asks in place of ``models``. ``checkpoints`` are of files that
        runs change; default: in a temporary folder. ``HarnessError``: no such model or tool.
        """
        parts = assembled(
            session,
            env=env,
            models=models,
            tools=tools,
            active_tools=active_tools,
            resources=resources,
            stream_options=stream_options,
            tool_context=tool_context,
            model=model,
            thinking_level=thinking_level,
            stream_fn=stream_fn,
        )
        configuration = parts.configuration
        configuration.system_prompt = system_prompt
        configuration.permission_mode = permission_mode
        configuration.limits = limits or Limits()
        harness = cls(
            session=session,
            configuration=configuration,
            stream_fn=parts.stream_fn,
            tool_context=parts.tool_context,
            task_group=task_group,
            checkpoints=checkpoints,
        )
        harness.steering_mode, harness.follow_up_mode = steering_mode, follow_up_mode
        return harness

    async def __aenter__(self) -> "AgentHarness":
        if self._activities.tasks is None:
            tasks = anyio.create_task_group()
            self._activities.tasks = await self._own_tasks.enter_async_context(tasks)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.aclose()
        finally:
            # Nothing is left in it, so what the caller raised need not pass through it.
            await self._own_tasks.aclose()

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
    def is_streaming(self) -> bool:
        """A run is going on."""
        return self.run is not None

    @property
    def is_quiet(self) -> bool:
        """Nothing goes on or waits here, and no command has left anything in the background."""
        shell = self._loop.tool_context.shell
        left = isinstance(shell, BusyShell) and shell.is_busy
        idle = self.phase == "idle" and not self.is_streaming
        return idle and not (self.queue or self._bash.is_busy or left)

    @property
    def interrupted(self) -> bool:
        """The session ends in a run that never settled."""
        return self._activities.interrupted

    @property
    def message_count(self) -> int:
        """Messages on the active branch, system messages left out."""
        return self._core.message_count

    # --- the tree, and stopping ------------------------------------------------------------------

    async def compact(
        self, instructions: str | None = None, on_start: Callable[[Operation], None] | None = None
    ) -> CompactionSummary | None:
        """Shorten the conversation; None when it was stopped. ``on_start`` gets what stops it."""
        self._activities.require_writable()
        self.configuration.require_model()
        async with self._activities.operation("compaction", on_start) as operation:
            await self._take_in()
            try:
                plan = self._compactor.plan()
            except NothingToCompactError as error:
                raise HarnessError("nothingToCompact", str(error)) from None
            try:
                return await self._compactor.carry_out(plan, operation, "manual", instructions)
            except SummaryCancelledError:
                return None
            except SummaryFailedError as error:
                raise HarnessError("providerError", str(error), "compaction") from None

    async def branch(
        self,
        request: BranchRequest | str | None,
        on_start: Callable[[Operation], None] | None = None,
    ) -> BranchOutcome:
        """Go on from another place of the tree: an entry's id, None for the root, or a request
        that says more. ``on_start`` gets what stops a summary."""
        if not isinstance(request, BranchRequest):
            request = BranchRequest(request)
        self._activities.require_writable()
        self._brancher.target(request.entry_id)
        if request.summarize:
            self.configuration.require_model()
        async with self._activities.operation("branch_summary", on_start) as operation:
            await self._take_in()
            try:
                return await self._brancher.move(request, operation)
            except SummaryFailedError as error:
                raise HarnessError("providerError", str(error), "branch_summary") from None

    async def abort(self, *, clear_queue: bool = True) -> tuple[bool, Queue]:
        """Stop whatever goes on and return once idle.

        Returns whether anything was stopped, and what waited if it was cleared. A message that was
        on its way to the model but not yet delivered counts as waiting.
        """
        stopped, removed = await self._abort(clear_queue=clear_queue)
        queue = queue_of(removed)
        self._core.notify(
            [
                Abort(
                    cleared_steer=[item for item in queue.items if item.kind == "steer"],
                    cleared_follow_up=[item for item in queue.items if item.kind == "followUp"],
                )
            ]
        )
        return stopped, queue

    # --- the session's life ----------------------------------------------------------------------

    async def label(self, entry_id: str, label: str | None) -> None:
        """Label an entry; without ``label`` take it off."""
        self._brancher.target(entry_id)
        await self.record(label_entry(entry_id, label))

    async def record(self, make: MakeEntry) -> None:
        """Store an entry that is no message: at once when idle, else at the end of the turn or of
        whatever goes on."""
        if self._activities.current is None:
            await self._take_in()
        await self._core.recorder.record(make, now=self._activities.current is None)

    def bash(
        self,
        command: str,
        *,
        cwd: str | Path = "",
        exclude_from_context: bool = False,
        token: str | int | UnsetType = UNSET,
    ) -> PersonCommand:
        """Run a command of the person's beside whatever goes on; see ``PersonBash.start``."""
        where = self.configuration.cwd / cwd
        return self._bash.start(PersonCommand(command, where, exclude_from_context, token))

    def stop(self) -> None:
        """Tell what goes on to end, and all that begins later as it starts; returns at once."""
        self._activities.stop()
        self._bash.stop()

    async def aclose(self) -> None:
        """End what goes on, if anything, and let go of the session."""
        try:
            await self._abort(clear_queue=True)
        finally:
            self.extensions.close()
            with anyio.CancelScope(shield=True):
                await self._bash.aclose()
                try:
                    await self._core.recorder.flush()
                except SessionError as error:
                    _log.warning("what waited to be stored is lost: %s", error)
                await self._loop.tool_context.shell.aclose()
                await run_blocking(self.checkpoints.close)
                await self.session.aclose()

    def commands_changed(self) -> None:
        """Tell that ``/name`` in a prompt calls up something else now."""
        self._core.notify([CommandsChanged()])

    # --- inside ----------------------------------------------------------------------------------

    def _report(self, diagnostic: Diagnostic) -> None:
        # Hooks and extensions exist before what tells.
        self._core.report(diagnostic)

    async def _abort(self, *, clear_queue: bool) -> tuple[bool, list[QueuedMessage]]:
        activities = self._activities
        activity = activities.current
        removed = activities.cleared() if clear_queue else []
        if activity is not None:
            activity.abort()
            await activity.wait()
        if clear_queue:
            removed += activities.cleared()
        return activity is not None, removed
