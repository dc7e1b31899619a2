"""However the process behind a front door ends, whatever it is doing: no child is left, and the
session can be used.

The table is every door times every way to end times everything that may be going on, less what a
protocol does not have. Deadlines are generous; that an orderly end takes less than two seconds is
what the limits within the daemon add up to.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import psutil
import pytest

from pi_rpc.llm.messages import AssistantMessage, UserMessage
from pi_rpc.session.entries import MessageEntry, SessionInfoEntry
from pi_rpc.session.store import JsonlSession
from tests.doors.doors import DOORS, Door, Replies
from tests.e2e.editor import DEADLINE_S, call, hold, say, session_files
from tests.server.test_slow_clients import wait_until
from tests.warm import start_daemon

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="watched over on Linux alone")

ASKING = """
def setup(api):
    async def ask(arguments):
        await api.ui.confirm("Really?")
    api.command("ask", "Asks", ask)
"""
HOSTILE = (
    "trap '' TERM INT HUP QUIT; setsid sleep 7001 & nohup setsid sh -c 'trap \"\" TERM; sleep 7002'"
    " >/dev/null 2>&1 & (setsid setsid sleep 7003 &); while :; do sleep 7004; done"
)
CHILDREN = {"7001", "7002", "7003", "7004"}


@dataclass
class Ending:
    """A process that is to end."""

    door: Door
    parent: "subprocess.Popen[bytes]"
    """The process of ``processId``."""
    process: psutil.Process
    """The daemon itself, which a launcher may have started."""

    @property
    def children(self) -> list[psutil.Process]:
        return self.process.children(recursive=True)


# --- what goes on --------------------------------------------------------------------------------


def command(ending: Ending) -> None:
    ending.door.command()
    asleep: set[str] = set()
    while asleep != CHILDREN:
        assert ending.process.is_running()
        with suppress(psutil.NoSuchProcess):
            sleepers = [each for each in ending.children if each.name() == "sleep"]
            # One that is just beginning, or has just ended, has no words.
            asleep = {word for each in sleepers for word in each.cmdline()[-1:]}


GOING_ON: dict[str, tuple[Callable[[Ending], None], Replies]] = {
    "idle": (lambda ending: ending.door.idle(), []),
    "command": (command, [[call("bash", command=HOSTILE)]]),
    "permission": (lambda ending: ending.door.permission(), [[call("bash", command="make")]]),
    "question": (lambda ending: ending.door.question(), []),
    "compaction": (
        lambda ending: ending.door.compaction(),
        [[say("later")], [say("half a summary"), hold()]],
    ),
}

# --- how it ends ---------------------------------------------------------------------------------


def end_of_input(ending: Ending) -> None:
    assert ending.door.process.stdin is not None
    ending.door.process.stdin.close()


def second_signal(ending: Ending) -> None:
    ending.process.terminate()
    ending.process.terminate()


def broken_output(ending: Ending) -> None:
    assert ending.door.process.stdout is not None
    ending.door.process.stdout.close()
    # It is noticed with the next thing that is said.
    ending.door.poke()


def signalled(number: signal.Signals) -> Callable[[Ending], None]:
    return lambda ending: ending.process.send_signal(number)


ENDS: dict[str, tuple[Callable[[Ending], None], int]] = {
    "end of input": (end_of_input, 0),
    "exit": (lambda ending: ending.door.exit(), 1),
    "SIGTERM": (signalled(signal.SIGTERM), 128 + signal.SIGTERM),
    "SIGHUP": (signalled(signal.SIGHUP), 128 + signal.SIGHUP),
    "SIGINT": (signalled(signal.SIGINT), 128 + signal.SIGINT),
    "second signal": (second_signal, 128 + signal.SIGTERM),
    "death of processId": (lambda ending: ending.parent.kill(), 0),
    "broken output": (broken_output, 0),
    "kill -9": (signalled(signal.SIGKILL), -signal.SIGKILL),
}
"""With the exit codes."""


def launcher_dies(ending: Ending) -> None:
    ending.door.process.kill()
    # The daemon does not know its launcher; that nobody speaks to it any more it knows.
    end_of_input(ending)


NPX = "import subprocess, sys; sys.exit(subprocess.Popen(sys.argv[1:]).wait())"
LAUNCHERS = {
    "sh -c": ("sh", "-c", '"$@"; exit $?', "sh"),
    "npx": (sys.executable, "-c", NPX),
}
"""Parents that pass no signal on."""
LAUNCHED_ENDS = {
    **{name: ENDS[name] for name in ENDS if not name.startswith("SIG")},
    "death of the launcher": (launcher_dies, -signal.SIGKILL),
}


# --- the table -----------------------------------------------------------------------------------


@contextmanager
def started(
    door: type[Door], home: Path, replies: Replies, launcher: Sequence[str] = ()
) -> Iterator[Ending]:
    """One that has said something."""
    (home / "extensions-py").mkdir()
    (home / "extensions-py" / "asking.py").write_text(ASKING)
    (home / "settings.json").write_text(json.dumps({"compaction": {"keepRecentTokens": 5}}))
    (home / "project").mkdir()
    script = home / "script.json"
    steps = [{"steps": list(each)} for each in [[say("warm")], *replies]]
    script.write_text(json.dumps({"replies": steps}))
    env = {**os.environ, "PI_CODING_AGENT_DIR": str(home), "PI_RPC_SCRIPT": str(script)}
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = start_daemon([door.ARGUMENT], cwd=home, env=env, launcher=launcher)
    here = psutil.Process(process.pid)
    left: list[psutil.Process] = []
    try:
        made = door(process, home)
        made.greet(parent.pid)
        left = [here.children()[0] if launcher else here]
        made.warm()
        yield Ending(made, parent, left[0])
    finally:
        for each in (*left, process, parent):
            with suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()
        parent.wait()
        for stream in (process.stdin, process.stdout, parent.stdin):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()


def check(door: str, end: str, going_on: str, home: Path, launcher: str | None = None) -> None:
    how, code = ENDS[end] if launcher is None else LAUNCHED_ENDS[end]
    # A shell says it like that; what a parent of ours makes of it is not the daemon's.
    if launcher is not None and end == "kill -9":
        code = 128 + signal.SIGKILL if launcher == "sh -c" else 256 - signal.SIGKILL
    begin, replies = GOING_ON[going_on]
    words = () if launcher is None else LAUNCHERS[launcher]
    with started(DOORS[door], home, replies, words) as ending:
        begin(ending)
        left = [ending.process, *ending.children]
        began = time.monotonic()
        how(ending)
        assert ending.door.process.wait(DEADLINE_S) == code
        wait_until(lambda: not any(map(is_alive, left)))
        print(f"{going_on}: gone after {time.monotonic() - began:.2f} s")
    (path,) = session_files(home)
    anyio.run(reopen, path)


def is_alive(process: psutil.Process) -> bool:
    """It runs; what is dead may wait for the first of all processes to take note."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def reopen(path: Path) -> None:
    """Its lock is free, every line can be read, and it can be written."""
    session = await JsonlSession.open(path)
    try:
        assert session.notes == []
        entries = [each.entry for each in session.branch()]
        said = [type(each.message) for each in entries if isinstance(each, MessageEntry)]
        assert said[:2] == [UserMessage, AssistantMessage]
        stamp = {"id": "0a1b2c3d", "timestamp": "2026-01-01T00:00:00.000Z"}
        await session.append(
            SessionInfoEntry(parent_id=session.leaf_id, name="still there", **stamp)
        )
    finally:
        await session.aclose()
    last = json.loads(path.read_text().splitlines()[-1])
    assert last["name"] == "still there"


