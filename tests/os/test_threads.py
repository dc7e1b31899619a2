"""The four file threads."""

import threading

import anyio
import pytest

from pi_rpc._os.threads import FILE_THREADS, run_blocking
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio


async def test_blocking_work_occupies_four_threads_at_most() -> None:
    lock = threading.Lock()
    full = threading.Event()
    running: list[int] = []
    most = 0

    def work(number: int) -> int:
        nonlocal most
        with lock:
            running.append(number)
            most = max(most, len(running))
            if len(running) == FILE_THREADS:
                full.set()
        assert full.wait(DEADLINE_S)
        with lock:
            running.remove(number)
        return number

    results: list[int] = []

    async def one(number: int) -> None:
        results.append(await run_blocking(work, number))

    async with anyio.create_task_group() as tasks:
        for number in range(3 * FILE_THREADS):
            tasks.start_soon(one, number)
    assert sorted(results) == list(range(3 * FILE_THREADS))
    assert most == FILE_THREADS


async def test_an_exception_of_the_work_reaches_its_caller() -> None:
    def fail() -> None:
        raise FileNotFoundError("gone")

    with pytest.raises(FileNotFoundError):
        await run_blocking(fail)


async def test_a_cancelled_caller_leaves_no_work_behind() -> None:
    started, finished = threading.Event(), threading.Event()
    released = threading.Event()

    def work() -> None:
        started.set()
        assert released.wait(DEADLINE_S)
        finished.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_blocking, work)
        await anyio.to_thread.run_sync(started.wait)
        tasks.cancel_scope.cancel()
        released.set()
    assert finished.is_set()


def test_each_event_loop_has_its_own_threads() -> None:
    async def ask() -> int:
        return await run_blocking(lambda: 1)

    assert anyio.run(ask) == 1
    assert anyio.run(ask) == 1
