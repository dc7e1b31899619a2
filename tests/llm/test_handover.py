"""A conversation of any dialect can be handed to any other.

Whatever was made where: every call has one result that comes after it, no id stands for two calls,
nothing that another model signed is sent, and all of it can be written as UTF-8.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from pi_rpc.llm.models import Model, ModelCost
from pi_rpc.llm.provider import Context, StreamOptions, ToolSpec
from pi_rpc.llm.providers._anthropic_payload import anthropic_payload
from pi_rpc.llm.providers._bedrock_payload import bedrock_payload
from pi_rpc.llm.providers._completions_compat import compat_of
from pi_rpc.llm.providers._completions_payload import completions_payload
from pi_rpc.llm.providers._google_payload import google_payload
from pi_rpc.llm.providers._mistral_payload import mistral_payload
from pi_rpc.llm.providers._responses_payload import responses_payload

Body = dict[str, Any]
Pair = tuple[str, str]
"""``call`` or ``result``, and the id that joins them."""

FAST = [phase for phase in Phase if phase is not Phase.explain]
FOREIGN = "foreign-signature"
TOOL = ToolSpec(name="read", description="Reads", parameters={"type": "object", "properties": {}})
IDS = {
    "openai-completions": "x",
    "anthropic-messages": "claude-sonnet-5",
    "google-generative-ai": "gemini-4-argon",
    "mistral-conversations": "devstral",
    "openai-responses": "gpt-6",
    "azure-openai-responses": "gpt-6",
    "bedrock-converse-stream": "us.anthropic.claude-opus-5-5",
}
APIS = list(IDS)


def model_of(api: str, **changes: Any) -> Model:
    model = Model(
        id=IDS[api],
        name=IDS[api],
        api=api,
        provider=f"provider-of-{api}",
        base_url="http://127.0.0.1:1",
        reasoning=True,
        input=["text", "image"],
        cost=ModelCost(input=0, output=0, cache_read=0, cache_write=0),
        context_window=200_000,
        max_tokens=32_000,
    )
    return msgspec.structs.replace(model, **changes)


def body_of(model: Model, messages: list[Message]) -> Body:
    context = Context(messages=messages, system_prompt="Be good.", tools=[TOOL])
    options = StreamOptions(thinking_level="high", session_id="s")
    makers: dict[str, Callable[[], tuple[Body, str | None]]] = {
        "openai-completions": lambda: completions_payload(
            model, context, options, compat_of(model)
        ),
        "anthropic-messages": lambda: anthropic_payload(model, context, options),
        "google-generative-ai": lambda: google_payload(model, context, options),
        "mistral-conversations": lambda: mistral_payload(model, context, options),
        "openai-responses": lambda: responses_payload(model, context, options),
        "azure-openai-responses": lambda: responses_payload(model, context, options),
        "bedrock-converse-stream": lambda: bedrock_payload(model, context, options, "eu-west-1"),
    }
    return makers[model.api]()[0]


def pairs_of(api: str, body: Body) -> list[Pair]:
    """Calls and results in the order in which they are sent."""
    found: list[Pair] = []
    match api:
        case "openai-completions" | "mistral-conversations":
            for message in body["messages"]:
                found += [("call", each["id"]) for each in message.get("tool_calls", [])]
                if message["role"] == "tool":
                    found.append(("result", message["tool_call_id"]))
        case "anthropic-messages":
            for message in body["messages"]:
                for block in message["content"]:
                    if block["type"] == "tool_use":
                        found.append(("call", block["id"]))
                    elif block["type"] == "tool_result":
                        found.append(("result", block["tool_use_id"]))
        case "google-generative-ai":
            for content in body["contents"]:
                for part in content["parts"]:
                    if "functionCall" in part:
                        found.append(("call", part["functionCall"]["id"]))
                    elif "functionResponse" in part:
                        found.append(("result", part["functionResponse"]["id"]))
        case "bedrock-converse-stream":
            for message in body["messages"]:
                for block in message["content"]:
                    if "toolUse" in block:
                        found.append(("call", block["toolUse"]["toolUseId"]))
                    elif "toolResult" in block:
                        found.append(("result", block["toolResult"]["toolUseId"]))
        case _:
            for item in body["input"]:
                if item.get("type") == "function_call":
                    found.append(("call", item["call_id"]))
                elif item.get("type") == "function_call_output":
                    found.append(("result", item["call_id"]))
    return found


SHAPES = {
    "openai-completions": r"[a-zA-Z0-9_-]{1,40}",
    "anthropic-messages": r"[a-zA-Z0-9_-]{1,64}",
    "google-generative-ai": r".{1,64}",
    "mistral-conversations": r"[a-zA-Z0-9]{9}",
    "openai-responses": r".{1,64}",
    "azure-openai-responses": r".{1,64}",
    "bedrock-converse-stream": r"[a-zA-Z0-9_-]{1,64}",
}
"""What an id of a call may be."""

texts = st.text(
    st.one_of(
        st.characters(codec="utf-8"), st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF)
    ),
    max_size=12,
)
call_ids = st.one_of(
    st.sampled_from(["call_1", "call_1|fc_1", "toolu_01", "abcdefghi", "x" * 90, "x" * 91, "ü|?"]),
    texts,
)
signatures = st.sampled_from([FOREIGN, '{"type":"reasoning","id":"rs_1","encrypted_content":"e"}'])
arguments = st.dictionaries(texts, st.one_of(texts, st.integers(-9, 9), st.none()), max_size=2)
images = st.just(ImageBlock(data="AAAA", mime_type="image/png"))
shown = st.lists(st.one_of(st.builds(TextBlock, text=texts), images), max_size=3)
blocks = st.one_of(
    st.builds(TextBlock, text=texts, text_signature=signatures),
    st.builds(ThinkingBlock, thinking=texts, thinking_signature=signatures),
    st.builds(ThinkingBlock, thinking=st.just(""), thinking_signature=signatures,
              redacted=st.just(True)),
    st.builds(ToolCall, id=call_ids, name=st.just("read"), arguments=arguments,
              thought_signature=signatures, namespace=st.just(FOREIGN)),
)  # fmt: skip


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Messages of several models, with calls that were answered, or were not, or by nobody."""
    messages: list[Message] = [UserMessage(content="hi", timestamp=1)]
    for _ in range(draw(st.integers(1, 5))):
        api = draw(st.sampled_from(APIS))
        content = draw(st.lists(blocks, max_size=4))
        messages.append(
            AssistantMessage(
                content=content,
                api=api,
                provider=f"provider-of-{api}",
                model="somebody-else",
                usage=Usage.ZERO,
                stop_reason=draw(
                    st.sampled_from(["stop", "toolUse", "length", "error", "aborted"])
                ),
                timestamp=2,
            )
        )
        answered = [each.id for each in content if isinstance(each, ToolCall)]
        answered = [each for each in answered if draw(st.booleans())]
        strays = draw(st.lists(call_ids, max_size=1))
        for call_id in draw(st.permutations([*answered, *strays])):
            messages.append(  # noqa: PERF401 - it draws
                ToolResultMessage(
                    tool_call_id=call_id,
                    tool_name="read",
                    content=draw(shown),
                    is_error=draw(st.booleans()),
                    timestamp=3,
                )
            )
        if draw(st.booleans()):
            messages.append(UserMessage(content=draw(st.one_of(texts, shown)), timestamp=4))
    return messages


