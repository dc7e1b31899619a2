"""What a server of the dialect openai-completions is sent."""

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
from pi_rpc.llm.providers._completions_compat import compat_of
from pi_rpc.llm.providers._completions_payload import completions_payload

TOOL = ToolSpec(name="read", description="Reads", parameters={"type": "object", "properties": {}})
IMAGE = ImageBlock(data="AAAA", mime_type="image/png")
IMAGE_URL = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}

MakeModel = Callable[..., Model]


def conversation() -> Context:
    answer = AssistantMessage(
        content=[
            ThinkingBlock(thinking="hmm", thinking_signature="reasoning_content"),
            TextBlock(text="Reading."),
            ToolCall(id="c1", name="read", arguments={"path": "a"}),
            ToolCall(id="c2", name="read", arguments={}),
        ],
        api="openai-completions",
        provider="acme",
        model="test-model",
        usage=Usage.ZERO,
        stop_reason="toolUse",
        timestamp=2,
    )

    def result(call_id: str, *content: Any) -> ToolResultMessage:
        return ToolResultMessage(
            tool_call_id=call_id,
            tool_name="read",
            content=list(content),
            is_error=False,
            timestamp=3,
        )

    return Context(
        system_prompt="Be good.",
        messages=[
            UserMessage(content="hi", timestamp=1),
            answer,
            result("c1", TextBlock(text="text"), IMAGE),
            result("c2"),
            UserMessage(content=[TextBlock(text="see"), IMAGE], timestamp=4),
        ],
        tools=[TOOL],
    )


def payload(model: Model, context: Context | None = None, **options: Any) -> dict[str, Any]:
    body, _ = completions_payload(
        model, context or conversation(), StreamOptions(**options), compat_of(model)
    )
    return body


def roles(body: dict[str, Any]) -> list[str]:
    return [message["role"] for message in body["messages"]]


def test_a_conversation_is_worded_for_a_plain_server(make_model: MakeModel) -> None:
    body = payload(make_model())
    call_one, call_two = (
        {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a"}'}},
        {"id": "c2", "type": "function", "function": {"name": "read", "arguments": "{}"}},
    )
    assert body == {
        "model": "test-model",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 16_000,
        "messages": [
            {"role": "system", "content": "Be good."},
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "reasoning_content": "hmm",
                "content": "Reading.",
                "tool_calls": [call_one, call_two],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "text"},
            {"role": "tool", "tool_call_id": "c2", "content": "(no output)"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Images from the tool results above:"},
                    IMAGE_URL,
                ],
            },
            {"role": "user", "content": [{"type": "text", "text": "see"}, IMAGE_URL]},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "read",
                    "description": "Reads",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
    }


def test_openai_itself_gets_its_own_fields(make_model: MakeModel) -> None:
    model = make_model(provider="openai", base_url="https://api.openai.com/v1", reasoning=True)
    body = payload(model, session_id="s", cache_retention="long", thinking_level="high")
    assert body["store"] is False
    assert body["max_completion_tokens"] == 16_000
    assert "max_tokens" not in body
    assert body["messages"][0]["role"] == "developer"
    assert body["tools"][0]["function"]["strict"] is False
    assert body["reasoning_effort"] == "high"
    assert body["prompt_cache_key"] == "s"
    assert body["prompt_cache_retention"] == "24h"
    assert "prompt_cache_key" not in payload(model, session_id="s", cache_retention="none")
    assert "prompt_cache_retention" not in payload(model, session_id="s")


