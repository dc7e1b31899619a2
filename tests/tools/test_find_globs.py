"""Globs: what they match, and that no pattern takes for ever."""

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_rpc.tools._globs import Glob, GlobError, expand_braces, split_literal_folder

NAMES = st.text("ab.", min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("pattern", "matched", "not_matched"),
    [
        ("*.py", ["a.py", "d/a.py", ".py"], ["a.pyc", "a.py/b"]),
        ("a/*.py", ["a/b.py"], ["a.py", "x/a/b.py", "a/b/c.py"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b/a/c"]),
        ("**/a", ["a", "x/a", "x/y/a"], ["ab", "xa"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "ab"]),
        ("**/a/*/b/**/c", ["a/x/b/c", "y/a/x/b/z/c", "a/b/a/q/b/c"], ["a/b/c"]),
        ("**", ["a", "a/b"], []),
        ("a**b", ["ab", "axxb", "d/axb"], ["a/b"]),
        ("?", ["a", "é", "x/a"], ["ab"]),
        ("[ab]x", ["ax", "d/bx"], ["cx"]),
        ("[!ab]x", ["cx"], ["ax", "/x"]),
        ("[^ab]x", ["cx"], ["ax"]),
        ("[a-c]", ["b"], ["d", "-"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[!]a]", ["b"], ["]", "a"]),
        ("[a-]", ["a", "-"], ["b"]),
        (r"[\]", ["\\"], ["a"]),
        ("a[b", ["a[b"], ["ab"]),
        (r"\*", ["*"], ["a"]),
        (r"\{a,b\}", ["{a,b}"], ["a"]),
        ("{a,b}.{c,d}", ["a.c", "b.d"], ["a.b"]),
        ("{a,{b,c}d}", ["a", "bd", "cd"], ["b", "ad"]),
        ("{a,}b", ["ab", "b"], ["cb"]),
        ("{src,lib}/*.py", ["src/a.py", "lib/a.py"], ["a.py"]),
        ("{a/b,c}", ["a/b", "x/c"], ["b"]),
        ("{a", ["{a"], ["a"]),
        ("a(b)+$.", ["a(b)+$."], ["ab"]),
        ("new\nline", ["new\nline"], ["newline"]),
    ],
)
def test_a_glob_matches(pattern: str, matched: list[str], not_matched: list[str]) -> None:
    glob = Glob(pattern)
    assert [path for path in matched if not glob.matches_file(path)] == []
    assert [path for path in not_matched if glob.matches_file(path)] == []
    for path in matched:
        assert all(literal in path for literal in glob.literals)


def test_a_slash_at_the_end_matches_directories_only() -> None:
    glob = Glob("src/")
    assert glob.matches_folder("src")
    assert glob.matches_folder("a/src")
    assert not glob.matches_file("src")
    assert Glob("/src/").matches_folder("src")
    assert not Glob("/src/").matches_folder("a/src")


def test_capitals_in_a_pattern_make_case_count() -> None:
    assert Glob("*.py", smart_case=True).fold
    assert not Glob("*.Py", smart_case=True).fold
    assert not Glob("*.py").fold


@given(st.text("ab*?.", min_size=1, max_size=10), NAMES)
def test_names_match_as_the_standard_library_has_it(pattern: str, name: str) -> None:
    if set(pattern) <= {"."}:
        return
    expected = re.match(fnmatch.translate(pattern), name) is not None
    assert Glob(pattern).matches_file(name) is expected


@given(
    st.lists(st.sampled_from(["**", "*", "a", "b", "a*", "?"]), min_size=2, max_size=6),
    st.lists(st.sampled_from(["a", "b", "ab", "c"]), min_size=1, max_size=6),
)
def test_paths_match_as_the_plain_definition_has_it(segments: list[str], names: list[str]) -> None:
    def matches(left: list[str], rest: list[str]) -> bool:
        if not left:
            return not rest
        if left[0] == "**":
            if len(left) == 1:
                return bool(rest)
            return any(matches(left[1:], rest[skip:]) for skip in range(len(rest) + 1))
        return bool(rest and fnmatch.fnmatchcase(rest[0], left[0]) and matches(left[1:], rest[1:]))

    # `**/**` means no more than `**`.
    plain = [
        each for n, each in enumerate(segments) if each != "**" or segments[n - 1 : n] != ["**"]
    ]
    glob = Glob("/".join(segments))
    assert glob.matches_file("/".join(names)) is matches(plain, names)


@pytest.mark.parametrize("pattern", ["*a" * 200 + "b", "**/a/" * 100 + "b", "**/*a*/" * 100 + "b"])
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    glob = Glob(pattern)
    assert not glob.matches_file("a" * 4000)
    assert not glob.matches_file("a/" * 2000 + "a")


@pytest.mark.parametrize("pattern", ["[b-a]", "{a,b}" * 10, "{a,b" * 3 + "}{a,b,c}" * 9])
def test_a_pattern_that_cannot_be_is_refused(pattern: str) -> None:
    with pytest.raises(GlobError):
        Glob(pattern)


def test_braces_stand_for_their_choices_in_order() -> None:
    assert expand_braces("{a,b}{1,2}") == ["a1", "a2", "b1", "b2"]
    assert expand_braces("plain") == ["plain"]


@pytest.mark.parametrize(
    ("pattern", "folder", "rest"),
    [
        ("a/b/*.py", "a/b/", "*.py"),
        ("*.py", "", "*.py"),
        ("a/*/b.py", "a/", "*/b.py"),
        ("{a,b}/c", "", "{a,b}/c"),
        ("../a/b", "", "../a/b"),
    ],
)
def test_the_literal_directories_in_front_can_be_set_apart(
    pattern: str, folder: str, rest: str
) -> None:
    assert split_literal_folder(pattern) == (folder, rest)
