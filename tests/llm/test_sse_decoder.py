"""Server-sent events from bytes, however they are cut."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_rpc.llm.errors import MalformedStreamError
from pi_rpc.llm.sse import SseDecoder, SseEvent


def decode(*reads: bytes) -> list[SseEvent]:
    decoder = SseDecoder()
    events = [event for read in reads for event in decoder.feed(read)]
    return events + decoder.eof()


SAMPLE = (
    "\ufeff: a comment\n\n"
    "data: plain\n\n"
    "event: named\ndata: one\ndata: two\n\n"
    "data:no space\nid: 7\nretry: 10\n\n"
    "event: lonely\n\n"
    "data\n\n"
    "data: zwölf → 🙂\n\n\n\n"
    "data:  two spaces: and a colon\n\n"
)
EXPECTED = [
    ("message", b"plain"),
    ("named", b"one\ntwo"),
    ("message", b"no space"),
    ("message", b""),
    ("message", "zwölf → 🙂".encode()),
    ("message", b" two spaces: and a colon"),
]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64, 10_000])
def test_every_line_ending_and_every_cut_gives_the_same_events(ending: str, size: int) -> None:
    raw = SAMPLE.replace("\n", ending).encode()
    reads = [raw[start : start + size] for start in range(0, len(raw), size)]
    assert decode(*reads) == EXPECTED


@settings(deadline=None)
@given(st.lists(st.integers(0, 400), max_size=12), st.sampled_from(["\n", "\r\n", "\r"]))
def test_arbitrary_cuts_give_the_same_events(cuts: list[int], ending: str) -> None:
    raw = SAMPLE.replace("\n", ending).encode()
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    reads = [raw[a:b] for a, b in pairwise(edges)]
    assert decode(*reads) == EXPECTED


def test_an_event_is_given_out_as_soon_as_its_blank_line_came() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: one\n") == []
    assert decoder.feed(b"\n") == [("message", b"one")]
    assert decoder.feed(b"data: two\r") == []
    assert decoder.feed(b"\r") == [("message", b"two")]
    assert decoder.feed(b"\ndata: three\n\n") == [("message", b"three")]


def test_the_last_event_without_its_blank_line_is_given_at_the_end() -> None:
    assert decode(b"data: one\n\ndata: [DO", b"NE]") == [
        ("message", b"one"),
        ("message", b"[DONE]"),
    ]
    assert decode(b"") == []
    assert decode(b"\xef\xbb") == []


def test_an_unnamed_event_is_a_message_even_with_an_empty_event_field() -> None:
    assert decode(b"event: \ndata: x\n\n") == [("message", b"x")]


def test_an_event_in_many_reads_is_put_together() -> None:
    reads = [b"data: ", *[b"x" * 10] * 10_000, b"\n\n"]
    assert decode(*reads) == [("message", b"x" * 100_000)]


def test_an_event_without_an_end_is_malformed_before_it_fills_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pi_rpc.llm.sse._MAX_EVENT_BYTES", 1000)
    decoder = SseDecoder()
    assert decoder.feed(b"x" * 500) == []
    with pytest.raises(MalformedStreamError, match="without an end"):
        decoder.feed(b"x" * 501)


BLOCKS = [
    b"data: plain",
    b"event: named\ndata: one",
    b"event: named\ndata: one\ndata: two",
    b"event: lonely",
    b"event: tagged\nid: 7\ndata: one",
    b"event: \ndata: ",
    b"event: odd\ndata:tight",
    b"data",
    b"",
]


@given(st.lists(st.sampled_from(BLOCKS), max_size=8))
def test_events_read_together_are_those_read_one_by_one(blocks: list[bytes]) -> None:
    together = decode(b"".join(block + b"\n\n" for block in blocks))
    one_by_one = [event for block in blocks for event in decode(block + b"\n\n")]
    assert together == one_by_one
