"""Context files: which are read, in which order, and what becomes of odd ones."""

import os
import subprocess
from pathlib import Path

import pytest

from pi_rpc.harness.context_files import (
    CONTEXT_FILE_NAMES,
    MAX_CONTEXT_BYTES,
    ContextFile,
    load_context_files,
)


def _texts(cwd: Path, agent_dir: Path) -> list[str]:
    return [file.text for file in load_context_files(cwd, agent_dir)]


def _git(*arguments: str, cwd: Path) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *identity, *arguments], cwd=cwd, check=True, capture_output=True)


def test_the_agent_directory_comes_first_and_then_every_folder_from_the_root_down(
    tmp_path: Path,
) -> None:
    agent, cwd = tmp_path / "agent", tmp_path / "a" / "b"
    for folder in (agent, cwd):
        folder.mkdir(parents=True)
    (agent / "AGENTS.md").write_text("everywhere")
    (tmp_path / "AGENTS.md").write_text("outer")
    (cwd / "CLAUDE.md").write_text("inner")
    assert load_context_files(cwd, agent) == [
        ContextFile(agent / "AGENTS.md", "everywhere"),
        ContextFile(tmp_path / "AGENTS.md", "outer"),
        ContextFile(cwd / "CLAUDE.md", "inner"),
    ]


def test_of_one_folder_only_the_first_name_counts(tmp_path: Path) -> None:
    for name in reversed(CONTEXT_FILE_NAMES):
        (tmp_path / name).write_text(name)
        assert _texts(tmp_path, tmp_path / "none") == [name]


