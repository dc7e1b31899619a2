"""OpenAI's own Python library as a second opinion on chat completions: streams and requests.

It parses the same streams under strict validation and must agree on text, thinking, tool calls,
usage and the end; and its types must know every field that OpenAI itself is sent.
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
from pi_rpc.llm.providers._completions_compat import compat_of
from pi_rpc.llm.providers._completions_payload import completions_payload
from tests.llm.sdk_opinion.typed import as_typed

pytestmark = pytest.mark.anyio

MakeModel = Callable[..., Model]

STOPS = {"stop": "stop", "length": "length", "tool_calls": "toolUse", "content_filter": "error"}
IMAGE = ImageBlock(data="AAAA", mime_type="image/png")
READ = ToolSpec(
    name="read",
    description="Reads a file",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
)


@pytest.fixture
def recording(serve: Any, recorded: Callable[[str], bytes]) -> Any:
    """A server that sends a recording to everybody who asks."""

    def of(name: str) -> Any:
        raw = recorded(f"openai_completions/{name}")

        async def answer(exchange: Any) -> None:
            await exchange.head()
            await exchange.send(raw)

        return serve(answer)

    return of


async def theirs(url: str) -> list[Any]:
    """The chunks as the library reads them."""
    from openai import AsyncOpenAI

    async with AsyncOpenAI(
        base_url=url, api_key="key", max_retries=0, _strict_response_validation=True
    ) as client:
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        return [chunk async for chunk in stream]


async def ours(url: str, model: Model) -> AssistantMessage:
    return await stream_simple(
        msgspec.structs.replace(model, base_url=url), Context(messages=[])
    ).result()


@pytest.mark.parametrize("name", ["reasoning_and_tools", "length", "refusal", "content_filter"])
async def test_the_library_reads_a_completion_as_we_do(
    recording: Any, make_model: MakeModel, name: str
) -> None:
    async with recording(name) as server:
        message, chunks = await ours(server.url, make_model()), await theirs(server.url)
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    said = "".join((each.content or "") + (each.refusal or "") for each in deltas)
    assert said == "".join(each.text for each in message.content if isinstance(each, TextBlock))
    # A field that the library does not know it hands on.
    thought = "".join(getattr(each, "reasoning_content", None) or "" for each in deltas)
    thoughts = [each for each in message.content if isinstance(each, ThinkingBlock)]
    assert thought == "".join(each.thinking for each in thoughts)
    calls: dict[int, list[str]] = {}
    for piece in (call for each in deltas for call in each.tool_calls or []):
        call = calls.setdefault(piece.index, ["", "", ""])
        call[0] += piece.id or ""
        call[1] += piece.function.name or ""
        call[2] += piece.function.arguments or ""
    assert [
        (each.id, each.name, each.arguments)
        for each in message.content
        if isinstance(each, ToolCall)
    ] == [(each[0], each[1], msgspec.json.decode(each[2])) for each in calls.values()]
    (reason,) = (
        chunk.choices[0].finish_reason
        for chunk in chunks
        if chunk.choices and chunk.choices[0].finish_reason
    )
    assert (message.raw_stop_reason, message.stop_reason) == (reason, STOPS[reason])
    (counted,) = (chunk.usage for chunk in chunks if chunk.usage)
    check_usage(message, counted)
    assert (message.response_id, message.response_model) == (chunks[0].id, chunks[0].model)


def check_usage(message: AssistantMessage, counted: Any) -> None:
    usage = message.usage
    read = counted.prompt_tokens_details
    assert usage.cache_read == ((read and read.cached_tokens) or 0)
    assert usage.input + usage.cache_read + usage.cache_write == counted.prompt_tokens
    assert (usage.output, usage.total_tokens) == (counted.completion_tokens, counted.total_tokens)
    details = counted.completion_tokens_details
    assert (usage.reasoning or 0) == ((details and details.reasoning_tokens) or 0)


@pytest.mark.parametrize("level", ["off", "low", "xhigh"])
@pytest.mark.parametrize("retention", ["none", "short", "long"])
async def test_the_library_knows_every_field_that_openai_is_sent(
    recording: Any, make_model: MakeModel, level: Any, retention: Any
) -> None:
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    model = make_model(
        provider="openai",
        base_url="https://api.openai.com/v1",
        reasoning=True,
        thinking_level_map={"off": "none", "xhigh": "xhigh"},
    )
    async with recording("reasoning_and_tools") as server:
        reply = await ours(server.url, model)
    assert reply.error_message is UNSET
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
            # Thinking of another model is not for OpenAI to see.
            msgspec.structs.replace(reply, model="another"),
            result(first, TextBlock(text="text"), IMAGE),
            result(second, TextBlock(text="more")),
            UserMessage(content="thanks", timestamp=4),
        ],
    )
    options = StreamOptions(
        thinking_level=level, cache_retention=retention, session_id="s", temperature=0.5
    )
    body, _ = completions_payload(model, context, options, compat_of(model))
    roles = [each["role"] for each in body["messages"]]
    assert roles == ["developer", "user", "assistant", "tool", "tool", "user", "user"]
    assert as_typed(CompletionCreateParamsStreaming, body) == body
    assert as_typed(CompletionCreateParamsStreaming, {**body, "invented": 1}) == body