CELLS = [
    (door, end, going_on)
    for door, end, going_on in itertools.product(DOORS, ENDS, GOING_ON)
    if end not in DOORS[door].LACKS
]
LAUNCHED = [
    (door, end, launcher)
    for door, end, launcher in itertools.product(DOORS, LAUNCHED_ENDS, LAUNCHERS)
    # Nothing of a door stands between it and its launcher: one row shows that for the others.
    if door == "native" or end == "death of the launcher"
]


@pytest.mark.parametrize(("door", "end", "going_on"), CELLS)
def test_an_end_leaves_no_child_and_a_session_that_goes_on(
    door: str, end: str, going_on: str, tmp_path: Path
) -> None:
    check(door, end, going_on, tmp_path)


@pytest.mark.parametrize(("door", "end", "launcher"), LAUNCHED)
def test_so_does_an_end_behind_a_launcher(
    door: str, end: str, launcher: str, tmp_path: Path
) -> None:
    check(door, end, "command", tmp_path, launcher)


def test_the_table_has_every_way_to_end_and_everything_that_may_go_on() -> None:
    signals = {"SIGTERM", "SIGHUP", "SIGINT", "second signal", "kill -9"}
    others = {"end of input", "exit", "death of processId", "broken output"}
    assert set(ENDS) == signals | others
    assert set(GOING_ON) == {"idle", "command", "permission", "question", "compaction"}
    assert {name for name, door in DOORS.items() if door.LACKS} == {"acp"}
    assert set(DOORS["acp"].LACKS) == {"exit", "death of processId"}
