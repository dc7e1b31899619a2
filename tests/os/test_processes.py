"""Running programs, and that nothing they start outlives us."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import psutil
import pytest

from pi_rpc._os import _trees, processes
from pi_rpc._os.pipes import OutputPipe
from pi_rpc._os.processes import Child, spawn, watcher_pid
from tests.deadlines import DEADLINE_S
from tests.os.survivors import (
    GONE_S,
    NOTHING_HELPS,
    is_alive,
    new_marker,
    open_descriptors,
    survivors,
    wait_until_alive,
    wait_until_gone,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="looks processes up in /proc"),
]

HERE = Path.cwd()
HIDDEN = 6
"""How many sleepers NOTHING_HELPS starts."""


async def shell(command: str, **fds: int) -> Child:
    return await spawn(["/bin/sh", "-c", command], cwd=HERE, env=dict(os.environ), **fds)


async def run(command: str) -> tuple[int, str]:
    with OutputPipe() as pipe, anyio.fail_after(DEADLINE_S):
        async with await shell(command, stdout=pipe.write_fd, stderr=pipe.write_fd) as child:
            pipe.close_write()
            output = b""
            while data := await pipe.read():
                output += data
            return await child.wait(), output.decode()


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("kill -TERM $$", 143)],
)
async def test_the_exit_code_is_the_programs_or_128_and_its_signal(command: str, code: int) -> None:
    assert (await run(command))[0] == code


async def test_every_waiter_gets_the_exit_code() -> None:
    child = await shell("read x < /dev/null; sleep 0.05; exit 4")
    codes = []

    async def wait() -> None:
        codes.append(await child.wait())

    async with child, anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(wait)
    assert codes == [4, 4, 4]
    assert child.gone


@contextlib.contextmanager
def child_of_a_scripted_keeper() -> Iterator[tuple[Child, socket.socket]]:
    """A child whose news the test sends, and the socket to send them on."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        child = Child(ours, "0" * 16)
        child.pid = 2**31 - 1
        yield child, theirs


@pytest.mark.parametrize(
    ("news", "code"), [(b"exited 5 1\n", 5), (b"exited 5 0\n", 5), (b"gone\n", 137), (b"", 137)]
)
async def test_polling_takes_no_news_away_from_a_task_that_waits(news: bytes, code: int) -> None:
    codes = []
    with child_of_a_scripted_keeper() as (child, keeper), anyio.fail_after(DEADLINE_S):

        async def wait() -> None:
            codes.append(await child.wait())

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            if news:
                keeper.send(news)
            else:
                keeper.close()
            for _ in range(3):
                child.poll()
    assert codes == [code] * 3


async def test_polling_finds_out_what_nobody_waits_for() -> None:
    with child_of_a_scripted_keeper() as (child, keeper):
        assert not child.poll()
        keeper.send(b"exited 5 1\n")
        assert not child.poll()
        assert child.exit_code == 5
        keeper.send(b"gone\n")
        assert child.poll()


async def test_a_task_that_waits_learns_that_the_keeper_was_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "_END_LIMIT_S", 0)
    with child_of_a_scripted_keeper() as (child, _), anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child.wait)
            await anyio.wait_all_tasks_blocked()
            await child.end_tree(0)
        assert child.exit_code == 137
        assert child._control.fileno() == -1


async def test_a_program_gets_no_input_no_other_descriptors_and_default_signals() -> None:
    leaked, other = os.pipe()
    os.set_inheritable(leaked, True)
    try:
        _, output = await run(
            "cat; for fd in 0 1 2; do test -e /proc/$$/fd/$fd || echo missing; done;"
            "ls -l /proc/$$/fd; readlink /proc/$$/fd/0;"
            "exec grep -E 'Sig(Blk|Ign)' /proc/self/status"
        )
        pipe = os.readlink(f"/proc/self/fd/{leaked}")
    finally:
        os.close(leaked)
        os.close(other)
    *listing, stdin, _, blocked, _, ignored = output.split()
    assert pipe not in listing
    assert "socket" not in output
    assert "missing" not in output
    assert stdin == "/dev/null"
    # The C library has two signals of its own after the 31 that programs know.
    assert int(blocked, 16) == int(ignored, 16) & 0x7FFF_FFFF == 0


