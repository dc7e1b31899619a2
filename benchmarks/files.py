"""Reading and editing large files, and whether either keeps the event loop from a ping.

``wc -l`` of the same file is the measure for reading its last lines. The files are real, written
into a temporary directory.
"""

import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import anyio

from benchmarks.measuring import Figure
from pi_rpc.agent.ports import Shell, ToolContext
from pi_rpc.llm.abort import AbortController
from pi_rpc.tools import LocalFiles, builtin_tools

LARGE = 1_000_000_000
EDITED = 20_000_000
READ_AT_ONCE = 100
READ_SIZE = 10_000_000
ROUNDS = 5
LINE = b"The kettle is on, the water is hot, and nobody has asked for tea.\n"
RATIO_LIMIT = 1.5
EDIT_LIMIT_MS = 1000.0
PING_LIMIT_MS = 20.0


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as scratch:
        yield from anyio.run(_measure, Path(scratch))


async def _measure(folder: Path) -> list[Figure]:
    return [await _last_lines(folder), await _edit(folder), await _pings(folder)]


def _fill(path: Path, size: int) -> int:
    """How many lines were written."""
    block = LINE * 10_000
    blocks = size // len(block)
    with path.open("wb") as file:
        for _ in range(blocks):
            file.write(block)
    return blocks * 10_000


async def _call(folder: Path, name: str, **params: Any) -> float:
    context = ToolContext(cwd=folder, files=LocalFiles(), shell=cast(Shell, None))
    start = time.perf_counter()
    await builtin_tools()[name].run("1", params, AbortController().signal, lambda _: None, context)
    return time.perf_counter() - start


async def _last_lines(folder: Path) -> Figure:
    path = folder / "large.txt"
    lines = _fill(path, LARGE)

    def theirs() -> float:
        start = time.perf_counter()
        subprocess.run(["wc", "-l", path], stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - start

    theirs()
    await _call(folder, "read", path=path.name, offset=lines - 9)
    pairs = [
        (await _call(folder, "read", path=path.name, offset=lines - 9), theirs())
        for _ in range(ROUNDS)
    ]
    path.unlink()
    mine, other = (statistics.median(each) * 1000 for each in zip(*pairs, strict=True))
    ratio = statistics.median(one / two for one, two in pairs)
    detail = f"{mine:.0f} ms against {other:.0f} ms, the last 10 of {lines} lines"
    return Figure("read of last lines / wc -l", ratio, RATIO_LIMIT, "x", detail)


async def _edit(folder: Path) -> Figure:
    path = folder / "edited.txt"
    lines = _fill(path, EDITED)
    with path.open("ab") as file:
        file.write(b"the last line, number 0\n")
    took = [
        await _call(
            folder,
            "edit",
            path=path.name,
            edits=[{"oldText": f"number {n}\n", "newText": f"number {n + 1}\n"}],
        )
        for n in range(ROUNDS)
    ]
    detail = f"{EDITED // 1_000_000} MB, {lines} lines"
    return Figure("edit of one line", statistics.median(took) * 1000, EDIT_LIMIT_MS, "ms", detail)


async def _pings(folder: Path) -> Figure:
    """How late the event loop is, as a ping would find it, while many files are read."""
    for number in range(READ_AT_ONCE):
        _fill(folder / f"{number}.txt", READ_SIZE)
    late: list[float] = []

    async def watch() -> None:
        while True:
            start = time.perf_counter()
            await anyio.sleep(0.001)
            late.append((time.perf_counter() - start - 0.001) * 1000)

    start = time.perf_counter()
    async with anyio.create_task_group() as watching:
        watching.start_soon(watch)
        async with anyio.create_task_group() as reading:
            for number in range(READ_AT_ONCE):
                reading.start_soon(lambda n: _call(folder, "read", path=f"{n}.txt"), number)
        watching.cancel_scope.cancel()
    took = time.perf_counter() - start
    p99 = statistics.quantiles(late, n=100)[98]
    detail = f"{READ_AT_ONCE} reads of {READ_SIZE // 1_000_000} MB in {took:.1f} s"
    return Figure("event loop p99 under parallel reads", p99, PING_LIMIT_MS, "ms", detail)
