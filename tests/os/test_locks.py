"""Locks between processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from pi_rpc._os.locks import FileLock, LockHeldError

HOLDER = """
import sys
from pathlib import Path
from pi_rpc._os.locks import FileLock
FileLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "session.lock"


def test_a_second_lock_of_the_same_process_is_refused_with_the_holders_pid(path: Path) -> None:
    import os

    with FileLock(path):
        with pytest.raises(LockHeldError) as refused:
            FileLock(path).acquire()
        assert refused.value.pid == os.getpid()


def test_an_object_that_holds_the_lock_cannot_take_it_again(path: Path) -> None:
    lock = FileLock(path)
    lock.acquire()
    with pytest.raises(LockHeldError):
        lock.acquire()
    assert lock.held
    lock.release()
    assert not lock.held


def test_release_frees_the_lock_and_leaves_no_sidecar(path: Path) -> None:
    lock = FileLock(path)
    lock.acquire()
    lock.release()
    lock.release()
    assert list(path.parent.iterdir()) == []
    FileLock(path).acquire()


def test_another_process_holds_the_lock_until_it_is_killed(path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    with holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(LockHeldError) as refused:
            FileLock(path).acquire()
        assert refused.value.pid == holder.pid
        holder.kill()
    assert path.exists()
    with FileLock(path) as lock:
        assert lock.held


def test_a_sidecar_without_a_pid_is_reported_without_one(path: Path) -> None:
    with FileLock(path):
        path.write_bytes(b"")
        with pytest.raises(LockHeldError) as refused:
            FileLock(path).acquire()
        assert refused.value.pid is None


def test_a_file_removed_between_open_and_lock_is_not_mistaken_for_the_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pi_rpc._os import locks

    holder = FileLock(path)
    holder.acquire()
    real = locks._try_lock
    calls = 0

    def release_just_before(fd: int) -> bool:
        nonlocal calls
        calls += 1
        if calls == 1:
            holder.release()
        return real(fd)

    monkeypatch.setattr(locks, "_try_lock", release_just_before)
    late = FileLock(path)
    late.acquire()
    assert calls == 2
    with pytest.raises(LockHeldError):
        FileLock(path).acquire()
    late.release()


def test_of_many_threads_that_take_and_release_it_one_at_a_time_holds_it(path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    inside: list[int] = []
    most: list[int] = []

    def take(number: int) -> None:
        for _ in range(50):
            try:
                with FileLock(path):
                    inside.append(number)
                    most.append(len(inside))
                    inside.remove(number)
            except LockHeldError:
                continue

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(take, range(4)))
    assert most
    assert max(most) == 1
