"""What a server of the Responses API is sent."""

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
from pi_rpc.llm.provider import Context, StreamOptions, ToolSpec, stream_simple
from pi_rpc.llm.providers._responses_payload import reasoning_signature, responses_payload

MakeModel = Callable[..., Model]

TOOL = ToolSpec(name="read", description="Reads", parameters={"type": "object", "properties": {}})
IMAGE = ImageBlock(data="AAAA", mime_type="image/png")
SENT_IMAGE = {
    "type": "input_image",
    "detail": "auto",
    "image_url": "data:image/png;base64,AAAA",
}
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hmm"}],
    "encrypted_content": "xyz",
}
SIGNATURE = msgspec.json.encode(REASONING).decode()
COMMENTARY = '{"v":1,"id":"msg_1","phase":"commentary"}'


@pytest.fixture
def gpt(make_model: MakeModel) -> MakeModel:
    def make(**changes: Any) -> Model:
        return make_model(**{"api": "openai-responses", "reasoning": True, **changes})

    return make


def reply(*content: Any, **changes: Any) -> AssistantMessage:
    message = AssistantMessage(
        content=list(content),
        api="openai-responses",
        provider="acme",
        model="test-model",
        usage=Usage.ZERO,
        stop_reason="stop",
        timestamp=2,
    )
    return msgspec.structs.replace(message, **changes)


def result(call_id: str, *content: Any) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call_id,
        tool_name="read",
        content=list(content),
        is_error=False,
        timestamp=3,
    )


def conversation() -> Context:
    return Context(
        system_prompt="Be good.",
        messages=[
            UserMessage(content="hi", timestamp=1),
            reply(
                ThinkingBlock(thinking="hmm", thinking_signature=SIGNATURE),
                TextBlock(text="Reading.", text_signature=COMMENTARY),
                ToolCall(id="c1|fc_1", name="read", arguments={"path": "a"}),
                ToolCall(id="c2|fc_2", name="read", arguments={}),
                stop_reason="toolUse",
            ),
            result("c1|fc_1", TextBlock(text="text"), IMAGE),
            result("c2|fc_2"),
            UserMessage(content=[TextBlock(text="see"), IMAGE], timestamp=4),
        ],
        tools=[TOOL],
    )


def payload(model: Model, context: Context | None = None, **options: Any) -> dict[str, Any]:
    body, _ = responses_payload(model, context or conversation(), StreamOptions(**options))
    return body


def sent(model: Model, *messages: Message) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = payload(model, Context(messages=messages))["input"]
    return items


def test_a_conversation_is_worded_whole_and_nothing_is_stored(gpt: MakeModel) -> None:
    body = payload(gpt(), thinking_level="medium", session_id="s")
    assert body == {
        "model": "test-model",
        "stream": True,
        "store": False,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 16_000,
        "prompt_cache_key": "s",
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "Reads",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
        "input": [
            {"role": "developer", "content": "Be good."},
            {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            REASONING,
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Reading.", "annotations": []}],
                "phase": "commentary",
            },
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "c1",
                "name": "read",
                "arguments": '{"path":"a"}',
            },
            {
                "type": "function_call",
                "id": "fc_2",
                "call_id": "c2",
                "name": "read",
                "arguments": "{}",
            },
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [{"type": "input_text", "text": "text"}, SENT_IMAGE],
            },
            {"type": "function_call_output", "call_id": "c2", "output": "(no output)"},
            {"role": "user", "content": [{"type": "input_text", "text": "see"}, SENT_IMAGE]},
        ],
    }


@pytest.mark.parametrize("retention", ["none", "short", "long"])
@pytest.mark.parametrize("api", ["openai-responses", "azure-openai-responses"])
def test_each_turns_body_begins_with_the_bytes_of_the_turn_before(
    gpt: MakeModel, api: str, retention: Any
) -> None:
    model = gpt(api=api)
    messages = [
        message if not isinstance(message, AssistantMessage) else reply(*message.content, api=api)
        for message in conversation().messages
    ]
    later = [
        *messages,
        reply(TextBlock(text="I see.", text_signature=COMMENTARY), api=api),
        UserMessage(content="and?", timestamp=5),
        reply(TextBlock(text="cut off"), api=api, stop_reason="error"),
        UserMessage(content="once more", timestamp=6),
    ]
    ends = [1, 4, 5, 7, 9]
    bodies = []
    for end in ends:
        context = Context(messages=later[:end], system_prompt="Be good.", tools=[TOOL])
        body = payload(
            model, context, thinking_level="low", session_id="s", cache_retention=retention
        )
        bodies.append(msgspec.json.encode(body).removesuffix(b"]}"))
    for before, after in pairwise(bodies):
        assert after.startswith(before)
        assert len(after) > len(before)


