"""What a server of the dialect google-generative-ai is sent."""

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
from pi_rpc.llm.providers._google_payload import google_payload

MakeModel = Callable[..., Model]

IMAGE = ImageBlock(data="AAAA", mime_type="image/png")
INLINE = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOL = ToolSpec(name="read", description="Reads", parameters=SCHEMA)
THIRD, SECOND = "gemini-3.8-flash", "gemini-2.5-flash"
SKIPPED = {"thoughtSignature": "skip_thought_signature_validator"}


@pytest.fixture
def gemini(make_model: MakeModel) -> MakeModel:
    def make(model_id: str = THIRD, **changes: Any) -> Model:
        return make_model(
            id=model_id, api="google-generative-ai", max_tokens=65_536, reasoning=True, **changes
        )

    return make


def reply(model_id: str, *content: Any, **changes: Any) -> AssistantMessage:
    message = AssistantMessage(
        content=list(content),
        api="google-generative-ai",
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
        UserMessage(content="hi", timestamp=1),
        reply(
            model_id,
            ThinkingBlock(thinking="hmm", thinking_signature="AAAA"),
            TextBlock(text="Reading.", text_signature="BBBB"),
            ToolCall(id="c1", name="read", arguments={"path": "a"}, thought_signature="CC+/Cw=="),
            ToolCall(id="c2", name="read", arguments={}),
        ),
        result("c1", TextBlock(text="text"), IMAGE),
        result("c2", TextBlock(text="failed"), is_error=True),
        UserMessage(content=[TextBlock(text="see"), IMAGE], timestamp=4),
    ]


def payload(model: Model, *messages: Message, **options: Any) -> dict[str, Any]:
    context = Context(messages=messages, system_prompt="Be good.", tools=[TOOL])
    return google_payload(model, context, StreamOptions(**options))[0]


def test_a_conversation_is_worded_for_gemini_3(gemini: MakeModel) -> None:
    body = payload(gemini(), *conversation(THIRD), thinking_level="high", temperature=0.5)
    assert body == {
        "systemInstruction": {"parts": [{"text": "Be good."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "read", "description": "Reads", "parametersJsonSchema": SCHEMA}
                ]
            }
        ],
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}]},
            {
                "role": "model",
                "parts": [
                    {"thought": True, "text": "hmm", "thoughtSignature": "AAAA"},
                    {"text": "Reading.", "thoughtSignature": "BBBB"},
                    {
                        "functionCall": {"id": "c1", "name": "read", "args": {"path": "a"}},
                        "thoughtSignature": "CC+/Cw==",
                    },
                    {"functionCall": {"id": "c2", "name": "read", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "id": "c1",
                            "name": "read",
                            "response": {"output": "text"},
                            "parts": [INLINE],
                        }
                    },
                    {
                        "functionResponse": {
                            "id": "c2",
                            "name": "read",
                            "response": {"error": "failed"},
                        }
                    },
                ],
            },
            {"role": "user", "parts": [{"text": "see"}, INLINE]},
        ],
        "generationConfig": {
            "maxOutputTokens": 32_000,
            "temperature": 0.5,
            "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "HIGH"},
        },
    }


def test_before_gemini_3_there_are_no_ids_and_images_follow_the_results(gemini: MakeModel) -> None:
    contents = payload(gemini(SECOND), *conversation(SECOND))["contents"]
    assert contents[1]["parts"][2] == {
        "functionCall": {"name": "read", "args": {"path": "a"}},
        "thoughtSignature": "CC+/Cw==",
    }
    assert contents[2]["parts"] == [
        {"functionResponse": {"name": "read", "response": {"output": "text"}}},
        {"functionResponse": {"name": "read", "response": {"error": "failed"}}},
    ]
    assert contents[3]["parts"] == [{"text": "Images from the tool results above:"}, INLINE]
    assert contents[4]["parts"] == [{"text": "see"}, INLINE]


