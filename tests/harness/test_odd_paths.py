"""Whatever people write where a path is expected, or put where a file is: a session still opens."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pi_rpc._os.files import read_regular
from pi_rpc.harness._extension_modules import LoadedModule, find_extensions
from pi_rpc.harness.context_files import load_context_files
from pi_rpc.harness.paths import sessions_dir
from pi_rpc.harness.prompt_templates import substitute
from pi_rpc.harness.resources import load_resources
from pi_rpc.harness.settings import Settings, load_settings

posix = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes of POSIX")

ODD = ["\0", "a\0b", "\ud800", "a" * 5000, "~nobody-of-this-name/x", "/dev/null", "."]


def resources(home: Path, cwd: Path) -> Any:
    settings, _ = load_settings(home)
    return load_resources(cwd, home, settings, trusted=True, home=home)


@pytest.mark.parametrize("path", ODD)
@pytest.mark.parametrize("key", ["skills", "prompts"])
def test_a_path_that_is_none_is_named_and_ignored(tmp_path: Path, key: str, path: str) -> None:
    (tmp_path / "settings.json").write_text(json.dumps({key: [path]}))
    found = resources(tmp_path, tmp_path)
    assert (found.skills, found.prompt_templates) == ((), ())
    wrong = [each for each in found.diagnostics if f"named in {key} but" in each]
    assert len(wrong) == (path != ".")


def test_a_session_folder_of_a_user_that_does_not_exist_is_a_folder_of_that_name(
    tmp_path: Path,
) -> None:
    settings = Settings(session_dir="~nobody-of-this-name/x")
    assert sessions_dir(settings, tmp_path, environ={}).parts[-2:] == ("~nobody-of-this-name", "x")


@pytest.mark.parametrize("target", ["\0x", "a" * 5000, "\ud800"])
def test_a_git_file_that_leads_nowhere_hides_no_context_file(tmp_path: Path, target: str) -> None:
    (tmp_path / ".git").write_bytes(f"gitdir: {target}".encode("utf-8", "surrogatepass"))
    (tmp_path / "AGENTS.md").write_text("be kind")
    found = load_context_files(tmp_path, tmp_path / "none")
    assert [each.text for each in found if tmp_path in each.path.parents] == ["be kind"]


@posix
def test_a_context_file_that_is_no_file_is_passed_over_at_once(tmp_path: Path) -> None:
    for name, odd in {"pipe": os.mkfifo, "folder": os.mkdir}.items():
        (tmp_path / name).mkdir()
        odd(tmp_path / name / "AGENTS.md")
        (tmp_path / name / "CLAUDE.md").write_text(name)
    for name in ("pipe", "folder"):
        found = load_context_files(tmp_path / name, tmp_path / "none")
        assert found[-1].text == name


@posix
def test_a_file_that_has_nothing_to_give_at_the_moment_reads_as_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As some files of the kernel do, which say that they are regular; a pipe stands in for them.
    monkeypatch.setattr("pi_rpc._os.files._require_regular", lambda *_: None)
    os.mkfifo(tmp_path / "quiet")
    keeps_it_open = os.open(tmp_path / "quiet", os.O_RDWR)
    try:
        assert read_regular(tmp_path / "quiet", 10) == (b"", 0)
    finally:
        os.close(keeps_it_open)


@posix
def test_a_folder_of_extensions_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert find_extensions(tmp_path / "missing") == ()
    (found,) = find_extensions(tmp_path / "loop")
    assert found.name == str(tmp_path / "loop")
    with pytest.raises(OSError, match="loop"):
        found.load(LoadedModule())


@posix
def test_an_extension_that_is_no_file_is_told_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "link.py").symlink_to("nowhere")
    for found in find_extensions(tmp_path):
        before = set(sys.modules)
        with pytest.raises(OSError, match=Path(found.name).name):
            found.load(LoadedModule())
        assert set(sys.modules) <= before


def test_placeholders_that_are_never_closed_are_text_and_cost_nothing() -> None:
    body = "$1 ${1:-x} " + "${1:-" * 200_000 + "$2"
    filled = substitute(body, ["a", "b"])
    assert filled == "a a " + "${1:-" * 200_000 + "b"
    assert substitute("${1:-" * 100_000 + "}", ["a"]) == "a"