async def test_a_program_leads_a_session_of_its_own_in_the_directory_asked_for(
    tmp_path: Path,
) -> None:
    with OutputPipe() as pipe:
        async with await spawn(
            ["sh", "-c", 'pwd; echo "$NAME"; ps -o pgid=,sid= -p $$'],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "NAME": "väl\udcffue"},
            stdout=pipe.write_fd,
        ) as child:
            pipe.close_write()
            output = b""
            while data := await pipe.read():
                output += data
            words = output.split()
            assert os.fsdecode(words[0]) == str(tmp_path)
            assert os.fsdecode(words[1]) == "väl\udcffue"
            assert words[2:] == [b"%d" % child.pid] * 2


async def test_a_large_environment_arrives_whole() -> None:
    value = "x" * 100_000
    env = {"PATH": os.environ["PATH"], **{f"V{n}": value for n in range(10)}}
    async with await spawn(["sh", "-c", "test ${#V9} = 100000"], cwd=HERE, env=env) as child:
        assert await child.wait() == 0


async def test_what_cannot_be_started_says_why() -> None:
    with pytest.raises(FileNotFoundError) as error:
        await spawn(["no-such-program"], cwd=HERE, env={})
    assert error.value.filename == "no-such-program"
    with pytest.raises(FileNotFoundError) as error:
        await spawn(["sh"], cwd=HERE / "no-such-directory", env={})
    assert error.value.filename == str(HERE / "no-such-directory")
    with pytest.raises(PermissionError):
        await spawn(["/etc/passwd"], cwd=HERE, env={})
    with pytest.raises(OSError, match="NUL"):
        await spawn(["sh", "-c", "a\0b"], cwd=HERE, env={})
    with pytest.raises(OSError, match="Argument list too long"):
        await spawn(["sh", "-c", "x" * 10_000_000], cwd=HERE, env={})


@pytest.mark.parametrize("grace_s", [0, 0.05])
async def test_the_end_of_a_tree_ends_what_hides_from_it(grace_s: float) -> None:
    marker = new_marker()
    child = await shell(NOTHING_HELPS.format(m=marker) + f"sleep {marker}")
    await wait_until_alive(marker, HIDDEN + 1)
    await child.end_tree(grace_s)
    assert survivors(marker) == {}
    assert child.gone


async def test_the_end_of_a_tree_ends_a_hundred_children_and_what_keeps_forking() -> None:
    marker = new_marker()
    # A relay: each process starts the next one, in a session of its own, and exits.
    relay = f"r='sleep 0.002; n=$((n-1)); [ $n -gt 0 ] && setsid -f sh -c \"$r\" {marker}'"
    relay = f'export n=50000 r={relay.removeprefix("r=")}; sh -c "$r" {marker};'
    child = await shell(f"{relay} for i in $(seq 100); do sleep {marker} & done; wait")
    await wait_until_alive(marker, 100)
    with anyio.fail_after(DEADLINE_S):
        while not any(text.startswith("sh -c sleep 0.002") for text in survivors(marker).values()):
            await anyio.sleep(0.001)
    await child.end_tree(0)
    for _ in range(20):  # one look could miss a relay between two of its processes
        assert survivors(marker) == {}


async def test_one_tree_is_ended_and_its_neighbour_lives() -> None:
    ended, neighbour = new_marker(), new_marker()
    first = await shell(f"setsid sleep {ended} & wait")
    second = await shell(f"setsid sleep {neighbour} & wait")
    async with second:
        await wait_until_alive(ended, 1)
        await wait_until_alive(neighbour, 1)
        await first.end_tree(0)
        assert survivors(ended) == {}
        assert survivors(neighbour) != {}
    assert survivors(neighbour) == {}


async def test_the_grace_time_lets_a_program_clean_up(tmp_path: Path) -> None:
    done = tmp_path / "done"
    child = await shell(
        f"trap 'echo x > {done}; exit 9' TERM; echo r > {done}.r; while :; do :; done"
    )
    with anyio.fail_after(DEADLINE_S):
        while not Path(f"{done}.r").exists():
            await anyio.sleep(0.01)
    await child.end_tree(grace_s=5)
    assert done.read_text() == "x\n"
    assert child.exit_code == 9


