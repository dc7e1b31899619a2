"""Mistral's own SDK reads the same streams, and reads what we send, and must agree."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, ToolSpec, stream_simple
from pi_rpc.llm.providers._mistral_payload import mistral_payload

pytestmark = pytest.mark.anyio

API = "mistral-conversations"


async def as_the_sdk_reads(url: str) -> dict[str, Any]:
    sdk = pytest.importorskip("mistralai.client")
    seen: dict[str, Any] = {"text": "", "thinking": "", "signatures": [], "calls": []}
    async with sdk.Mistral(api_key="k", server_url=url) as client:
        events = await client.chat.stream_async(
            model="test-model", messages=[{"role": "user", "content": "hello"}]
        )
        async for event in events:
            note(event.data, seen)
    return seen


def note(chunk: Any, seen: dict[str, Any]) -> None:
    (choice,) = chunk.choices
    seen["id"], seen["model"] = chunk.id, chunk.model
    content = choice.delta.content
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            seen["text"] += part
        elif part and part.type == "text":
            seen["text"] += part.text
        elif part and part.type == "thinking":
            seen["thinking"] += "".join(each.text for each in part.thinking)
            seen["signatures"] += [part.signature] if part.signature else []
    for call in choice.delta.tool_calls or []:
        arguments = msgspec.json.decode(call.function.arguments)
        seen["calls"].append((call.id, call.function.name, arguments))
    if choice.finish_reason:
        seen["stop"] = choice.finish_reason
    if chunk.usage:
        usage = chunk.usage
        seen["usage"] = (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)


def as_we_read(message: AssistantMessage) -> dict[str, Any]:
    usage, content = message.usage, message.content
    thoughts = [block for block in content if isinstance(block, ThinkingBlock)]
    return {
        "text": "".join(b.text for b in content if isinstance(b, TextBlock)),
        "thinking": "".join(block.thinking for block in thoughts),
        "signatures": [b.thinking_signature for b in thoughts if b.thinking_signature],
        "calls": [(b.id, b.name, b.arguments) for b in content if isinstance(b, ToolCall)],
        "id": message.response_id,
        "model": message.response_model,
        "stop": message.raw_stop_reason,
        "usage": (usage.input + usage.cache_read, usage.output, usage.total_tokens),
    }


@pytest.mark.parametrize("name", ["mistral", "mistral_tool"])
async def test_the_sdk_and_we_read_a_stream_alike(
    name: str,
    serve: Any,
    recorded: Callable[[str], bytes],
    make_model: Callable[..., Model],
    hello: Context,
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.send(recorded(name))

    async with serve(answer) as server:
        model = make_model(api=API, base_url=server.url)
        message = await stream_simple(model, hello, StreamOptions(api_key="k")).result()
        theirs = await as_the_sdk_reads(server.url)
        ours, sdk = server.asked
    assert as_we_read(message) == theirs
    assert ours.path == sdk.path
    assert ours.headers["authorization"] == sdk.headers["authorization"]
    assert ours.json["messages"] == sdk.json["messages"]
    assert ours.json["stream"] is sdk.json["stream"] is True


def a_whole_conversation(model: Model) -> Context:
    image = ImageBlock(data="AAAA", mime_type="image/png")
    answer = AssistantMessage(
        content=[
            ThinkingBlock(thinking="hm", thinking_signature="s"),
            TextBlock(text="Reading."),
            ToolCall(id="call_1", name="read", arguments={"a": [1, {"b": None}]}),
        ],
        api=model.api,
        provider=model.provider,
        model=model.id,
        usage=Usage.ZERO,
        stop_reason="toolUse",
        timestamp=2,
    )
    result = ToolResultMessage(
        tool_call_id="call_1",
        tool_name="read",
        content=[TextBlock(text="x"), image],
        is_error=False,
        timestamp=3,
    )
    return Context(
        system_prompt="Be good.",
        messages=[UserMessage(content=[TextBlock(text="see"), image], timestamp=1), answer, result],
        tools=[ToolSpec("read", "Reads", {"type": "object", "properties": {}})],
    )


@pytest.mark.parametrize("level_map", [{}, {"off": "none", "high": "high"}])
def test_the_sdk_knows_every_field_we_send(
    level_map: dict[str, str | None], make_model: Callable[..., Model]
) -> None:
    models = pytest.importorskip("mistralai.client.models")
    model = make_model(api=API, reasoning=True, thinking_level_map=level_map)
    options = StreamOptions(thinking_level="high", temperature=0.5, session_id="s")
    body, _ = mistral_payload(model, a_whole_conversation(model), options)
    read = models.ChatCompletionStreamRequest.model_validate(body)
    again = read.model_dump(mode="json", by_alias=True)
    # What the SDK writes again is ours, and defaults.
    assert_within(body, again)


def assert_within(ours: Any, theirs: Any, where: str = "") -> None:
    """Everything of ``ours`` is in ``theirs``."""
    if isinstance(ours, dict):
        for key, value in ours.items():
            assert key in theirs, f"{where}.{key}"
            assert_within(value, theirs[key], f"{where}.{key}")
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), where
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_within(mine, other, f"{where}[{index}]")
    else:
        assert ours == theirs, where
