"""What it costs to save a file before it is changed: edits with checkpoints against edits without.

The first edit of a run saves the file and waits for the disk; later ones note what they wrote. The
store is where it would be: in a folder that stays.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import anyio

from benchmarks.measuring import Figure
from pi_rpc.agent.events import Diagnostic
from pi_rpc.agent.ports import FileSystem, Shell, ToolContext
from pi_rpc.harness.checkpoint_store import CheckpointStore
from pi_rpc.harness.checkpoints import Checkpoints
from pi_rpc.harness.runs import Run
from pi_rpc.llm.abort import AbortController
from pi_rpc.session.memory import MemorySession
from pi_rpc.tools import LocalFiles, builtin_tools

SMALL = 20_000
LARGE = 20_000_000
ROUNDS = 30
LARGE_ROUNDS = 7
FIRST_LIMIT_MS = 50.0
LATER_LIMIT = 2.0
LARGE_LIMIT = 2.5
LARGE_LIMIT_MS = 1000.0
LINE = b"The kettle is on, the water is hot, and nobody has asked for tea.\n"


def figures() -> Iterator[Figure]:
    # Where people's files are: a temporary directory may be in memory, where nothing is waited for.
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as scratch:
        yield from anyio.run(_measure, Path(scratch))


async def _measure(folder: Path) -> list[Figure]:
    plain, first, later = await _edits(folder, SMALL, ROUNDS)
    large_plain, large_first, _ = await _edits(folder, LARGE, LARGE_ROUNDS)
    small = f"{plain:.1f} ms without, a file of {SMALL // 1000} kB"
    large = f"{large_first:.0f} ms against {large_plain:.0f} ms, {LARGE // 1_000_000} MB"
    return [
        Figure("first edit of a file in a run", first, FIRST_LIMIT_MS, "ms", small),
        Figure(
            "later edit / without checkpoints", later / plain, LATER_LIMIT, "x", f"{later:.1f} ms"
        ),
        Figure("first edit of a large file", large_first, LARGE_LIMIT_MS, "ms", large),
        Figure(
            "first edit of a large file / without checkpoints",
            large_first / large_plain,
            LARGE_LIMIT,
            "x",
            large,
        ),
    ]


async def _edits(folder: Path, size: int, rounds: int) -> tuple[float, float, float]:
    """Medians in ms: an edit without checkpoints, the first one of a run with them, the next."""
    path = folder / "edited.txt"
    path.write_bytes(LINE * (size // len(LINE)) + b"the last line, number 0\n")
    told: list[Diagnostic] = []
    checkpoints = Checkpoints(
        MemorySession(folder), CheckpointStore(folder / "store"), LocalFiles(), folder, told.append
    )
    times: tuple[list[float], list[float], list[float]] = ([], [], [])
    number = 0

    async def edit(files: FileSystem, into: list[float]) -> None:
        nonlocal number
        context = ToolContext(cwd=folder, files=files, shell=cast(Shell, None))
        change = {"oldText": f"number {number}\n", "newText": f"number {number + 1}\n"}
        params = {"path": path.name, "edits": [change]}
        start = time.perf_counter()
        tool = builtin_tools()["edit"]
        await tool.run("1", params, AbortController().signal, lambda _: None, context)
        into.append((time.perf_counter() - start) * 1000)
        number += 1

    for _ in range(rounds):
        await edit(LocalFiles(), times[0])
        checkpoints.begin(Run())
        await edit(checkpoints.files, times[1])
        await edit(checkpoints.files, times[2])
        await checkpoints.settle()
    assert not told, told
    plain, first, later = (statistics.median(each) for each in times)
    return plain, first, later
