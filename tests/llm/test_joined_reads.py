"""Answers whose chunks are joined: the same bodies, fewer pieces, and errors as before."""

from itertools import pairwise
from types import SimpleNamespace

import anyio
import anyio.abc
import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pi_rpc.llm import _joined_reads
from pi_rpc.llm._joined_reads import ChunkJoiner, join_reads
from pi_rpc.llm.http import EventRequest, open_events
from tests.deadlines import DEADLINE_S

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding:  Chunked\r\n\r\n"


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def through(*reads: bytes) -> bytes:
    joiner = ChunkJoiner()
    return b"".join([*map(joiner.feed, reads), joiner.eof()])


def body_of(answer: bytes) -> tuple[bytes, str]:
    """What the HTTP library makes of an answer after which the connection closes."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    client.send(h11.EndOfMessage())
    body = b""
    try:
        for read in (answer, b""):
            client.receive_data(read)
            while (event := client.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    return body, "whole"
    except h11.RemoteProtocolError:
        return body, "broken"
    return body, "open"


def cut(answer: bytes, edges: list[int]) -> list[bytes]:
    places = [0, *sorted(min(edge, len(answer)) for edge in edges), len(answer)]
    return [answer[start:end] for start, end in pairwise(places)]


WHOLE = HEAD + chunked(b"data: one\n\n", b"x" * 300, b"\r\n0\r\n\r\n") + b"0\r\n\r\n"
ANSWERS = {
    "whole": WHOLE,
    "cut inside a chunk": WHOLE[:150],
    "cut before the last chunk": WHOLE[:-5],
    "cut inside the last chunk": WHOLE[:-2],
    "an extension of a chunk": HEAD + chunked(b"one") + b"3;a=b\r\ntwo\r\n0\r\n\r\n",
    "trailers": HEAD + chunked(b"one") + b"0\r\nx-end: 1\r\n\r\n",
    "no number": HEAD + chunked(b"one") + b"zz\r\ntwo\r\n0\r\n\r\n",
    "a chunk longer than it says": HEAD + chunked(b"one") + b"2\r\nthree\r\n0\r\n\r\n",
    "a word in advance": b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + WHOLE,
    "a length": b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n3\r\none\r\n",
    "until it closes": b"HTTP/1.1 200 OK\r\n\r\n3\r\none\r\n",
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@settings(deadline=None, max_examples=60)
@given(edges=st.lists(st.integers(0, 480), max_size=9))
def test_the_library_reads_the_same_from_what_was_joined(answer: bytes, edges: list[int]) -> None:
    body, end = body_of(through(*cut(answer, edges)))
    wanted, wanted_end = body_of(answer)
    assert end == wanted_end
    if wanted_end == "whole":
        assert body == wanted


def test_chunks_that_came_together_are_one() -> None:
    joiner = ChunkJoiner()
    assert joiner.feed(HEAD + chunked(b"one")) == HEAD + chunked(b"one")
    assert joiner.in_body
    assert joiner.feed(chunked(b"two", b"three") + b"4\r\nfo") == chunked(b"twothreefo")
    assert joiner.feed(b"ur") == chunked(b"ur")
    assert joiner.feed(b"\r\n1") == b""
    assert joiner.feed(b"\r\n!\r\n0\r\n\r\n") == chunked(b"!") + b"0\r\n\r\n"


pytestmark = pytest.mark.anyio


async def test_events_that_follow_each_other_quickly_are_read_together(serve) -> None:  # type: ignore[no-untyped-def]
    count = 50

    async def trickle(exchange) -> None:  # type: ignore[no-untyped-def]
        await exchange.send(HEAD)
        for number in range(count):
            await exchange.send(chunked(b"data: %d\n\n" % number))
        await exchange.send(b"0\r\n\r\n")

    reads = []
    async with serve(trickle) as server:
        request = EventRequest(server.url, {}, b"{}", "acme", idle_timeout_s=30, read_pause_s=0.008)
        async with open_events(request) as response:
            while (events := await response.read()) is not None:
                reads.append([data for _, data in events])
    assert [data for read in reads for data in read] == [b"%d" % each for each in range(count)]
    assert len(reads) < count


async def test_an_event_after_a_pause_is_read_before_the_next_is_sent(serve) -> None:  # type: ignore[no-untyped-def]
    seen = anyio.Event()

    async def answer(exchange) -> None:  # type: ignore[no-untyped-def]
        await exchange.send(HEAD + chunked(b"data: one\n\n"))
        await seen.wait()
        await exchange.send(chunked(b"data: two\n\n") + b"0\r\n\r\n")

    async with serve(answer) as server:
        request = EventRequest(server.url, {}, b"{}", "acme", idle_timeout_s=30)
        async with open_events(request) as response:
            assert await response.read() == [("message", b"one")]
            seen.set()
            assert await response.read() == [("message", b"two")]


@pytest.mark.parametrize("pause_s", [0, 3600])
async def test_only_an_answer_for_which_there_is_time_waits_for_more(serve, pause_s: float) -> None:  # type: ignore[no-untyped-def]
    was_read = [anyio.Event(), anyio.Event()]

    async def answer(exchange) -> None:  # type: ignore[no-untyped-def]
        await exchange.send(HEAD + chunked(b"data: 0\n\n"))
        for number, event in enumerate(was_read, 1):
            await event.wait()
            await exchange.send(chunked(b"data: %d\n\n" % number))
        await exchange.wait_until_closed()

    async with serve(answer) as server:
        request = EventRequest(
            server.url, {}, b"{}", "acme", idle_timeout_s=90, read_pause_s=pause_s
        )
        async with open_events(request) as response:
            # What comes with the head is no trickle yet.
            for number, event in enumerate(was_read):
                assert await response.read() == [("message", b"%d" % number)]
                event.set()
            with anyio.move_on_after(0.2 if pause_s else 30):
                assert await response.read() == [("message", b"2")]
                assert not pause_s


@pytest.mark.parametrize(("gap_s", "pauses"), [(0.003, 5), (0.05, 0)])
async def test_pieces_that_are_far_apart_are_not_paused_for(
    monkeypatch: pytest.MonkeyPatch, gap_s: float, pauses: int
) -> None:
    import httpcore

    now, paused = 100.0, 0
    pieces = [HEAD, *[chunked(b"data: %d\n\n" % number) for number in range(5)], b""]

    class Trickle(httpcore.AsyncNetworkStream):
        async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            nonlocal now
            now += gap_s
            return pieces.pop(0)

        def get_extra_info(self, info: str) -> None:
            return None

    async def sleep_until(moment: float) -> None:
        nonlocal now, paused
        paused += now < moment
        now = max(now, moment)

    clock = SimpleNamespace(current_time=lambda: now, sleep_until=sleep_until)
    monkeypatch.setattr("pi_rpc.llm._joined_reads.anyio", clock)
    stream = _joined_reads._Stream(Trickle())
    assert await stream.read(1) == HEAD
    stream.pause_s = 0.008
    while await stream.read(1):
        pass
    assert paused == pauses


async def test_the_patience_of_one_answer_is_not_that_of_the_next_on_its_connection(serve) -> None:  # type: ignore[no-untyped-def]
    seen = anyio.Event()

    async def answer(exchange) -> None:  # type: ignore[no-untyped-def]
        await exchange.send(HEAD + chunked(b"data: one\n\n") + b"0\r\n\r\n")
        await exchange.stream.receive()
        await exchange.send(HEAD)
        for word in (b"one", b"two"):
            await exchange.send(chunked(b"data: %b\n\n" % word))
            await seen.wait()
        await exchange.send(b"0\r\n\r\n")

    async with serve(answer) as server:
        patient = EventRequest(server.url, {}, b"{}", "acme", idle_timeout_s=90, read_pause_s=3600)
        with anyio.fail_after(DEADLINE_S):
            async with open_events(patient) as response:
                assert await response.read() == [("message", b"one")]
                await response.drain()
            async with open_events(replace(patient, read_pause_s=0)) as response:
                assert await response.read() == [("message", b"one")]
                seen.set()
                assert await response.read() == [("message", b"two")]
        assert len(server.asked) == 1


async def test_every_client_reads_this_way_also_through_a_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import httpx

    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with httpx.AsyncClient() as client:
        join_reads(client)
        transports = [client._transport, *client._mounts.values()]
        backends = {type(transport._pool._network_backend).__module__ for transport in transports}
    assert len(transports) > 1
    assert backends == {"pi_rpc.llm._joined_reads"}


async def test_records_of_an_encrypted_connection_that_came_together_are_read_together() -> None:
    import ssl

    import httpx
    import trustme
    from anyio.streams.tls import TLSListener

    authority, count = trustme.CA(), 50
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(serving)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    async def trickle(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(HEAD)
            for number in range(count):
                await stream.send(chunked(b"data: %d\n\n" % number))
            await stream.send(b"0\r\n\r\n")

    tcp = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = tcp.extra(anyio.abc.SocketAttribute.local_port)
    async with TLSListener(tcp, serving) as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, trickle)
        async with httpx.AsyncClient(verify=trusting) as client:
            join_reads(client)
            async with client.stream("GET", f"https://127.0.0.1:{port}/") as response:
                pieces = [piece async for piece in response.aiter_raw()]
        tasks.cancel_scope.cancel()
    assert b"".join(pieces) == b"".join(b"data: %d\n\n" % number for number in range(count))
    assert len(pieces) < count