@pytest.mark.parametrize(
    ("compat", "holds"),
    [
        ({"supportsStore": True}, lambda body: body["store"] is False),
        ({"supportsUsageInStreaming": False}, lambda body: "stream_options" not in body),
        ({"maxTokensField": "max_completion_tokens"}, lambda body: "max_tokens" not in body),
        ({"supportsDeveloperRole": True}, lambda body: roles(body)[0] == "developer"),
        ({"supportsDeveloperRole": False}, lambda body: roles(body)[0] == "system"),
        ({"supportsReasoningEffort": False}, lambda body: "reasoning_effort" not in body),
        ({"supportsReasoningEffort": True}, lambda body: body["reasoning_effort"] == "medium"),
        ({"requiresToolResultName": True}, lambda body: body["messages"][3]["name"] == "read"),
        ({"supportsStrictMode": True}, lambda b: b["tools"][0]["function"]["strict"] is False),
        ({"unknownFlag": True}, lambda body: body["max_tokens"] == 16_000),
        (
            {"requiresAssistantAfterToolResult": True},
            lambda body: roles(body)[3:7] == ["tool", "tool", "assistant", "user"],
        ),
        (
            {"requiresThinkingAsText": True},
            lambda body: body["messages"][2]["content"]
            == "<thinking>\nhmm\n</thinking>\nReading."
            and "reasoning_content" not in body["messages"][2],
        ),
        (
            {"cacheControlFormat": "anthropic"},
            lambda body: body["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral"}
            and body["tools"][-1]["cache_control"] == {"type": "ephemeral"}
            and body["messages"][-1]["content"][0]["cache_control"] == {"type": "ephemeral"},
        ),
    ],
)  # fmt: skip
def test_each_flag_of_a_model_changes_its_request(
    make_model: MakeModel, compat: dict[str, Any], holds: Callable[[dict[str, Any]], bool]
) -> None:
    model = make_model(reasoning=True, compat=compat)
    assert holds(payload(model, thinking_level="medium"))


def test_reasoning_content_is_always_there_for_servers_that_require_it(
    make_model: MakeModel,
) -> None:
    model = make_model(id="other", compat={"requiresReasoningContentOnAssistantMessages": True})
    assert payload(model)["messages"][2]["reasoning_content"] == ""


