"""Truncation: against a line-by-line oracle, and the limits as promised."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_rpc.tools._truncate import (
    MAX_BYTES,
    MAX_LINES,
    Truncation,
    format_size,
    truncate_head,
    truncate_tail,
)

_texts = st.lists(st.sampled_from(["a", "bc", "é", "😀", "\n", "\n", ""]), max_size=14).map("".join)
_limits = st.integers(min_value=1, max_value=12)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _oracle(lines: list[str], max_lines: int, max_bytes: int) -> tuple[list[str], str | None]:
    kept: list[str] = []
    size = 0
    for index, line in enumerate(lines):
        if index >= max_lines:
            return kept, "lines"
        size += len(line.encode()) + (index > 0)
        if size > max_bytes:
            return kept, "bytes"
        kept.append(line)
    return kept, None


def _check_counts(result: Truncation, text: str) -> None:
    assert result.total_lines == len(_lines(text))
    assert result.total_bytes == len(text.encode())
    assert result.output_bytes == len(result.content.encode()) <= result.max_bytes
    assert result.output_lines <= result.max_lines


@given(_texts, _limits, _limits)
def test_head_keeps_the_whole_lines_that_fit(text: str, max_lines: int, max_bytes: int) -> None:
    result = truncate_head(text, max_lines, max_bytes)
    kept, limit = _oracle(_lines(text), max_lines, max_bytes)
    _check_counts(result, text)
    assert result.truncated_by == limit
    assert result.truncated == (limit is not None)
    assert result.first_line_exceeds_limit == (result.truncated and not kept)
    assert result.output_lines == len(kept)
    if limit:
        assert result.content == "\n".join(kept)
    else:
        assert text in {result.content, result.content + "\n"}


@given(_texts, _limits, _limits)
def test_tail_keeps_the_last_whole_lines_that_fit(
    text: str, max_lines: int, max_bytes: int
) -> None:
    result = truncate_tail(text, max_lines, max_bytes)
    kept, limit = _oracle(_lines(text)[::-1], max_lines, max_bytes)
    _check_counts(result, text)
    assert result.truncated_by == limit
    if limit and kept:
        assert result.content == "\n".join(kept[::-1])
        assert not result.last_line_partial
    elif limit:
        assert result.last_line_partial
        assert result.output_lines == 1
        assert _lines(text)[-1].endswith(result.content)
        assert result.output_bytes > max_bytes - 4  # less than one character is lost


def test_the_limits_are_two_thousand_lines_and_fifty_kibibytes() -> None:
    assert (MAX_LINES, MAX_BYTES) == (2000, 50 * 1024)
    assert truncate_head("x\n" * 2000).truncated is False
    assert truncate_head("x\n" * 2001).output_lines == 2000
    assert truncate_head("x" * 51200 + "\n").truncated is False
    assert truncate_head("x" * 51201).first_line_exceeds_limit


def test_details_are_the_object_that_pi_writes() -> None:
    assert truncate_head("a\nb\nc", 2, 100).details() == {
        "content": "a\nb",
        "truncated": True,
        "truncatedBy": "lines",
        "totalLines": 3,
        "totalBytes": 5,
        "outputLines": 2,
        "outputBytes": 3,
        "lastLinePartial": False,
        "firstLineExceedsLimit": False,
        "maxLines": 2,
        "maxBytes": 100,
    }


def test_half_a_surrogate_pair_is_cut_like_any_character() -> None:
    assert truncate_tail("\ud800" * 10, 5, 7).content == "\ud800\ud800"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0B"), (1023, "1023B"), (1024, "1.0KB"), (51200, "50.0KB"), (3_565_158, "3.4MB")],
)
def test_sizes_are_shown_in_the_largest_fitting_unit(size: int, text: str) -> None:
    assert format_size(size) == text
