"""From one text to another in edits: they lead there, touch little, and fit any encoding."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_rpc.host.text_edits import PositionEncoding, text_edits
from tests.e2e.buffers import applied

ENCODINGS: tuple[PositionEncoding, ...] = ("utf-8", "utf-16", "utf-32")
WORDS = st.sampled_from(
    ["a", "b", "é", "😀", "🧡", "\r", "\n", "\r\n", "x\n", "\u2028", "\x0c", " "]
)
TEXTS = st.lists(WORDS, max_size=30).map("".join)


def wire(old: str, new: str, encoding: PositionEncoding) -> list[dict[str, object]]:
    return [
        {
            "range": {
                side: {"line": place.line, "character": place.character}
                for side, place in (("start", edit.range.start), ("end", edit.range.end))
            },
            "newText": edit.new_text,
        }
        for edit in text_edits(old, new, encoding)
    ]


@settings(deadline=None)
@given(TEXTS, TEXTS, st.sampled_from(ENCODINGS))
def test_the_edits_make_one_text_of_the_other(
    old: str, new: str, encoding: PositionEncoding
) -> None:
    assert applied(old, wire(old, new, encoding), encoding) == new


@settings(deadline=None)
@given(TEXTS, TEXTS, TEXTS, TEXTS, st.sampled_from(ENCODINGS))
def test_what_is_around_a_change_is_not_in_the_edits(
    head: str, tail: str, old: str, new: str, encoding: PositionEncoding
) -> None:
    before, after = f"{head}\n{old}\n{tail}", f"{head}\n{new}\n{tail}"
    edits = wire(before, after, encoding)
    assert applied(before, edits, encoding) == after
    assert sum(len(str(each["newText"])) for each in edits) <= len(new) + 2
    assert bool(edits) == (old != new)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_characters_are_counted_in_the_units_of_the_encoding(encoding: PositionEncoding) -> None:
    (edit,) = text_edits("x\nä😀 one\n", "x\nä😀 two\n", encoding)
    units = {"utf-8": 2 + 4 + 1, "utf-16": 1 + 2 + 1, "utf-32": 1 + 1 + 1}[encoding]
    assert edit.range.start.line == edit.range.end.line == 1
    assert edit.range.start.character == units
    assert edit.range.end.character == units + 3
    assert edit.new_text == "two"


def test_changes_that_are_apart_are_edits_of_their_own() -> None:
    old = "".join(f"line {n}\n" for n in range(1000))
    new = old.replace("line 10\n", "line ten\n").replace("line 900\n", "")
    edits = text_edits(old, new, "utf-16")
    assert [edit.range.start.line for edit in edits] == [10, 900]
    assert [edit.new_text for edit in edits] == ["ten", ""]


def test_no_edit_begins_or_ends_within_a_line_break() -> None:
    for old, new in (("a\r\n", "a\n"), ("a\n", "a\r\n"), ("a\r\nb", "a\rb"), ("\r\n", "\r\r\n")):
        assert applied(old, wire(old, new, "utf-16"), "utf-16") == new


def test_texts_that_share_few_lines_are_replaced_without_comparing_them_all() -> None:
    old = "same\n" + "".join(f"{n}\n" for n in range(20_000)) + "end\n"
    new = "same\n" + "".join(f"<{n}>\n" for n in range(20_000)) + "end\n"
    (edit,) = text_edits(old, new, "utf-16")
    assert (edit.range.start.line, edit.range.end.line) == (1, 20_000)
    assert applied(old, wire(old, new, "utf-16"), "utf-16") == new