def test_a_folder_that_is_also_the_agent_directory_counts_once(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("once")
    (tmp_path / "sub").mkdir()
    assert _texts(tmp_path / "sub", tmp_path) == ["once"]


def test_a_byte_order_mark_and_foreign_line_ends_are_read_over(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree")
    assert _texts(tmp_path, tmp_path / "none") == ["one\ntwo\nthree"]


def test_bytes_that_are_not_utf_8_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"caf\xe9 open")
    assert _texts(tmp_path, tmp_path / "none") == ["caf\ufffd open"]


def test_a_file_above_the_limit_is_cut_between_characters_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    path.write_bytes(b"a" * (MAX_CONTEXT_BYTES - 1) + "é".encode() + b"b" * 99)
    problems: list[str] = []
    (file,) = load_context_files(tmp_path, tmp_path / "none", problems)
    kept, note = file.text.split("\n\n")
    assert kept == "a" * (MAX_CONTEXT_BYTES - 1)
    assert "100 more bytes" in note
    assert str(path) in note
    assert len(problems) == 1
    assert problems[0].startswith(f"{path}: ")


def test_a_file_at_the_limit_is_whole(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"a" * MAX_CONTEXT_BYTES)
    assert _texts(tmp_path, tmp_path / "none") == ["a" * MAX_CONTEXT_BYTES]


def test_an_empty_file_hides_the_later_ones_and_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.override.md").write_text("\n")
    (tmp_path / "AGENTS.md").write_text("hidden")
    assert _texts(tmp_path, tmp_path / "none") == []


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.override.md").mkdir()
    os.mkfifo(tmp_path / "AGENTS.md")
    (tmp_path / "AGENTS.MD").symlink_to("nowhere")
    (tmp_path / "CLAUDE.md").write_text("this one")
    assert _texts(tmp_path, tmp_path / "none") == ["this one"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named_and_the_next_one_taken(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("secret")
    (tmp_path / "AGENTS.md").chmod(0)
    (tmp_path / "CLAUDE.md").write_text("open")
    problems: list[str] = []
    found = load_context_files(tmp_path, tmp_path / "none", problems)
    assert [file.text for file in found] == ["open"]
    assert problems == [f"{tmp_path / 'AGENTS.md'}: cannot be read: Permission denied; ignored"]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    main = tmp_path / "main"
    main.mkdir()
    _git("init", "-q", cwd=main)
    (main / "AGENTS.md").write_text("version of the main checkout")
    _git("add", ".", cwd=main)
    _git("commit", "-qm", "first", cwd=main)
    return main


def test_a_worktree_inside_its_repository_hides_the_main_checkout_s_file(
    repository: Path, tmp_path: Path
) -> None:
    tree = repository / ".worktrees" / "fix"
    _git("worktree", "add", "-q", str(tree), cwd=repository)
    (tree / "AGENTS.md").write_text("version of the worktree")
    (tmp_path / "AGENTS.md").write_text("above both")
    (tree / "deep").mkdir()
    assert _texts(tree / "deep", tmp_path / "none") == ["above both", "version of the worktree"]


def test_a_worktree_without_a_file_of_its_own_keeps_the_main_checkout_s(
    repository: Path, tmp_path: Path
) -> None:
    tree = repository / "fix"
    _git("worktree", "add", "-q", str(tree), cwd=repository)
    (tree / "AGENTS.md").unlink()
    assert _texts(tree, tmp_path / "none") == ["version of the main checkout"]


def test_a_worktree_reached_through_a_link_hides_the_main_checkout_s_file_too(
    repository: Path, tmp_path: Path
) -> None:
    _git("worktree", "add", "-q", str(repository / "fix"), cwd=repository)
    (repository / "fix" / "AGENTS.md").write_text("own")
    (tmp_path / "link").symlink_to(repository)
    assert _texts(tmp_path / "link" / "fix", tmp_path / "none") == ["own"]


def test_a_worktree_beside_its_repository_hides_nothing(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("above both")
    tree = tmp_path / "beside"
    _git("worktree", "add", "-q", str(tree), cwd=repository)
    assert _texts(tree, tmp_path / "none") == ["above both", "version of the main checkout"]


def test_a_repository_inside_another_hides_nothing(repository: Path, tmp_path: Path) -> None:
    inner = repository / "vendor"
    inner.mkdir()
    _git("init", "-q", cwd=inner)
    (inner / "AGENTS.md").write_text("inner")
    assert _texts(inner, tmp_path / "none") == ["version of the main checkout", "inner"]


@pytest.mark.parametrize("marker", ["gitdir: /nowhere", "nonsense", ""])
def test_a_git_file_that_leads_nowhere_hides_nothing(tmp_path: Path, marker: str) -> None:
    (tmp_path / "AGENTS.md").write_text("outer")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "AGENTS.md").write_text("inner")
    (tmp_path / "sub" / ".git").write_text(marker)
    assert _texts(tmp_path / "sub", tmp_path / "none") == ["outer", "inner"]


@pytest.mark.parametrize("target", ["../secret.txt", "docs/../../secret.txt"])
def test_a_link_out_of_a_directory_that_is_not_trusted_is_named_and_not_read(
    tmp_path: Path, target: str
) -> None:
    (tmp_path / "secret.txt").write_text("a key")
    checkout = tmp_path / "checkout"
    (checkout / "docs").mkdir(parents=True)
    (checkout / "AGENTS.md").symlink_to(target)
    (checkout / "CLAUDE.md").write_text("rules")
    problems: list[str] = []
    found = load_context_files(checkout, tmp_path / "none", problems)
    assert [each.text for each in found] == ["rules"]
    reason = "leads out of its directory, which is not trusted; ignored"
    assert problems == [f"{checkout / 'AGENTS.md'}: {reason}"]
    trusted = load_context_files(checkout, tmp_path / "none", trusted=True)
    assert [each.text for each in trusted] == ["a key"]
    assert _texts(tmp_path / "elsewhere", checkout) == ["a key"]  # The person's own directory.


def test_links_within_a_directory_and_to_other_context_files_are_read(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "rules.md").write_text("outer")
    (tmp_path / "CLAUDE.md").symlink_to("rules.md")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "AGENTS.md").write_text("shared")
    (inner / "AGENTS.md").symlink_to("../shared/AGENTS.md")
    assert _texts(inner, tmp_path / "none") == ["outer", "shared"]
