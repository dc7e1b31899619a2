"""Changing shared JSON files: who waits for whom, and what is left behind."""

import json
import os
from pathlib import Path

import pytest

from pi_rpc._os.locks import FileLock
from pi_rpc.harness import _rewriting
from pi_rpc.harness._rewriting import RewriteError, rewrite_object


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "settings.json"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_rewriting, "_PATIENCE_S", 0.05)


def _plus(before: dict[str, object]) -> dict[str, object]:
    return {**before, "b": "ü"}


def test_a_file_is_made_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "x.json"
    rewrite_object(path, _plus)
    assert path.read_text(encoding="utf-8") == '{\n  "b": "ü"\n}\n'
    assert list(path.parent.iterdir()) == [path]


def test_order_is_kept_and_nothing_is_written_when_nothing_changes(path: Path) -> None:
    path.write_text('{"z": 1,  "a": 2}')
    rewrite_object(path, lambda before: before)
    assert path.read_text() == '{"z": 1,  "a": 2}'
    rewrite_object(path, _plus)
    assert list(json.loads(path.read_text())) == ["z", "a", "b"]


def test_a_link_stays_a_link(path: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles.json").write_text("{}")
    path.symlink_to("dotfiles.json")
    rewrite_object(path, _plus)
    assert path.is_symlink()
    assert json.loads((tmp_path / "dotfiles.json").read_text()) == {"b": "ü"}


def test_a_change_that_raises_leaves_the_file_and_no_lock(path: Path) -> None:
    path.write_text("{}")

    def fails(before: dict[str, object]) -> dict[str, object]:
        raise LookupError

    with pytest.raises(LookupError):
        rewrite_object(path, fails)
    assert path.read_text() == "{}"
    assert list(path.parent.iterdir()) == [path]


def test_pi_s_lock_is_held_while_the_file_changes(path: Path) -> None:
    seen: list[bool] = []

    def change(before: dict[str, object]) -> dict[str, object]:
        seen.append(path.with_name("settings.json.lock").is_dir())
        return before

    rewrite_object(path, change)
    assert seen == [True]


@pytest.mark.usefixtures("impatient")
def test_a_file_that_pi_keeps_locked_is_not_touched(path: Path) -> None:
    lock = path.with_name("settings.json.lock")
    lock.mkdir()
    with pytest.raises(RewriteError, match="locked"):
        rewrite_object(path, _plus)
    assert not path.exists()
    assert lock.is_dir()


@pytest.mark.usefixtures("impatient")
def test_a_file_that_another_of_ours_keeps_locked_is_not_touched(path: Path) -> None:
    lock = FileLock(path.with_name(".settings.json.pi-rpc.lock"))
    with lock, pytest.raises(RewriteError, match="locked"):
        rewrite_object(path, _plus)
    assert not path.exists()


def test_a_lock_that_pi_left_behind_is_taken_over(path: Path) -> None:
    lock = path.with_name("settings.json.lock")
    lock.mkdir()
    os.utime(lock, (1, 1))
    rewrite_object(path, _plus)
    assert list(path.parent.iterdir()) == [path]
