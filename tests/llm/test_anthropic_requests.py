"""What a server of the dialect anthropic-messages is sent."""

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
from pi_rpc.llm.models import THINKING_LEVELS, Model
from pi_rpc.llm.provider import Context, StreamOptions, ToolSpec, stream_simple
from pi_rpc.llm.providers._anthropic_payload import anthropic_payload, thinks_adaptively
from pi_rpc.llm.providers.anthropic_messages import request_headers

MakeModel = Callable[..., Model]
SHORT = {"type": "ephemeral"}
IMAGE = ImageBlock(data="AAAA", mime_type="image/png")
SENT_IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
}


@pytest.fixture
def claude(make_model: MakeModel) -> MakeModel:
    def make(**changes: Any) -> Model:
        return make_model(**{"api": "anthropic-messages", "provider": "anthropic", **changes})

    return make


def result(call_id: str, *content: Any, is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call_id,
        tool_name="read",
        content=list(content),
        is_error=is_error,
        timestamp=3,
    )


def reply(*content: Any) -> AssistantMessage:
    return AssistantMessage(
        content=list(content),
        api="anthropic-messages",
        provider="anthropic",
        model="test-model",
        usage=Usage.ZERO,
        stop_reason="toolUse",
        timestamp=2,
    )


def conversation() -> Context:
    parameters = {"type": "object", "properties": {}}
    return Context(
        system_prompt="Be good.",
        messages=[
            UserMessage(content="hi", timestamp=1),
            reply(
                ThinkingBlock(thinking="hmm", thinking_signature="sig"),
                ThinkingBlock(thinking="", thinking_signature="blob", redacted=True),
                ThinkingBlock(thinking="unsigned"),
                TextBlock(text="  "),
                ToolCall(id="c1", name="read", arguments={"path": "a"}),
                ToolCall(id="c2", name="read", arguments={}),
            ),
            result("c1", TextBlock(text="text"), IMAGE),
            result("c2", is_error=True),
            UserMessage(content=[TextBlock(text="see"), TextBlock(text=""), IMAGE], timestamp=4),
        ],
        tools=[
            ToolSpec(name="read", description="Reads", parameters=parameters),
            ToolSpec(name="write", description="Writes", parameters=parameters),
        ],
    )


def payload(model: Model, context: Context | None = None, **options: Any) -> dict[str, Any]:
    return anthropic_payload(model, context or conversation(), StreamOptions(**options))[0]


def test_a_conversation_is_worded_with_cache_markers_at_its_three_ends(claude: MakeModel) -> None:
    schema = {"type": "object", "properties": {}}
    assert payload(claude()) == {
        "model": "test-model",
        "max_tokens": 16_000,
        "stream": True,
        "system": [{"type": "text", "text": "Be good.", "cache_control": SHORT}],
        "tools": [
            {
                "name": "read",
                "description": "Reads",
                "input_schema": schema,
                "eager_input_streaming": True,
            },
            {
                "name": "write",
                "description": "Writes",
                "input_schema": schema,
                "eager_input_streaming": True,
                "cache_control": SHORT,
            },
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hmm", "signature": "sig"},
                    {"type": "redacted_thinking", "data": "blob"},
                    {"type": "text", "text": "unsigned"},
                    {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
                    {"type": "tool_use", "id": "c2", "name": "read", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": [{"type": "text", "text": "text"}, SENT_IMAGE],
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "c2",
                        "content": "(no output)",
                        "is_error": True,
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see"},
                    {**SENT_IMAGE, "cache_control": SHORT},
                ],
            },
        ],
    }


def test_cache_retention_is_none_short_or_an_hour(claude: MakeModel) -> None:
    assert "cache_control" not in str(payload(claude(), cache_retention="none"))
    hour = {"type": "ephemeral", "ttl": "1h"}
    body = payload(claude(), cache_retention="long")
    assert body["system"][0]["cache_control"] == hour
    assert body["messages"][-1]["content"][-1]["cache_control"] == hour
    plain = claude(compat={"supportsLongCacheRetention": False})
    assert payload(plain, cache_retention="long")["system"][0]["cache_control"] == SHORT


