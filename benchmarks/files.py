"""Reading and editing large files, and whether reading many keeps a ping waiting.

``wc -l`` of the same file is the measure for reading its last lines. The files are real, written
into a temporary directory.
"""

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import anyio

from benchmarks.measuring import DAEMON, Driven, Figure, environment
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
        folder = Path(scratch)
        yield anyio.run(_last_lines, folder)
        yield anyio.run(_edit, folder)
        yield _pings(folder)


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


def _pings(folder: Path) -> Figure:
    """Requests of a client of the real daemon while a model has many files read at once."""
    calls = []
    for number in range(READ_AT_ONCE):
        _fill(folder / f"{number}.txt", READ_SIZE)
        calls.append({"toolCall": {"name": "read", "arguments": {"path": f"{number}.txt"}}})
    script = folder / "script.json"
    script.write_text(json.dumps({"replies": [{"steps": calls}, {"steps": [{"text": "done"}]}]}))
    env = environment(PI_CODING_AGENT_DIR=str(folder / "agent"), PI_RPC_SCRIPT=str(script))
    driven = Driven(DAEMON, env, folder)
    driven.request(0, "initialize", {})
    state, _ = driven.request(1, "session/new", {"cwd": str(folder), "model": "scripted/scripted"})
    asked = {"sessionId": state["sessionId"], "message": "read them"}
    driven.send({"jsonrpc": "2.0", "id": 2, "method": "prompt", "params": asked})
    times: list[float] = []
    start, answered = time.perf_counter(), False
    while not answered:
        sent = time.perf_counter()
        answered = _ping(driven, 3 + len(times))
        times.append((time.perf_counter() - sent) * 1000)
    took = time.perf_counter() - start
    driven.close()
    p99 = statistics.quantiles(times, n=100)[98]
    detail = (
        f"{READ_AT_ONCE} reads of {READ_SIZE // 1_000_000} MB in {took:.1f} s, {len(times)} pings, "
        f"p50 {statistics.median(times):.2f} ms, the longest {max(times):.1f} ms"
    )
    return Figure("ping p99 under parallel reads", p99, PING_LIMIT_MS, "ms", detail)


def _ping(driven: Driven, number: int) -> bool:
    """Whether the prompt was answered before the ping was."""
    driven.send({"jsonrpc": "2.0", "id": number, "method": "ping", "params": {}})
    mine, prompts = f'"id":{number},'.encode(), b'"id":2,'
    answered = False

    def is_mine(line: bytes) -> bool:
        nonlocal answered
        answered = answered or prompts in line[:40]
        return mine in line[:40]

    driven.until(is_mine)
    return answered