def test_images_of_the_last_results_follow_too(gemini: MakeModel) -> None:
    messages = [*conversation(SECOND)[:2], result("c1", IMAGE), result("c2")]
    contents = payload(gemini(SECOND), *messages)["contents"]
    outputs = [part["functionResponse"]["response"]["output"] for part in contents[2]["parts"]]
    assert outputs == ["(the images follow)", "(no output)"]
    assert contents[3]["parts"][1:] == [INLINE]


def test_calls_of_another_model_get_the_documented_stand_in_for_a_signature(
    gemini: MakeModel,
) -> None:
    messages = conversation("gemini-3-flash-preview")
    parts = payload(gemini(), *messages)["contents"][1]["parts"]
    assert parts == [
        {"text": "Reading."},
        {"functionCall": {"id": "c1", "name": "read", "args": {"path": "a"}}, **SKIPPED},
        {"functionCall": {"id": "c2", "name": "read", "args": {}}},
    ]
    parts = payload(gemini(SECOND), *messages)["contents"][1]["parts"]
    assert parts[1] == {"functionCall": {"name": "read", "args": {"path": "a"}}}


def test_signatures_that_are_no_base64_are_not_sent(gemini: MakeModel) -> None:
    message = reply(
        THIRD,
        ThinkingBlock(thinking="", thinking_signature="{not base64}"),
        ThinkingBlock(thinking="", thinking_signature="AA"),
        TextBlock(text="", text_signature="BBBB"),
        TextBlock(text=" "),
        TextBlock(text="x", text_signature="reasoning content"),
    )
    assert payload(gemini(), message)["contents"][0]["parts"] == [
        {"thought": True, "text": "", "thoughtSignature": "AA"},
        {"text": "", "thoughtSignature": "BBBB"},
        {"text": "x"},
    ]


def test_foreign_ids_are_made_to_fit(gemini: MakeModel) -> None:
    call_id = "call_abc|fc_" + "0" * 80
    call = ToolCall(id=call_id, name="read", arguments={})
    messages = [
        UserMessage(content="hi", timestamp=1),
        reply("gpt", call, api="openai-responses"),
        result(call_id, TextBlock(text="x")),
    ]
    _, called, answered = payload(gemini(), *messages)["contents"]
    fitting = called["parts"][0]["functionCall"]["id"]
    assert answered["parts"][0]["functionResponse"]["id"] == fitting
    assert len(fitting) == 64
    assert fitting.replace("_", "").isalnum()


def thinking(model: Model, level: Any, **options: Any) -> tuple[Any, Any, int]:
    body, word = google_payload(
        model,
        Context(messages=[UserMessage(content="hi", timestamp=1)]),
        StreamOptions(thinking_level=level, **options),
    )
    config = body["generationConfig"]
    return config.get("thinkingConfig"), word, config["maxOutputTokens"]


LEVELS = {"off": None, "minimal": None, "low": "low", "medium": "medium", "high": "high"}
GEMMA = {"off": None, "minimal": "MINIMAL", "low": None, "medium": None, "high": "HIGH"}
SHOWN = {"includeThoughts": True}


