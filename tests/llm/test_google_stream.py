"""Answers of the dialect google-generative-ai.

The streams in ``tests/data/sse/google*.txt`` are written by hand in the shape Google documents (and
its SDK reads, see ``sdk_opinion``); they were not recorded from Google's server.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec
import pytest
from msgspec import UNSET

from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.errors import (
    AccessError,
    AuthError,
    BadRequestError,
    ContextOverflowError,
    MalformedStreamError,
    ModelNotFoundError,
    OverloadedError,
    ProviderError,
    QuotaError,
    RateLimitError,
    ServerError,
)
from pi_rpc.llm.events import (
    AssistantMessageEvent,
    Failed,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
)
from pi_rpc.llm.failures import is_retryable
from pi_rpc.llm.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCall
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, stream_simple
from pi_rpc.llm.providers.google_generative_ai import _Reader
from pi_rpc.llm.sse import SseDecoder
from pi_rpc.llm.stream import AssistantMessageStream, MessageBuilder
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

API = "google-generative-ai"
SIGNATURE = "EtoGCtcGAXLI2nyIJ0Ih4Kf3m+1b/OeZ0wPq8g=="
CALL_SIGNATURE = "CiwBcsjafKYx8pJ1m6v/9Lz3T1u+4wQe5r0dHkYv2cNq7sXbA0ZfUg=="
THOUGHT = "**Thinking of the sea**\n\nThe person wants one sentence about it.\n\n"
TEXT = (
    "The sea is a vast, saline body of water \u2013 \u6d77, la mer, \U0001f30a \u2013 that covers "
    'most of the "blue" planet.'
)
ARGUMENTS = {"path": "README.md", "offset": 3, "deep": {"caf\u00e9": [1, 2.5, None, True]}}
CONTENT = {
    "google": [
        ThinkingBlock(thinking=THOUGHT),
        TextBlock(text=TEXT, text_signature=SIGNATURE),
    ],
    "google_tool": [
        ThinkingBlock(thinking="I should read both files."),
        TextBlock(text="Reading both."),
        ToolCall(id="f7k2m9q1", name="read", arguments=ARGUMENTS, thought_signature=CALL_SIGNATURE),
        ToolCall(id="p3x8w2z6", name="ls", arguments={}),
    ],
}

Answer = tuple[AssistantMessageStream, AssistantMessage, list[AssistantMessageEvent]]
Ask = Callable[..., Awaitable[Answer]]


@pytest.fixture
def gemini(ask: Callable[..., Any]) -> Ask:
    async def run(*payloads: Any, **changes: Any) -> Answer:
        answer: Answer = await ask(*payloads, **{"api": API, "reasoning": True, **changes})
        return answer

    return run


def chunk(*parts: Any, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], **fields}


def read_in(model: Model, *reads: bytes) -> tuple[AssistantMessage, list[AssistantMessageEvent]]:
    builder = MessageBuilder(model)
    reader, decoder = _Reader(model, builder), SseDecoder()
    events: list[AssistantMessageEvent] = []
    for read in reads:
        events += reader.read(decoder.feed(read))
    events += reader.read(decoder.eof())
    reader.finish()
    events += builder.end_open()
    return builder.snapshot(), events


@pytest.mark.parametrize("name", ["google", "google_tool"])
async def test_a_stream_is_read_the_same_wherever_it_is_cut(
    name: str, recorded: Callable[[str], bytes], make_model: Callable[..., Model]
) -> None:
    model, raw = make_model(api=API), recorded(name)
    whole, _ = read_in(model, raw)
    assert whole.content == CONTENT[name]
    for cut in range(1, len(raw)):
        message, events = read_in(model, raw[:cut], raw[cut:])
        assert message.content == whole.content, cut
        assert message.usage == whole.usage
        thoughts = "".join(each.delta for each in events if isinstance(each, ThinkingDelta))
        texts = "".join(each.delta for each in events if isinstance(each, TextDelta))
        blocks = whole.content
        assert thoughts == "".join(b.thinking for b in blocks if isinstance(b, ThinkingBlock))
        assert texts == "".join(b.text for b in blocks if isinstance(b, TextBlock))


@pytest.mark.parametrize("size", [1, 7, 1_000_000])
async def test_a_text_comes_with_thinking_signature_usage_and_names(
    size: int,
    serve: Any,
    recorded: Callable[[str], bytes],
    make_model: Callable[..., Model],
    hello: Context,
) -> None:
    raw = recorded("google")

    async def answer(exchange: Any) -> None:
        await exchange.head()
        for start in range(0, len(raw), size):
            await exchange.send(raw[start : start + size])

    async with serve(answer) as server:
        model = make_model(api=API, base_url=server.url + "/v1beta/")
        stream = stream_simple(model, hello, StreamOptions(api_key="k"))
        names = [type(event).__name__ async for event in stream]
        message = await stream.result()
        (asked,) = server.asked
    assert asked.path == "/v1beta/models/test-model:streamGenerateContent?alt=sse"
    assert asked.headers["x-goog-api-key"] == "k"
    assert "authorization" not in asked.headers
    folded = [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]
    assert folded == [
        "Start", "ThinkingStart", "ThinkingDelta", "ThinkingEnd", "TextStart", "TextDelta",
        "TextEnd", "Done",
    ]  # fmt: skip
    assert message.content == CONTENT["google"]
    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "STOP")
    assert message.response_id == "mAitaLqVNd6RmtkP5cCZ-Qs"
    assert message.response_model == "gemini-3.8-flash"
    usage = message.usage
    assert (usage.input, usage.cache_read, usage.cache_write) == (65, 2048, 0)
    assert (usage.output, usage.reasoning, usage.total_tokens) == (90, 61, 2203)
    assert usage.cost.total == pytest.approx((65 * 1 + 90 * 2 + 2048 * 0.1) / 1e6)


async def test_calls_without_ids_get_ids_of_their_own(
    recorded: Callable[[str], bytes], make_model: Callable[..., Model]
) -> None:
    message, events = read_in(make_model(api=API, id="gemini-2.5-flash"), recorded("google_no_ids"))
    first, second = message.content
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    assert first.id != second.id
    assert first.id.startswith("call_")
    assert [first.arguments, second.arguments] == [{"path": "a"}, {"path": "b"}]
    assert [event.id for event in events if isinstance(event, ToolCallStart)] == [
        first.id,
        second.id,
    ]
    assert [event.delta for event in events if isinstance(event, ToolCallDelta)] == [
        '{"path":"a"}',
        '{"path":"b"}',
    ]
    assert message.stop_reason == "toolUse"
    assert message.response_model is UNSET


async def test_an_id_that_comes_twice_is_made_unique(gemini: Ask) -> None:
    call = {"functionCall": {"name": "read", "id": "x"}}
    _, message, _ = await gemini(chunk(call, call, finish="STOP"))
    assert [block.id for block in message.content if isinstance(block, ToolCall)] == ["x", "x_2"]


async def test_two_signed_parts_stay_two_and_an_empty_one_is_kept(gemini: Ask) -> None:
    _, message, _ = await gemini(
        chunk({"text": "a", "thoughtSignature": "AAAA"}, {"text": "b"}),
        chunk({"text": "c", "thoughtSignature": "BBBB"}),
        chunk({"functionCall": {"name": "ls", "id": "1"}}),
        chunk({"text": "", "thoughtSignature": "CCCC"}, {"text": ""}, finish="STOP"),
    )
    assert message.content == [
        TextBlock(text="ab", text_signature="AAAA"),
        TextBlock(text="c", text_signature="BBBB"),
        ToolCall(id="1", name="ls", arguments={}),
        TextBlock(text="", text_signature="CCCC"),
    ]
    assert message.stop_reason == "toolUse"


async def test_numbers_of_usage_that_come_once_are_not_lost(gemini: Ask) -> None:
    _, message, _ = await gemini(
        chunk({"text": "a"}, usageMetadata={"promptTokenCount": 9, "candidatesTokenCount": 4}),
        chunk(finish="STOP", usageMetadata={"promptTokenCount": 9, "totalTokenCount": 13}),
    )
    assert (message.usage.input, message.usage.output, message.usage.total_tokens) == (9, 4, 13)


async def test_a_character_that_was_cut_in_two_is_put_together(gemini: Ask) -> None:
    _, message, _ = await gemini(
        '{"candidates":[{"content":{"parts":[{"text":"a\\ud83c"}]}}]}',
        '{"candidates":[{"content":{"parts":[{"text":"\\udf0a!"}]}}]}',
        '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"w","args":'
        '{"text":"b\\ud83c"}}}]},"finishReason":"STOP"}]}',
    )
    text, call = message.content
    assert text == TextBlock(text="a\U0001f30a!")
    assert isinstance(call, ToolCall)
    assert call.arguments == {"text": "b\ufffd"}


@pytest.mark.parametrize(
    ("reason", "stop"), [("STOP", "stop"), ("MAX_TOKENS", "length"), ("CONTINUATION", "length")]
)
async def test_an_end_as_agreed_says_why(gemini: Ask, reason: str, stop: str) -> None:
    stream, message, _ = await gemini(chunk({"text": "a"}, finish=reason))
    assert stream.error is None
    assert (message.stop_reason, message.raw_stop_reason) == (stop, reason)


@pytest.mark.parametrize(
    ("reason", "kind", "retryable", "says"),
    [
        ("SAFETY", ProviderError, False, "acme withheld the rest of the reply (SAFETY)"),
        ("RECITATION", ProviderError, False, "acme withheld the rest of the reply (RECITATION)"),
        ("SPII", ProviderError, False, "acme withheld the rest of the reply (SPII)"),
        ("OTHER", ProviderError, False, "acme ended the reply with finishReason 'OTHER'"),
        ("SOMETHING_NEW", ProviderError, False, "finishReason 'SOMETHING_NEW'"),
        ("TOO_MANY_TOOL_CALLS", ProviderError, False, "'TOO_MANY_TOOL_CALLS'"),
        ("MALFORMED_FUNCTION_CALL", MalformedStreamError, True, "(MALFORMED_FUNCTION_CALL)"),
        ("UNEXPECTED_TOOL_CALL", MalformedStreamError, True, "(UNEXPECTED_TOOL_CALL)"),
        ("MISSING_THOUGHT_SIGNATURE", BadRequestError, False, "refused the conversation"),
    ],
)
async def test_an_end_that_is_a_failure_is_one(
    gemini: Ask, reason: str, kind: type[ProviderError], retryable: bool, says: str
) -> None:
    last = chunk(finish=reason)
    last["candidates"][0]["finishMessage"] = "because\n so"
    stream, message, _ = await gemini(chunk({"text": "a"}), last)
    assert message.stop_reason == "error"
    assert message.content == [TextBlock(text="a")]
    assert type(stream.error) is kind
    assert is_retryable(message, stream.error) is retryable
    assert says in (message.error_message or "")
    assert (message.error_message or "").endswith(": because so")


async def test_a_prompt_that_was_blocked_is_an_error_that_says_so(gemini: Ask) -> None:
    stream, message, _ = await gemini(
        {
            "promptFeedback": {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "no"},
            "usageMetadata": {"promptTokenCount": 5},
        }
    )
    assert message.error_message == "acme refused the prompt (PROHIBITED_CONTENT): no"
    assert stream.error is not None
    assert not stream.error.retryable


@pytest.mark.parametrize("payloads", [[chunk({"text": "word"})], []])
async def test_a_stream_without_finish_reason_is_no_short_answer(
    gemini: Ask, payloads: list[Any]
) -> None:
    stream, message, _ = await gemini(*payloads)
    assert isinstance(stream.error, MalformedStreamError)
    assert message.error_message == "acme: the stream ended without finishReason"
    assert is_retryable(message, stream.error)


async def test_garbage_before_the_end_is_malformed_and_after_it_nothing(gemini: Ask) -> None:
    stream, message, _ = await gemini(chunk({"text": "a"}), '{"candidates": 7}')
    assert isinstance(stream.error, MalformedStreamError)
    assert message.content == [TextBlock(text="a")]
    stream, message, _ = await gemini(chunk({"text": "a"}, finish="STOP"), "{nonsense")
    assert stream.error is None
    assert message.stop_reason == "stop"


QUOTA_TEXT = "You exceeded your current quota, please check your plan and billing details."
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.074824224s"}


def quota(quota_id: str) -> dict[str, Any]:
    violation = {"quotaId": quota_id, "quotaValue": "10"}
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}


def status(code: int, name: str, message: str, *details: Any) -> dict[str, Any]:
    error: dict[str, Any] = {"code": code, "message": message, "status": name}
    if details:
        error["details"] = list(details)
    return error


BAD_KEY = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "API_KEY_INVALID",
    "domain": "googleapis.com",
}
FAILURES: list[tuple[dict[str, Any], type[ProviderError], bool, int | None]] = [
    (status(400, "INVALID_ARGUMENT", "Bad field"), BadRequestError, False, None),
    (status(400, "INVALID_ARGUMENT", "API key not valid.", BAD_KEY), AuthError, False, None),
    (
        status(
            400,
            "INVALID_ARGUMENT",
            "The input token count (1196265) exceeds the maximum number of tokens allowed "
            "(1048576).",
        ),
        ContextOverflowError,
        False,
        None,
    ),
    (status(401, "UNAUTHENTICATED", "no credentials"), AuthError, False, None),
    (status(403, "PERMISSION_DENIED", "denied"), AccessError, False, None),
    (status(404, "NOT_FOUND", "models/x is not found"), ModelNotFoundError, False, None),
    (
        status(429, "RESOURCE_EXHAUSTED", QUOTA_TEXT, quota("PerMinutePerProject"), RETRY),
        RateLimitError,
        True,
        34_075,
    ),
    (
        status(429, "RESOURCE_EXHAUSTED", QUOTA_TEXT, quota("GeneratePerDayPerProject"), RETRY),
        QuotaError,
        False,
        34_075,
    ),
    (
        status(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
        RateLimitError,
        True,
        None,
    ),
    (status(500, "INTERNAL", "An internal error has occurred."), ServerError, True, None),
    (status(503, "UNAVAILABLE", "The model is overloaded."), OverloadedError, True, None),
    (status(504, "DEADLINE_EXCEEDED", "too slow"), ServerError, True, None),
]


@pytest.mark.parametrize("in_stream", [False, True])
@pytest.mark.parametrize(("error", "kind", "retryable", "wait"), FAILURES)
async def test_a_reported_failure_becomes_the_error_that_fits(
    *,
    error: dict[str, Any],
    kind: type[ProviderError],
    retryable: bool,
    wait: int | None,
    in_stream: bool,
    serve: Any,
    make_model: Callable[..., Model],
    hello: Context,
) -> None:
    closed = anyio.Event()

    async def answer(exchange: Any) -> None:
        if in_stream:
            await exchange.head()
            await exchange.events(chunk({"text": "word"}), {"error": error})
        else:
            await exchange.head(f"{error['code']} No", "application/json")
            await exchange.send(msgspec.json.encode({"error": error}))
            await exchange.stream.send_eof()
        await exchange.wait_until_closed()
        closed.set()

    async with serve(answer) as server:
        stream = stream_simple(make_model(api=API, base_url=server.url), hello)
        events = [event async for event in stream]
        message = await stream.result()
        with anyio.fail_after(DEADLINE_S):
            await closed.wait()
    assert type(stream.error) is kind
    assert stream.error.status == error["code"]
    assert is_retryable(message, stream.error) is retryable
    assert stream.error.retry_after_ms == wait
    failed = events[-1]
    assert isinstance(failed, Failed)
    assert failed.retry_after_ms == (UNSET if wait is None else wait)
    assert error["message"] in (message.error_message or "")
    assert f"({error['status']})" in (message.error_message or "")


async def test_an_abort_closes_the_connection_and_keeps_the_text(
    serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    closed = anyio.Event()
    controller = AbortController()

    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(chunk({"text": "word"}))
        await exchange.wait_until_closed()
        closed.set()

    async with serve(answer) as server:
        options = StreamOptions(signal=controller.signal)
        stream = stream_simple(make_model(api=API, base_url=server.url), hello, options)
        async for event in stream:
            if isinstance(event, TextDelta):
                controller.abort()
        message = await stream.result()
        with anyio.fail_after(DEADLINE_S):
            await closed.wait()
    assert message.stop_reason == "aborted"
    assert message.content == [TextBlock(text="word")]


async def test_a_gateways_own_authorization_keeps_the_key_away_from_it(
    serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(chunk({"text": "a"}, finish="STOP"))

    async with serve(answer) as server:
        model = make_model(
            api=API, id="tunedModels/my one", base_url=server.url, headers={"Authorization": "B"}
        )
        await stream_simple(model, hello, StreamOptions(api_key="k")).result()
        (asked,) = server.asked
    assert asked.path == "/tunedModels/my%20one:streamGenerateContent?alt=sse"
    assert asked.headers["authorization"] == "B"
    assert "x-goog-api-key" not in asked.headers
