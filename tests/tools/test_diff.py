"""Diffs: the patch really leads from one text to the other, the listing reads as promised."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_rpc.tools._diff import diff_of_splices, diff_of_texts


def _split(text: str) -> list[str]:
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _patched(old: str, patch: str) -> str:
    """Apply a unified patch as its numbers say, checking every line and count of it."""
    source, out, at = _split(old), [], 0
    lines = _split(patch)[2:]
    while lines:
        header = re.fullmatch(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@\n", lines.pop(0))
        assert header
        start, old_count, new_start, new_count = map(int, header.groups())
        start -= 1 if old_count else 0
        out += source[at:start]
        at = start
        assert len(out) == new_start - (1 if new_count else 0)
        while old_count or new_count:
            mark, text = lines[0][0], lines.pop(0)[1:]
            if lines and lines[0].startswith("\\"):
                lines.pop(0)
                text = text[:-1]
            if mark != "+":
                assert source[at] == text
                at, old_count = at + 1, old_count - 1
            if mark != "-":
                out.append(text)
                new_count -= 1
    return "".join(out + source[at:])


_texts = st.lists(st.sampled_from(["a", "b", "\n", "\n", "c\n", "\r\n"]), max_size=40).map("".join)


@st.composite
def _spliced(draw: st.DrawFn) -> tuple[str, list[tuple[int, int, str]], str]:
    old = draw(_texts)
    cuts = sorted(draw(st.lists(st.integers(0, len(old)), max_size=6)))
    splices, new, at = [], "", 0
    for start, end in zip(cuts[::2], cuts[1::2], strict=False):
        text = draw(st.text("xa\n", max_size=4))
        splices.append((start, end, text))
        new += old[at:start] + text
        at = end
    return old, splices, new + old[at:]


@given(_spliced())
def test_a_patch_leads_from_the_old_text_to_the_new(
    case: tuple[str, list[tuple[int, int, str]], str],
) -> None:
    old, splices, new = case
    diff = diff_of_splices(old, splices, "f")
    assert _patched(old, diff.patch) == new
    assert not diff.truncated
    if old != new:  # replacements that cancel each other out may still be listed
        assert diff.first_changed_line is not None
        same = diff.first_changed_line - 1
        assert _split(old)[:same] == _split(new)[:same]


@given(_texts, _texts)
def test_two_whole_texts_are_compared(old: str, new: str) -> None:
    assert _patched(old, diff_of_texts(old, new, "f").patch) == new


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_applies_the_patch_endings_and_all(tmp_path: Path) -> None:
    old = "one\r\ntwo\n" + "same\n" * 20 + "last"
    new = "one\r\n2\r\n" + "same\n" * 20 + "the last"
    (tmp_path / "f").write_bytes(old.encode())
    (tmp_path / "p").write_bytes(diff_of_texts(old, new, "f").patch.encode())
    subprocess.run(["git", "apply", "-p0", "p"], cwd=tmp_path, check=True)
    assert (tmp_path / "f").read_bytes() == new.encode()


def test_the_listing_numbers_lines_and_marks_gaps() -> None:
    old = "".join(f"line {n}\n" for n in range(1, 31))
    start = old.index("line 10")
    second = old.index("line 25")
    diff = diff_of_splices(
        old, [(start, start + 7, "ten\nand more"), (second, second + 8, "")], "f"
    )
    assert diff.listing.split("\n") == [
        "    ...",
        "  6 line 6",
        "  7 line 7",
        "  8 line 8",
        "  9 line 9",
        "-10 line 10",
        "+10 ten",
        "+11 and more",
        " 11 line 11",
        " 12 line 12",
        " 13 line 13",
        " 14 line 14",
        "    ...",
        " 21 line 21",
        " 22 line 22",
        " 23 line 23",
        " 24 line 24",
        "-25 line 25",
        " 26 line 26",
        " 27 line 27",
        " 28 line 28",
        " 29 line 29",
        "    ...",
    ]
    assert diff.first_changed_line == 10
    assert diff.details() == {
        "diff": diff.listing,
        "patch": diff.patch,
        "firstChangedLine": 10,
    }


def test_a_replacement_by_the_same_text_is_no_change() -> None:
    diff = diff_of_splices("a\nb\n", [(0, 1, "a"), (2, 4, "b\n")], "f")
    assert (diff.listing, diff.patch, diff.first_changed_line) == ("", "", None)
    assert "firstChangedLine" not in diff.details()


def test_lines_inside_one_passage_that_stay_are_not_listed_as_changed() -> None:
    old = "a\nb\nc\nd\ne\n"
    diff = diff_of_splices(old, [(0, len(old), "a\nB\nc\nD\ne\n")], "f")
    assert [line for line in diff.listing.split("\n") if line[0] in "+-"] == [
        "-2 b",
        "+2 B",
        "-4 d",
        "+4 D",
    ]


def test_a_huge_change_is_cut_and_says_so() -> None:
    old = "".join(f"old {n}\n" for n in range(40_000))
    new = "".join(f"new {n}\n" for n in range(40_000))
    diff = diff_of_texts(old, new, "f")
    assert diff.truncated
    assert diff.patch == ""
    assert len(diff.listing) < 140_000
    assert diff.listing.endswith(" ...")
    assert diff.details()["diffTruncated"] is True


def test_a_huge_line_is_cut_in_the_listing() -> None:
    diff = diff_of_texts("x" * 100_000, "y" * 10, "f")
    assert diff.truncated
    assert len(diff.listing) < 3000
    assert "…" in diff.listing
    assert "x" * 100_000 in diff.patch
