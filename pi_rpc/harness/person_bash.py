"""Commands that the person runs in a session, beside whatever the agent does.

Owns them from start to end: several may run at once, each is told while it runs, and what came of
it becomes a ``bashExecution`` message. Does not own how a command runs and its output is kept
(``pi_rpc.tools.command_runs``), nor when the message is stored (``pi_rpc.harness.persistence``).
"""

import logging
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from msgspec import UNSET, Struct, UnsetType, field

from pi_rpc.agent.events import BashOutput, Diagnostic
from pi_rpc.agent.messages import BashExecutionMessage
from pi_rpc.agent.ports import PortError
from pi_rpc.harness.activities import Activities
from pi_rpc.harness.core import SessionCore
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.loop_setup import unanswered_calls
from pi_rpc.harness.persistence import message_entry
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import now_ms
from pi_rpc.session.context import build_context
from pi_rpc.session.storage import SessionError

if TYPE_CHECKING:
    from pi_rpc.tools.command_runs import CommandRun

__all__ = ["PersonBash", "PersonCommand"]

_log = logging.getLogger("pi_rpc.harness")


class PersonCommand(Struct, eq=False):
    """A command while it runs, and what came of it."""

    command: str
    cwd: Path
    exclude_from_context: bool = False
    """The model is not told of it."""
    token: str | int | UnsetType = UNSET
    """Names it in the events about its output."""
    controller: AbortController = field(default_factory=AbortController)
    message: BashExecutionMessage | None = None
    """What came of it, once it has ended."""
    failure: HarnessError | None = None
    """Why it could not be run."""
    _ended: anyio.Event = field(default_factory=anyio.Event)

    def abort(self) -> None:
        """End it, with everything it has started; what it printed so far is kept."""
        self.controller.abort()

    def end(self) -> None:
        """Let everybody who waits know."""
        self._ended.set()

    def __await__(self) -> Generator[Any, Any, BashExecutionMessage]:
        return self.wait().__await__()

    async def wait(self) -> BashExecutionMessage:
        """Return once it has ended; raises ``HarnessError`` where it could not be run."""
        await self._ended.wait()
        if self.failure is not None:
            raise self.failure
        assert self.message is not None
        return self.message


class PersonBash:
    """The commands of one session."""

    def __init__(
        self, core: SessionCore, activities: Activities, refresh: Callable[[], Awaitable[None]]
    ) -> None:
        """``refresh`` reads what other programs wrote to the session's file."""
        self._core = core
        self._activities = activities
        self._refresh = refresh
        self._running: set[PersonCommand] = set()
        self._stopped = False

    def start(self, command: PersonCommand) -> PersonCommand:
        """Run it, beside whatever goes on; what it is given back as can be awaited.

        Its message is stored when it has ended and the session is idle, otherwise at the end of the
        turn or of what goes on, so that it never comes between a tool call and its result. Refuses
        what could not be kept.
        """
        if self._core.configuration.permission_mode == "readonly":
            raise HarnessError(
                "permissionDenied",
                "this session is read-only: commands are allowed with session/configure and"
                " another permissionMode, or --permission-mode",
            )
        self._activities.require_writable()
        if not command.command.strip():
            raise HarnessError(
                "invalidParams", "command: expected something to run", path="command"
            )
        for name, value in (("command", command.command), ("cwd", str(command.cwd))):
            if "\0" in value:
                raise HarnessError("invalidParams", f"{name}: it holds a NUL", path=name)
        self._activities.start(self._execute, command)
        self._running.add(command)
        if self._stopped:
            command.abort()
        return command

    @property
    def is_busy(self) -> bool:
        """A command runs."""
        return bool(self._running)

    def stop(self) -> None:
        """Tell every command to end, and every later one as it starts; returns at once."""
        self._stopped = True
        for command in self._running:
            command.abort()

    async def aclose(self) -> None:
        """End every command and return when the session has what came of them."""
        self.stop()
        for command in list(self._running):
            await command._ended.wait()

    async def _execute(self, command: PersonCommand) -> None:
        try:
            run = await self._run(command)
            if run.output.file_error is not None:
                text = f"the full output of a command was not kept: {run.output.file_error}"
                self._core.report(Diagnostic(severity="warning", message=text))
            with anyio.CancelScope(shield=True):
                command.message = _message(command, run)
                await self._keep(command.message)
        except PortError as error:
            command.failure = _refusal(error, command)
        except Exception as error:  # noqa: BLE001 - who waits must be told; it is logged
            _log.exception("a command of the person failed")
            text = f"the command could not be run: {type(error).__name__}: {error}"
            command.failure = HarnessError("unsupported", text)
        finally:
            self._running.discard(command)
            if command.message is None and command.failure is None:
                command.failure = HarnessError("unsupported", "the session was closed")
            command.end()

    async def _run(self, command: PersonCommand) -> "CommandRun":
        from pi_rpc.tools.command_runs import plain_text, run_command

        core = self._core

        def on_live(delta: str, omitted_bytes: int) -> None:
            text = plain_text(delta)
            if text or omitted_bytes:
                omitted = omitted_bytes or UNSET
                core.notify([BashOutput(token=command.token, delta=text, omitted_bytes=omitted)])

        context = core.loop.tool_context
        async with context.changes.around_command(command.cwd):
            return await run_command(
                context.shell,
                command.command,
                cwd=command.cwd,
                env=core.loop.environment(),
                timeout_s=None,
                signal=command.controller.signal,
                on_live=on_live,
                pressure=core.pressure,
            )

    async def _keep(self, message: BashExecutionMessage) -> None:
        """Store it as soon as it may be, and tell. Where it cannot be stored now it waits."""
        core, recorder = self._core, self._core.recorder
        try:
            try:
                await self._make_room()
            finally:
                await recorder.record(message_entry(message), now=False)
            if self._activities.current is None:
                await recorder.flush()
                core.announce_usage()
        except (SessionError, HarnessError) as error:
            text = f"a command is not in the session yet, which could not be written: {error}"
            core.report(Diagnostic(severity="error", message=text))

    async def _make_room(self) -> None:
        """Idle: take in what others wrote, and answer tool calls that a crash has left open, so
        that a call and its result stay together."""
        if self._activities.current is not None:
            return
        await self._refresh()
        if self._activities.current is None:
            for result in unanswered_calls(build_context(self._core.session.branch()).messages):
                await self._core.recorder.record(message_entry(result), now=False)


def _message(command: PersonCommand, run: "CommandRun") -> BashExecutionMessage:
    from pi_rpc.tools.command_runs import plain_text

    shown, path = run.output.shown(), run.output.file_path
    cancelled = run.exit.reason != "exited"
    return BashExecutionMessage(
        command=command.command,
        output=plain_text(shown.content),
        cancelled=cancelled,
        truncated=shown.truncated,
        timestamp=now_ms(),
        exit_code=UNSET if cancelled or run.exit.exit_code is None else run.exit.exit_code,
        full_output_path=UNSET if path is None else str(path),
        exclude_from_context=command.exclude_from_context or UNSET,
    )


def _refusal(error: PortError, command: PersonCommand) -> HarnessError:
    """Why it was not run, with what is to blame where that is something that was asked for."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.filename == str(command.cwd):
        return HarnessError("invalidParams", error.message, path="cwd")
    return HarnessError("unsupported", error.message)
