"""OpenAI's own Python library as a second opinion, on streams and on requests.

It parses the same streams under strict validation and must agree on text, tool calls, usage and the
end; and its types must know every field that we send.
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
from pi_rpc.llm.providers._responses_payload import responses_payload

pytestmark = pytest.mark.anyio

MakeModel = Callable[..., Model]

STOPS = {
    ("completed", False): "stop",
    ("completed", True): "toolUse",
    ("incomplete", False): "length",
    ("stop", False): "stop",
    ("tool_calls", True): "toolUse",
}
"""The library's word for an end, and whether tools were called."""
READ = ToolSpec(
    name="read",
    description="Reads a file",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
)
IMAGE = ImageBlock(data="AAAA", mime_type="image/png")


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


def library(url: str) -> Any:
    from openai import AsyncOpenAI

    return AsyncOpenAI(base_url=url, api_key="key", max_retries=0, _strict_response_validation=True)


async def ours(url: str, model: Model) -> AssistantMessage:
    return await stream_simple(
        msgspec.structs.replace(model, base_url=url), Context(messages=[])
    ).result()


def calls_of(message: AssistantMessage) -> list[tuple[str, str, Any]]:
    return [
        (block.id, block.name, block.arguments)
        for block in message.content
        if isinstance(block, ToolCall)
    ]


def text_of(message: AssistantMessage) -> str:
    return "".join(block.text for block in message.content if isinstance(block, TextBlock))


@pytest.mark.parametrize("name", ["text", "reasoning_and_tools", "refusal", "max_output_tokens"])
async def test_the_library_reads_a_response_as_we_do(
    recording: Any, make_model: MakeModel, name: str
) -> None:
    async with recording(f"openai_responses/{name}") as server:
        message = await ours(server.url, make_model(api="openai-responses"))
        async with library(server.url) as client:
            stream = await client.responses.create(model="m", input="hi", stream=True)
            events = [event async for event in stream]
    response = events[-1].response
    deltas = {"response.output_text.delta", "response.refusal.delta"}
    assert text_of(message) == "".join(each.delta for each in events if each.type in deltas)
    kinds = {each.type for each in response.output}
    if kinds == {"message"} and response.output[0].content[0].type == "output_text":
        assert text_of(message) == response.output_text
    thoughts = [each for each in response.output if each.type == "reasoning"]
    blocks = [each for each in message.content if isinstance(each, ThinkingBlock)]
    assert [block.thinking for block in blocks] == [
        "\n\n".join(part.text for part in each.summary) for each in thoughts
    ]
    assert [msgspec.json.decode(block.thinking_signature or "") for block in blocks] == [
        each.model_dump(exclude_unset=True) for each in thoughts
    ]
    assert calls_of(message) == [
        (f"{each.call_id}|{each.id}", each.name, msgspec.json.decode(each.arguments))
        for each in response.output
        if each.type == "function_call"
    ]
    usage, counted = message.usage, response.usage
    details = counted.input_tokens_details
    assert usage.input + usage.cache_read + usage.cache_write == counted.input_tokens
    assert (usage.cache_read, usage.cache_write) == (
        details.cached_tokens,
        details.cache_write_tokens,
    )
    assert (usage.output, usage.total_tokens) == (counted.output_tokens, counted.total_tokens)
    assert (usage.reasoning or 0) == counted.output_tokens_details.reasoning_tokens
    assert STOPS[response.status, "function_call" in kinds] == message.stop_reason
    assert (message.response_id, message.response_model) == (response.id, response.model)


async def test_the_library_finds_a_failed_response_failed_too(
    recording: Any, make_model: MakeModel
) -> None:
    async with recording("openai_responses/failed") as server:
        message = await ours(server.url, make_model(api="openai-responses"))
        async with library(server.url) as client:
            stream = await client.responses.create(model="m", input="hi", stream=True)
            last = [event async for event in stream][-1]
    assert (last.type, last.response.status) == ("response.failed", message.raw_stop_reason)
    assert last.response.error.code in (message.error_message or "")
    assert last.response.error.message in (message.error_message or "")