@pytest.mark.parametrize(
    ("thinking_format", "on", "off"),
    [
        ("openai", {"reasoning_effort": "high"}, {}),
        ("openrouter", {"reasoning": {"effort": "high"}}, {"reasoning": {"effort": "none"}}),
        (
            "deepseek",
            {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
            {"thinking": {"type": "disabled"}},
        ),
        (
            "zai",
            {
                "thinking": {"type": "enabled", "clear_thinking": False},
                "reasoning_effort": "high",
            },
            {"thinking": {"type": "disabled"}},
        ),
        ("qwen", {"enable_thinking": True, "reasoning_effort": "high"}, {"enable_thinking": False}),
        (
            "qwen-chat-template",
            {"chat_template_kwargs": {"enable_thinking": True, "preserve_thinking": True}},
            {"chat_template_kwargs": {"enable_thinking": False, "preserve_thinking": True}},
        ),
        (
            "chat-template",
            {"chat_template_kwargs": {"enable_thinking": True}},
            {"chat_template_kwargs": {"enable_thinking": False}},
        ),
        (
            "baseten",
            {"chat_template_args": {"enable_thinking": True}, "reasoning_effort": "high"},
            {"chat_template_args": {"enable_thinking": False}},
        ),
        (
            "together",
            {"reasoning": {"enabled": True}, "reasoning_effort": "high"},
            {"reasoning": {"enabled": False}},
        ),
        ("string-thinking", {"thinking": "high"}, {"thinking": "none"}),
    ],
)
def test_thinking_is_asked_for_as_the_server_wants_it(
    make_model: MakeModel, thinking_format: str, on: dict[str, Any], off: dict[str, Any]
) -> None:
    names = {
        "reasoning_effort", "reasoning", "thinking", "enable_thinking", "chat_template_kwargs",
        "chat_template_args",
    }  # fmt: skip

    def asked(model: Model, level: Any) -> dict[str, Any]:
        return {
            name: v for name, v in payload(model, thinking_level=level).items() if name in names
        }

    model = make_model(reasoning=True, compat={"thinkingFormat": thinking_format})
    assert asked(model, "high") == on
    assert asked(model, "off") == off
    assert asked(make_model(compat={"thinkingFormat": thinking_format}), "high") == {}


def test_the_models_own_words_for_levels_are_used(make_model: MakeModel) -> None:
    model = make_model(
        reasoning=True, thinking_level_map={"off": "none", "low": None, "medium": "normal"}
    )
    assert payload(model, thinking_level="low")["reasoning_effort"] == "normal"
    assert payload(model, thinking_level="off")["reasoning_effort"] == "none"


@pytest.mark.parametrize(
    ("base_url", "provider", "expected"),
    [
        ("https://openrouter.ai/api/v1", "x", "openrouter"),
        ("https://api.deepseek.com", "x", "deepseek"),
        ("https://api.z.ai/api/paas/v4", "x", "zai"),
        ("https://dashscope.aliyuncs.com/v1", "x", "qwen"),
        ("https://proxy.example/v1", "deepseek", "deepseek"),
        ("https://notdeepseek.com", "x", "openai"),
        ("http://localhost:8080/v1", "deepseek", "openai"),
        ("http://[::1", "x", "openai"),
    ],
)
def test_the_server_is_known_by_its_address_else_by_the_providers_name(
    make_model: MakeModel, base_url: str, provider: str, expected: str
) -> None:
    model = make_model(base_url=base_url, provider=provider)
    assert compat_of(model).thinking_format == expected


def test_the_answer_is_limited_to_what_the_window_leaves(make_model: MakeModel) -> None:
    short = Context(messages=[UserMessage(content="hi", timestamp=1)])
    long = Context(messages=[UserMessage(content="x" * 400_000, timestamp=1)])
    assert payload(make_model(), short)["max_tokens"] == 16_000
    assert payload(make_model(max_tokens=100_000), short)["max_tokens"] == 32_000
    assert payload(make_model(), short, max_tokens=50)["max_tokens"] == 50
    assert payload(make_model(), long)["max_tokens"] == 128_000 - 100_000 - 15_000
    assert payload(make_model(context_window=100_000), long)["max_tokens"] == 1024
    assert payload(make_model(context_window=4000), short)["max_tokens"] == 3500


def test_sampling_parameters_and_temperature_are_passed_on(make_model: MakeModel) -> None:
    body = payload(make_model(sampling_params={"top_p": 0.9}), temperature=0.5)
    assert (body["top_p"], body["temperature"]) == (0.9, 0.5)


def test_encrypted_reasoning_of_a_call_is_sent_back(make_model: MakeModel) -> None:
    detail = '{"type":"reasoning.encrypted","id":"c1","data":"xyz"}'
    answer = AssistantMessage(
        content=[ToolCall(id="c1", name="read", arguments={}, thought_signature=detail)],
        api="openai-completions",
        provider="acme",
        model="test-model",
        usage=Usage.ZERO,
        stop_reason="toolUse",
        timestamp=1,
    )
    body = payload(make_model(), Context(messages=[answer]))
    assert body["messages"][0]["reasoning_details"] == [
        {"type": "reasoning.encrypted", "id": "c1", "data": "xyz"}
    ]
    assert body["messages"][0]["content"] is None


@pytest.mark.anyio
async def test_headers_hooks_and_keys_reach_the_server(
    serve: Any, make_model: MakeModel, hello: Context
) -> None:
    seen: list[tuple[int, str]] = []

    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events({"choices": [{"delta": {}, "finish_reason": "stop"}]}, "[DONE]")

    async def on_payload(body: dict[str, Any], model: Model) -> dict[str, Any]:
        return {**body, "seen_by": model.id}

    async def on_response(status: int, headers: Any) -> None:
        seen.append((status, headers["content-type"]))

    async with serve(answer) as server:
        model = make_model(
            base_url=server.url + "/v1/", headers={"X-Model": "m", "X-Both": "model"}
        )
        options = StreamOptions(
            api_key="key",
            headers={"x-both": "call"},
            on_payload=on_payload,
            on_response=on_response,
        )
        assert (await stream_simple(model, hello, options).result()).stop_reason == "stop"
        assert (await stream_simple(model, hello).result()).stop_reason == "stop"
        first, second = server.asked
    assert first.path == "/v1/chat/completions"
    assert first.headers["authorization"] == "Bearer key"
    assert (first.headers["x-model"], first.headers["x-both"]) == ("m", "call")
    assert first.json["seen_by"] == "test-model"
    assert seen == [(200, "text/event-stream")]
    assert "authorization" not in second.headers
