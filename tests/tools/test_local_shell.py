"""The shell of this machine."""

import contextlib
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest

from pi_rpc.agent.ports import CommandExit, PortError
from pi_rpc.llm.abort import AbortController
from pi_rpc.tools import _local_shell
from pi_rpc.tools._local_shell import LocalShell
from tests.deadlines import DEADLINE_S
from tests.os.survivors import (
    NOTHING_HELPS,
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

HIDDEN = 6


@pytest.fixture
async def shell() -> AsyncIterator[LocalShell]:
    shell = LocalShell()
    yield shell
    await shell.aclose()


async def run(
    shell: LocalShell,
    command: str,
    *,
    cwd: Path = Path("/"),
    timeout_s: float | None = 20,
    controller: AbortController | None = None,
    on_output: Callable[[bytes], None] | None = None,
    env: dict[str, str] | None = None,
) -> tuple[CommandExit, bytes]:
    pieces: list[bytes] = []
    end = await shell.run(
        command,
        cwd=cwd,
        env=env or {},
        timeout_s=timeout_s,
        on_output=on_output or pieces.append,
        signal=(controller or AbortController()).signal,
    )
    return end, b"".join(pieces)


async def test_output_and_errors_come_merged_and_in_order(shell: LocalShell) -> None:
    end, output = await run(shell, "echo one; echo two >&2; echo three; exit 3")
    assert output == b"one\ntwo\nthree\n"
    assert (end.exit_code, end.reason) == (3, "exited")


async def test_it_is_bash_with_no_input_in_the_directory_asked_for(
    shell: LocalShell, tmp_path: Path
) -> None:
    _, output = await run(shell, 'cat; [[ -n $BASH_VERSION ]] && echo "$PWD"', cwd=tmp_path)
    assert output.decode() == f"{tmp_path}\n"


async def test_the_shell_and_the_prefix_are_a_persons_choice(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text('#!/bin/sh\necho "mine: $2"\n')
    mine.chmod(0o755)
    shell = LocalShell(shell_path=str(mine), command_prefix="set -e")
    assert (await run(shell, "true"))[1] == b"mine: set -e\ntrue\n"


async def test_commands_get_no_keys_of_providers_and_nothing_of_ours(
    shell: LocalShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setenv("PI_RPC_SCRIPT", "ours")
    monkeypatch.setenv("PI_SESSION_ID", "of a session around us")
    monkeypatch.setenv("MY_OWN", "stays")
    _, output = await run(shell, "env", env={"PI_MODEL": "faux"})
    text = output.decode()
    assert "ANTHROPIC_API_KEY" not in text
    assert "PI_RPC_SCRIPT" not in text
    assert "PI_SESSION_ID" not in text
    assert "MY_OWN=stays" in text
    assert "PI_MODEL=faux" in text


SOMEBODY = "-c user.name=Ada -c user.email=ada@example.com"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("read x; echo $?", "1"),
        ("cat", ""),
        ("echo hi > /dev/tty", "/dev/tty: No such device"),
        ("cat /dev/tty", "/dev/tty: No such device"),
        ("bash -i", "no job control"),
        ("select x in a b; do :; done", "#?"),
        ("test -t 0 || test -t 1 || test -t 2 || echo none", "none"),
        (f"git init -q; git {SOMEBODY} commit --allow-empty", "There is no editor here"),
        ('touch f; sh -c "$EDITOR f"', "There is no editor here"),
        ("python3 -c 'input()'", "EOF"),
        ("tput cup 1 1; echo $TERM", "dumb"),
    ],
)
async def test_what_wants_a_person_ends_at_once(
    shell: LocalShell,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    said: str,
) -> None:
    monkeypatch.setenv("EDITOR", "sleep 50;")
    monkeypatch.setenv("TERM", "xterm")
    end, output = await run(shell, command, cwd=tmp_path, timeout_s=15)
    assert end.reason == "exited"
    assert said in output.decode()


async def test_what_cannot_run_says_why(shell: LocalShell, tmp_path: Path) -> None:
    with pytest.raises(PortError, match=r"working directory .*No such file") as error:
        await run(shell, "true", cwd=tmp_path / "gone")
    assert error.value.code == "spawn_failed"
    with pytest.raises(PortError, match="NUL"):
        await run(shell, "echo a\0b")
    with pytest.raises(PortError, match="surrogates"):
        await run(shell, "echo \ud800")
    with pytest.raises(PortError, match="environment"):
        await run(shell, "true", env={f"LARGE{n}": "x" * 100_000 for n in range(80)})
    with pytest.raises(PortError, match="no-such-shell: No such file"):
        await run(LocalShell(shell_path="/no-such-shell"), "true")


@pytest.mark.parametrize("size", [99_000, 101_000, 5_000_000])
async def test_a_command_of_any_length_runs_and_leaves_no_file(
    shell: LocalShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    words = "\u00e4" * (size // 2)
    command = f"cat > /dev/null; wc -c <<'END'\n{words}\nEND\nls -l {tmp_path}; exit 3"
    end, output = await run(shell, command)
    assert end.exit_code == 3
    lines = output.decode().splitlines()
    assert int(lines[0]) == size + 1
    assert [line[:10] for line in lines[2:]] == (["-rw-------"] if size > 100_000 else [])
    assert list(tmp_path.iterdir()) == []


async def test_a_command_too_long_for_an_argument_says_so_when_there_is_no_room_for_its_file(
    shell: LocalShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(PortError, match="no file for it: No such file"):
        await run(shell, "true " + "x" * 200_000)


async def test_without_descriptors_left_a_command_is_refused_and_a_later_one_runs(
    shell: LocalShell,
) -> None:
    await run(shell, "true")
    held: list[int] = []
    refusals: list[str] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.dup(0))
        while True:  # none is left, then one, then two: it fails at every step there is
            try:
                end, _ = await run(shell, "true")
                break
            except PortError as error:
                refusals.append(error.message)
                os.close(held.pop())
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert end.exit_code == 0
    assert 1 < len(refusals) < 20
    assert all("Too many open files" in each for each in refusals)
    assert (await run(shell, "echo again"))[1] == b"again\n"


async def test_a_background_child_does_not_hold_up_its_command_and_dies_with_the_session(
    shell: LocalShell,
) -> None:
    marker = new_marker()
    end, output = await run(shell, f"{NOTHING_HELPS.format(m=marker)} echo started")
    assert (end.reason, end.exit_code, output) == ("exited", 0, b"started\n")
    await wait_until_alive(marker, HIDDEN)
    await run(shell, "true")
    assert len(survivors(marker)) >= HIDDEN
    await shell.aclose()
    assert survivors(marker) == {}


async def test_a_background_child_that_goes_on_writing_is_not_stopped_by_it(
    shell: LocalShell, tmp_path: Path
) -> None:
    wait = "until [ -e go ]; do sleep 0.01; done"
    command = f"({wait}; head -c 300000 /dev/zero && echo survived > done) & echo now"
    end, output = await run(shell, command, cwd=tmp_path)
    assert (end.reason, output) == ("exited", b"now\n")
    (tmp_path / "go").touch()
    with anyio.fail_after(DEADLINE_S):
        while not (tmp_path / "done").exists():
            await anyio.sleep(0.01)


async def test_output_of_the_background_counts_until_it_pauses(
    shell: LocalShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_local_shell, "_SILENCE_S", 1.0)
    _, output = await run(shell, "(for i in 1 2 3 4; do sleep 0.03; echo $i; done; sleep 9) & :")
    assert output == b"1\n2\n3\n4\n"


@pytest.mark.parametrize("ending", ["time limit", "abort", "cancelled"])
async def test_however_a_command_is_cut_short_its_whole_tree_is_gone(
    shell: LocalShell, ending: str
) -> None:
    marker = new_marker()
    command = f"trap '' TERM INT HUP; {NOTHING_HELPS.format(m=marker)} echo out; sleep {marker}"
    controller = AbortController()
    pieces: list[bytes] = []
    ends: list[CommandExit] = []

    async def one() -> None:
        limit = 3.0 if ending == "time limit" else None
        end, _ = await run(
            shell, command, timeout_s=limit, controller=controller, on_output=pieces.append
        )
        ends.append(end)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        await wait_until_alive(marker, HIDDEN + 1)
        if ending == "abort":
            controller.abort()
        elif ending == "cancelled":
            tasks.cancel_scope.cancel()
    assert survivors(marker) == {}
    if ending != "cancelled":  # then nobody is there to be given what was just written
        assert b"".join(pieces) == b"out\n"
    reasons = {"time limit": ["timed_out"], "abort": ["aborted"], "cancelled": []}
    assert [end.reason for end in ends] == reasons[ending]
    assert all(end.exit_code is None for end in ends)


async def test_a_time_limit_that_only_meets_the_background_keeps_the_shells_exit_code(
    shell: LocalShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_local_shell, "_SILENCE_S", DEADLINE_S)
    marker = new_marker()
    command = f"(while :; do echo x; done; sleep {marker}) & exit 5"
    end, _ = await run(shell, command, timeout_s=2.0)
    assert (end.reason, end.exit_code) == ("timed_out", 5)
    assert survivors(marker) == {}


async def test_aborted_before_it_starts_it_never_runs(shell: LocalShell, tmp_path: Path) -> None:
    controller = AbortController()
    controller.abort()
    end, _ = await run(shell, "touch ran", cwd=tmp_path, controller=controller)
    assert end.reason == "aborted"
    assert list(tmp_path.iterdir()) == []


async def test_an_abort_at_any_moment_leaves_nothing(shell: LocalShell) -> None:
    marker = new_marker()
    command = f"setsid sleep {marker} & (sleep {marker} &) ; echo x; sleep 0.01"
    await run(shell, "true")
    chance = random.Random(20)
    reasons = set()
    for _ in range(30):
        controller = AbortController()

        async def abort_soon(controller: AbortController = controller) -> None:
            await anyio.sleep(chance.uniform(0, 0.03))
            controller.abort()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(abort_soon)
            end, _ = await run(shell, command, controller=controller)
            reasons.add(end.reason)
            assert end.reason == "aborted"  # the background keeps it from finishing before
            tasks.cancel_scope.cancel()
        assert survivors(marker) == {}


async def test_endless_output_leaves_room_for_others_and_costs_little_memory(
    shell: LocalShell,
) -> None:
    import resource

    controller = AbortController()
    seen = 0
    turns = 0

    def count(data: bytes) -> None:
        nonlocal seen
        seen += len(data)
        assert len(data) <= 1 << 18

    async def others() -> None:
        nonlocal turns
        while seen < 200_000_000:
            await anyio.sleep(0)
            turns += 1
        controller.abort()

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        end, _ = await run(shell, "yes", timeout_s=50, controller=controller, on_output=count)
    assert end.reason == "aborted"
    assert turns > 200
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


async def test_fifty_commands_leak_no_descriptor(shell: LocalShell) -> None:
    async def descriptors() -> set[str]:
        with anyio.fail_after(DEADLINE_S):
            while shell.is_busy:  # a keeper has not said yet that its tree is gone
                await anyio.sleep(0.01)
        return open_descriptors()

    await run(shell, "true")
    before = await descriptors()
    for number in range(50):
        end, _ = await run(shell, f"true & exit {number}")
        assert end.exit_code == number
    assert await descriptors() == before


async def test_commands_run_side_by_side(shell: LocalShell, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    ends = []

    async def one(command: str) -> None:
        ends.append((await run(shell, command, cwd=tmp_path))[0].exit_code)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one, "read x < fifo; exit 1")
        tasks.start_soon(one, "echo x > fifo; exit 2")
    assert sorted(code or 0 for code in ends) == [1, 2]


async def test_closing_ends_what_runs_and_nothing_starts_afterwards(shell: LocalShell) -> None:
    marker = new_marker()
    ends = []

    async def one() -> None:
        ends.append((await run(shell, f"sleep {marker} & exec sleep {marker}"))[0])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        await wait_until_alive(marker, 2)
        await shell.aclose()
        assert survivors(marker) == {}
    assert [(end.reason, end.exit_code) for end in ends] == [("aborted", None)]
    await shell.aclose()
    with pytest.raises(PortError, match="closed"):
        await run(shell, "true")


async def test_closing_waits_for_the_end_of_what_is_just_starting(shell: LocalShell) -> None:
    marker = new_marker()
    for _ in range(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, shell, f"setsid sleep {marker} & exec sleep {marker}")
            await anyio.wait_all_tasks_blocked()
            await shell.aclose()
            assert survivors(marker) == {}
        shell = LocalShell()


async def test_a_failing_listener_ends_the_command(shell: LocalShell) -> None:
    marker = new_marker()

    def fail(data: bytes) -> None:
        raise ValueError("listener")

    with pytest.raises(ExceptionGroup) as failure:
        await run(shell, f"echo x; sleep {marker}", on_output=fail)
    assert failure.group_contains(ValueError, match="listener")
    await wait_until_gone(marker)


async def test_the_time_a_command_took_is_reported(shell: LocalShell) -> None:
    started = time.monotonic()
    end, _ = await run(shell, "sleep 0.05")
    assert 0.05 <= end.duration_s <= time.monotonic() - started


async def test_what_a_command_wrote_before_it_was_known_to_have_started_is_kept(
    shell: LocalShell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from pi_rpc._os.processes import Child

    controller = AbortController()
    real = Child._receive

    async def abort_once_it_has_written(child: Child) -> None:
        with anyio.fail_after(DEADLINE_S):
            while not (tmp_path / "written").exists():
                await anyio.sleep(0.001)
        controller.abort()
        await real(child)

    monkeypatch.setattr(Child, "_receive", abort_once_it_has_written)
    end, output = await run(
        shell, "echo early; touch written; sleep 100", cwd=tmp_path, controller=controller
    )
    assert (end.reason, output) == ("aborted", b"early\n")


async def test_many_commands_at_once_all_come_to_their_end(shell: LocalShell) -> None:
    codes: list[int | None] = []

    async def one(number: int) -> None:
        # Half of them make for long turns of the event loop, in which others of them end.
        def on_output(_: bytes) -> None:
            time.sleep(0.004)

        command = "for n in 1 2 3 4 5 6; do echo; sleep 0.01; done"
        if number % 2:
            command = f"sleep {random.uniform(0.01, 0.15):.3f}"
        command = f"{command}; exit {number}"
        end, _ = await run(shell, command, timeout_s=None, on_output=on_output)
        codes.append(end.exit_code)

    with anyio.fail_after(DEADLINE_S):
        for _ in range(8):
            codes.clear()
            async with anyio.create_task_group() as tasks:
                for number in range(16):
                    tasks.start_soon(one, number)
            assert sorted(code for code in codes if code is not None) == list(range(16))
