"""Streams of the Responses API: whole, cut anywhere, and as servers word them differently."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from pi_rpc.llm.errors import (
    ContextOverflowError,
    MalformedStreamError,
    ProviderError,
    QuotaError,
    RateLimitError,
    ServerError,
)
from pi_rpc.llm.events import (
    AssistantMessageEvent,
    Done,
    TextDelta,
    TextEnd,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from pi_rpc.llm.failures import is_retryable
from pi_rpc.llm.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCall
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, stream_simple
from pi_rpc.llm.providers._responses_stream import _Reader
from pi_rpc.llm.sse import SseDecoder
from pi_rpc.llm.stream import AssistantMessageStream, MessageBuilder

pytestmark = pytest.mark.anyio

APIS = ["openai-responses", "azure-openai-responses"]
SECRET = "gAAAAABpdGhlIHJlYXNvbmluZyBvZiBhIHRlc3QsIHRoYXQgbm8gbW9kZWwgdGhvdWdodA=="
FIRST = ToolCall(
    id="call_AbCdEfGhIjKlMnOpQrStUvWx|fc_1a1b2c3d4e5f6071",
    name="read",
    arguments={"path": "README.md"},
)
SECOND = ToolCall(
    id="call_BbCdEfGhIjKlMnOpQrStUvWx|fc_1a1b2c3d4e5f6072",
    name="read",
    arguments={"path": "größe.txt"},
)
SEA = "The sea is vast — größer als 🌍."
BOTH = TextBlock(
    text="I'll read both.",
    text_signature='{"v":1,"id":"msg_1a1b2c3d4e5f6071","phase":"commentary"}',
)

Recorded = Callable[[str], bytes]
MakeModel = Callable[..., Model]
Answer = tuple[AssistantMessageStream, AssistantMessage, list[AssistantMessageEvent]]
Ask = Callable[..., Any]


@pytest.fixture
def asked(ask: Ask) -> Ask:
    """Ask a server of the dialect that sends these events and closes."""

    async def run(*payloads: Any, **changes: Any) -> Answer:
        answer: Answer = await ask(*payloads, **{"api": "openai-responses", **changes})
        return answer

    return run


@pytest.fixture
def replay(serve: Any, make_model: MakeModel, recorded: Recorded) -> Any:
    """Send a recording in pieces of a size; gives the stream, its events and the final message."""

    async def run(name: str, size: int = 1_000_000, **changes: Any) -> Answer:
        raw = recorded(f"openai_responses/{name}")

        async def answer(exchange: Any) -> None:
            await exchange.head()
            for start in range(0, len(raw), size):
                await exchange.send(raw[start : start + size])

        async with serve(answer) as server:
            model = make_model(**{"api": "openai-responses", "base_url": server.url, **changes})
            stream = stream_simple(model, Context(messages=[]), StreamOptions())
            events = [event async for event in stream]
            return stream, await stream.result(), events

    return run


def added(index: int | None, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int | None, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def arguments(index: int | None, delta: str, item_id: str | None = None) -> dict[str, Any]:
    return {
        "type": "response.function_call_arguments.delta",
        "output_index": index,
        "item_id": item_id,
        "delta": delta,
    }


def said(index: int | None, delta: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": index, "delta": delta}


def call(call_id: str, text: str = "", **more: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": "read",
        "arguments": text,
        **more,
    }


def message(text: str, **more: Any) -> dict[str, Any]:
    parts = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": parts, **more}


def completed(**response: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", **response}}


def incomplete(reason: str | None) -> dict[str, Any]:
    details = {"reason": reason} if reason else None
    return {
        "type": "response.incomplete",
        "response": {"status": "incomplete", "incomplete_details": details},
    }


@pytest.mark.parametrize("size", [1, 7, 100, 1000, 1_000_000])
@pytest.mark.parametrize("api", APIS)
async def test_a_text_reply_is_read_whole(
    replay: Any, monkeypatch: pytest.MonkeyPatch, api: str, size: int
) -> None:
    monkeypatch.delenv("AZURE_OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("AZURE_OPENAI_RESOURCE_NAME", raising=False)
    _, reply, events = await replay("text", size, api=api)
    signature = '{"v":1,"id":"msg_0a1b2c3d4e5f6071","phase":"final_answer"}'
    assert reply.content == [TextBlock(text=SEA, text_signature=signature)]
    assert "".join(each.delta for each in events if isinstance(each, TextDelta)) == SEA
    assert [each.content for each in events if isinstance(each, TextEnd)] == [SEA]
    assert (reply.api, reply.stop_reason, reply.raw_stop_reason) == (api, "stop", "completed")
    assert reply.response_id == "resp_0a1b2c3d4e5f60718293a4b5c6d7e8f9"
    assert reply.response_model == "gpt-5.2-2025-12-11"
    usage = reply.usage
    assert (usage.input, usage.cache_read, usage.cache_write, usage.output) == (150, 1920, 0, 14)
    assert (usage.total_tokens, usage.reasoning) == (2084, UNSET)
    assert usage.cost.total == pytest.approx((150 * 1 + 14 * 2 + 1920 * 0.1) / 1e6)
    assert isinstance(events[-1], Done)


@pytest.mark.parametrize("size", [1, 7, 100, 1000, 1_000_000])
async def test_reasoning_text_and_calls_are_kept_with_what_their_replay_needs(
    replay: Any, size: int
) -> None:
    _, reply, events = await replay("reasoning_and_tools", size)
    thought, text, *calls = reply.content
    assert text == BOTH
    assert calls == [FIRST, SECOND]
    assert isinstance(thought, ThinkingBlock)
    assert thought.thinking == "**Looking** at the files\n\nBoth are needed."
    assert msgspec.json.decode(thought.thinking_signature or "") == {
        "type": "reasoning",
        "id": "rs_1a1b2c3d4e5f6071",
        "summary": [
            {"type": "summary_text", "text": "**Looking** at the files"},
            {"type": "summary_text", "text": "Both are needed."},
        ],
        "encrypted_content": SECRET,
    }
    assert (reply.stop_reason, reply.raw_stop_reason) == ("toolUse", "completed")
    usage = reply.usage
    assert (usage.input, usage.cache_read, usage.cache_write) == (176, 1024, 300)
    assert (usage.output, usage.reasoning, usage.total_tokens) == (120, 64, 1620)
    ended = [each.tool_call for each in events if isinstance(each, ToolCallEnd)]
    assert ended == [FIRST, SECOND]
    starts = [each for each in events if isinstance(each, ToolCallStart)]
    assert [(each.id, each.tool_name) for each in starts] == [
        (FIRST.id, "read"),
        (SECOND.id, "read"),
    ]
    pieces = [each.delta for each in events if isinstance(each, ToolCallDelta)]
    assert "".join(pieces) == '{"path":"README.md"}{"path":"größe.txt"}'


@pytest.mark.parametrize("name", ["text", "reasoning_and_tools", "refusal", "max_output_tokens"])
async def test_a_stream_cut_in_two_anywhere_gives_the_same_message(
    make_model: MakeModel, recorded: Recorded, name: str
) -> None:
    raw = recorded(f"openai_responses/{name}")
    model = make_model(api="openai-responses")

    def decoded(*reads: bytes) -> list[Any]:
        decoder = SseDecoder()
        return [*(each for read in reads for each in decoder.feed(read)), *decoder.eof()]

    def message_of(*batches: list[Any]) -> Any:
        builder = MessageBuilder(model)
        reader = _Reader(model, builder)
        for each in batches:
            reader.read(each)
        reader.finish()
        snapshot = builder.snapshot()
        return (snapshot.content, snapshot.usage, snapshot.stop_reason, snapshot.raw_stop_reason)

    events = decoded(raw)
    for cut in range(1, len(raw)):
        assert decoded(raw[:cut], raw[cut:]) == events, cut
    whole = message_of(events)
    for cut in range(1, len(events)):
        assert message_of(events[:cut], events[cut:]) == whole, cut


async def test_a_refusal_is_what_the_model_said(replay: Any) -> None:
    _, reply, _ = await replay("refusal")
    (block,) = reply.content
    assert (block.text, reply.stop_reason) == ("I'm sorry, but no.", "stop")


async def test_a_reply_at_its_limit_ends_with_length(replay: Any) -> None:
    _, reply, _ = await replay("max_output_tokens")
    (block,) = reply.content
    assert (block.text, reply.stop_reason) == ("One two thr", "length")
    assert reply.raw_stop_reason == "incomplete.max_output_tokens"


async def test_a_withheld_reply_is_a_failure_that_says_so(replay: Any) -> None:
    stream, reply, _ = await replay("content_filter")
    assert reply.error_message == "acme withheld the rest of the reply (content_filter)"
    assert reply.raw_stop_reason == "incomplete.content_filter"
    assert reply.usage.input == 25
    assert not is_retryable(reply, stream.error)


async def test_a_failed_response_keeps_its_text_and_is_retryable(replay: Any) -> None:
    stream, reply, _ = await replay("failed")
    assert type(stream.error) is ServerError
    assert (reply.error_message or "").startswith("acme reported an error (server_error): An err")
    assert reply.content == [TextBlock(text="Half a")]
    assert reply.raw_stop_reason == "failed"
    assert is_retryable(reply, stream.error)


async def test_an_error_event_is_that_error(replay: Any) -> None:
    stream, reply, _ = await replay("error")
    assert type(stream.error) is RateLimitError
    assert reply.error_message == (
        "acme reported an error (rate_limit_exceeded): "
        "Rate limit reached for gpt-5.2 on tokens per min (TPM)."
    )
    assert is_retryable(reply, stream.error)


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        ({"type": "error", "error": {"code": "too_many_requests", "message": "x"}}, RateLimitError),
        ({"type": "error", "code": "insufficient_quota", "message": "x"}, QuotaError),
        ({"type": "error", "code": "context_length_exceeded"}, ContextOverflowError),
        ({"type": "error"}, ProviderError),
        ({"error": {"type": "server_error", "message": "x"}}, ServerError),
        ("{broken", MalformedStreamError),
        ({"type": "response.completed", "response": {"usage": "much"}}, MalformedStreamError),
        ({"type": "response.failed", "response": {"error": {"code": "x"}}}, ProviderError),
        ({"type": "response.failed", "response": None}, ProviderError),
        ({"type": "response.cancelled", "response": {"status": "cancelled"}}, ProviderError),
        (incomplete("steered"), ProviderError),
        (incomplete(None), ProviderError),
    ],
)  # fmt: skip
async def test_whatever_ends_a_reply_early_is_its_typed_failure(
    asked: Ask, payload: Any, kind: Any
) -> None:
    stream, reply, _ = await asked(payload)
    assert type(stream.error) is kind
    assert reply.stop_reason == "error"


async def test_a_stream_without_a_terminal_event_is_a_retryable_failure(asked: Ask) -> None:
    stream, reply, _ = await asked(added(0, **message("")), said(0, "par"), "[DONE]")
    assert isinstance(stream.error, MalformedStreamError)
    assert reply.error_message == "acme: the stream ended before a terminal event"
    assert reply.content == [TextBlock(text="par")]
    assert is_retryable(reply, stream.error)
    assert is_retryable(reply)


async def test_what_follows_the_terminal_event_does_not_matter(asked: Ask) -> None:
    _, reply, _ = await asked(
        added(0, **message("")), done(0, **message("all")), completed(), '{"type": "respo'
    )
    assert [block.text for block in reply.content] == ["all"]
    assert reply.stop_reason == "stop"


async def test_items_without_deltas_are_taken_whole_from_their_last_event(asked: Ask) -> None:
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
        "encrypted_content": "xyz",
    }
    _, reply, events = await asked(
        done(0, **reasoning),
        done(1, **message("hi")),
        done(2, **call("c", '{"path":"x"}')),
        completed(),
    )
    thought, text, asked_for = reply.content
    assert thought.thinking == "a\n\nb"
    assert text.text == "hi"
    assert asked_for == ToolCall(id="c|fc_c", name="read", arguments={"path": "x"})
    assert [each.content for each in events if isinstance(each, ThinkingEnd)] == ["a\n\nb"]


async def test_a_response_that_comes_only_whole_is_read(asked: Ask) -> None:
    _, reply, _ = await asked(completed(output=[message("hi"), call("c", "{}"), "nonsense"]))
    assert [type(block) for block in reply.content] == [TextBlock, ToolCall]
    assert reply.stop_reason == "toolUse"


async def test_a_call_whose_end_is_missing_is_taken_from_the_whole_response(asked: Ask) -> None:
    _, reply, _ = await asked(
        added(0, **call("c")), arguments(0, '{"pa'), completed(output=[call("c", '{"path":"x"}')])
    )
    assert reply.content == [ToolCall(id="c|fc_c", name="read", arguments={"path": "x"})]


async def test_an_unfinished_call_of_a_completed_response_is_never_run(asked: Ask) -> None:
    stream, reply, _ = await asked(added(0, **call("c")), arguments(0, '{"path":"x'), completed())
    assert isinstance(stream.error, MalformedStreamError)
    assert "without finishing a tool call" in (reply.error_message or "")
    assert is_retryable(reply, stream.error)


async def test_a_call_that_is_cut_at_the_limit_says_that_it_cannot_be_read(asked: Ask) -> None:
    _, reply, _ = await asked(
        added(0, **call("c")), arguments(0, '{"path":"x'), incomplete("max_output_tokens")
    )
    (block,) = reply.content
    assert reply.stop_reason == "length"
    assert block.arguments == {}
    assert block.arguments_error


async def test_items_are_told_apart_by_their_index_when_ids_change(asked: Ask) -> None:
    _, reply, _ = await asked(
        added(0, **call("a", id="x1")),
        added(1, **call("b", id="x2")),
        arguments(0, '{"path":', "y1"),
        arguments(1, '{"path":"2"}', "y2"),
        arguments(0, '"1"}', "z1"),
        done(1, **call("b", '{"path":"2"}')),
        done(0, **call("a", '{"path":"1"}')),
        completed(),
    )
    assert [block.arguments for block in reply.content] == [{"path": "1"}, {"path": "2"}]
    assert [block.id for block in reply.content] == ["a|x1", "b|x2"]


async def test_items_are_told_apart_by_their_ids_when_there_is_no_index(asked: Ask) -> None:
    _, reply, _ = await asked(
        added(None, **call("a")),
        added(None, **call("b")),
        arguments(None, '{"path":"1"}', "fc_a"),
        arguments(None, '{"path":"2"}', "fc_b"),
        done(None, **call("a", '{"path":"1"}')),
        done(None, **call("b", '{"path":"2"}')),
        completed(output=[call("a", '{"path":"1"}'), call("b", '{"path":"2"}')]),
    )
    assert [block.arguments for block in reply.content] == [{"path": "1"}, {"path": "2"}]


async def test_items_that_cannot_be_told_apart_are_malformed(asked: Ask) -> None:
    nameless = {"type": "function_call", "name": "read"}
    stream, _, _ = await asked(added(None, **nameless), added(None, **nameless), completed())
    assert isinstance(stream.error, MalformedStreamError)


async def test_deltas_of_an_item_that_was_not_announced_are_read(asked: Ask) -> None:
    thought = {"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0}
    _, reply, _ = await asked(
        {**thought, "delta": "hm"},
        said(1, "hi"),
        arguments(2, '{"path":'),
        arguments(2, '"x"}'),
        done(2, **call("c", '{"path":"x"}')),
        completed(),
    )
    thinking, text, called = reply.content
    assert (thinking.thinking, text.text, called.arguments) == ("hm", "hi", {"path": "x"})


async def test_items_and_events_of_unknown_kinds_are_passed_over(asked: Ask) -> None:
    search = {"type": "web_search_call", "id": "ws_1", "arguments": {"a": 1}}
    _, reply, _ = await asked(
        {"type": "keepalive", "sequence_number": 1},
        {"type": "response.created"},
        {"type": "response.audio.delta", "delta": {"x": 1}},
        added(0, **search),
        done(0, **search),
        {"type": "response.output_item.added", "output_index": 1, "item": None},
        {"type": "response.output_item.done", "output_index": 1, "item": "x"},
        {"type": "response.output_text.delta", "output_index": 2, "delta": None},
        added(3, **message("")),
        arguments(3, "{}"),
        done(3, **message("hi")),
        done(3, **message("hi")),
        completed(),
    )
    assert [block.text for block in reply.content] == ["hi"]


async def test_the_name_of_an_event_stands_in_for_a_missing_type(
    serve: Any, make_model: MakeModel, hello: Context
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        for event in (done(0, **message("hi")), completed()):
            name = event.pop("type")
            body = msgspec.json.encode(event).decode()
            await exchange.send(f"event: {name}\ndata: {body}\n\n".encode())

    async with serve(answer) as server:
        model = make_model(api="openai-responses", base_url=server.url)
        reply = await stream_simple(model, hello).result()
    assert [block.text for block in reply.content] == ["hi"]


async def test_a_server_that_calls_every_end_completed_is_not_believed(asked: Ask) -> None:
    _, reply, _ = await asked(
        said(0, "x"),
        completed(status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
    )
    assert reply.stop_reason == "length"


async def test_halves_of_a_character_meet_again(asked: Ask) -> None:
    halves = r'{"type":"response.output_text.delta","output_index":0,"delta":"%s"}'
    _, reply, _ = await asked(halves % r"a\ud83c", halves % r"\udf0db", completed())
    assert [block.text for block in reply.content] == ["a🌍b"]


async def test_a_call_without_an_id_gets_one_and_two_of_one_id_are_kept(asked: Ask) -> None:
    nameless = {"type": "function_call", "name": "read", "arguments": "{}"}
    _, reply, _ = await asked(
        done(0, **nameless), done(1, **call("c", "{}")), done(2, **call("c", "{}")), completed()
    )
    first, second, third = (block.id for block in reply.content)
    assert first.startswith("call_")
    assert "|" not in first
    assert (second, third) == ("c|fc_c", "c|fc_c_2")


@pytest.mark.parametrize(
    ("tier", "compat", "factor"),
    [
        (None, {}, 1),
        ("default", {}, 1),
        ("flex", {}, 0.5),
        ("priority", {}, 2),
        ("priority", {"serviceTierFactors": {"priority": 2.5}}, 2.5),
        ("flex", {"serviceTierFactors": {"priority": 2.5}}, 0.5),
    ],
)
async def test_the_tier_that_served_a_request_decides_its_price(
    asked: Ask, tier: str | None, compat: dict[str, Any], factor: float
) -> None:
    usage = {"input_tokens": 1000, "output_tokens": 100}
    stream, reply, _ = await asked(completed(usage=usage, service_tier=tier), compat=compat)
    assert reply.usage.cost.total == pytest.approx(factor * (1000 + 200) / 1e6)
    assert stream.usage.cost == reply.usage.cost
