"""What a run overwrites can be taken back after a power cut too.

A disk that loses all that was not flushed is played: a file has what it held when it was flushed
last, and a folder the names it had then.
"""

import errno
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.agent.ports import Written
from pi_rpc.harness.checkpoint_store import CheckpointStore
from pi_rpc.harness.runs import Run
from pi_rpc.tools import LocalFiles
from tests.harness.checkpoints.bench import Bench, bench

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="it says what was flushed"),
]


class Disk:
    """What has reached the disk, by inode."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: dict[int, bytes] = {}
        self.folders: dict[int, dict[str, int]] = {}
        self.flushes = 0
        monkeypatch.setattr("os.fsync", self._flush)

    def _flush(self, fd: int) -> None:
        self.flushes += 1
        status = os.fstat(fd)
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if stat.S_ISDIR(status.st_mode):
            found = {each.name: each.stat().st_ino for each in path.iterdir()}
            self.folders[status.st_ino] = found
        else:
            self.files[status.st_ino] = path.read_bytes()

    def after_power_cut(self, folder: Path, inode: int) -> None:
        """Make ``folder`` what is left of the one with this number."""
        folder.mkdir()
        for name, each in self.folders.get(inode, {}).items():
            if each in self.folders:
                self.after_power_cut(folder / name, each)
            else:
                (folder / name).write_bytes(self.files.get(each, b""))


class PowerCut(Exception):
    pass


class Cut(LocalFiles):
    """Files of a machine that goes out as soon as one of them was replaced."""

    async def write(self, path: Path, data: bytes, **given: Any) -> Written:
        await super().write(path, data, **given)
        raise PowerCut


async def test_what_the_first_edit_of_a_run_overwrites_outlasts_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    here = bench(tmp_path)
    (here.cwd / "a").write_bytes(b"old\0content")
    before = Bench(here.cwd, CheckpointStore(tmp_path / "store"), below=Cut())
    before.checkpoints.begin(Run())
    with pytest.raises(PowerCut):
        await before.write("a", "new content")

    assert disk.flushes <= 10  # a handful: the first edit of a run waits for them
    shutil.move(tmp_path / "store", tmp_path / "lost")
    disk.after_power_cut(tmp_path / "store", (tmp_path / "lost").stat().st_ino)
    before.below = LocalFiles()
    after = before.again()
    (found,) = await after.checkpoints.list()
    done = await after.checkpoints.restore(found.id)
    assert done.conflicts == []
    assert (here.cwd / "a").read_bytes() == b"old\0content"


async def test_a_run_that_has_settled_is_told_the_same_after_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    here = bench(tmp_path)
    (here.cwd / "a").write_text("old\n")
    here.checkpoints.begin(Run())
    for number in range(20):
        await here.write("a", f"edit {number}\n")
    flushed = disk.flushes
    await here.write("a", "the last edit\n")
    assert disk.flushes == flushed  # later edits of the file do not wait for the disk
    settled = await here.checkpoints.settle()
    assert settled is not None

    shutil.move(tmp_path / "store", tmp_path / "lost")
    disk.after_power_cut(tmp_path / "store", (tmp_path / "lost").stat().st_ino)
    after = here.again()
    assert (await after.checkpoints.diff(settled.checkpoint_id)).text == settled.diff.text
    done = await after.checkpoints.restore(settled.checkpoint_id)
    assert done.conflicts == []
    assert (here.cwd / "a").read_text() == "old\n"


async def test_the_checkpoints_of_an_ephemeral_session_wait_for_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    here = Bench(tmp_path, CheckpointStore(None))
    (tmp_path / "a").write_text("old")
    assert await here.run({"a": "new"}) is not None
    assert disk.flushes == 0
    here.checkpoints.close()


async def test_a_disk_that_cannot_flush_folders_keeps_checkpoints_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush = os.fsync

    def files_only(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        flush(fd)

    monkeypatch.setattr("os.fsync", files_only)
    here = bench(tmp_path)
    (here.cwd / "a").write_text("old")
    settled = await here.run({"a": "new"})
    assert settled is not None
    assert here.told == []
    await here.checkpoints.restore(settled.checkpoint_id)
    assert (here.cwd / "a").read_text() == "old"


async def test_what_could_not_be_flushed_is_not_called_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("os.fsync", broken)
    here = bench(tmp_path)
    (here.cwd / "a").write_text("old")
    assert await here.run({"a": "new"}) is not None
    assert (here.cwd / "a").read_text() == "new"
    (told,) = here.told
    assert os.strerror(errno.EIO) in told.message
