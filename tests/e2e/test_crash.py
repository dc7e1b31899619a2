"""Killing the daemon at any moment loses no message that was announced.

By timer at moments spread over a run, and at chosen points inside the write of a message: before
it, in the middle of its line, after it and before anybody was told.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_rpc.session.store import JsonlSession
from tests.e2e.editor import DEADLINE_S, call, say
from tests.warm import Daemon, start_daemon

TURNS = 12
KILLS = 72
FIRST_MESSAGE = 3
"""Which write of a session holds its first message: the choice of model and level come before."""
SLICES = 4

INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
PROMPT = {"jsonrpc": "2.0", "id": 1, "method": "prompt", "params": {"message": "go"}}

DIE_INSIDE_WRITE = """
import os, signal, sys
from pi_rpc.session import _file
write = _file.write_all
state = {"appends": 0}
nth, fraction = int(sys.argv.pop()), float(sys.argv.pop())
def dying(fd, data):
    state["appends"] += 1
    if state["appends"] == nth:
        write(fd, data[: int(len(data) * fraction)])
        os.kill(os.getpid(), signal.SIGKILL)
    write(fd, data)
_file.write_all = dying
from pi_rpc.cli import main
main(["--stdio"])
"""


def start(home: Path, argv: Sequence[str] = ()) -> Daemon:
    """Start a daemon, or ``argv``, with a prompt to answer."""
    (home / "note.txt").write_text("some text\n" * 50)
    steps = [[say(f"turn {turn} "), call("read", path="note.txt")] for turn in range(TURNS)]
    script = home / "script.json"
    script.write_text(
        json.dumps({"replies": [*({"steps": each} for each in steps), {"steps": [say("end")]}]})
    )
    env = {**os.environ, "PI_CODING_AGENT_DIR": str(home), "PI_RPC_SCRIPT": str(script)}
    process: Daemon
    if argv:
        pipe = subprocess.PIPE
        process = subprocess.Popen(argv, cwd=home, env=env, stdin=pipe, stdout=pipe)
    else:
        process = start_daemon(["--stdio"], cwd=home, env=env)
    assert process.stdin is not None
    for frame in (INITIALIZE, PROMPT):
        process.stdin.write(json.dumps(frame).encode() + b"\n")
    process.stdin.flush()
    return process


def frames_until_end(
    process: Daemon, kill_at: int | None = None, kill_after_s: float = DEADLINE_S
) -> list[dict]:
    """Everything that came out until the end, or until a kill: after so many frames, or seconds."""
    assert process.stdout is not None
    assert process.stdin is not None
    guard = threading.Timer(kill_after_s, process.kill)
    guard.start()
    frames = []
    for line in process.stdout:
        if not line.endswith(b"\n"):
            break
        frames.append(json.loads(line))
        if len(frames) == kill_at:
            process.kill()
        if frames[-1].get("id") == 1:
            process.stdin.close()
    process.wait()
    guard.cancel()
    process.stdout.close()
    if not process.stdin.closed:
        process.stdin.close()
    return frames


def announced(frames: list[dict]) -> dict[str, Any]:
    """The messages that clients were told are stored, by entry."""
    events = [frame["params"]["event"] for frame in frames if "method" in frame]
    return {
        event["entryId"]: event["message"] for event in events if event["type"] == "message_end"
    }


def check(home: Path, told: dict[str, Any]) -> int:
    """Every message that was told of is in the file, and the file can be gone on with."""
    files = list(home.glob("sessions/**/*.jsonl"))
    if not files:
        assert told == {}
        return 0
    (path,) = files

    async def reopened() -> int:
        session = await JsonlSession.open(path)
        try:
            branch = [stored.id for stored in session.branch()]
            for entry_id, message in told.items():
                assert entry_id in branch
                stored = session.entry(entry_id)
                assert stored is not None
                assert json.loads(stored.raw)["message"] == message
            assert session.notes == []
            return session.message_count
        finally:
            await session.aclose()

    return anyio.run(reopened)


@pytest.mark.parametrize("part", range(SLICES))
def test_a_kill_at_any_moment_of_a_run_loses_no_announced_message(
    tmp_path: Path, part: int
) -> None:
    whole = frames_until_end(start(make(tmp_path / "whole")))
    assert len(announced(whole)) == 2 + 2 * TURNS
    moments = random.Random(part)
    lengths = set()
    begun = time.monotonic()
    frames_until_end(start(make(tmp_path / "timed")))
    lasts = time.monotonic() - begun
    for number in range(KILLS // SLICES):
        home = make(tmp_path / str(number))
        process = start(home)
        if number % 2:
            frames = frames_until_end(process, kill_at=moments.randrange(1, len(whole)))
        else:
            # By the clock: within a write, a sync, a rename.
            frames = frames_until_end(process, kill_after_s=lasts * moments.uniform(0.1, 1.0))
        told = announced(frames)
        stored = check(home, told)
        assert stored >= len(told)
        lengths.add(len(told))
    assert len(lengths) > 5, "the kills did not spread over the run"


@pytest.mark.parametrize("fraction", [0.0, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("nth", [1, 2, FIRST_MESSAGE, FIRST_MESSAGE + 1, FIRST_MESSAGE + 4])
def test_a_kill_inside_a_write_loses_no_announced_message(
    tmp_path: Path, nth: int, fraction: float
) -> None:
    argv = [sys.executable, "-c", DIE_INSIDE_WRITE, str(fraction), str(nth)]
    process = start(tmp_path, argv)
    told = announced(frames_until_end(process))
    assert process.returncode == -signal.SIGKILL
    stored = check(tmp_path, told)
    # The message being written was told to nobody; it is there only if all of it was written.
    assert len(told) == nth - FIRST_MESSAGE if nth >= FIRST_MESSAGE else told == {}
    assert stored - len(told) in {0, 1}


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder
