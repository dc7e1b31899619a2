"""Frames from bytes and back."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_rpc.jsonrpc._repair import has_only_utf8, salvage, with_whole_surrogates
from pi_rpc.jsonrpc.framing import BadFrame, FrameDecoder, Framing, encode_frame, encode_frames

both = pytest.mark.parametrize("framing", list(Framing))


def decode(
    data: bytes, piece: int, framing: Framing | None = None, limit: int = 1 << 26
) -> list[object]:
    decoder = FrameDecoder(framing, max_frame_bytes=limit)
    frames: list[object] = []
    for start in range(0, len(data), piece):
        frames += decoder.feed(data[start : start + piece])
    return frames + decoder.eof()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    values=st.lists(json_values, min_size=1, max_size=5),
    cuts=st.lists(st.integers(1, 40), min_size=1, max_size=20),
    framing=st.sampled_from(list(Framing)),
    ascii_only=st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_any_frames_cut_anywhere_decode_to_themselves(
    values: list[object], cuts: list[int], framing: Framing, ascii_only: bool
) -> None:
    # An object first, so that the first byte tells the framing.
    payloads = [
        json.dumps({"value": value}, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        for value in values
    ]
    data = encode_frames(framing, payloads)
    decoder = FrameDecoder()
    frames: list[object] = []
    start, turn = 0, 0
    while start < len(data):
        end = start + cuts[turn % len(cuts)]
        frames += decoder.feed(data[start:end])
        start, turn = end, turn + 1
    frames += decoder.eof()
    assert decoder.framing is framing
    assert [json.loads(frame) for frame in frames] == [{"value": value} for value in values]  # type: ignore[arg-type]


@given(
    data=st.binary(max_size=300), cut=st.integers(1, 50), framing=st.sampled_from([None, *Framing])
)
@settings(max_examples=300, deadline=None)
def test_garbage_decodes_the_same_however_it_is_cut(
    data: bytes, cut: int, framing: Framing | None
) -> None:
    assert decode(data, cut, framing, limit=40) == decode(data, len(data) or 1, framing, limit=40)


@given(
    pieces=st.lists(
        st.sampled_from(
            [
                b"Content-Length: 2\r\n",
                b"\r\n",
                b"\n",
                b"{}",
                b"x: y\r\n",
                b"content-length:50\r\n",
                b"[",
            ]
        ),
        max_size=30,
    ),
    cut=st.integers(1, 9),
)
@settings(max_examples=300, deadline=None)
def test_garbled_headers_decode_the_same_however_they_are_cut(
    pieces: list[bytes], cut: int
) -> None:
    data = b"C" + b"".join(pieces)
    assert decode(data, cut, limit=40) == decode(data, len(data), limit=40)


@pytest.mark.parametrize(
    ("start", "framing"),
    [
        (b"Content", Framing.HEADERS),
        (b"c", Framing.HEADERS),
        (b"X-", Framing.HEADERS),
        (b"{", Framing.LINES),
        (b"[", Framing.LINES),
        (b" ", Framing.LINES),
        (b"\r", Framing.LINES),
        (b"5", Framing.LINES),
        (b"\xef\xbb\xbfC", Framing.HEADERS),
        (b"\xef\xbb\xbf{", Framing.LINES),
        (b"\xff", Framing.LINES),
    ],
)
def test_the_first_byte_tells_the_framing(start: bytes, framing: Framing) -> None:
    for piece in (1, len(start)):
        decoder = FrameDecoder()
        for index in range(0, len(start), piece):
            decoder.feed(start[index : index + piece])
        assert decoder.framing is framing


def test_nothing_and_half_a_byte_order_mark_leave_the_framing_open() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(b"") == decoder.feed(b"\xef") == decoder.feed(b"\xbb") == []
    assert decoder.framing is None
    assert decoder.eof() == [b"\xef\xbb"]


@both
def test_64_mib_in_pieces_of_64_kib_come_out_whole(framing: Framing) -> None:
    payload = b'{"a":"' + b"x" * ((64 << 20) - 8) + b'"}'
    assert decode(encode_frame(framing, payload), 65536) == [payload]


@both
def test_a_frame_byte_by_byte_comes_out_whole(framing: Framing) -> None:
    payload = b'{"a":"' + b"x" * 300_000 + b'"}'
    assert decode(encode_frame(framing, payload) * 2, 1) == [payload, payload]


@both
@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_a_frame_beyond_the_limit_is_refused_by_its_id_and_the_next_is_read(
    framing: Framing, piece: int
) -> None:
    large = b'{"id":"me","method":"x","params":"' + b"x" * 200 + b'"}'
    frames = decode(encode_frames(framing, [b"{}", large, b"[]"]), piece, framing, limit=100)
    assert frames == [b"{}", BadFrame("The frame is larger than 100 bytes", "me"), b"[]"]


@both
def test_the_limit_itself_is_allowed(framing: Framing) -> None:
    fits, large = b'"' + b"x" * 98 + b'"', b'"' + b"x" * 99 + b'"'
    for end in (b"\n", b"\r\n") if framing is Framing.LINES else (b"",):
        data = encode_frames(framing, [fits, large])
        if end == b"\r\n":
            data = data.replace(b"\n", end)
        for piece in (1, 1000):
            good, bad = decode(data, piece, framing, limit=100)
            assert good == fits
            assert isinstance(bad, BadFrame)


@both
def test_the_id_behind_a_large_value_is_found_at_the_end_of_the_frame(framing: Framing) -> None:
    large = b'{"params":"' + b"x" * 300_000 + b'","method":"x","id":12,"jsonrpc":"2.0"}'
    (bad,) = decode(encode_frame(framing, large), 5000, framing, limit=100_000)
    assert isinstance(bad, BadFrame)
    assert (bad.id, bad.code, bad.is_response) == (12, -32600, False)


@both
def test_a_frame_beyond_the_limit_is_not_kept(framing: Framing) -> None:
    decoder = FrameDecoder(framing, max_frame_bytes=1000)
    start = b"Content-Length: 100000000\r\n\r\n" if framing is Framing.HEADERS else b""
    decoder.feed(start + b"{")
    for _ in range(100):
        decoder.feed(b"x" * 10_000)
    kept = [value for value in vars(decoder).values() if isinstance(value, bytes | bytearray)]
    assert sum(map(len, kept)) < 80_000


def test_a_large_answer_to_us_is_told_from_a_request() -> None:
    large = b'{"id":"s1","result":"' + b"x" * 200 + b'"}'
    (bad,) = decode(large, 50, Framing.LINES, limit=100)
    assert isinstance(bad, BadFrame)
    assert bad.is_response


def test_a_body_cut_off_is_refused_by_its_id_and_an_unfinished_header_is_dropped() -> None:
    body = encode_frame(Framing.HEADERS, b'{"id":3,"method":"x"}')[:-1]
    (bad,) = decode(body, 5)
    assert isinstance(bad, BadFrame)
    assert (bad.id, bad.code) == (3, -32700)
    assert decode(b"Content-Length: 5\r\n", 5) == []
    assert decode(b"Content-Length: 5\r\n\r\n", 50) != []


def test_a_line_has_no_line_end_of_any_kind_within() -> None:
    payload = '{\r\n "a\u2028":\t"\u0085\u2029é\\n"\n}'.encode()
    line = encode_frame(Framing.LINES, payload)
    assert line.decode().splitlines(keepends=True) == [line.decode()]
    assert json.loads(line) == {"a\u2028": "\u0085\u2029é\n"}
    assert "é".encode() in line


@given(st.lists(st.text("ab\r\n\u0085\u2028é"), max_size=4), st.sampled_from(list(Framing)))
def test_frames_sent_in_one_go_are_the_same_as_one_by_one(
    texts: list[str], framing: Framing
) -> None:
    payloads = [text.encode() for text in texts]
    one_by_one = [encode_frame(framing, payload) for payload in payloads]
    assert encode_frames(framing, payloads) == b"".join(one_by_one)


def test_headers_count_bytes_and_change_nothing() -> None:
    payload = '{"a":"\u2028é"}'.encode()
    assert encode_frame(Framing.HEADERS, payload) == b"Content-Length: 13\r\n\r\n" + payload


@pytest.mark.parametrize(
    ("text", "id"),
    [
        (b'{"id":5,"method":"x","params":{', 5),
        (b'{"id":"\\u00e9\\n","x":', "é\n"),
        (b'{"id":"\\ud83d","x":', "\ufffd"),
        (b'{"id":12', None),
        (b'{"id":"12', None),
        (b'{"id":12,', 12),
        (b'{"id":01,"a":', None),
        (b'{"id":1.5,"a":', None),
        (b'{"id":null,"a":', None),
        (b'{"id":{"id":4},"a":', None),
        (b'{"params":{"id":4},"a":', None),
        (b'{"params":{"id":[},"id":3}', None),
        (b'{"params":"{\\"id\\":4", "a":', None),
        (b'[{"id":4}, ', None),
        (b'"id":4', None),
        (b'{"id":4,"id":5,', 4),
        (b"", None),
    ],
)
def test_only_an_id_at_the_top_level_and_seen_to_its_end_counts(text: bytes, id: object) -> None:
    assert salvage(text).id == id


def test_a_search_for_an_id_in_megabytes_of_brackets_is_bounded() -> None:
    text = b'{"method":"x","params":' + b"[" * 30_000_000 + b',"id":6}'
    assert salvage(text).id == 6
    assert salvage(text, complete=False).id is None


@given(text=st.text(alphabet=st.characters(max_codepoint=0x10FFFF), max_size=20))
def test_halves_of_pairs_become_one_mark_each_and_the_rest_stays(text: str) -> None:
    repaired = json.loads(with_whole_surrogates(json.dumps(text).encode()))
    # Escapes of two halves that meet are a pair.
    joined = json.loads(json.dumps(text))
    assert repaired == "".join("\ufffd" if 0xD800 <= ord(one) < 0xE000 else one for one in joined)


@given(data=st.binary(max_size=12), repeat=st.integers(1, 3))
def test_what_is_utf8_is_known_also_in_pieces(data: bytes, repeat: int) -> None:
    for filler in (b"x", "é".encode(), "😀".encode()):
        long = data + filler * (repeat * (1 << 20) // len(filler)) + data
        try:
            long.decode()
        except UnicodeDecodeError:
            assert not has_only_utf8(long)
        else:
            assert has_only_utf8(long)


def test_framing_and_transports_load_nothing_asynchronous() -> None:
    code = (
        "import sys, pi_rpc.jsonrpc.stdio, pi_rpc.jsonrpc.framing;"
        "print([name for name in ('asyncio', 'anyio', 'logging', 'socket') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert shown.stdout == "[]\n"