async def test_a_shell_does_not_go_on_when_its_command_is_ended(tmp_path: Path) -> None:
    marker = new_marker()
    child = await shell(f"trap '' TERM; sleep {marker}; echo next > {tmp_path}/next")
    await wait_until_alive(marker, 1)
    await child.end_tree(0)
    assert list(tmp_path.iterdir()) == []


async def test_what_a_program_leaves_lives_until_the_end_is_asked_for() -> None:
    marker = new_marker()
    child = await shell(f"setsid sleep {marker} & exit 0")
    assert await child.wait() == 0
    assert not child.poll()
    await wait_until_alive(marker, 1)
    await child.end_tree()
    assert survivors(marker) == {}


async def test_a_tree_that_ends_by_itself_is_noticed() -> None:
    child = await shell("sleep 0.05 & exit 0")
    await child.wait()
    with anyio.fail_after(DEADLINE_S):
        while not child.poll():
            await anyio.sleep(0.01)
    await child.end_tree()


async def test_a_drained_pipe_stops_nobody(tmp_path: Path) -> None:
    done = tmp_path / "done"
    with OutputPipe() as pipe:
        child = await shell(
            f"(sleep 0.05; head -c 1000000 /dev/zero && echo x > {done}) & exit 0",
            stdout=pipe.write_fd,
        )
        pipe.close_write()
        await child.wait()
        child.drain(pipe.read_fd)
    with anyio.fail_after(DEADLINE_S):
        while not done.exists():
            await anyio.sleep(0.01)
    await child.end_tree()


async def test_cancelled_while_it_starts_it_leaves_nothing() -> None:
    marker = new_marker()
    descriptors = open_descriptors()
    for _ in range(10):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await shell(f"exec sleep {marker}")
        assert scope.cancelled_caught
    assert survivors(marker) == {}
    assert open_descriptors() == descriptors


async def test_fifty_programs_at_once_leak_no_descriptor() -> None:
    await run("exit 0")
    before = open_descriptors()
    codes = []

    async def one(number: int) -> None:
        codes.append((await run(f"exit {number}"))[0])

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(one, number)
    assert sorted(codes) == list(range(50))
    assert open_descriptors() == before


def test_one_watcher_serves_event_loops_one_after_the_other() -> None:
    assert anyio.run(run, "exit 3")[0] == 3
    first = watcher_pid()
    assert anyio.run(run, "exit 4")[0] == 4
    assert watcher_pid() == first


async def test_the_watcher_has_neither_our_descriptors_nor_our_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hush")
    monkeypatch.setattr(processes, "_watcher", None)
    leaked, other = os.pipe()
    os.set_inheritable(leaked, True)
    try:
        await run("exit 0")
        watcher = psutil.Process(watcher_pid())
        assert watcher.environ() == {}
        targets = {os.readlink(fd) for fd in Path(f"/proc/{watcher.pid}/fd").iterdir()}
        assert os.readlink(f"/proc/self/fd/{leaked}") not in targets
        assert os.getsid(watcher.pid) == watcher.pid
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            watcher.send_signal(number)
        assert (await run("exit 5"))[0] == 5
        assert watcher_pid() == watcher.pid
    finally:
        os.close(leaked)
        os.close(other)
        assert processes._watcher is not None
        processes._watcher.end()


async def test_a_killed_watcher_costs_no_command_and_the_next_starts_another() -> None:
    marker = new_marker()
    child = await shell(f"{NOTHING_HELPS.format(m=marker)} read x < /dev/null; sleep 0.2; exit 6")
    await wait_until_alive(marker, HIDDEN)
    killed = watcher_pid()
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    assert (await run("exit 5"))[0] == 5
    assert watcher_pid() != killed
    assert await child.wait() == 6
    await child.end_tree()
    await wait_until_gone(marker)


async def test_a_watcher_killed_with_a_start_on_its_way_is_replaced() -> None:
    await run("exit 0")
    killed = watcher_pid()
    assert killed is not None
    os.kill(killed, signal.SIGSTOP)
    codes = []

    async def start() -> None:
        codes.append((await run("exit 5"))[0])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start)
        await anyio.wait_all_tasks_blocked()
        os.kill(killed, signal.SIGKILL)
    assert codes == [5]


