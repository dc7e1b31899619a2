"""The store keeps within its limit, loses nothing that is needed, and shares its folder."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.harness.checkpoint_store import CheckpointStore, StoreError, digest_of
from tests.deadlines import DEADLINE_S
from tests.harness.checkpoints.bench import each_file

SESSION = "0a1b2c3d"


def put(store: CheckpointStore, number: int, data: bytes, *, session: str = SESSION) -> str:
    """A checkpoint that has ended and needs one content."""
    name = f"cp_{number:017x}"
    digest = store.put(data)
    head = {"v": 1, "id": name, "pid": os.getpid()}
    store.append(session, name, [head, {"path": "/f", "before": digest}, {"end": "now"}])
    store.confirm(session, name, {digest: data})
    return digest


def names(store: CheckpointStore, session: str = SESSION) -> list[int]:
    return [int(name[3:], 16) for name, _ in store.journals(session)]


def older(folder: Path) -> None:
    """Make everything an hour old."""
    then = time.time() - 3600
    each_file(folder, lambda path: os.utime(path, (then, then)))


@pytest.mark.parametrize("data", [b"", b"x", b"text\n" * 10_000, os.urandom(100_000)])
def test_a_content_comes_back_as_it_was(tmp_path: Path, data: bytes) -> None:
    store = CheckpointStore(tmp_path)
    assert store.get(store.put(data)) == data
    assert store.put(data) == digest_of(data)
    assert each_file(tmp_path, lambda _: None) == 1


def test_text_takes_less_room_than_it_has_bytes(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.put(b"some text that repeats\n" * 10_000)
    sizes: list[int] = []
    each_file(tmp_path, lambda path: sizes.append(path.stat().st_size))
    assert sum(sizes) < 23_000


@pytest.mark.parametrize("name", ["", "../../secret", "0" * 64, "zz" * 32])
def test_a_content_that_is_not_there_is_said_to_be_gone(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="gone"):
        CheckpointStore(tmp_path).get(name)


def test_what_unpacks_to_more_than_was_ever_saved_is_damaged(tmp_path: Path) -> None:
    import zlib

    store = CheckpointStore(tmp_path, max_file_bytes=1000)
    digest = store.put(b"small")
    bomb = b"z" + zlib.compress(b"\0" * 50_000_000)
    each_file(tmp_path, lambda path: path.write_bytes(bomb) and None)
    with pytest.raises(StoreError, match="damaged"):
        store.get(digest)


@pytest.mark.parametrize("session", ["../..", "/etc", "a\0b", "", "ü" * 300, ".", "a/b", "\udcff"])
def test_a_session_may_be_called_anything(tmp_path: Path, session: str) -> None:
    store = CheckpointStore(tmp_path / "store")
    put(store, 1, b"x", session=session)
    assert names(store, session) == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    store.forget(session)
    assert names(store, session) == []


def test_above_the_limit_the_oldest_of_all_sessions_go(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, max_bytes=10_000)
    digests = [
        put(store, number, os.urandom(2000), session=f"s{number % 2}") for number in range(8)
    ]
    older(tmp_path)
    assert store.prune()
    assert sorted(names(store, "s0") + names(store, "s1")) == [4, 5, 6, 7]
    for digest in digests[:4]:
        with pytest.raises(StoreError, match="gone"):
            store.get(digest)
    for digest in digests[4:]:
        assert len(store.get(digest)) == 2000


def test_what_two_checkpoints_need_stays_for_the_younger_one(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, max_bytes=7000)
    shared = os.urandom(2000)
    for number, data in enumerate([shared, os.urandom(2000), os.urandom(2000), shared]):
        put(store, number, data)
    put(store, 9, os.urandom(2000))
    older(tmp_path)
    store.prune()
    assert 0 not in names(store)
    assert store.get(digest_of(shared)) == shared


def test_a_checkpoint_of_a_run_that_goes_on_stays_and_that_of_a_dead_process_does_not(
    tmp_path: Path,
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    store = CheckpointStore(tmp_path, max_bytes=3000)
    for number, pid in ((1, os.getpid()), (2, ended.pid), (3, os.getpid())):
        digest = store.put(os.urandom(2000))
        line = {"path": "/f", "before": digest}
        store.append(SESSION, f"cp_{number:017x}", [{"v": 1, "pid": pid}, line])
    put(store, 4, os.urandom(2000))
    older(tmp_path)
    store.prune()
    assert names(store) == [1, 3, 4]


def test_the_newest_checkpoint_stays_however_large_it_is(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, max_bytes=100)
    put(store, 1, os.urandom(2000))
    put(store, 2, os.urandom(2000))
    older(tmp_path)
    store.prune()
    assert names(store) == [2]


def test_deleting_a_session_takes_what_only_it_needed(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    mine, shared = os.urandom(100), os.urandom(100)
    put(store, 1, mine)
    put(store, 2, shared)
    put(store, 3, shared, session="other")
    older(tmp_path)
    store.forget(SESSION)
    assert names(store) == []
    with pytest.raises(StoreError):
        store.get(digest_of(mine))
    assert store.get(digest_of(shared)) == shared


def test_a_content_that_is_pruned_before_its_journal_is_written_is_put_back(
    tmp_path: Path,
) -> None:
    store = CheckpointStore(tmp_path)
    digest = store.put(b"needed")
    older(tmp_path)
    CheckpointStore(tmp_path).prune()
    name = "cp_" + "0" * 17
    store.append(SESSION, name, [{"v": 1}, {"path": "/f", "before": digest}])
    store.confirm(SESSION, name, {digest: b"needed"})
    assert store.get(digest) == b"needed"


def test_a_content_that_is_touched_while_others_prune_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pi_rpc.harness import _pruning

    store = CheckpointStore(tmp_path)
    digest = store.put(b"needed")
    older(tmp_path)
    throw_away = _pruning._throw_away

    def late(path: Path, began_ns: int) -> None:
        name = "cp_" + "0" * 17
        store.append(SESSION, name, [{"v": 1}, {"path": "/f", "before": digest}])
        store.confirm(SESSION, name, {digest: b"needed"})
        throw_away(path, began_ns)

    monkeypatch.setattr(_pruning, "_throw_away", late)
    assert CheckpointStore(tmp_path).prune()
    assert store.get(digest) == b"needed"


def test_leftovers_of_a_killed_process_are_taken_back_or_removed(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    needed, orphan = put(store, 1, b"needed"), store.put(b"orphan")
    objects = tmp_path / "objects"
    for digest in (needed, orphan):
        path = objects / digest[:2] / digest
        path.rename(path.with_name(digest + "~"))
    (objects / needed[:2] / ".0123.tmp").write_bytes(b"half")
    older(tmp_path)
    store.prune()
    assert store.get(needed) == b"needed"
    left: list[str] = []
    each_file(objects, lambda path: left.append(path.name))
    assert left == [needed]


def test_only_one_prunes_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CheckpointStore(tmp_path)
    put(store, 1, b"x")
    seen: list[Any] = []
    monkeypatch.setattr(
        "pi_rpc.harness.checkpoint_store.prune_store",
        lambda *_: seen.append(CheckpointStore(tmp_path).prune()),
    )
    assert store.prune()
    assert seen == [False]


WORKER = """
import os, sys
from pathlib import Path
from pi_rpc.harness.checkpoint_store import CheckpointStore
folder, session = Path(sys.argv[1]), sys.argv[2]
store = CheckpointStore(folder, max_bytes=60_000)
shared = [bytes([n]) * 2000 + b"end" for n in range(10)]
for number in range(60):
    data = os.urandom(1500) if number % 2 else shared[number % 10]
    name = f"cp_{number:017x}"
    digest = store.put(data)
    store.append(session, name, [{"v": 1, "pid": os.getpid()}, {"path": "/f", "before": digest}])
    store.confirm(session, name, {digest: data})
    assert store.get(digest) == data, number
    store.append(session, name, [{"end": "now"}])
    if number % 5 == 0:
        store.prune()
"""


def test_processes_that_save_and_prune_at_once_lose_nothing_that_is_in_use(
    tmp_path: Path,
) -> None:
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path), f"s{number}"])
        for number in range(3)
    ]
    assert [worker.wait(DEADLINE_S) for worker in workers] == [0, 0, 0]
    store = CheckpointStore(tmp_path, max_bytes=60_000)
    assert store.prune()
    for session in ("s0", "s1", "s2"):
        for _, lines in store.journals(session):
            store.get(next(line["before"] for line in lines if "before" in line))
    sizes: list[int] = []
    each_file(tmp_path, lambda path: sizes.append(path.stat().st_size))
    assert sum(sizes) <= 60_000


def test_a_temporary_store_is_gone_when_it_is_closed() -> None:
    store = CheckpointStore(None)
    digest = put(store, 1, b"x")
    folder = store._folder()
    assert folder is not None
    assert folder.stat().st_mode & 0o077 == 0
    assert store.get(digest) == b"x"
    store.close()
    assert not folder.exists()
    assert store.journals(SESSION) == []
