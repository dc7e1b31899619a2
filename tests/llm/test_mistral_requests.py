"""What a server of the dialect mistral-conversations is sent."""

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
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, ToolSpec
from pi_rpc.llm.providers._mistral_payload import mistral_call_id, mistral_payload

MakeModel = Callable[..., Model]

IMAGE = ImageBlock(data="AAAA", mime_type="image/png")
IMAGE_URL = {"type": "image_url", "image_url": "data:image/png;base64,AAAA"}
SCHEMA = {"type": "object", "properties": {}}
TOOL = ToolSpec(name="read", description="Reads", parameters=SCHEMA)


@pytest.fixture
def mistral(make_model: MakeModel) -> MakeModel:
    def make(**changes: Any) -> Model:
        return make_model(**{"api": "mistral-conversations", "reasoning": True, **changes})

    return make


def conversation(model_id: str = "test-model", first: str = "D681PevKs") -> list[Message]:
    reply = AssistantMessage(
        content=[
            ThinkingBlock(thinking="hmm", thinking_signature="sig"),
            TextBlock(text="Reading."),
            ToolCall(id=first, name="read", arguments={"path": "a"}),
            ToolCall(id="call_2|fc_0", name="read", arguments={}),
        ],
        api="mistral-conversations",
        provider="acme",
        model=model_id,
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

    return [
        UserMessage(content="hi", timestamp=1),
        reply,
        result(first, TextBlock(text="text")),
        result("call_2|fc_0", IMAGE),
        UserMessage(content=[TextBlock(text="see"), IMAGE], timestamp=4),
    ]


def payload(model: Model, *messages: Message, **options: Any) -> dict[str, Any]:
    context = Context(messages=messages, system_prompt="Be good.", tools=[TOOL])
    return mistral_payload(model, context, StreamOptions(**options))[0]


def test_a_conversation_is_worded_for_mistral(mistral: MakeModel) -> None:
    body = payload(mistral(), *conversation(), session_id="s", temperature=0.5)
    made_up = mistral_call_id("call_2|fc_0", {"D681PevKs"})
    assert body == {
        "model": "test-model",
        "stream": True,
        "tools": [
            {
                "type": "function",
                "function": {"name": "read", "description": "Reads", "parameters": SCHEMA},
            }
        ],
        "messages": [
            {"role": "system", "content": "Be good."},
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "thinking",
                        "thinking": [{"type": "text", "text": "hmm"}],
                        "signature": "sig",
                    },
                    {"type": "text", "text": "Reading."},
                ],
                "tool_calls": [
                    {
                        "id": "D681PevKs",
                        "type": "function",
                        "function": {"name": "read", "arguments": '{"path":"a"}'},
                    },
                    {
                        "id": made_up,
                        "type": "function",
                        "function": {"name": "read", "arguments": "{}"},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "D681PevKs", "name": "read", "content": "text"},
            {
                "role": "tool",
                "tool_call_id": made_up,
                "name": "read",
                "content": [{"type": "text", "text": "(see the images)"}, IMAGE_URL],
            },
            {"role": "user", "content": [{"type": "text", "text": "see"}, IMAGE_URL]},
        ],
        "max_tokens": 16_000,
        "temperature": 0.5,
        "prompt_cache_key": "s",
    }


def test_thinking_of_another_model_is_left_out_and_the_text_is_a_string(
    mistral: MakeModel,
) -> None:
    assert payload(mistral(), *conversation("another"))["messages"][2]["content"] == "Reading."


def test_a_reply_of_calls_alone_has_an_empty_text(mistral: MakeModel) -> None:
    reply = conversation()[1]
    assert isinstance(reply, AssistantMessage)
    alone = msgspec.structs.replace(reply, content=[reply.content[2]])
    nothing = msgspec.structs.replace(reply, content=[TextBlock(text="")])
    messages = payload(mistral(), alone, nothing)["messages"]
    assert [message["role"] for message in messages] == ["system", "assistant", "tool"]
    assert messages[1]["content"] == ""