async def test_a_watcher_that_is_stuck_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    await run("exit 0")
    stuck = watcher_pid()
    assert stuck is not None
    os.kill(stuck, signal.SIGSTOP)
    monkeypatch.setattr(processes, "_resume", lambda _: None)
    monkeypatch.setattr(processes, "_START_LIMIT_S", 0.05)
    monkeypatch.setattr(processes, "_END_LIMIT_S", 0.05)
    with pytest.raises(TimeoutError):
        await shell("exit 0")
    monkeypatch.undo()
    assert (await run("exit 5"))[0] == 5
    assert watcher_pid() != stuck
    assert not psutil.pid_exists(stuck)


async def test_a_stopped_watcher_goes_on_with_the_next_program() -> None:
    await run("exit 0")
    watcher = watcher_pid()
    assert watcher is not None
    os.kill(watcher, signal.SIGSTOP)
    assert (await run("exit 5"))[0] == 5
    assert watcher_pid() == watcher


async def test_a_program_that_kills_its_keeper_at_once_has_run_once(tmp_path: Path) -> None:
    for number in range(20):
        path = tmp_path / f"{number}"
        child = await shell(f"kill -KILL $PPID; echo ran >> {path}; exec sleep 50")
        with anyio.fail_after(DEADLINE_S):
            assert await child.wait() == 137
        await child.end_tree()
        # It may have been ended before it could write.
        assert not path.exists() or path.read_text() in {"", "ran\n"}


async def test_a_program_that_stops_its_keeper_is_still_known_to_have_ended() -> None:
    # At once, when it may not have been able to tell of the start, and later.
    for wait in ("", "read x < /dev/null; sleep 0.05;"):
        with anyio.fail_after(DEADLINE_S):
            assert (await run(f"{wait} kill -STOP $PPID; exit 6"))[0] == 6


async def test_a_command_that_kills_its_keeper_is_reported_ended_and_leaves_nothing() -> None:
    marker = new_marker()
    child = await shell(f"{NOTHING_HELPS.format(m=marker)} kill -KILL $PPID; sleep {marker}")
    with anyio.fail_after(DEADLINE_S):
        assert await child.wait() == 137
    await child.end_tree()
    await wait_until_gone(marker)


async def test_what_a_killed_keeper_leaves_ends_without_the_watcher_too() -> None:
    marker = new_marker()
    # Without `env -i`: only its mark tells the watcher's orphans from anybody's.
    command = f"(setsid sh -c 'trap \"\" TERM; sleep {marker}; true' &) ; exec sleep {marker}"
    child = await shell(command)
    await wait_until_alive(marker, 2)
    watcher = watcher_pid()
    assert watcher is not None
    os.kill(watcher, signal.SIGKILL)
    os.kill(child._keeper, signal.SIGKILL)
    with anyio.fail_after(DEADLINE_S):
        assert await child.wait() == 137
    assert survivors(marker) == {}


@pytest.mark.parametrize("resumed", [True, False])
async def test_the_tree_of_a_stopped_keeper_is_ended_all_the_same(
    monkeypatch: pytest.MonkeyPatch, resumed: bool
) -> None:
    marker = new_marker()
    child = await shell(f"{NOTHING_HELPS.format(m=marker)} sleep {marker}")
    await wait_until_alive(marker, HIDDEN + 1)
    os.kill(child._keeper, signal.SIGSTOP)
    if not resumed:
        monkeypatch.setattr(processes, "_resume", lambda _: None)
    await child.end_tree(0)
    await wait_until_gone(marker)


@pytest.mark.parametrize("resumed", [True, False])
async def test_a_command_that_stops_its_keeper_at_once_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, resumed: bool
) -> None:
    await run("exit 0")
    watcher = watcher_pid()
    if not resumed:  # as if the command stopped it again and again
        monkeypatch.setattr(processes, "_resume", lambda _: None)
        monkeypatch.setattr(processes, "_START_LIMIT_S", 0.2)
    marker = new_marker()
    # Whether the keeper can still say that it started the command is a matter of chance.
    with contextlib.suppress(TimeoutError):
        async with await shell(f"kill -STOP $PPID; {NOTHING_HELPS.format(m=marker)} :"):
            await wait_until_alive(marker, HIDDEN)
    await wait_until_gone(marker)
    assert watcher_pid() == watcher