@pytest.mark.parametrize(
    ("level", "level_map", "effort"),
    [
        ("off", {}, "none"),
        ("off", {"off": "minimal"}, "minimal"),
        ("off", {"off": None}, "minimal"),
        ("off", {"off": None, "minimal": None}, "low"),
        ("minimal", {"minimal": None}, "low"),
        ("high", {}, "high"),
        ("xhigh", {}, "high"),
        ("xhigh", {"xhigh": "xhigh"}, "xhigh"),
        ("max", {"xhigh": "xhigh"}, "xhigh"),
        ("max", {"max": "max"}, "max"),
        ("medium", {"medium": "normal"}, "normal"),
    ],
)
def test_a_thinking_level_becomes_an_effort(
    gpt: MakeModel, level: Any, level_map: dict[str, str | None], effort: str
) -> None:
    model = gpt(thinking_level_map=level_map)
    body, word = responses_payload(model, conversation(), StreamOptions(thinking_level=level))
    assert (body["reasoning"]["effort"], word) == (effort, effort)
    thinks = "include" in body
    assert thinks is not (level == "off" and level_map.get("off", "") is not None)
    assert ("summary" in body["reasoning"]) is thinks


def test_a_model_that_cannot_think_is_told_nothing_of_it(gpt: MakeModel) -> None:
    body = payload(gpt(reasoning=False), thinking_level="high")
    assert "reasoning" not in body
    assert "include" not in body
    assert body["input"][0]["role"] == "system"


def test_the_output_is_limited_and_a_thinking_model_gets_its_whole_limit(gpt: MakeModel) -> None:
    short = Context(messages=[UserMessage(content="hi", timestamp=1)])
    large = gpt(max_tokens=64_000)
    assert payload(large, short)["max_output_tokens"] == 32_000
    assert payload(large, short, thinking_level="high")["max_output_tokens"] == 64_000
    assert payload(large, short, thinking_level="high", max_tokens=50)["max_output_tokens"] == 50
    assert payload(large, short, max_tokens=1)["max_output_tokens"] == 16
    without = gpt(compat={"supportsMaxOutputTokens": False})
    assert "max_output_tokens" not in payload(without, short)


def test_a_temperature_is_left_out_where_it_would_be_refused(gpt: MakeModel) -> None:
    assert payload(gpt(), temperature=0.5)["temperature"] == 0.5
    assert payload(gpt(reasoning=False), temperature=0.5)["temperature"] == 0.5
    assert "temperature" not in payload(gpt(), temperature=0.5, thinking_level="low")


@pytest.mark.parametrize(
    ("retention", "compat", "expected"),
    [
        ("none", {}, {}),
        ("short", {}, {"prompt_cache_key": "s"}),
        ("long", {}, {"prompt_cache_key": "s", "prompt_cache_retention": "24h"}),
        ("long", {"supportsLongCacheRetention": False}, {"prompt_cache_key": "s"}),
        (
            "none",
            {"supportsExplicitPromptCacheMode": True},
            {"prompt_cache_options": {"mode": "explicit"}},
        ),
        ("short", {"supportsExplicitPromptCacheMode": True}, {"prompt_cache_key": "s"}),
        (
            "long",
            {"supportsExplicitPromptCacheMode": True},
            {"prompt_cache_key": "s", "prompt_cache_options": {"ttl": "30m"}},
        ),
    ],
)
def test_caching_is_asked_for_as_the_model_takes_it(
    gpt: MakeModel, retention: Any, compat: dict[str, Any], expected: dict[str, Any]
) -> None:
    body = payload(gpt(compat=compat), session_id="s", cache_retention=retention)
    assert {name: value for name, value in body.items() if name.startswith("prompt")} == expected


