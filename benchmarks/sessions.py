"""Opening a long session and answering ``session/state``, listing many, appending to a long one.

The session has 60,000 entries in 94 MB: with at most 5 MB of it since its last compaction, and
without one. Beside pi where ``PI_BIN`` names it, otherwise against what pi needed when the baseline
was recorded, scaled by the bare interpreter. Both count beyond what a process needs for any
session: pi's start without one, our start and opening a short one.
"""

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measuring import BARE, DAEMON, Driven, Figure, environment, timed
from benchmarks.session_file import write_session

ENTRIES = 60_000
SIZE = 94_000_000
SINCE_COMPACTION = 5_000_000
COMPACTED_LIMIT = 0.35
WHOLE_LIMIT = 0.5
MEMORY_LIMIT_MB = 60.0
LISTED = 1_000
LIST_LIMIT_S = 1.0
APPEND_LIMIT = 2.0
ROUNDS = 5
BASELINE = Path(__file__).parent / "baseline.json"

APPENDS = """
import sys, time, anyio
from pathlib import Path
from pi_rpc.session import JsonlSession
from pi_rpc.session.entries import CustomEntry, iso_now
async def main():
    session = await JsonlSession.open(Path(sys.argv[1]))
    async def add(count):
        for _ in range(count):
            await session.append(CustomEntry(
                id=session.new_id(), parent_id=None, timestamp=iso_now(), custom_type="bench"
            ))
    await add(50)
    start = time.process_time()
    await add(500)
    print((time.process_time() - start) / 500)
    await session.aclose()
anyio.run(main)
"""


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        yield from _opening(folder, "compacted", SINCE_COMPACTION, COMPACTED_LIMIT)
        yield from _opening(folder, "whole", None, WHOLE_LIMIT)
        yield _appending(folder)
        yield _listing(folder)


def _opening(
    folder: Path, name: str, since_compaction: int | None, limit: float
) -> Iterator[Figure]:
    path = folder / f"{name}.jsonl"
    write_session(
        path, entries=ENTRIES, size=SIZE, cwd=str(folder), since_compaction=since_compaction
    )
    short = folder / "short.jsonl"
    write_session(short, entries=20, size=20_000, cwd=str(folder))
    rounds = [_our_open(folder, short, path) for _ in range(ROUNDS)]
    ours = statistics.median(used for used, _ in rounds)
    memory = statistics.median(held for _, held in rounds)
    if command := os.environ.get("PI_BIN"):
        theirs, source = _pi_open(shlex.split(command), folder, path), "pi beside it"
    else:
        theirs, source = _recorded_open(), "recorded baseline of pi, scaled"
    size = path.stat().st_size / 1e6
    detail = f"{ours:.2f} s CPU against {theirs:.2f} s ({source}), {size:.0f} MB"
    yield Figure(f"open a long {name} session / pi", ours / theirs, limit, "x", detail)
    yield Figure(f"memory with a {name} session open", memory, MEMORY_LIMIT_MB, "MB", "resident")


def _our_open(folder: Path, short: Path, path: Path) -> tuple[float, float]:
    """CPU seconds of opening ``path`` after another session, and the memory then."""
    driven = Driven(DAEMON, environment(PI_CODING_AGENT_DIR=str(folder / "agent")), folder)
    driven.request(0, "initialize", {})
    driven.request(1, "session/open", {"path": str(short)})
    driven.wait_until_idle()
    before = driven.cpu()
    state, _ = driven.request(2, "session/open", {"path": str(path)})
    state, _ = driven.request(3, "session/state", {"sessionId": state["sessionId"]})
    used, memory = driven.cpu() - before, driven.memory()
    assert state["messageCount"] >= ENTRIES - 1, state
    driven.close()
    return used, memory


def _pi_open(command: list[str], folder: Path, path: Path) -> float:
    # Elsewhere than the sessions: pi moves those that lie in its own folder.
    env = environment(PI_CODING_AGENT_DIR=str(folder / "agent"), PI_OFFLINE="1")

    def cpu(*arguments: str) -> float:
        argv = [*command, "--mode", "rpc", "--offline", *arguments]
        driven = Driven(argv, env, folder)
        driven.send({"id": "state", "type": "get_state"})
        driven.until(lambda line: b'"get_state"' in line)
        used = driven.cpu()
        driven.process.kill()
        driven.close()
        return used

    pairs = [cpu("--session", str(path)) - cpu("--no-session") for _ in range(ROUNDS)]
    return statistics.median(pairs)


def _recorded_open() -> float:
    recorded: dict[str, Any] = json.loads(BASELINE.read_text())
    here = statistics.median(
        timed(lambda: subprocess.run(BARE, env=environment(), check=True)) for _ in range(9)
    )
    return float(recorded["piOpenCpuSeconds"]) * here / float(recorded["bareSeconds"])


def _appending(folder: Path) -> Figure:
    """One append to the long session, against one to a session of a hundred entries."""
    short = folder / "hundred.jsonl"
    write_session(short, entries=100, size=100_000, cwd=str(folder))

    def append(path: Path) -> float:
        argv = [sys.executable, "-c", APPENDS, str(path)]
        done = subprocess.run(argv, env=environment(), check=True, capture_output=True)
        return float(done.stdout)

    pairs = [(append(folder / "whole.jsonl"), append(short)) for _ in range(3)]
    ratio = statistics.median(one / other for one, other in pairs)
    detail = f"{pairs[-1][0] * 1e6:.0f} us against {pairs[-1][1] * 1e6:.0f} us of CPU"
    return Figure("append to a long session / to a short one", ratio, APPEND_LIMIT, "x", detail)


def _listing(folder: Path) -> Figure:
    """The whole list of sessions, by a process that has not seen them."""
    agent = folder / "many"
    sessions = agent / "sessions" / "--work--"
    sessions.mkdir(parents=True)
    for number in range(LISTED):
        path = sessions / f"2026-01-01T00-00-00-000Z_s{number:04}.jsonl"
        write_session(path, entries=30, size=30_000, cwd=str(folder))

    def list_all() -> float:
        driven = Driven(DAEMON, environment(PI_CODING_AGENT_DIR=str(agent)), folder)
        driven.request(0, "initialize", {})
        start = time.perf_counter()
        result, _ = driven.request(1, "session/list", {"limit": LISTED})
        elapsed = time.perf_counter() - start
        assert len(result["sessions"]) == LISTED, len(result["sessions"])
        driven.close()
        return elapsed

    first = list_all()
    again = statistics.median(list_all() for _ in range(3))
    detail = f"{LISTED} sessions, by a new process; the first time {first:.2f} s"
    return Figure("list sessions again", again, LIST_LIMIT_S, "s", detail)
