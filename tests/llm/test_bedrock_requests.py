"""What Bedrock is sent."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest

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
from pi_rpc.llm.models import THINKING_LEVELS, Model
from pi_rpc.llm.provider import Context, StreamOptions, ToolSpec
from pi_rpc.llm.providers._bedrock_families import family_of
from pi_rpc.llm.providers._bedrock_payload import bedrock_payload

MakeModel = Callable[..., Model]

CLAUDE, OLDER = "us.anthropic.claude-opus-5-5", "anthropic.claude-sonnet-4-20250514-v1:0"
NOVA, NOVA_2 = "amazon.nova-pro-v1:0", "us.amazon.nova-2-lite-v1:0"
GPT, OSS, LLAMA = "openai.gpt-5.5", "openai.gpt-oss-120b-1:0", "meta.llama4-scout-17b-instruct-v1:0"
IMAGE = ImageBlock(data="AAAA", mime_type="image/png")
SENT_IMAGE = {"image": {"format": "png", "source": {"bytes": "AAAA"}}}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOL = ToolSpec(name="read", description="Reads", parameters=SCHEMA)
SENT_TOOL = {"toolSpec": {"name": "read", "description": "Reads", "inputSchema": {"json": SCHEMA}}}
POINT = {"cachePoint": {"type": "default"}}


@pytest.fixture
def model(make_model: MakeModel) -> MakeModel:
    def make(model_id: str, **changes: Any) -> Model:
        changes = {"reasoning": True, "max_tokens": 64_000, **changes}
        return make_model(id=model_id, api="bedrock-converse-stream", **changes)

    return make


def said(text: str) -> UserMessage:
    return UserMessage(content=text, timestamp=1)


def reply(model_id: str, *content: Any, **changes: Any) -> AssistantMessage:
    message = AssistantMessage(
        content=list(content),
        api="bedrock-converse-stream",
        provider="acme",
        model=model_id,
        usage=Usage.ZERO,
        stop_reason="toolUse",
        timestamp=2,
    )
    return msgspec.structs.replace(message, **changes)


def result(call_id: str, *content: Any, is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call_id,
        tool_name="read",
        content=list(content),
        is_error=is_error,
        timestamp=3,
    )


def conversation(model_id: str) -> list[Message]:
    return [
        said("hi"),
        reply(
            model_id,
            ThinkingBlock(thinking="hmm", thinking_signature="sig"),
            ThinkingBlock(thinking="", thinking_signature="AAAA", redacted=True),
            TextBlock(text="Reading."),
            ToolCall(id="c1", name="read", arguments={"path": "a", "": 1}),
            ToolCall(id="c2", name="read", arguments={}),
        ),
        result("c1", TextBlock(text="text"), IMAGE),
        result("c2", TextBlock(text="failed"), IMAGE, is_error=True),
        UserMessage(content=[TextBlock(text="see"), IMAGE], timestamp=4),
    ]


def payload(model: Model, *messages: Message, region: str = "us-east-1", **options: Any) -> Any:
    context = Context(messages=messages, system_prompt="Be good.", tools=[TOOL])
    return bedrock_payload(model, context, StreamOptions(**options), region)[0]


def test_a_conversation_is_worded_for_claude(model: MakeModel) -> None:
    body = payload(model(CLAUDE), *conversation(CLAUDE), thinking_level="high", temperature=0.5)
    assert body == {
        "system": [{"text": "Be good."}, POINT],
        "toolConfig": {"tools": [SENT_TOOL, POINT]},
        "messages": [
            {"role": "user", "content": [{"text": "hi"}]},
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hmm", "signature": "sig"}}},
                    {"reasoningContent": {"redactedContent": "AAAA"}},
                    {"text": "Reading."},
                    {"toolUse": {"toolUseId": "c1", "name": "read", "input": {"path": "a"}}},
                    {"toolUse": {"toolUseId": "c2", "name": "read", "input": {}}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": "c1", "content": [{"text": "text"}, SENT_IMAGE]}},
                    {
                        "toolResult": {
                            "toolUseId": "c2",
                            "content": [{"text": "failed"}],
                            "status": "error",
                        }
                    },
                    {"text": "Images from the failed tool calls above:"},
                    SENT_IMAGE,
                    {"text": "see"},
                    SENT_IMAGE,
                    POINT,
                ],
            },
        ],
        "inferenceConfig": {"maxTokens": 32_000},
        "additionalModelRequestFields": {
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": "high"},
        },
    }


def test_other_families_get_no_signature_no_status_and_no_cache_point(model: MakeModel) -> None:
    body = payload(model(LLAMA), *conversation(LLAMA), thinking_level="high", temperature=0.5)
    assert body["system"] == [{"text": "Be good."}]
    assert body["toolConfig"] == {"tools": [SENT_TOOL]}
    assert body["messages"][1]["content"][:2] == [
        {"reasoningContent": {"reasoningText": {"text": "hmm"}}},
        {"reasoningContent": {"redactedContent": "AAAA"}},
    ]
    assert body["messages"][2]["content"][1] == {
        "toolResult": {"toolUseId": "c2", "content": [{"text": "failed"}, SENT_IMAGE]}
    }
    assert body["inferenceConfig"] == {"maxTokens": 32_000, "temperature": 0.5}
    assert "additionalModelRequestFields" not in body


def test_nova_keeps_its_last_two_cache_points_where_nothing_was_called(model: MakeModel) -> None:
    messages = [said("a"), reply(NOVA, TextBlock(text="b")), said("c"),
                reply(NOVA, TextBlock(text="d")), *conversation(NOVA)[:4]]  # fmt: skip
    body = payload(model(NOVA), *messages, cache_retention="long")
    assert body["system"][1:] == [POINT]
    assert body["toolConfig"] == {"tools": [SENT_TOOL]}
    marked = [POINT in message["content"] for message in body["messages"]]
    assert marked == [False, False, True, False, True, False, False]
    assert body["messages"][-1]["content"][1]["toolResult"]["status"] == "error"


@pytest.mark.parametrize(
    ("model_id", "retention", "point"),
    [
        (CLAUDE, "none", None),
        (CLAUDE, "short", {"type": "default"}),
        (CLAUDE, "long", {"type": "default", "ttl": "1h"}),
        ("anthropic.claude-haiku-4-5-20251001-v1:0", "long", {"type": "default", "ttl": "1h"}),
        (OLDER, "long", {"type": "default"}),
        ("anthropic.claude-3-7-sonnet-20250219-v1:0", "long", {"type": "default"}),
        ("anthropic.claude-3-5-haiku-20241022-v1:0", "short", {"type": "default"}),
        ("anthropic.claude-3-5-sonnet-20240620-v1:0", "short", None),
        ("anthropic.claude-3-opus-20240229-v1:0", "short", None),
        (NOVA, "long", {"type": "default"}),
        (GPT, "short", None),
    ],
)
def test_cache_points_follow_retention_and_what_the_model_takes(
    *, model: MakeModel, model_id: str, retention: Any, point: Any
) -> None:
    body = payload(model(model_id), said("hi"), cache_retention=retention)
    found = [block["cachePoint"] for block in body["system"] if "cachePoint" in block]
    assert found == ([point] if point else [])
    last = body["messages"][-1]["content"][-1]
    assert last == ({"cachePoint": point} if point else {"text": "hi"})


def test_a_model_may_say_itself_whether_an_hour_is_offered(model: MakeModel) -> None:
    denied = model(CLAUDE, compat={"supportsLongCacheRetention": False})
    assert payload(denied, said("hi"), cache_retention="long")["system"][1] == POINT


def test_an_arn_that_says_nothing_is_known_by_its_name(model: MakeModel) -> None:
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
    assert family_of(model(arn)).name == ""
    named = model(arn, name="Claude Sonnet 4.5 (team)")
    family = family_of(named)
    assert (family.name, family.caches_long, family.interleaves) == ("claude", True, True)
    fields = payload(named, said("hi"), thinking_level="low")["additionalModelRequestFields"]
    assert fields["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    adaptive = model(arn, name="Claude Opus 4.6")
    fields = payload(adaptive, said("hi"), thinking_level="low")["additionalModelRequestFields"]
    assert fields["thinking"]["type"] == "adaptive"


ADAPTIVE = {"thinking": {"type": "adaptive", "display": "summarized"}}
INTERLEAVED = {"anthropic_beta": ["interleaved-thinking-2025-05-14"]}


@pytest.mark.parametrize(
    ("model_id", "level_map", "level", "fields", "word"),
    [
        (CLAUDE, {}, "off", {"thinking": {"type": "disabled"}}, "disabled"),
        (CLAUDE, dict.fromkeys(THINKING_LEVELS), "off", None, None),
        (CLAUDE, {}, "minimal", {**ADAPTIVE, "output_config": {"effort": "low"}}, "low"),
        (CLAUDE, {"max": "max"}, "max", {**ADAPTIVE, "output_config": {"effort": "max"}}, "max"),
        (
            OLDER,
            {},
            "medium",
            {"thinking": {"type": "enabled", "budget_tokens": 8192}, **INTERLEAVED},
            "8192",
        ),
        (
            "anthropic.claude-3-7-sonnet-20250219-v1:0",
            {},
            "low",
            {"thinking": {"type": "enabled", "budget_tokens": 2048}},
            "2048",
        ),
        (NOVA_2, {}, "off", None, None),
        (
            NOVA_2,
            {},
            "minimal",
            {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}},
            "low",
        ),
        (OSS, {}, "off", None, None),
        (OSS, {"xhigh": "xhigh"}, "xhigh", {"reasoning_effort": "high"}, "high"),
        (GPT, {}, "off", None, None),
        (GPT, {}, "minimal", {"reasoning": {"effort": "low"}}, "low"),
        (GPT, {"xhigh": "xhigh"}, "xhigh", {"reasoning": {"effort": "xhigh"}}, "xhigh"),
        (GPT, {"off": "none"}, "off", {"reasoning": {"effort": "none"}}, "none"),
        ("qwen.qwen3-32b-v1:0", {}, "high", None, None),
    ],
)
def test_each_family_is_told_to_reason_in_its_own_way(
    *, model: MakeModel, model_id: str, level_map: Any, level: Any, fields: Any, word: Any
) -> None:
    asked = model(model_id, thinking_level_map=level_map)
    context = Context(messages=[said("hi")])
    body, told = bedrock_payload(asked, context, StreamOptions(thinking_level=level), "eu-west-1")
    assert (body.get("additionalModelRequestFields"), told) == (fields, word)


def test_a_budget_of_thoughts_is_added_to_the_limit(model: MakeModel) -> None:
    body = payload(model(OLDER), said("hi"), thinking_level="high", temperature=1.0, max_tokens=100)
    assert body["inferenceConfig"] == {"maxTokens": 100 + 16384}


def test_nova_at_its_highest_effort_may_not_be_limited(model: MakeModel) -> None:
    body = payload(model(NOVA_2), said("hi"), thinking_level="high", temperature=0.5)
    assert "inferenceConfig" not in body
    body = payload(model(NOVA_2), said("hi"), thinking_level="medium", temperature=0.5)
    assert body["inferenceConfig"] == {"maxTokens": 32_000, "temperature": 0.5}


def test_the_government_s_regions_are_not_told_how_to_show_thoughts(model: MakeModel) -> None:
    body = payload(model(CLAUDE), said("hi"), thinking_level="low", region="us-gov-west-1")
    assert body["additionalModelRequestFields"]["thinking"] == {"type": "adaptive"}


def test_a_model_that_does_not_reason_is_told_nothing(model: MakeModel) -> None:
    body = payload(model(CLAUDE, reasoning=False), said("hi"), thinking_level="high")
    assert "additionalModelRequestFields" not in body


def test_what_the_dialect_refuses_is_not_sent(model: MakeModel) -> None:
    messages = [
        said(" \n"),
        UserMessage(content=[TextBlock(text="")], timestamp=1),
        said("x"),
        reply(CLAUDE, TextBlock(text="  "), ThinkingBlock(thinking="", thinking_signature="s")),
        reply(
            CLAUDE,
            ThinkingBlock(thinking="", thinking_signature="no base64!", redacted=True),
            ThinkingBlock(thinking="unsigned"),
            ToolCall(id="c1", name="read", arguments={"a": [{"": 1, "b": None}]}),
        ),
        result("c1", TextBlock(text="")),
        UserMessage(content=[ImageBlock(data="AA", mime_type="image/bmp")], timestamp=1),
    ]
    body = payload(model(CLAUDE), *messages, cache_retention="none")
    assert body["messages"] == [
        {"role": "user", "content": [{"text": "x"}]},
        {
            "role": "assistant",
            "content": [
                {"text": "unsigned"},
                {
                    "toolUse": {
                        "toolUseId": "c1",
                        "name": "read",
                        "input": {"a": [{"b": None}]},
                    }
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "c1", "content": [{"text": "(no output)"}]}},
                {"text": "(an image of the type image/bmp was here; it cannot be shown)"},
            ],
        },
    ]


def test_a_failed_result_that_was_only_an_image_still_says_something(model: MakeModel) -> None:
    messages = [*conversation(CLAUDE)[:2], result("c1", IMAGE, is_error=True), result("c2")]
    content = payload(model(CLAUDE), *messages, cache_retention="none")["messages"][2]["content"]
    assert content[0]["toolResult"]["content"] == [{"text": "(the images follow)"}]
    assert content[2:] == [{"text": "Images from the failed tool calls above:"}, SENT_IMAGE]


def test_roles_alternate_whatever_the_conversation(model: MakeModel) -> None:
    messages = [
        said("a"),
        said("b"),
        reply(CLAUDE, TextBlock(text="c")),
        reply(CLAUDE, TextBlock(text="d")),
        said("e"),
    ]
    body = payload(model(CLAUDE), *messages, cache_retention="none")
    assert [(each["role"], len(each["content"])) for each in body["messages"]] == [
        ("user", 2),
        ("assistant", 2),
        ("user", 1),
    ]


def test_tools_that_were_called_are_declared_when_none_is_offered_any_more(
    model: MakeModel,
) -> None:
    context = Context(messages=conversation(LLAMA))
    body, _ = bedrock_payload(model(LLAMA), context, StreamOptions(), "us-east-1")
    (tool,) = body["toolConfig"]["tools"]
    assert tool["toolSpec"]["name"] == "read"
    assert tool["toolSpec"]["inputSchema"] == {"json": {"type": "object"}}
    body, _ = bedrock_payload(
        model(LLAMA), Context(messages=[said("hi")]), StreamOptions(), "us-east-1"
    )
    assert set(body) == {"messages", "inferenceConfig"}


def test_foreign_ids_and_tools_without_a_description_fit(model: MakeModel) -> None:
    call_id = "call_abc|fc_" + "0" * 80
    messages = [
        said("hi"),
        reply("gpt", ToolCall(id=call_id, name="read", arguments={}), api="openai-responses"),
        result(call_id, TextBlock(text="x")),
    ]
    context = Context(messages=messages, tools=[ToolSpec("read", " ", SCHEMA)])
    body, _ = bedrock_payload(model(CLAUDE), context, StreamOptions(), "us-east-1")
    _, called, answered = body["messages"]
    fitting = called["content"][0]["toolUse"]["toolUseId"]
    assert answered["content"][0]["toolResult"]["toolUseId"] == fitting
    assert len(fitting) == 64
    assert "description" not in body["toolConfig"]["tools"][0]["toolSpec"]


def test_sampling_parameters_go_where_the_dialect_has_them(model: MakeModel) -> None:
    parameters = {
        "top_p": 0.9,
        "temperature": 0.1,
        "top_k": 5,
        "performanceConfig": {"latency": "optimized"},
    }
    body = payload(model(LLAMA, sampling_params=parameters), said("hi"))
    assert body["inferenceConfig"] == {"maxTokens": 32_000, "topP": 0.9, "temperature": 0.1}
    assert body["additionalModelRequestFields"] == {"top_k": 5}
    assert body["performanceConfig"] == {"latency": "optimized"}


@pytest.mark.parametrize("model_id", [CLAUDE, NOVA, GPT, LLAMA])
@pytest.mark.parametrize("retention", ["none", "short", "long"])
def test_what_was_sent_is_the_exact_beginning_of_what_is_sent_next(
    model: MakeModel, model_id: str, retention: Any
) -> None:
    messages = [*conversation(model_id), *conversation("another"), *conversation(model_id)]
    asked = model(model_id)

    def sent(count: int) -> bytes:
        """The body up to the end of the last message; of the points, only those that stay put."""
        body = payload(asked, *messages[:count], cache_retention=retention)
        for message in body["messages"]:
            message["content"] = [each for each in message["content"] if "cachePoint" not in each]
        whole = msgspec.json.encode(body)
        shared, found, _ = whole.partition(b'],"inferenceConfig"')
        assert found
        return shared.removesuffix(b"]}")

    bodies = [sent(count) for count in (1, 4, 5, 6, 9, 10, 11, 14, 15)]
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier)
        assert later != earlier