def test_a_cache_key_that_is_too_long_becomes_a_digest_of_its_own(gpt: MakeModel) -> None:
    fits, one, other = "k" * 64, "k" * 64 + "1", "k" * 64 + "2"
    keys = [payload(gpt(), session_id=each)["prompt_cache_key"] for each in (fits, one, other)]
    assert keys[0] == fits
    assert len({*keys}) == 3
    assert {len(key) for key in keys} == {64}
    assert payload(gpt(), session_id=one)["prompt_cache_key"] == keys[1]


@pytest.mark.parametrize(
    ("compat", "holds"),
    [
        ({"supportsDeveloperRole": False}, lambda body: body["input"][0]["role"] == "system"),
        ({"supportsStrictMode": False}, lambda body: "strict" not in body["tools"][0]),
        ({"supportsStrictMode": "yes"}, lambda body: body["tools"][0]["strict"] is False),
        ({"unknownFlag": True}, lambda body: body["store"] is False),
    ],
)
def test_each_flag_of_a_model_changes_its_request(
    gpt: MakeModel, compat: dict[str, Any], holds: Callable[[dict[str, Any]], bool]
) -> None:
    assert holds(payload(gpt(compat=compat)))


def test_sampling_parameters_win_but_the_conversation_stays_last(gpt: MakeModel) -> None:
    body = payload(gpt(sampling_params={"service_tier": "flex", "store": True}))
    assert (body["service_tier"], body["store"]) == ("flex", True)
    assert list(body)[-1] == "input"


def test_a_reply_of_another_model_keeps_its_words_and_calls_only(gpt: MakeModel) -> None:
    foreign = reply(*conversation().messages[1].content, model="other", stop_reason="toolUse")
    items = sent(gpt(), foreign, result("c1|fc_1", TextBlock(text="a")), result("c2|fc_2"))
    assert items[:2] == [
        {"type": "message", "role": "assistant", "content": "Reading."},
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "read",
            "arguments": '{"path":"a"}',
        },
    ]
    assert [each["call_id"] for each in items[2:]] == ["c2", "c1", "c2"]


@pytest.mark.parametrize(
    ("original", "sent_call", "sent_item"),
    [
        ("call_1|fc_1", "call_1", "fc_1"),
        ("call_1|ctc_1", "call_1", None),
        ("call_1|fc_a+b/c=", "call_1", None),
        ("call_1|fc_" + "x" * 400, "call_1", None),
        ("toolu_1", "toolu_1", None),
        ("call.1:2|fc_1", "call_1_2", "fc_1"),
        ("|fc_1", "call", "fc_1"),
    ],
)
def test_ids_of_calls_are_such_as_are_accepted(
    gpt: MakeModel, original: str, sent_call: str, sent_item: str | None
) -> None:
    asked = reply(ToolCall(id=original, name="read", arguments={}), stop_reason="toolUse")
    call, output = sent(gpt(), asked, result(original, TextBlock(text="ok")))
    assert (call["call_id"], call.get("id")) == (sent_call, sent_item)
    assert output["call_id"] == sent_call


def test_two_calls_of_one_id_and_one_that_is_too_long_stay_apart(gpt: MakeModel) -> None:
    names = ["c|fc_1", "c|fc_2", "x" * 100 + "1", "x" * 100 + "2"]
    asked = reply(
        *(ToolCall(id=each, name="read", arguments={}) for each in names), stop_reason="toolUse"
    )
    items = sent(gpt(), asked, *(result(each, TextBlock(text=each)) for each in names))
    calls = [each["call_id"] for each in items[:4]]
    assert calls[:2] == ["c", "c_2"]
    assert len({*calls}) == 4
    assert max(map(len, calls)) == 64
    assert [(each["call_id"], each["output"]) for each in items[4:]] == list(
        zip(calls, names, strict=True)
    )


def test_ids_of_this_dialect_fit_another_dialect(make_model: MakeModel) -> None:
    from pi_rpc.llm.transform import transform_messages

    asked, answered = transform_messages(
        [
            reply(ToolCall(id="c1|fc_1", name="read", arguments={}), stop_reason="toolUse"),
            result("c1|fc_1"),
        ],
        make_model(api="anthropic-messages"),
    )
    assert isinstance(asked, AssistantMessage)
    assert isinstance(answered, ToolResultMessage)
    (call,) = asked.content
    assert isinstance(call, ToolCall)
    assert call.id == answered.tool_call_id == "c1_fc_1"


