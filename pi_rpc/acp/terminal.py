"""Terminals of the client: a model's commands run where the person sees them.

Owns the step from the ``Shell`` port to ``terminal/*``. A command that has no call on the client's
screen, and every command once the client cannot make terminals, runs in the session's own shell.
What runs in a terminal is the client's process: it ends with the client, not with us.
"""

import os
import signal as signals
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import anyio

from pi_rpc._os.threads import run_blocking
from pi_rpc.acp import questions as q
from pi_rpc.acp.stream import SessionStream
from pi_rpc.agent.ports import CommandExit, PortError, Shell
from pi_rpc.chance import elapsed_s
from pi_rpc.host.hosted import HostedSession
from pi_rpc.host.services import Services
from pi_rpc.jsonrpc.asking import Asking
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.tools._local_shell import find_shell
from pi_rpc.tools.command_environment import EnvironmentRules, command_environment

__all__ = ["ClientShell"]

_OUTPUT_BYTES = 1024 * 1024
"""How much output the client is to keep for us."""
_ENDING_S = 0.5
"""How long each step of ending a command may take."""
_OUTPUT_S = 10.0
"""How long the client may take to give what a command has printed."""


class ClientShell:
    """The ``Shell`` of one session of a client."""

    def __init__(
        self,
        hosted: HostedSession,
        asking: Asking,
        stream: SessionStream,
        own: Shell,
        services: Services,
    ) -> None:
        self._hosted = hosted
        self._asking = asking
        self._stream = stream
        self._own = own
        self._services = services
        self._taken: set[str] = set()
        """Calls for which a command runs."""

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
        """See ``Shell.run``; in a terminal output comes when the command has ended."""
        with self._call_of(command) as call_id:
            if call_id is not None:
                ended = await self._in_terminal(
                    call_id,
                    command,
                    cwd=cwd,
                    env=env,
                    timeout_s=timeout_s,
                    on_output=on_output,
                    signal=signal,
                )
                if ended is not None:
                    return ended
            return await self._own.run(
                command, cwd=cwd, env=env, timeout_s=timeout_s, on_output=on_output, signal=signal
            )

    async def aclose(self) -> None:
        """Terminals are the client's."""

    # --- inside ----------------------------------------------------------------------------------

    @contextmanager
    def _call_of(self, command: str) -> Iterator[str | None]:
        """The call on the client's screen that runs ``command``, which is no other's meanwhile."""
        found = None
        for call in self._hosted.harness.live.tools.values():
            if call.args.get("command") == command and call.tool_call_id not in self._taken:
                found = call.tool_call_id
                self._taken.add(found)
                break
        try:
            yield found
        finally:
            if found is not None:
                self._taken.discard(found)

    async def _in_terminal(
        self,
        call_id: str,
        command: str,
        *,
        cwd: Path,
        env: Mapping[str, str],
        timeout_s: float | None,
        on_output: Callable[[bytes], None],
        signal: AbortSignal,
    ) -> CommandExit | None:
        """How it ended; None where the client makes no terminal."""
        reason: Literal["exited", "aborted", "timed_out"] = "exited"
        started = elapsed_s()
        terminal_id = None
        with _patience(timeout_s, signal) as asked:
            terminal_id = await self._begun(command, cwd, env)
        if asked.cancelled_caught:
            reason = "aborted" if signal.aborted else "timed_out"
            return CommandExit(None, reason, elapsed_s() - started)
        if terminal_id is None:
            return None
        self._stream.tell(self._stream.updates.in_terminal(call_id, terminal_id))
        terminal = q.TerminalParams(session_id=self._hosted.id, terminal_id=terminal_id)
        exit_: q.TerminalExit | None = None
        try:
            with anyio.move_on_after(timeout_s) as limited, signal.cancel_scope() as aborted:
                exit_ = await self._asking.ask("terminal/wait_for_exit", terminal, q.TerminalExit)
            if aborted.cancelled_caught:
                reason = "aborted"
            elif limited.cancelled_caught:
                reason = "timed_out"
            elif exit_ is None:
                raise PortError("other", "The editor has lost the terminal of the command.")
        finally:
            with anyio.CancelScope(shield=True):
                await self._end(terminal, on_output, signal, kill=exit_ is None)
        code = None if exit_ is None else _code_of(exit_)
        return CommandExit(code, reason, elapsed_s() - started)

    async def _begun(self, command: str, cwd: Path, env: Mapping[str, str]) -> str | None:
        settings = self._services.settings
        # There is no input: who reads from the person's terminal would wait for them.
        lines = ["exec </dev/null", settings.shell_command_prefix or "", command]
        path = env.get("PATH", os.environ.get("PATH"))
        params = q.CreateTerminalParams(
            session_id=self._hosted.id,
            command=await run_blocking(find_shell, settings.shell_path, path),
            args=["-c", "\n".join(filter(None, lines))],
            env=list(self._environment(env)),
            cwd=str(cwd),
            output_byte_limit=_OUTPUT_BYTES,
        )
        answer = await self._asking.ask("terminal/create", params, q.CreateTerminalResult)
        return None if answer is None else answer.terminal_id

    def _environment(self, env: Mapping[str, str]) -> Iterator[q.EnvVariable]:
        """What commands are given otherwise than the client would: keys of providers are not."""
        settings = self._services.settings
        rules = EnvironmentRules(settings.command_environment, settings.command_variables)
        also = self._services.credentials.variables()
        given = {**command_environment(os.environ, also, rules), **env}
        for name in sorted(given.keys() | os.environ.keys()):
            value = given.get(name, "")
            if os.environ.get(name) != value:
                yield q.EnvVariable(name=name, value=value)

    async def _end(
        self,
        terminal: q.TerminalParams,
        on_output: Callable[[bytes], None],
        signal: AbortSignal,
        *,
        kill: bool,
    ) -> None:
        """End what runs, take what it has printed, and let go of the terminal."""
        ask = self._asking.ask
        if kill:
            await ask("terminal/kill", terminal, q.Nothing, timeout_s=_ENDING_S)
        printed: q.TerminalOutput | None = None
        with _patience(_ENDING_S if kill else _OUTPUT_S, signal):
            printed = await ask("terminal/output", terminal, q.TerminalOutput)
        if printed is not None:
            if printed.truncated:
                on_output(b"[the beginning of the output was not kept]\n")
            on_output(printed.output.encode("utf-8", "replace"))
        await ask("terminal/release", terminal, q.Nothing, timeout_s=_ENDING_S)


@contextmanager
def _patience(timeout_s: float | None, signal: AbortSignal) -> Iterator[anyio.CancelScope]:
    """How long the client may take to answer. An abort leaves it a moment: a terminal that we are
    not told of is one that we cannot end."""
    with anyio.move_on_after(timeout_s) as scope:

        def hurry() -> None:
            scope.deadline = min(scope.deadline, anyio.current_time() + _ENDING_S)

        remove = signal.on_abort(hurry)
        try:
            yield scope
        finally:
            remove()


def _code_of(ended: q.TerminalExit) -> int | None:
    if ended.exit_code is not None or ended.signal is None:
        return ended.exit_code
    number = getattr(signals, ended.signal, None)
    return 128 + int(number) if isinstance(number, signals.Signals) else None
