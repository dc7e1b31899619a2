"""Files that people write: what is none is named, and nobody waits for it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pi_rpc.harness._selection import IgnoreRules
from pi_rpc.harness._written import MAX_JSON_BYTES, read_object
from pi_rpc.harness.context_files import load_context_files
from pi_rpc.harness.credentials import Credentials
from pi_rpc.harness.model_registry import ModelRegistry
from pi_rpc.harness.settings import Settings, load_settings
from pi_rpc.harness.trust import RewriteError, TrustStore


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MAX_JSON_BYTES + 1)


NO_FILES: list[tuple[Callable[[Path], object], str]] = [
    (os.mkfifo, "cannot be read: not a regular file"),
    (lambda path: path.symlink_to("/dev/zero"), "cannot be read: not a regular file"),
    (Path.mkdir, "cannot be read: not a regular file"),
    (_huge, "larger than 10 MiB; the file is ignored"),
]


@pytest.fixture(params=NO_FILES, ids=["pipe", "device", "folder", "huge file"])
def none_is_made(request: pytest.FixtureRequest) -> tuple[Callable[[Path], object], str]:
    return request.param


def test_settings_that_are_no_file_are_named(
    tmp_path: Path, none_is_made: tuple[Callable[[Path], object], str]
) -> None:
    make, says = none_is_made
    make(tmp_path / "settings.json")
    assert load_settings(tmp_path) == (Settings(), [f"{tmp_path / 'settings.json'}: {says}"])


def test_models_and_keys_that_are_no_files_are_named(
    tmp_path: Path, none_is_made: tuple[Callable[[Path], object], str]
) -> None:
    make, says = none_is_made
    make(tmp_path / "models.json")
    make(tmp_path / "auth.json")
    registry, credentials = ModelRegistry(tmp_path, environ={}), Credentials(tmp_path, environ={})
    assert registry.models()
    assert registry.problems() == [f"{tmp_path / 'models.json'}: {says}"]
    assert not credentials.has("openai")
    assert credentials.problems() == [f"{tmp_path / 'auth.json'}: {says}"]


def test_decisions_that_are_no_file_trust_nobody_and_stay(
    tmp_path: Path, none_is_made: tuple[Callable[[Path], object], str]
) -> None:
    make, says = none_is_made
    store = TrustStore(tmp_path)
    make(store.path)
    before = store.path.lstat()
    assert store.trusted(tmp_path) is False
    assert store.problems() == [f"{store.path}: {says}"]
    with pytest.raises(RewriteError, match=r"trust\.json: (cannot be read|larger than)"):
        store.set(tmp_path, trusted=True)
    assert store.path.lstat().st_ino == before.st_ino


def test_a_number_of_endless_digits_is_named(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"a": ' + "9" * 5000 + "}")
    value, problems = read_object(tmp_path / "settings.json")
    assert value is None
    assert "far too many digits" in problems[0]


def test_ignore_files_and_marks_of_worktrees_that_are_no_files_say_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".gitignore")
    _huge(tmp_path / ".ignore")
    assert IgnoreRules().within(tmp_path, "") == IgnoreRules()
    (tmp_path / "AGENTS.md").write_text("here")
    (tmp_path / ".git").write_text("gitdir: own")
    (tmp_path / "own").mkdir()
    os.mkfifo(tmp_path / "own" / "commondir")
    assert [file.text for file in load_context_files(tmp_path, tmp_path / "agent")] == ["here"]