@pytest.mark.parametrize(
    ("model_id", "level_map", "level", "config", "word"),
    [
        (THIRD, LEVELS, "off", {"thinkingLevel": "LOW"}, "LOW"),
        (THIRD, LEVELS, "minimal", {**SHOWN, "thinkingLevel": "LOW"}, "LOW"),
        (THIRD, LEVELS, "xhigh", {**SHOWN, "thinkingLevel": "HIGH"}, "HIGH"),
        (
            "gemini-4-neon",
            {**LEVELS, "xhigh": "xhigh"},
            "max",
            {**SHOWN, "thinkingLevel": "XHIGH"},
            "XHIGH",
        ),
        ("gemini-3-own", {}, "off", {"thinkingLevel": "LOW"}, "LOW"),
        ("gemini-flash-latest", {}, "medium", {**SHOWN, "thinkingLevel": "MEDIUM"}, "MEDIUM"),
        ("gemma-4-31b-it", GEMMA, "off", {"thinkingLevel": "MINIMAL"}, "MINIMAL"),
        ("gemma-4-31b-it", GEMMA, "low", {**SHOWN, "thinkingLevel": "HIGH"}, "HIGH"),
        (SECOND, {}, "off", {"thinkingBudget": 0}, None),
        (SECOND, {}, "minimal", {**SHOWN, "thinkingBudget": 128}, "128"),
        (SECOND, {}, "high", {**SHOWN, "thinkingBudget": 24576}, "24576"),
        ("gemini-2.5-flash-lite", {}, "minimal", {**SHOWN, "thinkingBudget": 512}, "512"),
        ("gemini-2.5-pro", {}, "off", {"thinkingBudget": 128}, "128"),
        ("gemini-2.5-pro", {}, "high", {**SHOWN, "thinkingBudget": 32768}, "32768"),
        ("gemini-2.5-pro", {"max": "high"}, "max", {**SHOWN, "thinkingBudget": 32768}, "32768"),
        ("other", {}, "low", {**SHOWN, "thinkingBudget": -1}, "-1"),
        ("other", {}, "off", {"thinkingBudget": 0}, None),
    ],
)
def test_each_generation_is_told_how_much_to_think_in_its_own_way(
    *,
    gemini: MakeModel,
    model_id: str,
    level_map: Any,
    level: Any,
    config: Any,
    word: Any,
) -> None:
    model = gemini(model_id, thinking_level_map=level_map)
    assert thinking(model, level)[:2] == (config, word)


def test_a_model_that_does_not_think_is_told_nothing(gemini: MakeModel) -> None:
    model = msgspec.structs.replace(gemini("gemini-2.0-flash"), reasoning=False)
    assert thinking(model, "high") == (None, None, 32_000)


def test_a_budget_leaves_room_for_the_answer(gemini: MakeModel) -> None:
    assert thinking(gemini("gemini-2.5-pro"), "high")[2] == 32_000 + 32_768
    assert thinking(gemini("gemini-2.5-pro"), "high", max_tokens=50)[2] == 50 + 32_768
    small = msgspec.structs.replace(gemini(SECOND), max_tokens=8000)
    assert thinking(small, "high") == ({**SHOWN, "thinkingBudget": 6976}, "6976", 8000)


def test_const_becomes_an_enum_of_one_but_not_in_values_or_names(gemini: MakeModel) -> None:
    schema = {
        "type": "object",
        "properties": {
            "const": {"const": "a"},
            "kind": {"anyOf": [{"const": 1}, {"const": True}, {"const": "x", "enum": ["x"]}]},
            "free": {"type": "object", "default": [{"const": 1}]},
        },
    }
    context = Context(messages=[], tools=[ToolSpec("t", "d", schema)])
    body, _ = google_payload(gemini(), context, StreamOptions())
    sent = body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]
    assert sent["properties"] == {
        "const": {"enum": ["a"]},
        "kind": {"anyOf": [{"enum": [1]}, {"const": True}, {"const": "x", "enum": ["x"]}]},
        "free": {"type": "object", "default": [{"const": 1}]},
    }


def test_what_was_sent_is_the_exact_beginning_of_what_is_sent_next(gemini: MakeModel) -> None:
    for model_id in (THIRD, SECOND):
        messages = [*conversation(model_id), *conversation("another"), *conversation(model_id)]
        bodies = [
            msgspec.json.encode(payload(gemini(model_id), *messages[:count]))
            for count in (1, 5, 6, 10, 15)
        ]
        for earlier, later in pairwise(bodies):
            shared, _, _ = earlier.partition(b'],"generationConfig"')
            assert shared != earlier
            assert later.startswith(shared + b",")


def test_sampling_parameters_and_empty_messages(gemini: MakeModel) -> None:
    messages = [
        UserMessage(content=" ", timestamp=1),
        UserMessage(content=[TextBlock(text="")], timestamp=1),
        UserMessage(content="x", timestamp=1),
    ]
    body = payload(gemini(sampling_params={"topP": 0.9}), *messages)
    assert body["generationConfig"]["topP"] == 0.9
    assert body["contents"] == [{"role": "user", "parts": [{"text": "x"}]}]
