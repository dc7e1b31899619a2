"""Files that people write: what is none is named, and nobody waits for it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pi_rpc.harness._front_matter_keys import SkillKeys
from pi_rpc.harness._selection import IgnoreRules, Selection
from pi_rpc.harness._written import MAX_JSON_BYTES, fitting, read_object
from pi_rpc.harness.context_files import load_context_files
from pi_rpc.harness.credentials import Credentials
from pi_rpc.harness.model_registry import ModelRegistry
from pi_rpc.harness.prompt_templates import find_templates
from pi_rpc.harness.settings import Settings, load_settings
from pi_rpc.harness.skills import Place, find_skills
from pi_rpc.harness.trust import RewriteError, TrustStore
from tests.harness.test_front_matter import LAUGHS


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


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (LAUGHS, "(line 2): aliases and anchors are not supported"),
        ("description: " + "[" * 50_000, "(line 2): nested more than 32 levels deep"),
    ],
    ids=["aliases", "deep"],
)
def test_skills_and_templates_that_would_cost_much_are_named(
    tmp_path: Path, written: str, says: str
) -> None:
    path = tmp_path / "SKILL.md"
    path.write_text(f"---\n{written}\n---\nbody")
    place = Place(path=tmp_path, scope="user", selection=Selection((), tmp_path))
    expected = [f"{path}: the front matter is not supported {says}; ignored"]
    problems: list[str] = []
    assert find_skills([place], problems) == []
    assert problems == expected
    problems = []
    assert find_templates([place], problems) == []
    assert problems == expected


def test_what_is_beside_a_value_that_does_not_fit_is_not_copied(tmp_path: Path) -> None:
    shared: list[object] = [1]
    for _ in range(60):
        shared = [shared, shared]
    raw = {"name": "n", "description": shared, "other": shared}
    keys, problems = fitting(SkillKeys, raw, tmp_path / "SKILL.md")
    assert (keys.name, keys.description) == ("n", None)
    assert [problem.split(": ")[1] for problem in problems] == ["description"]


@pytest.mark.parametrize("depth", [500, 900, 5_000, 200_000])
def test_settings_nested_however_deep_end_with_a_problem_at_most(
    tmp_path: Path, depth: int
) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"defaultModel": ' + '{"a": ' * depth + "1" + "}" * depth + "}")
    settings, problems = load_settings(tmp_path)
    assert settings == Settings()
    assert len(problems) == 1
    assert problems[0].startswith(f"{path}: ")
