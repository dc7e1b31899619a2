"""Anthropic's own Python library as a second opinion, on streams and on requests.

It reads the same streams and must agree on text, thinking, tool calls, usage and the end; and its
types must know every field that we send.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, ToolSpec, stream_simple
from pi_rpc.llm.providers._anthropic_payload import anthropic_payload
from tests.llm.sdk_opinion.typed import as_typed

pytestmark = pytest.mark.anyio

MakeModel = Callable[..., Model]

STOPS = {
    "end_turn": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "tool_use": "toolUse",
}
IMAGE = ImageBlock(data="AAAA", mime_type="image/png")
READ = ToolSpec(
    name="read",
    description="Reads a file",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    },
)


@pytest.fixture
def recording(serve: Any, recorded: Callable[[str], bytes]) -> Any:
    """A server that sends a recording to everybody who asks."""

    def of(name: str) -> Any:
        raw = recorded(name)

        async def answer(exchange: Any) -> None:
            await exchange.head()
            await exchange.send(raw)

        return serve(answer)

    return of


async def theirs(url: str) -> Any:
    """The message as the library puts it together."""
    from anthropic import AsyncAnthropic

    async with (
        AsyncAnthropic(base_url=url, api_key="key", max_retries=0) as client,
        client.messages.stream(
            model="m", max_tokens=5, messages=[{"role": "user", "content": "hi"}]
        ) as stream,
    ):
        return await stream.get_final_message()


async def ours(url: str, model: Model) -> AssistantMessage:
    return await stream_simple(
        msgspec.structs.replace(model, base_url=url, api="anthropic-messages"), Context(messages=[])
    ).result()


def shape_of_ours(message: AssistantMessage) -> list[tuple[Any, ...]]:
    out: list[tuple[Any, ...]] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            out.append(("text", block.text))
        elif isinstance(block, ToolCall):
            out.append(("tool_use", block.id, block.name, block.arguments))
        elif block.redacted:
            out.append(("redacted_thinking", block.thinking_signature))
        else:
            out.append(("thinking", block.thinking, block.thinking_signature))
    return out


def shape_of_theirs(message: Any) -> list[tuple[Any, ...]]:
    keys = {
        "text": ("text",),
        "tool_use": ("id", "name", "input"),
        "redacted_thinking": ("data",),
        "thinking": ("thinking", "signature"),
    }
    return [
        (block.type, *(getattr(block, key) for key in keys[block.type]))
        for block in message.content
    ]


READABLE = [
    "messages",
    "messages_tool",
    "anthropic/thinking_and_tools",
    "anthropic/redacted_thinking",
    "anthropic/max_tokens",
    "anthropic/pause_turn",
]
FAILING = ["anthropic/refusal", "anthropic/window_exceeded"]


@pytest.mark.parametrize("name", READABLE)
async def test_the_library_reads_a_message_as_we_do(
    recording: Any, make_model: MakeModel, name: str
) -> None:
    async with recording(name) as server:
        message, read = await ours(server.url, make_model()), await theirs(server.url)
    assert message.error_message is UNSET
    assert shape_of_ours(message) == shape_of_theirs(read)
    assert message.content
    assert (message.response_id, message.response_model) == (read.id, read.model)
    assert message.raw_stop_reason == read.stop_reason
    assert message.stop_reason == STOPS[read.stop_reason]
    check_usage(message, read.usage)


def check_usage(message: AssistantMessage, counted: Any) -> None:
    usage = message.usage
    assert (usage.input, usage.output) == (counted.input_tokens, counted.output_tokens)
    assert usage.cache_read == (counted.cache_read_input_tokens or 0)
    assert usage.cache_write == (counted.cache_creation_input_tokens or 0)
    creation, details = counted.cache_creation, counted.output_tokens_details
    assert (usage.cache_write_1h or 0) == (creation.ephemeral_1h_input_tokens if creation else 0)
    if details is not None:
        assert (usage.reasoning or 0) == details.thinking_tokens


async def test_every_kind_of_count_is_in_the_recordings(
    recording: Any, make_model: MakeModel
) -> None:
    async with recording("anthropic/thinking_and_tools") as server:
        usage = (await ours(server.url, make_model())).usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (12, 87, 4000, 300)
    assert (usage.cache_write_1h, usage.reasoning) == (200, 41)


@pytest.mark.parametrize("name", FAILING)
async def test_what_ends_early_ends_for_the_same_reason(
    recording: Any, make_model: MakeModel, name: str
) -> None:
    async with recording(name) as server:
        message, read = await ours(server.url, make_model()), await theirs(server.url)
    assert message.stop_reason == "error"
    assert message.raw_stop_reason == read.stop_reason
    assert shape_of_ours(message) == shape_of_theirs(read)
    said = message.error_message or ""
    assert read.stop_reason in said
    if read.stop_details is not None:
        assert read.stop_details.category in said
        assert read.stop_details.explanation in said
    check_usage(message, read.usage)


async def test_the_library_finds_an_error_event_an_error_too(
    recording: Any, make_model: MakeModel
) -> None:
    from anthropic import APIStatusError

    async with recording("anthropic/overloaded") as server:
        message = await ours(server.url, make_model())
        with pytest.raises(APIStatusError) as raised:
            await theirs(server.url)
    assert "Overloaded" in str(raised.value)
    assert message.stop_reason == "error"
    assert "Overloaded" in (message.error_message or "")


@pytest.mark.parametrize("level", ["off", "low", "max"])
@pytest.mark.parametrize("retention", ["none", "short", "long"])
@pytest.mark.parametrize("model_id", ["claude-opus-5-5", "claude-haiku-4-5"])
async def test_the_library_knows_every_field_of_a_request(
    recording: Any, make_model: MakeModel, level: Any, retention: Any, model_id: str
) -> None:
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    model = make_model(
        id=model_id,
        api="anthropic-messages",
        reasoning=True,
        thinking_level_map={"max": "max"},
        max_tokens=32_000,
    )
    replies = []
    for name in ("anthropic/thinking_and_tools", "anthropic/redacted_thinking"):
        async with recording(name) as server:
            replies.append(await ours(server.url, model))
    first, second = (block for block in replies[0].content if isinstance(block, ToolCall))

    def result(call: ToolCall, *content: Any, is_error: bool = False) -> ToolResultMessage:
        return ToolResultMessage(
            tool_call_id=call.id,
            tool_name=call.name,
            content=list(content),
            is_error=is_error,
            timestamp=3,
        )

    context = Context(
        system_prompt="Be good.",
        tools=[READ],
        messages=[
            UserMessage(content=[TextBlock(text="look"), IMAGE], timestamp=1),
            replies[0],
            result(first, TextBlock(text="text"), IMAGE),
            result(second, TextBlock(text="no such file"), is_error=True),
            replies[1],
            UserMessage(content="thanks", timestamp=4),
        ],
    )
    # The library has no temperature any more: newer models refuse it.
    options = StreamOptions(thinking_level=level, cache_retention=retention, session_id="s")
    body, _ = anthropic_payload(model, context, options)
    kinds = [block["type"] for block in body["messages"][1]["content"]]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"]
    kinds = [block["type"] for block in body["messages"][3]["content"]]
    assert kinds == ["redacted_thinking", "thinking", "text"]
    assert any(isinstance(block, ThinkingBlock) for block in replies[1].content)
    assert as_typed(MessageCreateParamsStreaming, body) == body
    invented = {**body, "invented": 1, "tools": [{**body["tools"][0], "invented": 1}]}
    assert as_typed(MessageCreateParamsStreaming, invented) == body
