"""Commands of the shell: how fast their output is taken, and how soon a small one is done.

Each against the same without us: output against a pipe into ``cat``, a command that does nothing
against ``bash -c true`` started by Python.
"""

import resource
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio

from benchmarks.measuring import Figure, paired_ratio, timed
from pi_rpc.llm.abort import AbortController
from pi_rpc.tools import LocalShell
from pi_rpc.tools.command_runs import CommandRun, run_command

OUTPUT_MB = 1000
PRINTING = f"yes | head -c {OUTPUT_MB}MB"
PRINTING_LIMIT = 2.5
CPU_LIMIT_S = 3.0
START_LIMIT = 5.0
STARTS = 20


def figures() -> Iterator[Figure]:
    with anyio.from_thread.start_blocking_portal() as portal:
        shell = LocalShell()

        def run(command: str) -> None:
            ended: CommandRun = portal.call(_run, shell, command)
            if ended.output.file_path is not None:
                ended.output.file_path.unlink()

        try:
            yield _output(run)
            yield _cpu(run)
            yield _start(run)
        finally:
            closing: Callable[[], Awaitable[None]] = shell.aclose
            portal.call(closing)


async def _run(shell: LocalShell, command: str) -> CommandRun:
    return await run_command(
        shell,
        command,
        cwd=Path.cwd(),
        env={},
        timeout_s=None,
        signal=AbortController().signal,
        on_live=lambda _text, _omitted: None,
    )


def _output(run: Callable[[str], None]) -> Figure:
    def plain() -> float:
        return timed(lambda: _bash(f"{PRINTING} | cat > /dev/null"))

    ours, other, ratio = paired_ratio(lambda: timed(lambda: run(PRINTING)), plain, 5)
    detail = f"{OUTPUT_MB / ours:.0f} MB/s against {OUTPUT_MB / other:.0f} MB/s"
    return Figure("a command's output / cat", ratio, PRINTING_LIMIT, "x", detail)


def _cpu(run: Callable[[str], None]) -> Figure:
    before = _used()
    run(PRINTING)
    return Figure(
        "CPU of a command's output", _used() - before, CPU_LIMIT_S, "s", f"{OUTPUT_MB} MB of it"
    )


def _start(run: Callable[[str], None]) -> Figure:
    def ours() -> float:
        return timed(lambda: _repeat(lambda: run("true"))) / STARTS

    def plain() -> float:
        return timed(lambda: _repeat(lambda: _bash("true"))) / STARTS

    mine, other, ratio = paired_ratio(ours, plain, 9)
    detail = f"{mine * 1000:.1f} ms against {other * 1000:.1f} ms"
    return Figure("a command that does nothing / bash -c true", ratio, START_LIMIT, "x", detail)


def _repeat(call: Callable[[], None]) -> None:
    for _ in range(STARTS):
        call()


def _bash(command: str) -> None:
    subprocess.run(["bash", "-c", command], check=True)


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
