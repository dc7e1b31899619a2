"""The ``Shell`` port on this machine.

Owns which shell runs a command, with which environment, when a command counts as finished and what
becomes of what it leaves behind. Does not own what the model is shown of the output
(``pi_rpc.tools.bash``) nor how processes are started and ended (``pi_rpc._os.processes``).
"""

import errno
import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

import anyio

from pi_rpc._os.pipes import OutputPipe
from pi_rpc._os.processes import Child, spawn
from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.ports import CommandExit, PortError
from pi_rpc.chance import elapsed_s
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.tools._command_files import command_file
from pi_rpc.tools.command_environment import EnvironmentRules, command_environment

__all__ = ["LocalShell", "find_shell"]

_SILENCE_S = 0.1
"""After the shell has exited: how long its output may pause before it counts as complete."""
_MOST_LATE_READS = 256
_LONGEST_ARGUMENT = 100_000
"""Commands of more bytes are run from a file: Linux takes no argument of 131,072 bytes."""


class LocalShell:
    """Runs commands with the person's shell, below the watcher.

    ``shell_path`` names the shell; else it is ``/bin/bash``, ``bash`` or ``sh``.
    ``command_prefix`` is a line put before every command. ``secret_variables`` are dropped from the
    environment in addition to the known keys of providers; a function is asked before each command.
    ``environment`` says what else commands are given.
    """

    def __init__(
        self,
        *,
        shell_path: str | None = None,
        command_prefix: str = "",
        secret_variables: Collection[str] | Callable[[], Collection[str]] = (),
        environment: EnvironmentRules = EnvironmentRules(),  # noqa: B008 - frozen
    ) -> None:
        self._shell_path = shell_path
        self._shell: str | None = None
        self._command_prefix = command_prefix
        self._secret_variables = secret_variables
        self._environment = environment
        self._children: set[Child] = set()
        self._running: set[_Run] = set()
        self._closed = False

    async def run(
        self,
        command: str,
        *,
        cwd: Path,
        env: Mapping[str, str],
        timeout_s: float | None,
        on_output: Callable[[bytes], None],
        signal: AbortSignal,
    ) -> CommandExit:
        """See ``Shell.run``.

        A command is finished when the shell has exited and its output has ended or has been silent
        for 100 ms. Where only the time limit or an abort ended what the shell had left behind,
        ``exit_code`` is the shell's.
        """
        if self._closed:
            raise PortError("spawn_failed", "The session is closed: no more commands are run.")
        started = elapsed_s()
        if signal.aborted:
            return CommandExit(exit_code=None, reason="aborted", duration_s=0.0)
        self._forget_ended()
        child: Child | None = None
        with _Run(self._running) as run, _pipe() as pipe, _Script() as script:
            try:
                with (
                    run.scope as closed,
                    signal.cancel_scope() as aborted,
                    anyio.move_on_after(math.inf if timeout_s is None else timeout_s) as limited,
                ):
                    arguments = await script.arguments(self._prefixed(command))
                    child = await self._spawn(arguments, cwd, env, pipe)
                    await _read_until_finished(child, pipe, on_output)
                reason: Literal["exited", "aborted", "timed_out"] = "exited"
                if closed.cancelled_caught or aborted.cancelled_caught:
                    reason = "aborted"
                elif limited.cancelled_caught:
                    reason = "timed_out"
                exit_code = child.exit_code if child is not None else None
                await self._leave(child, pipe, on_output, end=reason != "exited")
            except BaseException:
                if child is not None:
                    await child.end_tree()
                raise
        return CommandExit(exit_code, reason, elapsed_s() - started)

    @property
    def is_busy(self) -> bool:
        """A command runs, or has left something in the background."""
        self._forget_ended()
        return bool(self._running or self._children)

    async def aclose(self) -> None:
        """End commands that run, and whatever others have left in the background. Idempotent."""
        self._closed = True
        running = list(self._running)
        for run in running:
            run.scope.cancel()
        for run in running:
            await run.ended.wait()
        async with anyio.create_task_group() as tasks:
            for child in self._children:
                tasks.start_soon(child.end_tree)
        self._forget_ended()

    def _prefixed(self, command: str) -> str:
        return f"{self._command_prefix}\n{command}" if self._command_prefix else command

    async def _spawn(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], pipe: OutputPipe
    ) -> Child:
        secret = self._secret_variables
        dropped = secret() if callable(secret) else secret
        environment = {**command_environment(os.environ, dropped, self._environment), **env}
        if self._shell is None:
            self._shell = await run_blocking(find_shell, self._shell_path, environment.get("PATH"))
        shell = self._shell
        try:
            child = await spawn(
                [shell, *arguments],
                cwd=cwd,
                env=environment,
                stdout=pipe.write_fd,
                stderr=pipe.write_fd,
            )
        except OSError as error:
            raise PortError("spawn_failed", _reason(error, shell, cwd)) from error
        self._children.add(child)
        pipe.close_write()
        return child

    async def _leave(
        self,
        child: Child | None,
        pipe: OutputPipe,
        on_output: Callable[[bytes], None],
        *,
        end: bool,
    ) -> None:
        """The command is over: end its tree, or let what is left of it live on.

        There is no ``child`` when the command was cut short before we knew that it had started;
        its tree is gone then, but it may have written something.
        """
        if child is not None and (end or self._closed):
            await child.end_tree()
        # Written before the end, or while the event loop was too late to read it in time.
        for _ in range(_MOST_LATE_READS):
            if not (data := pipe.read_available()):
                break
            on_output(data)
        if child is not None and not child.poll():
            child.drain(pipe.read_fd)
        self._forget_ended()

    def _forget_ended(self) -> None:
        self._children = {child for child in self._children if not child.poll()}


