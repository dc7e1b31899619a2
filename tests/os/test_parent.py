"""Noticing that a process has gone."""

import os
import subprocess
import sys

import anyio
import pytest

from pi_rpc._os import parent
from pi_rpc._os.parent import wait_parent_gone
from tests.deadlines import DEADLINE_S
from tests.os.survivors import open_descriptors

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["pidfd", "polling"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "polling":
        monkeypatch.setattr(parent, "_POLL_S", 0.01)

        def refused(pid: int) -> int:
            raise OSError(38, "no such call")

        monkeypatch.setattr(os, "pidfd_open", refused)
    return str(request.param)


def start() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE)


async def test_it_waits_until_the_process_is_gone(way: str) -> None:
    process = start()
    with process:
        returned = False

        async def wait() -> None:
            nonlocal returned
            await wait_parent_gone(process.pid)
            returned = True

        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                assert not returned
                # Killed and not collected: a zombie counts as gone.
                process.kill()
    assert returned


async def test_a_process_that_is_not_there_raises(way: str) -> None:
    process = start()
    with process:
        process.kill()
    with pytest.raises(ProcessLookupError):
        await wait_parent_gone(process.pid)


async def test_what_is_no_process_id_is_refused() -> None:
    for pid in (0, -1):
        with pytest.raises(ValueError, match="not a process id"):
            await wait_parent_gone(pid)


async def test_a_later_process_with_the_same_id_is_not_mistaken_for_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts = iter(["100", "100", "250"])
    monkeypatch.setattr(parent, "_start_time", lambda pid: next(starts))
    monkeypatch.setattr(parent, "_POLL_S", 0.01)
    with anyio.fail_after(DEADLINE_S):
        await parent._wait_polling(os.getpid())
    assert next(starts, None) is None


async def test_our_own_parent_is_gone_when_we_have_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = os.getppid()
    answers = iter([first, first, 1])
    monkeypatch.setattr(os, "getppid", lambda: next(answers))
    monkeypatch.setattr(parent, "_POLL_S", 0.01)
    with anyio.fail_after(DEADLINE_S):
        await parent._wait_polling(first)
    assert next(answers, None) is None


async def test_the_start_time_without_proc_comes_from_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil
    from pathlib import Path

    if shutil.which("ps") is None:
        pytest.skip("no ps here")
    monkeypatch.setattr(Path, "exists", lambda self: False)
    first = parent._start_time(os.getpid())
    assert first
    assert parent._start_time(os.getpid()) == first
    assert parent._start_time(2**22 + 1) is None


async def test_waiting_can_be_cancelled_and_leaves_no_descriptor() -> None:
    before = open_descriptors()
    with anyio.move_on_after(0.01) as scope:
        await wait_parent_gone(os.getppid())
    assert scope.cancelled_caught
    assert open_descriptors() == before
