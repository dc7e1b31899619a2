"""What each server of the dialect openai-completions is sent that others are not."""

from collections.abc import Callable
from typing import Any

import pytest

from pi_rpc.llm.messages import UserMessage
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import (
    CacheRetention,
    Context,
    StreamOptions,
    ToolSpec,
    stream_simple,
)
from pi_rpc.llm.providers._completions_compat import FLAGS, compat_of
from pi_rpc.llm.providers._completions_payload import completions_payload

MakeModel = Callable[..., Model]
CONTEXT = Context(
    system_prompt="Be good.",
    messages=[UserMessage(content="hi", timestamp=1)],
    tools=[ToolSpec(name="read", description="Reads", parameters={"type": "object"})],
)
PLAIN = {
    "max_tokens": 16_000,
    "role": "system",
    "reasoning_effort": "high",
    "stream_options": {"include_usage": True},
}
"""What a server is sent of which nothing is known."""

EFFORT = {"reasoning_effort": None}
NEWER = {"max_tokens": None, "max_completion_tokens": 16_000}
TEMPLATE = {"chat_template_kwargs": {"enable_thinking": True}, **EFFORT}
OPENROUTER = {"reasoning": {"effort": "high"}, **EFFORT}
TOGETHER = {"reasoning": {"enabled": True}, **EFFORT}
ZAI = {"thinking": {"type": "enabled", "clear_thinking": False}, **EFFORT}
DEEPSEEK = {"thinking": {"type": "enabled"}}
MARKED = {
    **OPENROUTER,
    "tool_marker": {"type": "ephemeral", "ttl": "1h"},
}

TABLE: list[tuple[str, str, str, dict[str, Any]]] = [
    # provider, base URL, model, what differs from PLAIN (None: it is not there)
    ("acme", "https://acme.example/v1", "m", {}),
    ("openai", "https://api.openai.com/v1", "m",
     {**NEWER, "store": False, "role": "developer", "strict": False, "prompt_cache_key": "s",
      "prompt_cache_retention": "24h"}),
    ("openrouter", "https://openrouter.ai/api/v1", "m", OPENROUTER),
    ("acme", "https://openrouter.ai/api/v1", "m", OPENROUTER),
    ("openrouter", "https://openrouter.ai/api/v1", "anthropic/claude-sonnet-5", MARKED),
    ("groq", "https://api.groq.com/openai/v1", "m", NEWER),
    ("acme", "https://api.groq.com/openai/v1", "m", NEWER),
    ("cerebras", "https://api.cerebras.ai/v1", "m", NEWER),
    ("xai", "https://api.x.ai/v1", "m", {**NEWER, **EFFORT}),
    ("deepseek", "https://api.deepseek.com", "m", DEEPSEEK),
    ("deepseek", "https://proxy.example/v1", "m", DEEPSEEK),
    ("together", "https://api.together.ai/v1", "m", TOGETHER),
    ("acme", "https://api.together.xyz/v1", "m", TOGETHER),
    ("fireworks", "https://api.fireworks.ai/inference/v1", "m", {}),
    ("huggingface", "https://router.huggingface.co/v1", "m", {}),
    ("baseten", "https://inference.baseten.co/v1", "m", {}),
    ("moonshotai", "https://api.moonshot.ai/v1", "m", EFFORT),
    ("nvidia", "https://integrate.api.nvidia.com/v1", "m", EFFORT),
    ("zai", "https://api.z.ai/api/paas/v4", "m", ZAI),
    ("zai-coding-cn", "https://open.bigmodel.cn/api/paas/v4", "m", ZAI),
    ("acme", "https://dashscope.aliyuncs.com/compatible-mode/v1", "m",
     {"enable_thinking": True, **EFFORT}),
    ("ollama", "http://127.0.0.1:11434/v1", "m", {}),
    ("acme", "http://localhost:11434/v1", "m", {}),
    ("lmstudio", "http://127.0.0.1:1234/v1", "m", EFFORT),
    ("acme", "http://localhost:1234/v1", "m", EFFORT),
    ("llama.cpp", "http://127.0.0.1:8080/v1", "m", TEMPLATE),
    ("vllm", "http://127.0.0.1:8000/v1", "m", TEMPLATE),
    ("vllm", "http://box:8000/v1", "m", TEMPLATE),
    # A server on this machine is not the provider it is named after.
    ("openai", "http://127.0.0.1:8000/v1", "m", {}),
    ("deepseek", "http://localhost:9999/v1", "m", {}),
]  # fmt: skip