@pytest.mark.parametrize(
    ("model_id", "adaptive"),
    [
        ("claude-sonnet-4-5-20250929", False),
        ("claude-haiku-4-5", False),
        ("claude-sonnet-4-20250514", False),
        ("claude-3-7-sonnet-latest", False),
        ("claude-opus-4-6", True),
        ("claude-sonnet-4.6", True),
        ("anthropic.claude-opus-4-8-v1", True),
        ("claude-sonnet-5", True),
        ("claude-fable-5-1", True),
        ("claude-sonnet-5-20270101", True),
        ("glm-5", False),
    ],
)
def test_newer_models_think_adaptively(claude: MakeModel, model_id: str, adaptive: bool) -> None:
    assert thinks_adaptively(claude(id=model_id)) is adaptive
    forced = claude(id=model_id, compat={"forceAdaptiveThinking": not adaptive})
    assert thinks_adaptively(forced) is not adaptive


@pytest.mark.parametrize(
    ("level", "effort"),
    [("minimal", "low"), ("low", "low"), ("medium", "medium"), ("high", "high"), ("max", "max")],
)
def test_adaptive_models_are_told_an_effort(claude: MakeModel, level: Any, effort: str) -> None:
    model = claude(id="claude-sonnet-5", reasoning=True, thinking_level_map={"max": "max"})
    body = payload(model, thinking_level=level, temperature=0.3)
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert body["output_config"] == {"effort": effort}
    assert "temperature" not in body


@pytest.mark.parametrize(
    ("level", "budget"), [("minimal", 1024), ("low", 2048), ("medium", 8192), ("high", 16384)]
)
def test_older_models_are_told_a_budget_on_top_of_the_answer(
    claude: MakeModel, level: Any, budget: int
) -> None:
    model = claude(id="claude-haiku-4-5", reasoning=True, max_tokens=64_000)
    body = payload(model, thinking_level=level, max_tokens=4000)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert body["max_tokens"] == 4000 + budget


def test_a_budget_leaves_room_for_the_answer(claude: MakeModel) -> None:
    model = claude(reasoning=True, max_tokens=8000)
    body = payload(model, thinking_level="high")
    assert body["max_tokens"] == 8000
    assert body["thinking"]["budget_tokens"] == 8000 - 1024
    tiny = payload(claude(reasoning=True, max_tokens=1500), thinking_level="high")
    assert tiny["thinking"] == {"type": "disabled"}
    assert tiny["max_tokens"] == 1500


def test_off_is_said_unless_the_model_s_map_takes_it_away(claude: MakeModel) -> None:
    for level_map in ({}, {"off": "none"}):
        model = claude(id="claude-sonnet-5", reasoning=True, thinking_level_map=level_map)
        body, word = anthropic_payload(model, conversation(), StreamOptions(temperature=0.3))
        assert (body["thinking"], word) == ({"type": "disabled"}, "disabled")
        assert "output_config" not in body
        assert body["temperature"] == 0.3
    always = claude(id="claude-opus-5-5", reasoning=True, thinking_level_map={"off": None})
    assert payload(always)["thinking"]["type"] == "adaptive"
    nothing: dict[str, None] = dict.fromkeys(THINKING_LEVELS)
    assert "thinking" not in payload(claude(reasoning=True, thinking_level_map=nothing))
    assert "thinking" not in payload(claude())


@pytest.mark.parametrize(
    ("compat", "holds"),
    [
        ({"supportsTemperature": False}, lambda body: "temperature" not in body),
        ({"supportsTemperature": True}, lambda body: body["temperature"] == 0.3),
        (
            {"supportsEagerToolInputStreaming": False},
            lambda body: "eager_input_streaming" not in str(body["tools"]),
        ),
        (
            {"supportsCacheControlOnTools": False},
            lambda body: (
                "cache_control" not in str(body["tools"]) and "cache_control" in body["system"][0]
            ),
        ),
        (
            {"allowEmptySignature": True},
            lambda body: (
                body["messages"][1]["content"][2]
                == {"type": "thinking", "thinking": "unsigned", "signature": ""}
            ),
        ),
        ({"supportsTemperature": "no", "another": 1}, lambda body: body["temperature"] == 0.3),
    ],
)
def test_each_flag_of_a_model_changes_its_request(
    claude: MakeModel, compat: dict[str, Any], holds: Callable[[dict[str, Any]], bool]
) -> None:
    assert holds(payload(claude(compat=compat), temperature=0.3))


