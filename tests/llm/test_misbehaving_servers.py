"""A server that closes, stalls, refuses or talks nonsense becomes one final message, typed."""

import gzip
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from pi_rpc.llm.errors import (
    AuthError,
    BadRequestError,
    ContextOverflowError,
    MalformedStreamError,
    ModelNotFoundError,
    NetworkError,
    OverloadedError,
    ProviderError,
    QuotaError,
    RateLimitError,
    ServerError,
    StreamTimeoutError,
)
from pi_rpc.llm.events import Failed
from pi_rpc.llm.failures import is_retryable
from pi_rpc.llm.messages import AssistantMessage, TextBlock
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, stream_simple
from pi_rpc.llm.stream import AssistantMessageStream

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
            with anyio.fail_after(20):
                message = await stream.result()
        assert KEY not in (message.error_message or "")
        return stream, message

    return run


async def test_a_stream_cut_mid_event_keeps_its_text_and_is_retryable(ask: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(WORD)
        await exchange.send(b'data: {"choices": [{"del')

    stream, message = await ask(answer)
    assert message.stop_reason == "error"
    assert message.content == [TextBlock(text="word")]
    assert isinstance(stream.error, MalformedStreamError)
    assert is_retryable(message, stream.error)


async def test_a_connection_reset_mid_stream_is_a_retryable_network_error(ask: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(WORD)
        await exchange.reset()

    stream, message = await ask(answer)
    assert isinstance(stream.error, NetworkError)
    assert message.content in ([], [TextBlock(text="word")])
    assert is_retryable(message, stream.error)
    assert is_retryable(message)


async def test_a_chunked_body_that_is_cut_is_a_retryable_network_error(ask: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("200 OK", "text/event-stream", "transfer-encoding: chunked")
        await exchange.send(b"100\r\ndata: {")

    stream, message = await ask(answer)
    assert isinstance(stream.error, NetworkError)
    assert is_retryable(message, stream.error)


async def test_a_stream_that_closes_without_finish_reason_is_retryable(ask: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(WORD)

    stream, message = await ask(answer)
    assert isinstance(stream.error, MalformedStreamError)
    assert message.error_message == "acme: the stream ended without finish_reason"
    assert is_retryable(message, stream.error)


async def test_a_cut_after_the_finish_reason_is_a_success(ask: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("200 OK", "text/event-stream", "transfer-encoding: chunked")
        body = (
            b'data: {"choices":[{"delta":{"content":"all"},"finish_reason":"stop"}]}\n\ndata: {"u'
        )
        await exchange.send(b"%x\r\n%s\r\n" % (len(body), body))

    stream, message = await ask(answer)
    assert stream.error is None
    assert message.stop_reason == "stop"
    assert message.content == [TextBlock(text="all")]


async def test_a_server_that_never_closes_after_the_end_does_not_hold_the_reply(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pi_rpc.llm.http._LAST_READS_S", 0.05)

    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(WORD, STOP)
        await exchange.wait_until_closed()

    stream, message = await ask(answer)
    assert stream.error is None
    assert message.stop_reason == "stop"


async def test_silence_longer_than_the_idle_limit_is_a_retryable_timeout(ask: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(WORD)
        await exchange.wait_until_closed()

    stream, message = await ask(answer, idle_timeout_s=0.1)
    assert isinstance(stream.error, StreamTimeoutError)
    assert "for 0.1 s" in (message.error_message or "")
    assert message.content == [TextBlock(text="word")]
    assert is_retryable(message, stream.error)
    assert is_retryable(message)


async def test_no_answer_at_all_runs_into_the_idle_limit_too(ask: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.wait_until_closed()

    stream, _ = await ask(answer, idle_timeout_s=0.1)
    assert isinstance(stream.error, StreamTimeoutError)


HTML = b"<html><head><title>502 Bad Gateway</title></head><body>nginx " + b"x" * 9000 + b"</body>"


FAILURES: list[tuple[int, bytes, type[ProviderError], bool]] = [
    (400, b'{"error":{"message":"bad field"}}', BadRequestError, False),
    (
        400,
        b'{"error":{"message":"maximum context length is 8 tokens"}}',
        ContextOverflowError,
        False,
    ),
    (401, b'{"error":{"message":"Incorrect key: %s"}}' % KEY.encode(), AuthError, False),
    (404, b"<html><title>Not Found</title></html>", ModelNotFoundError, False),
    (413, b"", ContextOverflowError, False),
    (429, b'{"error":{"message":"slow down"}}', RateLimitError, True),
    (429, b'{"error":{"code":"insufficient_quota","message":"no"}}', QuotaError, False),
    (500, b"\x00\xff garbage", ServerError, True),
    (502, HTML, ServerError, True),
    (503, b"", OverloadedError, True),
    (529, b'{"type":"error","error":{"message":"Overloaded"}}', OverloadedError, True),
]


@pytest.mark.parametrize(("status", "body", "kind", "retryable"), FAILURES)
async def test_a_failure_status_becomes_the_error_that_fits(
    ask: Ask, status: int, body: bytes, kind: type[ProviderError], retryable: bool
) -> None:
    async def answer(exchange: Any) -> None:
        length = f"content-length: {len(body)}"
        await exchange.head(f"{status} Whatever", "text/html", length)
        await exchange.send(body)

    stream, message = await ask(answer)
    assert type(stream.error) is kind
    assert stream.error.status == status
    assert is_retryable(message, stream.error) is retryable
    text = message.error_message or ""
    assert text.startswith(f"acme answered {status}")
    assert len(text) < 600
    assert "<" not in text


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


@pytest.mark.parametrize(("value", "retryable"), [("true", True), ("false", False)])
async def test_x_should_retry_overrides_the_status(ask: Ask, value: str, retryable: bool) -> None:
    async def answer(exchange: Any) -> None:
        status = "400 Bad Request" if retryable else "500 Oops"
        await exchange.head(status, "application/json", f"x-should-retry: {value}")

    stream, message = await ask(answer)
    assert is_retryable(message, stream.error) is retryable


async def test_garbage_instead_of_events_is_malformed(ask: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.send(b"\x00\xff\xfe garbage\n\ndata: \xff{not json}\n\n")

    stream, message = await ask(answer)
    assert isinstance(stream.error, MalformedStreamError)
    assert message.content == []


async def test_a_web_page_instead_of_events_asks_about_the_base_url(ask: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("200 OK", "text/html; charset=utf-8")
        await exchange.send(b"<html>Welcome</html>")

    stream, message = await ask(answer)
    assert isinstance(stream.error, MalformedStreamError)
    assert "is the base URL right?" in (message.error_message or "")
    assert not is_retryable(message, stream.error)


async def test_an_error_object_with_status_200_is_that_error(ask: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("200 OK", "application/json")
        await exchange.send(b'{"error": {"message": "slow down", "code": 429}}')

    stream, _ = await ask(answer)
    assert isinstance(stream.error, RateLimitError)


async def test_a_redirect_is_refused_and_not_followed_with_the_key(ask: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("307 Moved", "text/plain", "location: http://127.0.0.1:1/")

    stream, message = await ask(answer)
    assert isinstance(stream.error, BadRequestError)
    assert "has moved" in (message.error_message or "")


async def test_a_compressed_stream_is_read_as_it_comes(ask: Ask) -> None:
    async def answer(exchange: Any) -> None:
        assert exchange.asked.headers["accept-encoding"] == "identity"
        await exchange.head("200 OK", "text/event-stream", "content-encoding: gzip")
        body = b'data: {"choices":[{"delta":{"content":"packed"},"finish_reason":"stop"}]}\n\n'
        packed = gzip.compress(body)
        await exchange.send(packed[:10])
        await exchange.send(packed[10:])

    _, message = await ask(answer)
    assert message.content == [TextBlock(text="packed")]
    assert message.stop_reason == "stop"


async def test_a_broken_compressed_stream_is_malformed(ask: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("200 OK", "text/event-stream", "content-encoding: gzip")
        await exchange.send(b"this is not gzip at all")

    stream, _ = await ask(answer)
    assert isinstance(stream.error, MalformedStreamError)


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


async def test_requests_go_through_the_proxy_of_the_environment(
    serve: Any,
    make_model: Callable[..., Model],
    hello: Context,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(WORD, STOP)

    async with serve(answer) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        message = await stream_simple(make_model(base_url="http://model.test/v1"), hello).result()
        assert message.stop_reason == "stop"
        assert [asked.path for asked in proxy.asked] == ["http://model.test/v1/chat/completions"]


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
            with anyio.fail_after(5):
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
            with anyio.fail_after(5):
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
        with anyio.fail_after(5):
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
        with anyio.fail_after(5):
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
