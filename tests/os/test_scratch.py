"""Temporary folders go with whoever made them, however that ends."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from pi_rpc._os.scratch import ScratchFolder, remove_abandoned
from tests.deadlines import DEADLINE_S

OWNER = """
import sys
from pi_rpc._os.scratch import ScratchFolder
folder = ScratchFolder()
(folder.path / "below").mkdir()
(folder.path / "below" / "file").write_text("kept")
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def older(path: Path) -> Path:
    then = time.time() - 3600
    os.utime(path, (then, then))
    return path


def test_a_folder_of_a_killed_process_is_removed_and_one_in_use_is_not(temporary: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdin is not None
    assert owner.stdout is not None
    with owner.stdin, owner.stdout:
        path = older(Path(owner.stdout.readline().strip()))
        mine = ScratchFolder()
        older(mine.path)
        assert remove_abandoned() == 0
        assert (path / "below" / "file").read_text() == "kept"
        owner.kill()
        owner.wait(DEADLINE_S)
        assert remove_abandoned() == 1
    assert [each.name for each in temporary.iterdir()] == [mine.path.name]
    mine.remove()
    assert list(temporary.iterdir()) == []


def test_what_is_not_ours_or_is_only_just_being_made_stays(temporary: Path) -> None:
    older(Path(tempfile.mkdtemp(prefix="pi-rpc-other-")))
    Path(tempfile.mkdtemp(prefix="pi-rpc-scratch-"))
    older(temporary)
    (temporary / "pi-rpc-scratch-link").symlink_to(temporary)
    (temporary / "pi-rpc-scratch-file").write_text("")
    older(temporary / "pi-rpc-scratch-file")
    before = sorted(temporary.iterdir())
    assert remove_abandoned() == 0
    assert sorted(temporary.iterdir()) == before


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="users have numbers on POSIX alone")
def test_a_folder_of_another_user_stays(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = older(Path(tempfile.mkdtemp(prefix="pi-rpc-scratch-")))
    with monkeypatch.context() as patch:
        patch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
        assert remove_abandoned() == 0
    assert remove_abandoned() == 1