async def test_the_library_finds_an_error_event_an_error_too(
    recording: Any, make_model: MakeModel
) -> None:
    async with recording("openai_responses/error") as server:
        message = await ours(server.url, make_model(api="openai-responses"))
        async with library(server.url) as client:
            stream = await client.responses.create(model="m", input="hi", stream=True)
            last = [event async for event in stream][-1]
    assert last.type == "error"
    assert last.code in (message.error_message or "")
    assert last.message in (message.error_message or "")


@pytest.mark.parametrize("name", ["chat", "chat_tool"])
async def test_the_library_reads_a_chat_completion_as_we_do(
    recording: Any, make_model: MakeModel, name: str
) -> None:
    async with recording(name) as server:
        message = await ours(server.url, make_model())
        async with library(server.url) as client:
            stream = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert text_of(message) == "".join(each.content or "" for each in deltas)
    pieces = [call for each in deltas for call in each.tool_calls or []]
    read = [
        (
            "".join(piece.id or "" for piece in pieces),
            "".join(piece.function.name or "" for piece in pieces),
            msgspec.json.decode("".join(piece.function.arguments or "" for piece in pieces)),
        )
        for _ in pieces[:1]
    ]
    assert calls_of(message) == read
    (reason,) = (
        chunk.choices[0].finish_reason
        for chunk in chunks
        if chunk.choices and chunk.choices[0].finish_reason
    )
    assert STOPS[reason, bool(pieces)] == message.stop_reason
    counted = [chunk.usage for chunk in chunks if chunk.usage]
    usage = message.usage
    assert [(each.prompt_tokens, each.completion_tokens) for each in counted] == [
        (usage.input + usage.cache_read, usage.output) for _ in counted
    ]
    assert counted or usage.total_tokens == 0


@pytest.mark.parametrize("level", ["off", "low", "xhigh"])
@pytest.mark.parametrize("retention", ["none", "short", "long"])
@pytest.mark.parametrize("compat", [{}, {"supportsExplicitPromptCacheMode": True}])
async def test_the_library_knows_every_field_of_a_request(
    recording: Any, make_model: MakeModel, level: Any, retention: Any, compat: Any
) -> None:
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
    from pydantic import TypeAdapter

    model = make_model(
        api="openai-responses",
        reasoning=True,
        compat=compat,
        thinking_level_map={"xhigh": "xhigh"},
    )
    async with recording("openai_responses/reasoning_and_tools") as server:
        reply = await ours(server.url, model)
    first, second = (block for block in reply.content if isinstance(block, ToolCall))

    def result(call: ToolCall, *content: Any) -> ToolResultMessage:
        return ToolResultMessage(
            tool_call_id=call.id,
            tool_name=call.name,
            content=list(content),
            is_error=False,
            timestamp=3,
        )

    context = Context(
        system_prompt="Be good.",
        tools=[READ],
        messages=[
            UserMessage(content=[TextBlock(text="look"), IMAGE], timestamp=1),
            reply,
            result(first, TextBlock(text="text")),
            result(second, TextBlock(text="image"), IMAGE),
            msgspec.structs.replace(
                reply, model="another", content=[TextBlock(text="from another model")]
            ),
            UserMessage(content="thanks", timestamp=4),
        ],
    )
    options = StreamOptions(
        thinking_level=level, cache_retention=retention, session_id="s", temperature=0.5
    )
    body, _ = responses_payload(model, context, options)
    assert body["input"][2]["type"] == "reasoning"
    assert reply.usage.reasoning is not UNSET
    # Its types drop what they do not know, so that an invented field would be missing.
    adapter: TypeAdapter[Any] = TypeAdapter(ResponseCreateParamsStreaming)
    known = msgspec.json.decode(adapter.dump_json(adapter.validate_python(body)))
    assert known == body