OWNER = """
import os, sys, anyio
from pathlib import Path
from pi_rpc._os.processes import spawn, watcher_pid

async def main():
    child = await spawn(["/bin/sh", "-c", sys.argv[1]], cwd=Path("/"), env=dict(os.environ))
    print(child._keeper, watcher_pid(), flush=True)
    if sys.argv[2] == "returns":
        return
    if sys.argv[2] == "_exit":
        os._exit(3)
    await child.wait()
    await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.parametrize(
    "way",
    [
        "SIGKILL",
        "SIGTERM",
        "SIGINT",
        "returns",
        "_exit",
        "stopped keeper",
        "stopped watcher",
        "shell exited",
    ],
)
async def test_however_the_owner_ends_nothing_survives_two_seconds(way: str) -> None:
    marker = new_marker()
    command = NOTHING_HELPS.format(m=marker)
    command += "exit 0" if way == "shell exited" else f"sleep {marker}"
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, command, way],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=HERE,
    ) as owner:
        assert owner.stdout is not None
        keeper, watcher = (int(word) for word in owner.stdout.readline().split())
        if way not in ("returns", "_exit"):
            await wait_until_alive(marker, HIDDEN + (way != "shell exited"))
        if way == "stopped keeper":
            os.kill(keeper, signal.SIGSTOP)
        if way == "stopped watcher":
            os.kill(watcher, signal.SIGSTOP)
        if way in ("SIGTERM", "SIGINT"):
            owner.send_signal(getattr(signal, way))
        elif way not in ("returns", "_exit"):
            owner.kill()
        # Nobody else holds the owner's standard output.
        assert owner.stdout.read() == b""
    await wait_until_gone(marker)
    with anyio.fail_after(GONE_S):
        while is_alive(keeper) or is_alive(watcher):
            await anyio.sleep(0.01)


async def test_a_stopped_watcher_without_keepers_ends_with_its_owner_too() -> None:
    script = (
        "import os, signal, anyio\n"
        "from pathlib import Path\n"
        "from pi_rpc._os.processes import spawn, watcher_pid\n"
        "async def main():\n"
        "    async with await spawn(['true'], cwd=Path('/'), env=dict(os.environ)) as child:\n"
        "        await child.wait()\n"
        "anyio.run(main)\n"
        "os.kill(watcher_pid(), signal.SIGSTOP)\n"
        "print(watcher_pid())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)
    with anyio.fail_after(DEADLINE_S):
        while is_alive(int(done.stdout)):
            await anyio.sleep(0.01)


async def test_parents_are_the_same_with_and_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_trees, "LINUX", False)
    assert (os.getpid(), os.getppid()) in _trees._parents()
    with subprocess.Popen(["sleep", "100"]) as sleeper:
        assert sleeper.pid in _trees.descendants()
        assert _trees.descendants(spare=[sleeper.pid]).isdisjoint([sleeper.pid])
        sleeper.kill()


STARTER = """
import os, sys, anyio
from pathlib import Path
from pi_rpc._os.processes import spawn

async def main():
    print("ready", flush=True)
    for _ in range(200):
        await spawn(["/bin/sh", "-c", sys.argv[1]], cwd=Path("/"), env=dict(os.environ))

anyio.run(main)
"""


async def test_killed_at_any_moment_of_a_start_it_leaves_nothing() -> None:
    marker = new_marker()
    chance = random.Random(7)
    command = f"(setsid sleep {marker} &) ; sleep {marker}"
    for _ in range(10):
        with subprocess.Popen(
            [sys.executable, "-c", STARTER, command],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=HERE,
        ) as owner:
            assert owner.stdout is not None
            assert owner.stdout.readline() == b"ready\n"
            await anyio.sleep(chance.uniform(0, 0.15))
            owner.kill()
        await wait_until_gone(marker)
