"""Google's own SDK reads the same streams, and reads what we send, and must agree."""

import base64
from collections.abc import Callable
from typing import Any

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
from pi_rpc.llm.providers._google_payload import google_payload

pytestmark = pytest.mark.anyio


async def as_the_sdk_reads(url: str) -> dict[str, Any]:
    genai = pytest.importorskip("google.genai")
    options = {"base_url": url, "api_version": "v1beta"}
    client = genai.Client(api_key="k", http_options=options)
    seen: dict[str, Any] = {"text": "", "thinking": "", "calls": [], "signatures": []}
    chunks = await client.aio.models.generate_content_stream(model="test-model", contents="hello")
    async for chunk in chunks:
        seen["id"], seen["model"] = chunk.response_id, chunk.model_version
        counts = chunk.usage_metadata
        for part in chunk.candidates[0].content.parts:
            if part.text:
                seen["thinking" if part.thought else "text"] += part.text
            if part.function_call:
                seen["calls"].append((part.function_call.name, part.function_call.args or {}))
            if part.thought_signature:
                seen["signatures"].append(part.thought_signature)
        if chunk.candidates[0].finish_reason:
            seen["stop"] = chunk.candidates[0].finish_reason.value
    seen["usage"] = (
        counts.prompt_token_count,
        counts.cached_content_token_count or 0,
        counts.thoughts_token_count or 0,
        counts.total_token_count,
    )
    await client.aio.aclose()
    client.close()
    return seen


def as_we_read(message: AssistantMessage) -> dict[str, Any]:
    usage = message.usage
    signatures = []
    for block in message.content:
        if isinstance(block, TextBlock):
            signatures.append(block.text_signature)
        elif isinstance(block, ThinkingBlock):
            signatures.append(block.thinking_signature)
        else:
            signatures.append(block.thought_signature)
    return {
        "text": "".join(b.text for b in message.content if isinstance(b, TextBlock)),
        "thinking": "".join(b.thinking for b in message.content if isinstance(b, ThinkingBlock)),
        "calls": [(b.name, b.arguments) for b in message.content if isinstance(b, ToolCall)],
        "signatures": [base64.b64decode(each) for each in signatures if each],
        "id": message.response_id,
        "model": message.response_model,
        "stop": message.raw_stop_reason,
        "usage": (
            usage.input + usage.cache_read,
            usage.cache_read,
            usage.reasoning or 0,
            usage.total_tokens,
        ),
    }


@pytest.mark.parametrize("name", ["google", "google_tool", "google_no_ids"])
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
        model = make_model(api="google-generative-ai", base_url=f"{server.url}/v1beta")
        message = await stream_simple(model, hello, StreamOptions(api_key="k")).result()
        theirs = await as_the_sdk_reads(server.url)
        ours, sdk = server.asked
    assert as_we_read(message) == theirs
    assert (ours.path, ours.headers["x-goog-api-key"]) == (sdk.path, sdk.headers["x-goog-api-key"])
    assert ours.json["contents"] == sdk.json["contents"]


def a_whole_conversation(model: Model) -> Context:
    image = ImageBlock(data="AAAA", mime_type="image/png")
    answer = AssistantMessage(
        content=[
            ThinkingBlock(thinking="hm", thinking_signature="AAAA"),
            TextBlock(text="Reading.", text_signature="BBBB"),
            ToolCall(id="c1", name="read", arguments={"a": [1, {"b": None}]}),
        ],
        api=model.api,
        provider=model.provider,
        model=model.id,
        usage=Usage.ZERO,
        stop_reason="toolUse",
        timestamp=2,
    )
    result = ToolResultMessage(
        tool_call_id="c1",
        tool_name="read",
        content=[TextBlock(text="x"), image],
        is_error=False,
        timestamp=3,
    )
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return Context(
        system_prompt="Be good.",
        messages=[UserMessage(content=[TextBlock(text="see"), image], timestamp=1), answer, result],
        tools=[ToolSpec("read", "Reads", schema)],
    )


@pytest.mark.parametrize("model_id", ["gemini-3.8-flash", "gemini-2.5-pro"])
def test_the_sdk_knows_every_field_we_send(model_id: str, make_model: Callable[..., Model]) -> None:
    types = pytest.importorskip("google.genai.types")
    model = make_model(api="google-generative-ai", id=model_id, reasoning=True, max_tokens=65_536)
    options = StreamOptions(thinking_level="high", temperature=0.5)
    body, _ = google_payload(model, a_whole_conversation(model), options)

    def known(kind: Any, value: Any) -> Any:
        assert kind.model_config["extra"] == "forbid"
        return kind.model_validate(value)

    assert set(body) == {"systemInstruction", "tools", "contents", "generationConfig"}
    known(types.Content, body["systemInstruction"])
    contents = [known(types.Content, each) for each in body["contents"]]
    (tool,) = [known(types.Tool, each) for each in body["tools"]]
    config = known(types.GenerationConfig, body["generationConfig"])
    assert contents[1].parts[2].function_call.args == {"a": [1, {"b": None}]}
    assert contents[2].parts[0].function_response.response == {"output": "x"}
    assert tool.function_declarations[0].parameters_json_schema["type"] == "object"
    assert config.thinking_config.include_thoughts is True
