"""Ignore files mean to us what they mean to git."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_rpc.harness._selection import IgnoreRules

_PIECES = st.sampled_from(
    ["a", "b", "ab", "*", "?", "[ab]", "[!a]", "[^b]", "[a-b]", "[]a]", "**", "a*", "*b", "\\a"]
)
_LINES = st.builds(
    lambda sign, start, pieces, end: sign + start + "/".join(pieces) + end,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "/"]),
    st.lists(_PIECES, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", " ", "\r"]),
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    for outer in ("a", "b", "ab"):
        for inner in ("a", "b", "ab"):
            (root / outer / inner).mkdir(parents=True)
            for name in ("a", "b", "ab"):
                (root / outer / inner / name).touch()
    return root


def _kept(folder: Path, prefix: str = "", rules: IgnoreRules | None = None) -> Iterator[str]:
    rules = (rules or IgnoreRules()).within(folder, prefix)
    for entry in os.scandir(folder):
        path = prefix + entry.name
        if entry.name.startswith(".git") or rules.ignores(path, is_folder=entry.is_dir()):
            continue
        if entry.is_dir():
            yield from _kept(folder / entry.name, path + "/", rules)
        else:
            yield path


@settings(max_examples=60, deadline=None)
@given(top=st.lists(_LINES, max_size=3), below=st.lists(_LINES, max_size=2))
def test_the_same_files_are_left_out(repository: Path, top: list[str], below: list[str]) -> None:
    (repository / ".gitignore").write_text("\n".join(top), newline="")
    (repository / "a" / ".gitignore").write_text("\n".join(below), newline="")
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    expected = {path for path in listed if path and not path.endswith(".gitignore")}
    assert set(_kept(repository)) == expected


@pytest.mark.parametrize(
    "line",
    ["", " ", "# x", "!", "/", "//", "[z-a]", "[", "[]", "\\", "a[--z]b", "[a&&b]", "[[:x:]"],
)
def test_odd_lines_fail_nothing(tmp_path: Path, line: str) -> None:
    (tmp_path / ".ignore").write_text(line)
    rules = IgnoreRules().within(tmp_path, "")
    assert not rules.ignores("readme", is_folder=False)


def test_what_is_no_text_says_nothing(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").mkdir()
    (tmp_path / ".ignore").write_bytes(b"\xef\xbb\xbfa\n\xff\xfe\n")
    rules = IgnoreRules().within(tmp_path, "")
    assert rules.ignores("a", is_folder=False)
    assert not rules.ignores("b", is_folder=False)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("**/" * 40 + "x", "a/" * 60 + "a"),
        ("*a" * 300 + "b", "a" * 4000),
        ("**/*a*/" * 50 + "x", "aaa/" * 500),
    ],
)
def test_a_pattern_of_many_stars_is_answered_at_once(
    tmp_path: Path, pattern: str, path: str
) -> None:
    (tmp_path / ".gitignore").write_text(pattern)
    rules = IgnoreRules().within(tmp_path, "")
    assert not rules.ignores(path, is_folder=False)
    fitting = re.sub(r"(\*\*/)+", "deep/", pattern).replace("*", "some")
    assert rules.ignores(fitting, is_folder=False)