def sent(model: Model) -> dict[str, Any]:
    options = StreamOptions(thinking_level="high", session_id="s", cache_retention="long")
    body, _ = completions_payload(model, CONTEXT, options, compat_of(model))
    out = {key: value for key, value in body.items() if key not in {"messages", "tools"}}
    assert (out.pop("model"), out.pop("stream")) == (model.id, True)
    out["role"] = body["messages"][0]["role"]
    (tool,) = body["tools"]
    if "strict" in tool["function"]:
        out["strict"] = tool["function"]["strict"]
    if "cache_control" in tool:
        out["tool_marker"] = tool["cache_control"]
    return out


@pytest.mark.parametrize(("provider", "base_url", "model_id", "differs"), TABLE)
def test_each_server_is_sent_what_it_understands(
    make_model: MakeModel, provider: str, base_url: str, model_id: str, differs: dict[str, Any]
) -> None:
    model = make_model(provider=provider, base_url=base_url, id=model_id, reasoning=True)
    expected = {key: value for key, value in {**PLAIN, **differs}.items() if value is not None}
    assert sent(model) == expected


@pytest.mark.parametrize(
    ("compat", "differs"),
    [
        ({"supportsStore": True}, {"store": False}),
        ({"supportsUsageInStreaming": False}, {"stream_options": None}),
        ({"zaiToolStream": True}, {"tool_stream": True}),
        ({"promptCacheKeyMode": "enabled"}, {"prompt_cache_key": "s"}),
        (
            {"supportsLongCacheRetention": True},
            {"prompt_cache_key": "s", "prompt_cache_retention": "24h"},
        ),
        ({"supportsLongCacheRetention": True, "promptCacheKeyMode": "disabled"}, {}),
        (
            {"cacheControlFormat": "anthropic"},
            {"tool_marker": {"type": "ephemeral"}},
        ),
        (
            {"thinkingTokenBudgetField": "thinking_budget"},
            {"thinking_budget": 16384},
        ),
        ({"supportsThinkingTokenBudget": True}, {"thinking_token_budget": 16384}),
        (
            {
                "thinkingFormat": "chat-template",
                "chatTemplateKwargs": {
                    "thinking": {"$var": "thinking.enabled"},
                    "effort": {"$var": "thinking.effort"},
                    "budget": {"$var": "thinking.budget", "omitWhenOff": True},
                    "unknown": {"$var": "thinking.colour"},
                    "fixed": None,
                },
            },
            {
                "chat_template_kwargs": {
                    "thinking": True,
                    "effort": "high",
                    "budget": 16384,
                    "fixed": None,
                },
                "reasoning_effort": None,
            },
        ),
        (
            {
                "thinkingFormat": "baseten",
                "chatTemplateArgs": {"enable_thinking": {"$var": "thinking.enabled"}},
            },
            {"chat_template_args": {"enable_thinking": True}},
        ),
        ({"openRouterRouting": {"only": ["x"]}}, {"provider": {"only": ["x"]}}),
        (
            {"vercelGatewayRouting": {"order": ["x"]}},
            {"providerOptions": {"gateway": {"order": ["x"]}}},
        ),
        ({"vllmPriority": -1}, {"priority": -1}),
        ({"thinkingFormat": "ant-ling"}, {"reasoning_effort": None}),
        ({"supportsStore": "yes", "openRouterRouting": 5, "maxTokensField": None}, {}),
    ],
)
def test_a_custom_model_s_flags_override_what_is_assumed(
    make_model: MakeModel, compat: dict[str, Any], differs: dict[str, Any]
) -> None:
    expected = {key: value for key, value in {**PLAIN, **differs}.items() if value is not None}
    assert set(compat) <= FLAGS
    assert sent(make_model(reasoning=True, compat=compat)) == expected


