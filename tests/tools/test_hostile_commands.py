"""Commands that do all they can to outlive their end: a hundred runs, cut short at random moments.

Nothing is searched for by name. While a test runs, its process adopts every orphan below it: what
survives a command is found as a descendant of ours, whatever it has done to itself.
"""

import ctypes
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import psutil
import pytest

from pi_rpc._os.processes import watcher_pid
from pi_rpc.agent.ports import PortError
from pi_rpc.llm.abort import AbortController
from pi_rpc.tools._local_shell import LocalShell
from tests.e2e.editor import DEADLINE_S, call, say
from tests.os.survivors import GONE_S
from tests.server.wire import wire

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and subreapers"),
]

SEED = 20260
AT_ONCE = 10
DEAF = "trap '' TERM INT HUP QUIT TSTP"
HOSTILE = {
    "it just waits": "sleep 50",
    "deaf to signals": f"{DEAF}; while :; do sleep 50; done",
    "a hundred children": "for i in {1..100}; do sleep 50 & done; wait",
    "deaf children": f"for i in {{1..20}}; do ({DEAF}; sleep 50; sleep 50) & done; exit 0",
    "keeps forking": f"{DEAF}; while :; do (sleep 50 & sleep 50 &) ; sleep 0.01; done",
    "double fork": f"(env -i setsid bash -c '{DEAF}; (sleep 50 & sleep 50) & sleep 50' &);sleep 50",
    "nohup and disown": "nohup sleep 50 > /dev/null & disown -a; setsid --fork sleep 50; exit 1",
    "another name": "exec -a '[kworker/0:1]' setsid bash -c 'exec -a sshd sleep 50'",
    "no environment": "exec env -i /bin/bash -c 'sleep 50 & sleep 50'",
    "output closed": "exec > /dev/null 2>&1 0<&-; sleep 50",
    "output that never stops": "yes & yes",
    "output of a daemon": "(setsid bash -c 'while echo x; do sleep 0.02; done' &); exit 2",
    "one endless line": "tr '\\0' x < /dev/zero",
    "anything but text": "cat /dev/urandom",
    "its directory removed": 'd=$(mktemp -d); cd "$d"; rmdir "$d"; sleep 50 & sleep 50',
    "all descriptors taken": "while exec {fd}< /dev/null; do :; done 2> /dev/null; sleep 50",
    "nothing allowed": "ulimit -c 0 -v 200000 -n 20; sleep 50 & sleep 50",
    "stops itself": "sleep 50 & kill -STOP $$; sleep 50",
    "stops its group": "sleep 50 & kill -STOP 0",
    "a terminal of its own": "script -qc 'sleep 50' /dev/null & sleep 50",
    "replaced by another": "exec setsid -w setsid -w sleep 50",
    "forks when told to end": "trap '(setsid sleep 50 &); setsid --fork sleep 50' TERM; sleep 50",
}
OURS = "ours() { grep -qs pi_rpc._os._watcher /proc/$2/cmdline && kill -$1 $2; }; "
"""Kills a keeper or watcher, never a process above it, whose child it is once that is dead."""
OURS += "export -f ours; above() { ps -o ppid= -p $PPID; }; "
AGAINST_KEEPERS = {
    "kills its keeper": OURS + "(env -i setsid sleep 50 &); ours KILL $PPID; sleep 50",
    "stops its keeper": OURS + f"({DEAF}; sleep 50) & ours STOP $PPID; sleep 50",
    "kills it from outside": OURS
    + "(setsid env bash -c 'ours KILL '$PPID'; sleep 50' &); sleep 50",
    "stops it for good": OURS + "while ours STOP $PPID; do sleep 0.05; done; sleep 50",
}
AGAINST_WATCHERS = {
    "kills the watcher": OURS + "ours KILL $(above); sleep 50",
    "stops the watcher": OURS + "ours STOP $(above); sleep 50",
    "kills both": OURS + "ours KILL $(above); ours KILL $PPID; (setsid sleep 50 &); sleep 50",
}


