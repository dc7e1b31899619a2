"""Running a command of the shell and keeping what it prints, in bounded memory.

Owns the order of things: output is kept, written to a file where it is too long, and shown while it
comes, until the command has ended. Does not own how commands run (the ``Shell`` port), how output
is kept (``pi_rpc.tools._command_output``), nor the words around it (``pi_rpc.tools.bash`` for a
model, ``pi_rpc.harness.person_bash`` for a person).
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import anyio
from msgspec import Struct

from pi_rpc.agent.ports import CommandExit, PortError, Shell
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.tools._command_output import CommandOutput, EscapeStripper, LiveOutput

__all__ = ["LIVE_OUTPUT_LIMIT", "CommandRun", "plain_text", "run_command"]

LIVE_OUTPUT_LIMIT = 256 * 1024
"""How much output of one command, in bytes, is shown while it comes."""
_UPDATE_INTERVAL_S = 0.1
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class CommandRun(Struct, frozen=True):
    """A command that has ended."""

    output: CommandOutput
    exit: CommandExit


async def run_command(
    shell: Shell,
    command: str,
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float | None,
    signal: AbortSignal,
    on_live: Callable[[str, int], None],
    pressure: Callable[[], Awaitable[None]] | None = None,
) -> CommandRun:
    """Run it to its end, its time limit or its abort.

    ``on_live`` gets new output, escape sequences removed, at most ten times a second, and, when
    some was left out since the last call, how many bytes were so far; ``pressure`` returns when it
    can take more. Raises ``PortError`` where the command could not be run.
    """
    output, live = CommandOutput(), LiveOutput(LIVE_OUTPUT_LIMIT)

    def on_output(data: bytes) -> None:
        output.feed(data)
        live.feed(data)

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(output.write_file)
            tasks.start_soon(_show_changes, live, on_live, pressure)
            # Failures of the port pass the task group as a value: it would wrap them in a group.
            outcome: CommandExit | PortError
            try:
                outcome = await shell.run(
                    command,
                    cwd=cwd,
                    env=env,
                    timeout_s=timeout_s,
                    on_output=on_output,
                    signal=signal,
                )
            except PortError as error:
                outcome = error
            tasks.cancel_scope.cancel()
    finally:
        await output.finish()
    if isinstance(outcome, PortError):
        raise outcome
    live.finish()
    _show(live, on_live)
    return CommandRun(output, outcome)


def plain_text(text: str) -> str:
    """What a command printed, without escape sequences and control characters but tab and newline.

    The way a terminal's output reads when it is not drawn on one.
    """
    return _CONTROLS.sub("", EscapeStripper()(text))


async def _show_changes(
    live: LiveOutput,
    on_live: Callable[[str, int], None],
    pressure: Callable[[], Awaitable[None]] | None,
) -> None:
    while True:
        await live.changed.wait()
        _show(live, on_live)
        await anyio.sleep(_UPDATE_INTERVAL_S)
        if pressure is not None:
            await pressure()


def _show(live: LiveOutput, on_live: Callable[[str, int], None]) -> None:
    delta, omitted = live.take()
    if delta or omitted:
        on_live(delta, live.omitted_bytes if omitted else 0)
