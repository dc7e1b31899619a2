"""Reading ripgrep's events: in any pieces, and in bounded memory."""

import base64
import itertools
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_rpc.tools._grep_events import Event, EventReader


def event(text: str | bytes, *, number: int = 3, submatches: int = 1) -> bytes:
    lines: dict[str, Any] = (
        {"text": text} if isinstance(text, str) else {"bytes": base64.b64encode(text).decode()}
    )
    value = {
        "type": "match",
        "data": {
            "path": {"text": './a "b".txt'},
            "lines": lines,
            "line_number": number,
            "absolute_offset": 0,
            "submatches": [{"match": {"text": "x"}, "start": 1, "end": 2}] * submatches,
        },
    }
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def read(*pieces: bytes) -> list[Event]:
    reader = EventReader()
    return [each for piece in pieces for each in reader.feed(piece)]


@given(st.lists(st.text(), max_size=4), st.lists(st.integers(0, 2000)))
def test_events_are_the_same_in_whatever_pieces_they_come(
    texts: list[str], cuts: list[int]
) -> None:
    data = b"".join(event(text) for text in texts)
    bounds = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[one:two] for one, two in itertools.pairwise(bounds)]
    found = read(*pieces)
    assert found == read(data)
    assert [each.data.lines.decoded("strict") for each in found if each.data.lines] == texts


@pytest.mark.parametrize(
    "unit", ["x", "é", '"},"line_number":999,"', "\\", "\n\t\"'", "\U0001f600", b"\xff\xfe\xfd"]
)
@pytest.mark.parametrize("piece", [1000, 65_536])
def test_of_a_long_line_the_beginning_and_the_number_are_kept(
    unit: str | bytes, piece: int
) -> None:
    text = unit * (3_000_000 // len(unit))
    data = event(text, number=42) + event("next")
    pieces = [data[start : start + piece] for start in range(0, len(data), piece)]
    first, second = read(*pieces)
    assert first.type == "match"
    assert first.data.path is not None
    assert first.data.path.text == './a "b".txt'
    assert first.data.line_number == 42
    assert first.data.lines is not None
    shown = first.data.lines.decoded("surrogateescape")
    assert 1000 < len(shown) < 10_000
    whole = text if isinstance(text, str) else text.decode("utf-8", "surrogateescape")
    assert whole.startswith(shown)
    assert second.data.lines is not None
    assert second.data.lines.text == "next"


def test_a_line_with_a_million_matches_keeps_its_number() -> None:
    (found,) = read(event("x" * 1000, number=7, submatches=100_000))
    assert found.data.line_number == 7


def test_memory_does_not_grow_with_the_line() -> None:
    piece = b"x" * 65_536
    head, _, tail = event("CUT").partition(b"CUT")
    reader = EventReader()
    list(reader.feed(head))
    tracemalloc.start()
    try:
        for _ in range(500):
            assert list(reader.feed(piece)) == []
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    (found,) = reader.feed(tail)
    assert found.data.line_number == 3
