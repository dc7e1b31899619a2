"""Answers of the dialect mistral-conversations.

The streams in ``tests/data/sse/mistral*.txt`` are written by hand in the shape Mistral documents
(and its SDK reads, see ``sdk_opinion``); they were not recorded from Mistral's server.
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
    RateLimitError,
    ServerError,
)
from pi_rpc.llm.events import AssistantMessageEvent, TextDelta, ThinkingDelta
from pi_rpc.llm.failures import is_retryable
from pi_rpc.llm.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCall
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, stream_simple
from pi_rpc.llm.providers.mistral_conversations import _Reader
from pi_rpc.llm.sse import SseDecoder
from pi_rpc.llm.stream import AssistantMessageStream, MessageBuilder
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

API = "mistral-conversations"
THOUGHT = "The person wants one sentence."
TEXT = (
    "The sea is a vast, saline body of water \u2013 \u6d77, la mer, \U0001f30a \u2013 that covers "
    'most of the "blue" planet.'
)
ARGUMENTS = {"path": "README.md", "offset": 3, "deep": {"caf\u00e9": [1, 2.5, None, True]}}
CONTENT = {
    "mistral": [
        ThinkingBlock(thinking=THOUGHT, thinking_signature="c2lnbmF0dXJl"),
        TextBlock(text=TEXT),
    ],
    "mistral_tool": [
        TextBlock(text="Reading both."),
        ToolCall(id="D681PevKs", name="read", arguments=ARGUMENTS),
        ToolCall(id="q7Rt2xZ0b", name="ls", arguments={}),
    ],
}

Answer = tuple[AssistantMessageStream, AssistantMessage, list[AssistantMessageEvent]]
Ask = Callable[..., Awaitable[Answer]]


@pytest.fixture
def mistral(ask: Callable[..., Any]) -> Ask:
    async def run(*payloads: Any, **changes: Any) -> Answer:
        answer: Answer = await ask(*payloads, **{"api": API, **changes})
        return answer

    return run


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(name: str, arguments: Any, **fields: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **fields}


def thought(*texts: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "thinking",
        "thinking": [{"type": "text", "text": text} for text in texts],
        **fields,
    }


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


@pytest.mark.parametrize("name", ["mistral", "mistral_tool"])
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
        blocks = whole.content
        thoughts = "".join(each.delta for each in events if isinstance(each, ThinkingDelta))
        texts = "".join(each.delta for each in events if isinstance(each, TextDelta))
        assert thoughts == "".join(b.thinking for b in blocks if isinstance(b, ThinkingBlock))
        assert texts == "".join(b.text for b in blocks if isinstance(b, TextBlock))


@pytest.mark.parametrize("base", ["", "/v1", "/v1/"])
async def test_a_text_comes_with_thinking_usage_and_names(
    base: str,
    serve: Any,
    recorded: Callable[[str], bytes],
    make_model: Callable[..., Model],
    hello: Context,
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.send(recorded("mistral"))

    async with serve(answer) as server:
        model = make_model(api=API, base_url=server.url + base)
        stream = stream_simple(model, hello, StreamOptions(api_key="k"))
        names = [type(event).__name__ async for event in stream]
        message = await stream.result()
        (asked,) = server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer k"
    folded = [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]
    assert folded == [
        "Start", "ThinkingStart", "ThinkingDelta", "ThinkingEnd", "TextStart", "TextDelta",
        "TextEnd", "Done",
    ]  # fmt: skip
    assert message.content == CONTENT["mistral"]
    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "stop")
    assert message.response_id == "8f0a4c1fd5f54d3c9a7f0b6a2c9e1d44"
    assert message.response_model == "mistral-medium-2604"
    usage = message.usage
    assert (usage.input, usage.output, usage.cache_read) == (65, 47, 2048)
    assert (usage.total_tokens, usage.reasoning) == (2160, UNSET)
    assert usage.cost.total == pytest.approx((65 * 1 + 47 * 2 + 2048 * 0.1) / 1e6)


@pytest.mark.parametrize(
    "counts",
    [
        {"prompt_tokens_details": {"cached_tokens": 4}},
        {"prompt_token_details": {"cached_tokens": 4}},
        {"num_cached_tokens": 4},
    ],
)
async def test_what_was_cached_is_counted_wherever_it_stands(mistral: Ask, counts: Any) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12, **counts}
    _, message, _ = await mistral(
        {**delta("stop", content="a"), "usage": {**usage}}, '{"choices": []}', "[DONE]"
    )
    assert (message.usage.input, message.usage.cache_read, message.usage.output) == (6, 4, 2)
    assert message.usage.total_tokens == 12


@pytest.mark.parametrize(
    "deltas",
    [
        # Cut in pieces, told apart by index.
        [
            [call("read", '{"pa', id="aaaaaaaa1", index=0)],
            [call("", 'th":"x"}', id="null", index=0)],
            [call("write", '{"path":"y"}', id="bbbbbbbb2", index=1)],
        ],
        # Whole, all numbered 0.
        [
            [call("read", '{"path":"x"}', id="aaaaaaaa1", index=0)],
            [call("write", '{"path":"y"}', id="bbbbbbbb2", index=0)],
        ],
        # Without numbers, arguments as objects.
        [
            [
                call("read", {"path": "x"}, id="aaaaaaaa1"),
                call("write", {"path": "y"}, id="bbbbbbbb2"),
            ]
        ],
    ],
)
async def test_calls_are_told_apart(mistral: Ask, deltas: list[Any]) -> None:
    _, message, _ = await mistral(
        *(delta(tool_calls=calls) for calls in deltas), delta("tool_calls"), "[DONE]"
    )
    assert message.content == [
        ToolCall(id="aaaaaaaa1", name="read", arguments={"path": "x"}),
        ToolCall(id="bbbbbbbb2", name="write", arguments={"path": "y"}),
    ]
    assert message.stop_reason == "toolUse"


async def test_calls_without_ids_get_ids_that_mistral_accepts(mistral: Ask) -> None:
    calls = [call("read", "{}", id="null"), call("read", "{}")]
    _, message, _ = await mistral(delta("tool_calls", tool_calls=calls), "[DONE]")
    ids = [block.id for block in message.content if isinstance(block, ToolCall)]
    assert len(set(ids)) == 2
    assert all(len(each) == 9 and each.isalnum() for each in ids)


async def test_words_keep_their_order_among_all_else_that_one_read_brings(
    make_model: Callable[..., Model],
) -> None:
    chunks = [
        {"id": "r1", "model": "m", **delta(content="one ")},
        *(delta(content=word) for word in ("two ", "three ", "")),
        {**delta(content="four "), "usage": {"prompt_tokens": 3, "completion_tokens": 4}},
        delta(content="five ", tool_calls=[call("ls", "{}", id="a1B2c3D4e", index=0)]),
        delta(content="six "),
        delta(content="seven"),
        delta("tool_calls", content=""),
    ]
    raw = b"".join(b"data: %b\n\n" % msgspec.json.encode(chunk) for chunk in chunks)
    # A half of a character in the middle, and its other half in the next chunk.
    raw = raw.replace(b"three ", b"three \\ud83c").replace(b"four ", b"\\udf0a four ")
    message, events = read_in(make_model(api=API), raw)
    assert message.content == [
        TextBlock(text="one two three \U0001f30a four five "),
        ToolCall(id="a1B2c3D4e", name="ls", arguments={}),
        TextBlock(text="six seven"),
    ]
    assert message.usage.total_tokens == 7
    assert [event.delta for event in events if isinstance(event, TextDelta)] == [
        "one ", "two ", "three ", "\U0001f30a four ", "five ", "six ", "seven",
    ]  # fmt: skip


async def test_empty_contents_split_no_block_and_unknown_parts_are_left_out(mistral: Ask) -> None:
    _, message, _ = await mistral(
        delta(content=[thought("a", "b")]),
        delta(content=""),
        delta(content=[thought("c"), {"type": "reference", "reference_ids": [1]}, 7]),
        delta(content=[thought("", signature="s")]),
        delta(content=[thought("", signature="later")]),
        delta(content=["x", {"type": "text", "text": ""}, {"type": "text", "text": "y"}]),
        delta("stop", content="z"),
        "[DONE]",
    )
    assert message.content == [
        ThinkingBlock(thinking="abc", thinking_signature="s"),
        TextBlock(text="xyz"),
    ]


@pytest.mark.parametrize(
    ("reason", "stop"), [("stop", "stop"), ("length", "length"), ("model_length", "length")]
)
async def test_an_end_as_agreed_says_why(mistral: Ask, reason: str, stop: str) -> None:
    stream, message, _ = await mistral(delta(reason, content="a"), "[DONE]")
    assert stream.error is None
    assert (message.stop_reason, message.raw_stop_reason) == (stop, reason)


@pytest.mark.parametrize(
    ("reason", "kind", "retryable"),
    [("error", ServerError, True), ("something_new", ProviderError, False)],
)
async def test_an_end_that_is_a_failure_is_one(
    mistral: Ask, reason: str, kind: type[ProviderError], retryable: bool
) -> None:
    stream, message, _ = await mistral(delta(content="a"), delta(reason), "[DONE]")
    assert message.content == [TextBlock(text="a")]
    assert type(stream.error) is kind
    assert is_retryable(message, stream.error) is retryable
    assert reason in (message.error_message or "")


@pytest.mark.parametrize("payloads", [[delta(content="word")], [delta(content="word"), "[DONE]"]])
async def test_a_stream_without_finish_reason_is_no_short_answer(
    mistral: Ask, payloads: list[Any]
) -> None:
    stream, message, _ = await mistral(*payloads)
    assert isinstance(stream.error, MalformedStreamError)
    assert message.error_message == "acme: the stream ended without finish_reason"
    assert message.content == [TextBlock(text="word")]
    assert is_retryable(message, stream.error)


async def test_garbage_before_the_end_is_malformed_and_after_it_nothing(mistral: Ask) -> None:
    stream, message, _ = await mistral(delta(content="a"), "{nonsense")
    assert isinstance(stream.error, MalformedStreamError)
    assert message.content == [TextBlock(text="a")]
    stream, message, _ = await mistral(delta("stop", content="a"), "{nonsense")
    assert stream.error is None
    assert message.stop_reason == "stop"


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ({"object": "error", "message": "Internal server error"}, "Internal server error"),
        ({"error": {"message": "Service unavailable.", "code": 503}}, "Service unavailable."),
        ({"detail": "Internal server error"}, "Internal server error"),
        ('{"error": {"message": "Internal server error"}, "choices": 3}', "Internal server error"),
    ],
)
async def test_an_error_inside_the_stream_is_what_it_says(
    mistral: Ask, event: Any, says: str
) -> None:
    stream, message, _ = await mistral(delta(content="a"), event)
    assert message.error_message is not UNSET
    assert f"acme reported an error: {says}" in message.error_message
    assert message.content == [TextBlock(text="a")]
    assert is_retryable(message, stream.error)


def mistral_error(kind: str, message: Any, code: str | None = None) -> dict[str, Any]:
    return {"object": "error", "message": message, "type": kind, "param": None, "code": code}


INVALID = "invalid_request_error"
FAILURES: list[tuple[int, dict[str, Any], type[ProviderError], bool, str]] = [
    (
        400,
        mistral_error(
            INVALID,
            "Prompt contains 66385 tokens and 0 draft tokens, too large for model with 32768 "
            "maximum context length",
            "3051",
        ),
        ContextOverflowError,
        False,
        "66385 tokens",
    ),
    (
        400,
        mistral_error("invalid_function_call", "Tool call id was x but must be a-z", "3280"),
        BadRequestError,
        False,
        "Tool call id was x",
    ),
    (401, {"detail": "Unauthorized"}, AuthError, False, "Unauthorized"),
    (401, {"message": "Unauthorized", "request_id": "r"}, AuthError, False, "Unauthorized"),
    (403, {"message": "Forbidden"}, AccessError, False, "Forbidden"),
    (404, mistral_error("not_found", "no such model", "1500"), ModelNotFoundError, False, "such"),
    (
        422,
        {"detail": [{"type": "missing", "loc": ["body", "model"], "msg": "Field required"}]},
        BadRequestError,
        False,
        "Field required",
    ),
    (
        422,
        mistral_error(INVALID, {"detail": [{"type": "missing", "msg": "Field required"}]}),
        BadRequestError,
        False,
        "Field required",
    ),
    (
        429,
        mistral_error("service_tier_capacity_exceeded", "Service tier capacity exceeded", "3505"),
        RateLimitError,
        True,
        "capacity exceeded",
    ),
    (
        429,
        {"message": "Requests rate limit exceeded"},
        RateLimitError,
        True,
        "Requests rate limit exceeded",
    ),
    (500, mistral_error("internal_server_error", "Service unavailable.", "1000"), ServerError, True,
     "Service unavailable."),
    (503, {"message": "upstream connect error"}, OverloadedError, True, "upstream connect error"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "kind", "retryable", "says"), FAILURES)
async def test_a_refusal_becomes_the_error_that_fits(
    *,
    status: int,
    body: dict[str, Any],
    kind: type[ProviderError],
    retryable: bool,
    says: str,
    serve: Any,
    make_model: Callable[..., Model],
    hello: Context,
) -> None:
    closed = anyio.Event()

    async def answer(exchange: Any) -> None:
        await exchange.head(f"{status} No", "application/json")
        await exchange.send(msgspec.json.encode(body))
        await exchange.stream.send_eof()
        await exchange.wait_until_closed()
        closed.set()

    async with serve(answer) as server:
        stream = stream_simple(make_model(api=API, base_url=server.url), hello)
        message = await stream.result()
        with anyio.fail_after(DEADLINE_S):
            await closed.wait()
    assert type(stream.error) is kind
    assert stream.error.status == status
    assert is_retryable(message, stream.error) is retryable
    assert (message.error_message or "").startswith(f"acme answered {status}")
    assert says in (message.error_message or "")


async def test_an_abort_closes_the_connection_and_keeps_the_text(
    serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    closed = anyio.Event()
    controller = AbortController()

    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(delta(content="word"))
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
