"""``grep`` and ``find`` against ripgrep itself, and ``file/search``, in a tree of 200,000 files.

Each pair does the same work: ripgrep with the options that the tool gives it, its output thrown
away, and the tool as a model calls it. The first call, which also starts the process that watches
over programs, is not counted.
"""

import os
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
from pi_rpc.tools._ripgrep import find_ripgrep
from pi_rpc.tools.file_search import FileSearch

FILES = 200_000
PER_FOLDER = 50
RATIO_LIMIT = 1.3
SEARCH_LIMIT_MS = 100.0
ROUNDS = 7
TEXT = "def boil(water):\n    return steam\n\n" * 3
QUERIES = ("s", "mod7", "srcfil", "cop019", "component_3/source_01", "p7m3c9s5", "nowhere_at_all")


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        _fill(folder)
        yield from anyio.run(_measure, folder)


def _fill(folder: Path) -> None:
    for number in range(FILES // PER_FOLDER):
        path = folder / f"package_{number % 20:02}" / f"module_{number // 20 % 20:02}"
        path = path / f"component_{number // 400}"
        path.mkdir(parents=True)
        for each in range(PER_FOLDER):
            (path / f"source_file_{each:03}.{'py' if each % 3 else 'ts'}").write_text(TEXT)


async def _measure(folder: Path) -> list[Figure]:
    return [
        await _ratio(folder, "grep", ["--regexp=nothing like it"], pattern="nothing like it"),
        await _ratio(folder, "find", ["--files"], pattern="*.rare"),
        await _file_search(folder),
    ]


async def _ratio(folder: Path, name: str, options: list[str], **params: Any) -> Figure:
    program = find_ripgrep(os.environ.get("PATH", ""))
    assert program is not None
    argv = [program, "--no-config", "--hidden", "--glob=!.git", *options, "./"]
    tool = builtin_tools()[name]
    context = ToolContext(cwd=folder, files=LocalFiles(), shell=cast(Shell, None))

    def theirs() -> float:
        start = time.perf_counter()
        subprocess.run(argv, cwd=folder, stdout=subprocess.DEVNULL, check=False)
        return time.perf_counter() - start

    async def ours() -> float:
        start = time.perf_counter()
        await tool.run("1", params, AbortController().signal, lambda _: None, context)
        return time.perf_counter() - start

    theirs()
    await ours()
    pairs = [(await ours(), theirs()) for _ in range(ROUNDS)]
    ratio = statistics.median(one / two for one, two in pairs)
    mine, other = (statistics.median(each) * 1000 for each in zip(*pairs, strict=True))
    detail = f"{mine:.0f} ms against {other:.0f} ms, {FILES} files"
    return Figure(f"{name} / ripgrep itself", ratio, RATIO_LIMIT, "x", detail)


async def _file_search(folder: Path) -> Figure:
    """The slowest of some queries, each at its median, once the list is there."""
    async with anyio.create_task_group() as tasks:
        files = FileSearch(tasks)
        while (await files.search(folder, "nothing", 1)).truncated:
            await anyio.sleep(0.1)
        slowest, query = 0.0, ""
        for each in QUERIES:
            took = []
            for _ in range(ROUNDS):
                start = time.perf_counter()
                await files.search(folder, each, 50)
                took.append(time.perf_counter() - start)
            slowest, query = max((slowest, query), (statistics.median(took) * 1000, each))
        tasks.cancel_scope.cancel()
    detail = f"{query!r}, the slowest of {len(QUERIES)} queries, {FILES} files"
    return Figure("file/search", slowest, SEARCH_LIMIT_MS, "ms", detail)