@pytest.mark.parametrize("original", ["", "call_1", "D681PevK!", "x" * 400, "h\u00e9llo w\u00f6"])
def test_any_id_becomes_nine_letters_and_digits_and_always_the_same(original: str) -> None:
    made = mistral_call_id(original, set())
    assert len(made) == 9
    assert made.isascii()
    assert made.isalnum()
    assert made == mistral_call_id(original, set())
    other = mistral_call_id(original, {made})
    assert other != made
    assert len(other) == 9


def test_an_id_of_mistrals_own_stays() -> None:
    assert mistral_call_id("D681PevKs", {"q7Rt2xZ0b"}) == "D681PevKs"
    assert mistral_call_id("D681PevKs", {"D681PevKs"}) != "D681PevKs"


def test_ids_that_collide_are_told_apart_and_results_follow_them(mistral: MakeModel) -> None:
    taken = mistral_call_id("call_2|fc_0", set())
    body = payload(mistral(), *conversation(first=taken), *conversation(first=taken))
    ids = [
        call["id"]
        for message in body["messages"]
        if message["role"] == "assistant"
        for call in message["tool_calls"]
    ]
    answered = [
        message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"
    ]
    assert len(set(ids)) == 4
    assert ids[0] == taken
    assert answered == ids
    assert all(len(each) == 9 and each.isalnum() for each in ids)


EFFORTS = {"off": "none", "minimal": None, "low": None, "medium": None, "high": "high"}


@pytest.mark.parametrize(
    ("level_map", "level", "parameters", "word"),
    [
        (EFFORTS, "off", {"reasoning_effort": "none"}, "none"),
        (EFFORTS, "low", {"reasoning_effort": "high"}, "high"),
        (EFFORTS, "max", {"reasoning_effort": "high"}, "high"),
        ({**EFFORTS, "max": "max"}, "max", {"reasoning_effort": "max"}, "max"),
        ({"off": None, "low": "low"}, "off", {"reasoning_effort": "minimal"}, "minimal"),
        ({"low": "low"}, "off", {}, None),
        ({}, "off", {}, None),
        ({}, "high", {"prompt_mode": "reasoning"}, "reasoning"),
    ],
)
def test_thinking_is_asked_for_by_effort_or_by_prompt(
    mistral: MakeModel, level_map: Any, level: Any, parameters: Any, word: Any
) -> None:
    def asked(model: Model) -> tuple[dict[str, Any], Any]:
        context = Context(messages=[UserMessage(content="hi", timestamp=1)])
        body, told = mistral_payload(model, context, StreamOptions(thinking_level=level))
        names = {"reasoning_effort", "prompt_mode"}
        return {name: value for name, value in body.items() if name in names}, told

    assert asked(mistral(thinking_level_map=level_map)) == (parameters, word)
    assert asked(mistral(reasoning=False)) == ({}, None)


def test_no_cache_key_is_sent_when_caching_is_off_or_no_session_is_known(
    mistral: MakeModel,
) -> None:
    assert "prompt_cache_key" not in payload(mistral(), session_id="s", cache_retention="none")
    assert "prompt_cache_key" not in payload(mistral())
    assert payload(mistral(), session_id="s", cache_retention="long")["prompt_cache_key"] == "s"


def test_sampling_parameters_are_passed_on(mistral: MakeModel) -> None:
    assert payload(mistral(sampling_params={"top_p": 0.9}))["top_p"] == 0.9


def test_what_was_sent_is_the_exact_beginning_of_what_is_sent_next(mistral: MakeModel) -> None:
    messages = [*conversation(), *conversation("another", first="toolu_1"), *conversation()]
    bodies = [
        msgspec.json.encode(payload(mistral(), *messages[:count], session_id="s"))
        for count in (1, 5, 6, 10, 15)
    ]
    for earlier, later in pairwise(bodies):
        shared, _, _ = earlier.partition(b'],"max_tokens"')
        assert shared != earlier
        assert later.startswith(shared + b",")
