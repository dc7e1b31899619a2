"""Connections that are used again, addresses that are none, and what a server alone cannot do.

What can go wrong in every dialect is the table of ``faults``.
"""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from pi_rpc.llm.errors import (
    AuthError,
    BadRequestError,
    MalformedStreamError,
    NetworkError,
)
from pi_rpc.llm.events import Failed
from pi_rpc.llm.failures import is_retryable
from pi_rpc.llm.messages import AssistantMessage
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, stream_simple
from pi_rpc.llm.stream import AssistantMessageStream
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

KEY = "sk-very-secret-0123456789"
WORD = {"choices": [{"delta": {"content": "word"}}]}
STOP = {"choices": [{"delta": {}, "finish_reason": "stop"}]}

Ask = Callable[..., Any]


@pytest.fixture
def ask(serve: Any, make_model: Callable[..., Model], hello: Context) -> Ask:
    """Ask a server that answers with ``handler``; gives the read stream and its message."""

    async def run(handler: Any, **options: Any) -> tuple[AssistantMessageStream, AssistantMessage]:
        async with serve(handler) as server:
            stream = stream_simple(
                make_model(base_url=server.url), hello, StreamOptions(api_key=KEY, **options)
            )
            with anyio.fail_after(DEADLINE_S):
                message = await stream.result()
        assert KEY not in (message.error_message or "")
        return stream, message

    return run


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["retry-after-ms: 1500", "retry-after: 9"], 1500),
        (["retry-after: 7"], 7000),
        (["retry-after: 0.5"], 500),
        (["retry-after: Thu, 01 Jan 1970 00:00:00 GMT"], 0),
        (["retry-after: soon"], None),
        ([], None),
    ],
)
async def test_the_wait_a_provider_asks_for_reaches_the_final_event(
    serve: Any, make_model: Any, hello: Context, lines: list[str], expected: int | None
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("429 Too Many Requests", "application/json", *lines)

    async with serve(answer) as server:
        stream = stream_simple(make_model(base_url=server.url), hello)
        events = [event async for event in stream]
    (event,) = events
    assert isinstance(event, Failed)
    assert (event.retry_after_ms or (0 if expected == 0 else None)) == expected
    assert stream.error is not None
    assert stream.error.retry_after_ms == expected


async def test_garbage_instead_of_events_is_malformed(ask: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.send(b"\x00\xff\xfe garbage\n\ndata: \xff{not json}\n\n")

    stream, message = await ask(answer)
    assert isinstance(stream.error, MalformedStreamError)
    assert message.content == []


async def test_a_refused_connection_is_a_retryable_network_error(
    make_model: Callable[..., Model], hello: Context
) -> None:
    model = make_model(base_url="http://user:pass@127.0.0.1:1/v1?key=hidden")
    stream = stream_simple(model, hello)
    message = await stream.result()
    assert isinstance(stream.error, NetworkError)
    assert is_retryable(message, stream.error)
    assert is_retryable(message)
    text = message.error_message or ""
    assert "acme (http://127.0.0.1:1)" in text
    assert "pass" not in text
    assert "hidden" not in text


@pytest.mark.parametrize("base_url", ["", "ftp://x", "not a url", "http://[::1"])
async def test_an_impossible_base_url_is_a_failed_reply(
    make_model: Callable[..., Model], hello: Context, base_url: str
) -> None:
    stream = stream_simple(make_model(base_url=base_url), hello)
    message = await stream.result()
    assert message.stop_reason == "error"
    assert isinstance(stream.error, BadRequestError)


@pytest.mark.parametrize("key", ["line\nbreak", "schlüssel", "nul\x00"])
async def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(
    make_model: Callable[..., Model], hello: Context, key: str
) -> None:
    stream = stream_simple(make_model(), hello, StreamOptions(api_key=key))
    message = await stream.result()
    assert isinstance(stream.error, AuthError)
    assert key not in (message.error_message or "")


async def test_a_server_on_this_machine_is_not_asked_through_a_proxy(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(WORD, STOP)

    _, message = await ask(answer)
    assert message.stop_reason == "stop"


async def test_a_server_that_speaks_now_and_then_may_take_its_time(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pi_rpc.llm.http._LIFELESS_IDLES", 0.1)

    async def answer(exchange: Any) -> None:
        await exchange.head()
        for payload in (*[WORD] * 10, STOP):
            await anyio.sleep(0.1)
            await exchange.send(b": keep-alive\n\n")
            await anyio.sleep(0.1)
            await exchange.events(payload)

    _, message = await ask(answer, idle_timeout_s=20)
    assert message.stop_reason == "stop"


async def test_without_an_idle_limit_a_server_is_waited_for(ask: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await anyio.sleep(0.1)
        await exchange.head()
        await exchange.send(b": keep-alive\n\n")
        await anyio.sleep(0.1)
        await exchange.events(WORD, STOP)

    _, message = await ask(answer, idle_timeout_s=0)
    assert message.stop_reason == "stop"


async def test_an_unreadable_certificate_file_is_a_failed_reply(
    make_model: Callable[..., Model], hello: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    broken = tmp_path / "ca.pem"
    broken.write_text("not a certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(broken))
    stream = stream_simple(make_model(base_url="https://127.0.0.1:1"), hello)
    message = await stream.result()
    assert "SSL_CERT_FILE" in (message.error_message or "")


async def test_an_unknown_dialect_is_a_failed_reply(
    make_model: Callable[..., Model], hello: Context
) -> None:
    message = await stream_simple(make_model(api="morse"), hello).result()
    assert "no provider speaks the api 'morse'" in (message.error_message or "")


async def test_a_connection_is_used_again_after_a_whole_reply(
    serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    connections = 0

    async def answer(exchange: Any) -> None:
        nonlocal connections
        connections += 1
        body = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
        for _ in range(2):
            await exchange.send(head % len(body) + body)
            await exchange.stream.receive()

    async with serve(answer) as server:
        model = make_model(base_url=server.url)
        for _ in range(2):
            with anyio.fail_after(DEADLINE_S):
                assert (await stream_simple(model, hello).result()).stop_reason == "stop"
    assert connections == 1


WHOLE = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 76\r\n\r\n"
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n     '
)


@pytest.mark.parametrize("how", ["closed", "reset"])
async def test_an_idle_connection_that_is_closed_as_it_is_used_again_is_replaced(
    serve: Any, make_model: Callable[..., Model], hello: Context, how: str
) -> None:
    opened, ended = 0, 0

    async def answer(exchange: Any) -> None:
        nonlocal opened, ended
        opened += 1
        await exchange.send(WHOLE)
        await exchange.stream.receive()  # the next request: it was sent before we close
        ended += 1
        if how == "reset":
            await exchange.reset()

    async with serve(answer) as server:
        model = make_model(base_url=server.url)
        for _ in range(3):
            with anyio.fail_after(DEADLINE_S):
                stream = stream_simple(model, hello)
                assert (await stream.result()).stop_reason == "stop", stream.error
    assert (opened, ended) == (3, 2)


async def test_a_new_connection_that_ends_without_an_answer_is_a_failure_at_once(
    serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    opened = 0

    async def answer(exchange: Any) -> None:
        nonlocal opened
        opened += 1
        if opened == 1:
            await exchange.send(WHOLE)
            await exchange.stream.receive()

    async with serve(answer) as server:
        model = make_model(base_url=server.url)
        assert (await stream_simple(model, hello).result()).stop_reason == "stop"
        with anyio.fail_after(DEADLINE_S):
            stream = stream_simple(model, hello)
            message = await stream.result()
    assert isinstance(stream.error, NetworkError)
    assert is_retryable(message, stream.error)
    assert opened == 2, "the idle one was replaced once, the new one was not"


async def test_an_idle_connection_that_ends_within_an_answer_is_not_replaced(
    serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    opened = 0

    async def answer(exchange: Any) -> None:
        nonlocal opened
        opened += 1
        await exchange.send(WHOLE)
        await exchange.stream.receive()
        await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hi\n\n")

    async with serve(answer) as server:
        model = make_model(base_url=server.url)
        assert (await stream_simple(model, hello).result()).stop_reason == "stop"
        with anyio.fail_after(DEADLINE_S):
            stream = stream_simple(model, hello)
            assert (await stream.result()).stop_reason == "error"
    assert isinstance(stream.error, MalformedStreamError)
    assert opened == 1


async def test_comments_without_an_end_do_not_hold_a_whole_reply(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pi_rpc.llm.http._LAST_READS_S", 0.1)

    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(WORD, STOP)
        while True:
            await exchange.send(b": still here\n\n")
            await anyio.sleep(0.01)

    _, message = await ask(answer)
    assert message.stop_reason == "stop"
