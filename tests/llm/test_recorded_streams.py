"""Streams recorded from a real server, sent again over a real connection, cut anywhere."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pi_rpc.llm.events import (
    AssistantMessageEvent,
    Done,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from pi_rpc.llm.messages import AssistantMessage, TextBlock, ToolCall
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, stream_simple

pytestmark = pytest.mark.anyio

CUTS = [1, 7, 100, 1000, 1_000_000]


Replay = Callable[[str, str, int], Awaitable[tuple[list[AssistantMessageEvent], AssistantMessage]]]


@pytest.fixture
def replay(
    serve: Any, make_model: Callable[..., Model], recorded: Callable[[str], bytes]
) -> Replay:
    """Send a recording in pieces of a size; gives the events and the final message."""

    async def run(
        name: str, api: str, size: int
    ) -> tuple[list[AssistantMessageEvent], AssistantMessage]:
        raw = recorded(name)

        async def answer(exchange: Any) -> None:
            await exchange.head()
            for start in range(0, len(raw), size):
                await exchange.send(raw[start : start + size])

        async with serve(answer) as server:
            model = make_model(api=api, base_url=server.url)
            stream = stream_simple(model, Context(messages=[]), StreamOptions())
            return [event async for event in stream], await stream.result()

    return run


def shape(events: list[AssistantMessageEvent]) -> list[str]:
    """Event types in order, repetitions folded."""
    names = [type(event).__name__ for event in events]
    return [name for index, name in enumerate(names) if index == 0 or names[index - 1] != name]


@pytest.mark.parametrize("size", CUTS)
@pytest.mark.parametrize(
    ("name", "api"), [("chat", "openai-completions"), ("messages", "anthropic-messages")]
)
async def test_a_recorded_text_reply_is_read_whole(
    name: str,
    api: str,
    size: int,
    replay: Replay,
) -> None:
    events, message = await replay(name, api, size)
    assert shape(events) == ["Start", "TextStart", "TextDelta", "TextEnd", "Done"]
    (block,) = message.content
    assert isinstance(block, TextBlock)
    deltas = [event.delta for event in events if isinstance(event, TextDelta)]
    assert "".join(deltas) == block.text
    assert [event.content for event in events if isinstance(event, TextEnd)] == [block.text]
    assert block.text.startswith("The sea is a vast")
    assert block.text.endswith(".")
    assert message.stop_reason == "stop"
    assert message.response_model == "smollm2-135m"
    assert isinstance(message.response_id, str)
    assert message.response_id.startswith("chatcmpl-")
    done = events[-1]
    assert isinstance(done, Done)
    assert done.message == message
    usage = message.usage
    expected = {"chat": (23, 31, 4), "messages": (12, 26, 15)}[name]
    assert (usage.input, usage.output, usage.cache_read) == expected
    assert usage.total_tokens == sum(expected)
    assert usage.cost.total == pytest.approx(
        (expected[0] * 1 + expected[1] * 2 + expected[2] * 0.1) / 1e6
    )


@pytest.mark.parametrize("size", CUTS)
@pytest.mark.parametrize(
    ("name", "api", "call_id"),
    [
        ("chat_tool", "openai-completions", "tUQuDx5IFEMD32UBUDCtWEG0kMtIUB95"),
        ("messages_tool", "anthropic-messages", "cmNaOsbYowyUq64CPp3YDTxypqV2fIUh"),
    ],
)
async def test_a_recorded_tool_call_is_read_whole(
    name: str,
    api: str,
    call_id: str,
    size: int,
    replay: Replay,
) -> None:
    events, message = await replay(name, api, size)
    assert shape(events) == ["Start", "ToolCallStart", "ToolCallDelta", "ToolCallEnd", "Done"]
    call = ToolCall(id=call_id, name="read", arguments={"path": "README.md"})
    assert message.content == [call]
    assert message.stop_reason == "toolUse"
    start = next(event for event in events if isinstance(event, ToolCallStart))
    assert (start.id, start.tool_name) == (call_id, "read")
    deltas = [event.delta for event in events if isinstance(event, ToolCallDelta)]
    assert "".join(deltas) == '{"path": "README.md"}'
    assert [event.tool_call for event in events if isinstance(event, ToolCallEnd)] == [call]


async def test_a_recorded_refusal_says_what_the_server_said(
    serve: Any, recorded: Callable[[str], bytes], make_model: Callable[..., Model]
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.send(recorded("chat_error"))

    async with serve(answer) as server:
        stream = stream_simple(make_model(base_url=server.url), Context(messages=[]))
        message = await stream.result()
    assert message.stop_reason == "error"
    assert message.error_message == (
        "acme answered 400 (invalid_request_error): unsupported content[].type"
    )
    assert stream.error is not None
    assert stream.error.status == 400
    assert not stream.error.retryable