class _Script:
    """What the shell is to run: an argument, or a file where it is too long for that."""

    def __init__(self) -> None:
        self._path: Path | None = None

    async def arguments(self, command: str) -> list[str]:
        """The shell's arguments. Raises ``PortError`` where there can be no file."""
        try:
            written = os.fsencode(command)
        except UnicodeEncodeError as error:
            raise PortError("spawn_failed", f"The command was not run: {error}") from error
        if "\0" in command:
            raise PortError(
                "spawn_failed",
                "The command was not run: it has a NUL character, which no program can be given.",
            )
        if len(written) <= _LONGEST_ARGUMENT:
            return ["-c", command]
        try:
            with anyio.CancelScope(shield=True):  # else nobody would remove it
                self._path = await run_blocking(command_file, written)
        except OSError as error:
            reason = f"The command was not run: no file for it: {error.strerror}"
            raise PortError("spawn_failed", reason) from error
        return [str(self._path)]

    def __enter__(self) -> "_Script":
        return self

    def __exit__(self, *exc: object) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)


class _Run:
    """A command that runs: how ``aclose`` cancels it and learns that it has ended."""

    def __init__(self, running: "set[_Run]") -> None:
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()
        self._running = running

    def __enter__(self) -> "_Run":
        self._running.add(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._running.discard(self)
        self.ended.set()


async def _read_until_finished(
    child: Child, pipe: OutputPipe, on_output: Callable[[bytes], None]
) -> None:
    ended = anyio.Event()
    last_news = 0.0

    async def read() -> None:
        nonlocal last_news
        while data := await pipe.read():
            last_news = time.monotonic()
            on_output(data)
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await child.wait()
        last_news = time.monotonic()
        while not ended.is_set() and (rest := last_news + _SILENCE_S - time.monotonic()) > 0:
            with anyio.move_on_after(rest):
                await ended.wait()
        tasks.cancel_scope.cancel()


def _pipe() -> OutputPipe:
    try:
        return OutputPipe()
    except OSError as error:
        reason = f"The command was not run: no pipe for its output: {error.strerror}"
        raise PortError("spawn_failed", reason) from error


def find_shell(configured: str | None, path: str | None) -> str:
    """The shell that runs commands: the one that is ``configured``, else the first of those that
    ``LocalShell`` names; ``path`` is where programs are looked for. Blocks."""
    if configured:
        return str(Path(configured).expanduser())
    if os.access("/bin/bash", os.X_OK):
        return "/bin/bash"
    import shutil

    return shutil.which("bash", path=path) or shutil.which("sh", path=path) or "/bin/sh"


def _reason(error: OSError, shell: str, cwd: Path) -> str:
    if error.filename == str(cwd):
        return f"The command was not run: working directory {cwd}: {error.strerror}"
    if error.errno == errno.E2BIG:
        return "The command was not run: its environment is larger than the system allows."
    return f"The command was not run: {shell}: {error.strerror}"
