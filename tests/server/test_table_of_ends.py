"""However the daemon ends, whatever it is doing: no child is left, and the session can be used.

The table is every way to end times everything that may be going on. Deadlines are generous; that an
orderly end takes less than two seconds is what the limits within the daemon add up to.
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
from typing import Any

import anyio
import psutil
import pytest

from pi_rpc.llm.messages import AssistantMessage, UserMessage
from pi_rpc.session.entries import MessageEntry, SessionInfoEntry
from pi_rpc.session.store import JsonlSession
from tests.e2e.editor import DAEMON, DEADLINE_S, call, hold, say, session_files
from tests.server.test_slow_clients import wait_until
from tests.server.wire import Wire

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
class Daemon:
    """One that is to end, and its client."""

    client: Wire
    parent: "subprocess.Popen[bytes]"
    """The process of ``processId``."""
    process: psutil.Process
    """The daemon itself, which a launcher may have started."""

    @property
    def children(self) -> list[psutil.Process]:
        return self.process.children(recursive=True)


# --- what goes on --------------------------------------------------------------------------------


def idle(daemon: Daemon) -> None:
    assert daemon.client.ask("session/state")["phase"] == "idle"


def command(daemon: Daemon) -> None:
    daemon.client.say("prompt", {"message": "go"})
    daemon.client.until("tool_execution_start")
    asleep: set[str] = set()
    while asleep != CHILDREN:
        assert daemon.process.is_running()
        with suppress(psutil.NoSuchProcess):
            sleepers = [each for each in daemon.children if each.name() == "sleep"]
            # One that is just beginning, or has just ended, has no words.
            asleep = {word for each in sleepers for word in each.cmdline()[-1:]}


def permission(daemon: Daemon) -> None:
    daemon.client.ask("session/configure", {"permissionMode": "ask"})
    daemon.client.say("prompt", {"message": "go"})
    daemon.client.call("permission/request")


def question(daemon: Daemon) -> None:
    daemon.client.say("prompt", {"message": "/ask"})
    daemon.client.call("ui/confirm")


def compaction(daemon: Daemon) -> None:
    daemon.client.ask("prompt", {"message": "And now?"})
    daemon.client.say("compact")
    daemon.client.until("compaction_start")


Replies = Sequence[Sequence[dict[str, Any]]]

GOING_ON: dict[str, tuple[Callable[[Daemon], None], Replies]] = {
    "idle": (idle, []),
    "command": (command, [[call("bash", command=HOSTILE)]]),
    "permission": (permission, [[call("bash", command="make")]]),
    "question": (question, []),
    "compaction": (compaction, [[say("later")], [say("half a summary"), hold()]]),
}

# --- how it ends ---------------------------------------------------------------------------------


def end_of_input(daemon: Daemon) -> None:
    assert daemon.client.process.stdin is not None
    daemon.client.process.stdin.close()


def exit_(daemon: Daemon) -> None:
    daemon.client.say("exit", wants_answer=False)


def second_signal(daemon: Daemon) -> None:
    daemon.process.terminate()
    daemon.process.terminate()


def parent_dies(daemon: Daemon) -> None:
    daemon.parent.kill()


def broken_output(daemon: Daemon) -> None:
    assert daemon.client.process.stdout is not None
    daemon.client.process.stdout.close()
    # It is noticed with the next thing that is said.
    daemon.client.say("ping")


def signalled(number: signal.Signals) -> Callable[[Daemon], None]:
    return lambda daemon: daemon.process.send_signal(number)


ENDS: dict[str, tuple[Callable[[Daemon], None], int]] = {
    "end of input": (end_of_input, 0),
    "exit": (exit_, 1),
    "SIGTERM": (signalled(signal.SIGTERM), 128 + signal.SIGTERM),
    "SIGHUP": (signalled(signal.SIGHUP), 128 + signal.SIGHUP),
    "SIGINT": (signalled(signal.SIGINT), 128 + signal.SIGINT),
    "second signal": (second_signal, 128 + signal.SIGTERM),
    "death of processId": (parent_dies, 0),
    "broken output": (broken_output, 0),
    "kill -9": (signalled(signal.SIGKILL), -signal.SIGKILL),
}
"""With the exit codes."""


def launcher_dies(daemon: Daemon) -> None:
    daemon.client.process.kill()
    # The daemon does not know its launcher; that nobody speaks to it any more it knows.
    end_of_input(daemon)


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
def daemon(home: Path, replies: Replies, launcher: Sequence[str] = ()) -> Iterator[Daemon]:
    """One that has said something in its default session, where all is allowed."""
    (home / "extensions-py").mkdir(exist_ok=True)
    (home / "extensions-py" / "asking.py").write_text(ASKING)
    (home / "settings.json").write_text(json.dumps({"compaction": {"keepRecentTokens": 5}}))
    script = home / "script.json"
    steps = [{"steps": list(each)} for each in [[say("warm")], *replies]]
    script.write_text(json.dumps({"replies": steps}))
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = subprocess.Popen(
        [*launcher, *DAEMON],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=home,
        env={**os.environ, "PI_CODING_AGENT_DIR": str(home), "PI_RPC_SCRIPT": str(script)},
    )
    here = psutil.Process(process.pid)
    started: list[psutil.Process] = []
    try:
        client = Wire(process)
        client.ask(
            "initialize",
            {
                "processId": parent.pid,
                "capabilities": {"permission": True, "ui": True},
                "initializationOptions": {"session": {"permissionMode": "full"}},
            },
        )
        made = Daemon(client, parent, here.children()[0] if launcher else here)
        started = [made.process]
        assert client.ask("prompt", {"message": "hi"})["text"] == "warm"
        yield made
    finally:
        for each in (*started, process, parent):
            with suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()
        parent.wait()
        for stream in (process.stdin, process.stdout, parent.stdin):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()


def check(
    home: Path, end: Callable[[Daemon], None], code: int, going_on: str, launcher: Sequence[str]
) -> None:
    begin, replies = GOING_ON[going_on]
    with daemon(home, replies, launcher) as ending:
        begin(ending)
        left = [ending.process, *ending.children]
        began = time.monotonic()
        end(ending)
        assert ending.client.process.wait(DEADLINE_S) == code
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


@pytest.mark.parametrize(("end", "going_on"), list(itertools.product(ENDS, GOING_ON)))
def test_an_end_leaves_no_child_and_a_session_that_goes_on(
    end: str, going_on: str, tmp_path: Path
) -> None:
    check(tmp_path, *ENDS[end], going_on, ())


@pytest.mark.parametrize(("launcher", "end"), list(itertools.product(LAUNCHERS, LAUNCHED_ENDS)))
def test_so_does_an_end_behind_a_launcher(launcher: str, end: str, tmp_path: Path) -> None:
    how, code = LAUNCHED_ENDS[end]
    # A shell says it like that; what a parent of ours makes of it is not the daemon's.
    if code < 0 and end == "kill -9":
        code = 128 + signal.SIGKILL if launcher == "sh -c" else 256 - signal.SIGKILL
    check(tmp_path, how, code, "command", LAUNCHERS[launcher])


def test_the_table_has_every_way_to_end_and_everything_that_may_go_on() -> None:
    signals = {"SIGTERM", "SIGHUP", "SIGINT", "second signal", "kill -9"}
    others = {"end of input", "exit", "death of processId", "broken output"}
    assert set(ENDS) == signals | others
    assert set(GOING_ON) == {"idle", "command", "permission", "question", "compaction"}