@pytest.mark.parametrize(
    ("host", "compat", "retention", "sent"),
    [
        ("openrouter.ai", {}, "short", {"x-session-id": "s"}),
        ("openrouter.ai", {}, "none", {}),
        (
            "api.fireworks.ai",
            {},
            "short",
            {
                "x-session-affinity": "s",
                "anthropic-beta": "fine-grained-tool-streaming-2025-05-14",
            },
        ),
        ("api.anthropic.com", {}, "short", {}),
        ("acme.example", {"sendSessionAffinityHeaders": True}, "long", {"x-session-affinity": "s"}),
        (
            "acme.example",
            {"sendSessionAffinityHeaders": True, "sessionAffinityFormat": "openrouter"},
            "short",
            {"x-session-id": "s"},
        ),
    ],
)
def test_servers_that_route_by_session_are_told_of_it(
    claude: MakeModel, host: str, compat: dict[str, Any], retention: Any, sent: dict[str, str]
) -> None:
    model = claude(base_url=f"https://{host}", compat=compat)
    options = StreamOptions(session_id="s", cache_retention=retention)
    body, _ = anthropic_payload(model, conversation(), options)
    headers = request_headers(model, options, body)
    headers.pop("anthropic-version")
    assert headers == sent


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("key", "sent"),
    [
        ("sk-ant-api03-x", {"x-api-key": "sk-ant-api03-x"}),
        (
            "sk-ant-oat01-x",
            {"authorization": "Bearer sk-ant-oat01-x", "anthropic-beta": "oauth-2025-04-20"},
        ),
        (None, {}),
    ],
)
async def test_the_key_travels_in_the_header_of_its_kind(
    serve: Any, claude: MakeModel, hello: Context, key: str | None, sent: Any
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("401 Unauthorized", "application/json")

    async with serve(answer) as server:
        for suffix in ("", "/", "/v1", "/v1/"):
            model = claude(base_url=server.url + suffix)
            await stream_simple(model, hello, StreamOptions(api_key=key)).result()
    assert [asked.path for asked in server.asked] == ["/v1/messages"] * 4
    asked = server.asked[0]
    assert asked.headers["anthropic-version"] == "2023-06-01"
    names = ("x-api-key", "authorization", "anthropic-beta")
    assert {name: asked.headers[name] for name in names if name in asked.headers} == sent


@pytest.mark.anyio
@pytest.mark.parametrize("place", ["model", "call"])
async def test_a_key_is_kept_from_a_gateway_with_a_credential_of_its_own(
    serve: Any, claude: MakeModel, hello: Context, place: str
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("401 Unauthorized", "application/json")

    own = {"Authorization": "Bearer gateway"}
    async with serve(answer) as server:
        model = claude(base_url=server.url, headers=own if place == "model" else {})
        options = StreamOptions(api_key="sk-ant-x", headers=own if place == "call" else {})
        await stream_simple(model, hello, options).result()
    (asked,) = server.asked
    assert asked.headers["authorization"] == "Bearer gateway"
    assert "x-api-key" not in asked.headers


@pytest.mark.anyio
async def test_interleaved_thinking_is_asked_for_with_a_budget_only(
    serve: Any, claude: MakeModel, hello: Context
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("401 Unauthorized", "application/json")

    async with serve(answer) as server:
        for model_id in ("claude-haiku-4-5", "claude-sonnet-5"):
            model = claude(id=model_id, base_url=server.url, reasoning=True)
            await stream_simple(model, hello, StreamOptions(thinking_level="low")).result()
        betas = [asked.headers.get("anthropic-beta") for asked in server.asked]
    assert betas == ["interleaved-thinking-2025-05-14", None]