@pytest.mark.parametrize("api", APIS)
@given(messages=conversations(), sees=st.booleans())
@settings(max_examples=40, deadline=None, phases=FAST)
def test_any_conversation_can_be_handed_to_any_dialect(
    api: str, messages: list[Message], *, sees: bool
) -> None:
    before = repr(messages)
    model = model_of(api, input=["text", "image"] if sees else ["text"])
    body = body_of(model, messages)
    written = json.dumps(body, ensure_ascii=False)
    written.encode()
    assert FOREIGN not in written
    assert "rs_1" not in written
    assert sees or "AAAA" not in written
    _check_pairs(api, pairs_of(api, body))
    assert repr(messages) == before
    assert body_of(model, messages) == body


def _check_pairs(api: str, pairs: list[Pair]) -> None:
    calls = [call_id for kind, call_id in pairs if kind == "call"]
    results = [call_id for kind, call_id in pairs if kind == "result"]
    assert len(set(calls)) == len(calls)
    assert sorted(results) == sorted(calls)
    assert all(re.fullmatch(SHAPES[api], each, re.DOTALL) for each in calls)
    waiting: set[str] = set()
    for kind, call_id in pairs:
        if kind == "call":
            waiting.add(call_id)
        else:
            waiting.remove(call_id)
    assert waiting == set()


@pytest.mark.parametrize("source", APIS)
@pytest.mark.parametrize("target", APIS)
def test_what_a_model_signed_is_for_that_model_alone(source: str, target: str) -> None:
    made = AssistantMessage(
        content=[
            ThinkingBlock(thinking="secret thought", thinking_signature=FOREIGN),
            TextBlock(text="said", text_signature=FOREIGN),
            ToolCall(id="call_1", name="read", arguments={}, thought_signature=FOREIGN),
        ],
        api=source,
        provider=f"provider-of-{source}",
        model=IDS[source],
        usage=Usage.ZERO,
        stop_reason="toolUse",
        timestamp=2,
    )
    messages: list[Message] = [UserMessage(content="hi", timestamp=1), made]
    written = json.dumps(body_of(model_of(target), messages))
    assert "said" in written
    if source != target:
        assert FOREIGN not in written
        assert "secret thought" not in written
    another = model_of(target, id=f"{IDS[target]}-b")
    assert FOREIGN not in json.dumps(body_of(another, messages))