@pytest.fixture(autouse=True)
def adopting() -> Iterator[None]:
    """Every orphan below this process becomes its child."""
    prctl = ctypes.CDLL(None).prctl
    flag, zero = ctypes.c_ulong(1), ctypes.c_ulong(0)
    prctl(36, flag, zero, zero, zero)  # PR_SET_CHILD_SUBREAPER
    yield
    prctl(36, zero, zero, zero, zero)


def alive(spare: set[int]) -> dict[int, str]:
    """Our descendants that run, but for ``spare``; orphans that have ended are collected."""
    found = {}
    for each in psutil.Process().children(recursive=True):
        try:
            if each.pid in spare:
                continue
            if each.status() == psutil.STATUS_ZOMBIE:
                if each.ppid() == os.getpid():
                    os.waitpid(each.pid, os.WNOHANG)
                continue
            found[each.pid] = " ".join(each.cmdline())
        except (psutil.NoSuchProcess, ChildProcessError):
            continue
    return found


async def nothing_left(spare: set[int], what: object) -> None:
    """Keepers are given the time to leave; commands should have gone long before."""
    with anyio.move_on_after(GONE_S):
        while alive(spare):
            await anyio.sleep(0.02)
    assert alive(spare) == {}, what


async def cut_short(shell: LocalShell, command: str, way: str, after_s: float) -> None:
    """Run a command and have it ended, in one of the ways there are."""
    controller = AbortController()

    async def run() -> None:
        try:
            await shell.run(
                command,
                cwd=Path("/tmp"),
                env={},
                timeout_s=after_s if way == "limit" else 20,
                on_output=lambda _: None,
                signal=controller.signal,
            )
        except PortError as error:
            # What a neighbour did to the watcher may have met our start.
            if "keeps ending" not in error.message:
                raise

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        if way != "limit":
            await anyio.sleep(after_s)
        if way == "abort":
            controller.abort()
        elif way == "cancel":
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("commands", "runs"),
    [
        pytest.param({**HOSTILE, **AGAINST_KEEPERS}, 70, id="keepers"),
        # Without what drops its mark: whoever ends both its keeper and the watcher is found by it.
        pytest.param({**HOSTILE, **AGAINST_WATCHERS}, 30, id="watchers"),
    ],
)
async def test_no_command_survives_being_cut_short_at_any_moment(
    commands: dict[str, str], runs: int
) -> None:
    others = set(alive(set()))
    choice = random.Random(SEED)
    names = list(commands) * (runs // len(commands) + 1)
    choice.shuffle(names)
    for start in range(0, runs, AT_ONCE):
        shell = LocalShell()
        batch = names[start : min(start + AT_ONCE, runs)]
        plan = [
            (name, choice.choice(("abort", "abort", "limit", "cancel")), choice.uniform(0, 0.25))
            for name in batch
        ]
        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as tasks:
                for name, way, after_s in plan:
                    tasks.start_soon(cut_short, shell, commands[name], way, after_s)
            # Commands that were done before they were cut short may have left something.
            await shell.aclose()
        watcher = watcher_pid()
        await nothing_left(others if watcher is None else {*others, watcher}, plan)


@pytest.mark.parametrize("way", ["end of input", "SIGTERM", "SIGKILL"])
async def test_however_a_daemon_ends_none_of_its_commands_survives(
    tmp_path: Path, way: str
) -> None:
    with wire(tmp_path) as first:  # so that what forks daemons is there before
        first.end()
    before = set(alive(set()))
    commands = {**HOSTILE, **AGAINST_KEEPERS}
    calls = [call("bash", command=command) for command in commands.values()]
    with wire(tmp_path, [calls, [say("never")]]) as client:
        client.ask("session/configure", {"permissionMode": "full"})
        client.say("prompt", {"message": "go"})
        started: set[str] = set()
        while len(started) < len(commands):
            started.add(client.until("tool_execution_start")["toolCallId"])
        if way == "end of input":
            client.end()
        else:
            client.process.send_signal(getattr(signal, way))
            client.process.wait(DEADLINE_S)
        await nothing_left(before, way)