def test_a_level_is_said_to_ant_ling_only_where_its_map_names_it(make_model: MakeModel) -> None:
    level_map = {"minimal": None, "high": "deep"}
    compat = {"thinkingFormat": "ant-ling", "supportsReasoningEffort": False}
    model = make_model(reasoning=True, compat=compat, thinking_level_map=level_map)
    assert sent(model)["reasoning"] == {"effort": "deep"}


@pytest.mark.parametrize(
    ("compat", "content"),
    [({}, None), ({"requiresNonNullAssistantContent": True}, "")],
)
def test_a_reply_without_text_has_the_content_that_the_server_takes(
    make_model: MakeModel, assistant: Callable[..., Any], compat: dict[str, Any], content: Any
) -> None:
    model = make_model(compat=compat)
    context = Context(messages=[*CONTEXT.messages, assistant("call")])
    body, _ = completions_payload(model, context, StreamOptions(), compat_of(model))
    assert body["messages"][1]["content"] == content
    assert "tools" not in body


def test_an_empty_list_of_tools_is_sent_where_calls_in_the_past_need_one(
    make_model: MakeModel, assistant: Callable[..., Any]
) -> None:
    model = make_model(compat={"requiresToolsWithToolHistory": True})
    for messages, tools in (
        (CONTEXT.messages, None),
        ([*CONTEXT.messages, assistant("call")], []),
    ):
        body, _ = completions_payload(
            model, Context(messages=messages), StreamOptions(), compat_of(model)
        )
        assert body.get("tools") == tools


@pytest.fixture
def assistant() -> Callable[..., Any]:
    from pi_rpc.llm.messages import AssistantMessage, ToolCall, Usage

    def make(call_id: str) -> AssistantMessage:
        return AssistantMessage(
            content=[ToolCall(id=call_id, name="read", arguments={})],
            api="openai-completions",
            provider="acme",
            model="test-model",
            usage=Usage.ZERO,
            stop_reason="toolUse",
            timestamp=2,
        )

    return make


SESSION_NAMES = {"session_id", "x-client-request-id", "x-session-affinity", "x-session-id"}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("compat", "retention", "names"),
    [
        ({}, "short", set()),
        ({"sendSessionAffinityHeaders": True}, "none", set()),
        (
            {"sendSessionAffinityHeaders": True},
            "short",
            {"session_id", "x-client-request-id", "x-session-affinity"},
        ),
        (
            {"sendSessionAffinityHeaders": True, "sessionAffinityFormat": "openai-nosession"},
            "short",
            {"x-client-request-id", "x-session-affinity"},
        ),
        (
            {"sendSessionAffinityHeaders": True, "sessionAffinityFormat": "openrouter"},
            "long",
            {"x-session-id"},
        ),
    ],
)
async def test_servers_that_route_by_session_are_told_of_it(
    serve: Any, make_model: MakeModel, compat: dict[str, Any], retention: Any, names: set[str]
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("400 Bad Request", "application/json")

    async with serve(answer) as server:
        model = make_model(base_url=server.url, compat=compat)
        options = StreamOptions(session_id="s", cache_retention=retention)
        await stream_simple(model, CONTEXT, options).result()
    (asked,) = server.asked
    sent_names = SESSION_NAMES & set(asked.headers)
    assert sent_names == names
    assert {asked.headers[name] for name in sent_names} <= {"s"}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (None, set()),
        ("openai", {"session-id", "x-client-request-id"}),
        ("openai-nosession", {"x-client-request-id"}),
        ("openrouter", {"x-session-id"}),
    ],
)
async def test_so_are_those_of_the_responses_api(
    serve: Any, make_model: MakeModel, kind: str | None, names: set[str]
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("400 Bad Request", "application/json")

    compat = {"sessionAffinityFormat": kind} if kind else {}
    async with serve(answer) as server:
        model = make_model(base_url=server.url, api="openai-responses", compat=compat)
        retentions: tuple[CacheRetention, ...] = ("short", "none")
        for retention in retentions:
            options = StreamOptions(session_id="s", cache_retention=retention)
            await stream_simple(model, CONTEXT, options).result()
    told, untold = ({*SESSION_NAMES, "session-id"} & set(each.headers) for each in server.asked)
    assert (told, untold) == (names, set())