@pytest.mark.parametrize(
    "signature",
    [
        "reasoning_content",
        "{}",
        "[]",
        '{"type":"reasoning","id":"rs_1","summary":[]}',
        '{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"","content":[]}',
    ],
)
def test_reasoning_that_means_nothing_to_the_provider_is_not_sent(
    gpt: MakeModel, signature: str
) -> None:
    said = reply(
        ThinkingBlock(thinking="hmm", thinking_signature=signature), TextBlock(text="Yes.")
    )
    (item,) = sent(gpt(), said)
    assert item["content"] == "Yes."


def test_reasoning_is_sent_without_what_a_request_refuses(gpt: MakeModel) -> None:
    stored = {**REASONING, "status": "completed", "content": None, "id": "rs_" + "x" * 400}
    said = reply(
        ThinkingBlock(thinking="", thinking_signature=msgspec.json.encode(stored).decode()),
        TextBlock(text="Yes."),
    )
    item, _ = sent(gpt(), said)
    assert item == {key: value for key, value in REASONING.items() if key != "id"}


def test_open_reasoning_of_other_servers_is_sent_back(gpt: MakeModel) -> None:
    stored = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hmm"}],
    }
    signature = reasoning_signature(stored)
    assert signature is not None
    said = reply(
        ThinkingBlock(thinking="hmm", thinking_signature=signature), TextBlock(text="Yes.")
    )
    assert sent(gpt(), said)[0] == stored


def test_reasoning_that_led_to_nothing_is_not_sent(gpt: MakeModel) -> None:
    thought = ThinkingBlock(thinking="hmm", thinking_signature=SIGNATURE)
    assert sent(gpt(), reply(thought, thought, stop_reason="length")) == []
    items = sent(gpt(), reply(thought, TextBlock(text="a"), thought, stop_reason="length"))
    assert [each["type"] for each in items] == ["reasoning", "message"]


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        ("msg_old", {"id": "msg_old"}),
        ("msg_" + "x" * 400, {}),
        ("other", {}),
        ('{"v":1,"id":"msg_1"}', {"id": "msg_1"}),
        ('{"v":1,"id":"msg_1","phase":"new"}', {"id": "msg_1"}),
        ('{"v":1,"id":5,"phase":"final_answer"}', {"phase": "final_answer"}),
        ("7", {}),
    ],
)
def test_a_message_is_named_as_it_was_when_its_name_is_accepted(
    gpt: MakeModel, signature: str, expected: dict[str, str]
) -> None:
    (item,) = sent(gpt(), reply(TextBlock(text="Yes.", text_signature=signature)))
    assert {name: item[name] for name in ("id", "phase") if name in item} == expected
    text = item["content"] if "id" not in expected else item["content"][0]["text"]
    assert text == "Yes."


def test_empty_texts_lone_halves_and_name_spaces(gpt: MakeModel) -> None:
    call = ToolCall(id="c", name="read", arguments={"a": "x\ud800"}, namespace="files")
    items = sent(
        gpt(),
        UserMessage(content="", timestamp=1),
        UserMessage(content="a\ud800b", timestamp=1),
        reply(TextBlock(text=""), call, stop_reason="toolUse"),
    )
    assert items[0] == {"role": "user", "content": [{"type": "input_text", "text": "ab"}]}
    assert (items[1]["arguments"], items[1]["namespace"]) == ('{"a":"x"}', "files")
    assert items[2]["output"].startswith("No result")
    assert len(items) == 3


@pytest.mark.anyio
async def test_the_key_and_the_address_are_those_of_the_model(
    serve: Any, gpt: MakeModel, hello: Context
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events({"type": "response.completed", "response": {"status": "completed"}})

    async with serve(answer) as server:
        model = gpt(base_url=server.url + "/v1/")
        with_key = StreamOptions(api_key="key", thinking_level="high")
        reply_with_key = await stream_simple(model, hello, with_key).result()
        await stream_simple(model, hello).result()
        first, second = server.asked
    assert reply_with_key.stop_reason == "stop"
    assert reply_with_key.provider_thinking_level == "high"
    assert first.path == "/v1/responses"
    assert first.headers["authorization"] == "Bearer key"
    assert "authorization" not in second.headers
    assert second.json["reasoning"] == {"effort": "none"}
