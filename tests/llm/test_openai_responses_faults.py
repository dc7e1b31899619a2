"""A server of the Responses API that breaks off, stalls, refuses or is not read to its end."""

from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest

from pi_rpc.llm.abort import AbortController
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
from pi_rpc.llm.events import TextDelta
from pi_rpc.llm.failures import is_retryable
from pi_rpc.llm.messages import AssistantMessage, TextBlock
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, stream_simple
from pi_rpc.llm.stream import AssistantMessageStream

pytestmark = pytest.mark.anyio

KEY = "sk-very-secret-0123456789"
ITEM = {
    "type": "response.output_item.added",
    "output_index": 0,
    "item": {"type": "message", "id": "msg_1", "role": "assistant", "content": []},
}
WORD = {"type": "response.output_text.delta", "output_index": 0, "delta": "word"}
END = {"type": "response.completed", "response": {"status": "completed"}}

Ask = Callable[..., Any]


@pytest.fixture
def asked(serve: Any, make_model: Callable[..., Model], hello: Context) -> Ask:
    """Ask a server that answers with ``handler``; gives the read stream and its message."""

    async def run(handler: Any, **options: Any) -> tuple[AssistantMessageStream, AssistantMessage]:
        async with serve(handler) as server:
            model = make_model(api="openai-responses", base_url=server.url)
            stream = stream_simple(model, hello, StreamOptions(api_key=KEY, **options))
            with anyio.fail_after(20):
                message = await stream.result()
        assert KEY not in (message.error_message or "")
        return stream, message

    return run


async def test_a_stream_cut_mid_event_keeps_its_text_and_is_retryable(asked: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(ITEM, WORD)
        await exchange.send(b'data: {"type":"response.output_te')

    stream, message = await asked(answer)
    assert isinstance(stream.error, MalformedStreamError)
    assert message.content == [TextBlock(text="word")]
    assert is_retryable(message, stream.error)


async def test_a_connection_reset_mid_stream_is_a_retryable_network_error(asked: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(ITEM, WORD)
        await exchange.reset()

    stream, message = await asked(answer)
    assert isinstance(stream.error, NetworkError)
    assert is_retryable(message, stream.error)


async def test_a_chunked_body_that_is_cut_is_a_retryable_network_error(asked: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("200 OK", "text/event-stream", "transfer-encoding: chunked")
        await exchange.send(b"100\r\ndata: {")

    stream, message = await asked(answer)
    assert isinstance(stream.error, NetworkError)
    assert is_retryable(message, stream.error)


async def test_a_cut_after_the_terminal_event_is_a_success(asked: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("200 OK", "text/event-stream", "transfer-encoding: chunked")
        body = b'data: {"type":"response.completed","response":{}}\n\ndata: {"u'
        await exchange.send(b"%x\r\n%s\r\n" % (len(body), body))

    stream, message = await asked(answer)
    assert stream.error is None
    assert message.stop_reason == "stop"


async def test_a_server_that_never_closes_does_not_hold_the_reply(asked: Ask) -> None:

    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(ITEM, WORD, END)
        await exchange.wait_until_closed()

    stream, message = await asked(answer)
    assert stream.error is None
    assert (message.stop_reason, message.content) == ("stop", [TextBlock(text="word")])


async def test_silence_longer_than_the_idle_limit_is_a_retryable_timeout(asked: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(ITEM, WORD)
        await exchange.wait_until_closed()

    stream, message = await asked(answer, idle_timeout_s=0.1)
    assert isinstance(stream.error, StreamTimeoutError)
    assert message.content == [TextBlock(text="word")]
    assert is_retryable(message, stream.error)


async def test_an_abort_closes_the_connection_and_keeps_what_came(
    serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    closed = anyio.Event()

    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(ITEM, WORD)
        await exchange.wait_until_closed()
        closed.set()

    controller = AbortController()
    async with serve(answer) as server:
        model = make_model(api="openai-responses", base_url=server.url)
        stream = stream_simple(model, hello, StreamOptions(signal=controller.signal))
        with anyio.fail_after(20):
            async for event in stream:
                if isinstance(event, TextDelta):
                    controller.abort()
            message = await stream.result()
            await closed.wait()
    assert message.stop_reason == "aborted"
    assert message.content == [TextBlock(text="word")]


async def test_a_stream_that_is_left_early_closes_its_connection(
    serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    closed = anyio.Event()

    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(ITEM, WORD)
        await exchange.wait_until_closed()
        closed.set()

    async with serve(answer) as server:
        model = make_model(api="azure-openai-responses", base_url=server.url)
        stream = stream_simple(model, hello)
        with anyio.fail_after(20):
            await stream.next_batch()
            await stream.aclose()
            await closed.wait()


def failure(message: str, code: str) -> bytes:
    return msgspec.json.encode({"error": {"message": message, "code": code, "param": None}})


FAILURES: list[tuple[int, bytes, type[ProviderError], bool]] = [
    (400, failure("Unsupported parameter", "unsupported_parameter"), BadRequestError, False),
    (400, failure("Too much", "context_length_exceeded"), ContextOverflowError, False),
    (401, failure(f"Incorrect key: {KEY}", "invalid_api_key"), AuthError, False),
    (404, failure("no such model", "model_not_found"), ModelNotFoundError, False),
    (404, failure("no such deployment", "DeploymentNotFound"), ModelNotFoundError, False),
    (429, failure("Rate limit reached", "rate_limit_exceeded"), RateLimitError, True),
    (429, failure("You exceeded your quota", "insufficient_quota"), QuotaError, False),
    (500, failure("oops", "server_error"), ServerError, True),
    (503, b"", OverloadedError, True),
]


@pytest.mark.parametrize(("status", "body", "kind", "retryable"), FAILURES)
async def test_a_failure_status_becomes_the_error_that_fits(
    asked: Ask, status: int, body: bytes, kind: type[ProviderError], retryable: bool
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head(f"{status} No", "application/json", f"content-length: {len(body)}")
        await exchange.send(body)

    stream, message = await asked(answer)
    assert type(stream.error) is kind
    assert stream.error.status == status
    assert is_retryable(message, stream.error) is retryable
    assert (message.error_message or "").startswith(f"acme answered {status}")


async def test_garbage_instead_of_events_is_malformed(asked: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.send(b"\x00\xff\xfe garbage\n\ndata: \xff{not json}\n\n")

    stream, _ = await asked(answer)
    assert isinstance(stream.error, MalformedStreamError)


async def test_a_whole_response_instead_of_events_asks_about_the_base_url(asked: Ask) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("200 OK", "application/json")
        await exchange.send(b'{"object":"response","status":"completed","output":[]}')

    stream, message = await asked(answer)
    assert isinstance(stream.error, MalformedStreamError)
    assert "is the base URL right?" in (message.error_message or "")
    assert not is_retryable(message, stream.error)
