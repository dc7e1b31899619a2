"""Answers as servers really word them: what is missing, repeated, null or oddly placed."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET

from pi_rpc.llm.errors import (
    ContextOverflowError,
    MalformedStreamError,
    OverloadedError,
    ProviderError,
    ServerError,
)
from pi_rpc.llm.events import (
    AssistantMessageEvent,
    TextDelta,
    ThinkingEnd,
    ToolCallStart,
)
from pi_rpc.llm.failures import is_retryable
from pi_rpc.llm.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCall
from pi_rpc.llm.stream import AssistantMessageStream

pytestmark = pytest.mark.anyio

Answer = tuple[AssistantMessageStream, AssistantMessage, list[AssistantMessageEvent]]
Ask = Callable[..., Any]


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def finish(reason: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def call(
    index: int | None, call_id: str | None, name: str | None, arguments: Any
) -> dict[str, Any]:
    return {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}


A_CALL = ToolCall(id="a", name="read", arguments={"path": "x"})
B_CALL = ToolCall(id="b", name="write", arguments={"path": "y"})


@pytest.mark.parametrize(
    "deltas",
    [
        # Ids and names once, arguments in pieces, calls interleaved.
        [
            [call(0, "a", "read", '{"pa')],
            [call(1, "b", "write", "")],
            [call(0, None, None, 'th":"x"}')],
            [call(1, None, None, '{"path":"y"}')],
        ],
        # Ids and names repeated in every delta.
        [
            [call(0, "a", "read", '{"path"'), call(1, "b", "write", '{"path"')],
            [call(0, "a", "read", ':"x"}'), call(1, "b", "write", ':"y"}')],
        ],
        # All calls numbered 0, told apart by their ids.
        [[call(0, "a", "read", '{"path":"x"}')], [call(0, "b", "write", '{"path":"y"}')]],
        # No numbers at all.
        [
            [call(None, "a", "read", '{"path":')],
            [call(None, None, None, '"x"}')],
            [call(None, "b", "write", '{"path":"y"}')],
        ],
        # The name after the arguments began.
        [
            [call(0, "a", None, '{"path":')],
            [call(0, None, "read", '"x"}'), call(1, "b", "write", '{"path":"y"}')],
        ],
        # Arguments as an object instead of text.
        [[call(0, "a", "read", {"path": "x"}), call(1, "b", "write", {"path": "y"})]],
    ],
)
async def test_tool_calls_are_put_together_however_they_are_sent(ask: Ask, deltas: Any) -> None:
    _, message, events = await ask(
        *(delta(tool_calls=each, content=None) for each in deltas), finish("tool_calls")
    )
    assert message.content == [A_CALL, B_CALL]
    assert message.stop_reason == "toolUse"
    starts = [event for event in events if isinstance(event, ToolCallStart)]
    assert [(event.id, event.tool_name) for event in starts] == [("a", "read"), ("b", "write")]


async def test_two_calls_with_one_id_are_both_kept(ask: Ask) -> None:
    calls = [call(0, "same", "read", "{}"), call(1, "same", "read", "{}")]
    _, message, _ = await ask(delta(tool_calls=calls), finish("tool_calls"))
    assert [block.id for block in message.content] == ["same", "same_2"]


async def test_a_call_without_an_id_gets_one(ask: Ask) -> None:
    _, message, _ = await ask(delta(tool_calls=[call(0, None, "read", "")]), finish("stop"))
    (block,) = message.content
    assert block.id.startswith("call_")
    assert block.arguments == {}
    assert message.stop_reason == "toolUse"


async def test_broken_arguments_become_empty_with_a_reason(ask: Ask) -> None:
    _, message, _ = await ask(delta(tool_calls=[call(0, "a", "read", '{"a": [1')]), finish("stop"))
    (block,) = message.content
    assert block.arguments == {}
    assert "not valid JSON" in block.arguments_error


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
async def test_thinking_is_read_from_any_field_and_closed_before_text(ask: Ask, field: str) -> None:
    _, message, events = await ask(
        delta(**{field: "let me "}),
        delta(**{field: "see", "content": ""}),
        delta(content="Done"),
        finish("stop"),
    )
    assert message.content == [
        ThinkingBlock(thinking="let me see", thinking_signature=field),
        TextBlock(text="Done"),
    ]
    kinds = [type(event) for event in events]
    assert kinds.index(ThinkingEnd) < kinds.index(TextDelta)


async def test_thinking_that_is_sent_in_two_fields_is_read_once(ask: Ask) -> None:
    _, message, _ = await ask(delta(reasoning_content="x", reasoning="x"), finish("stop"))
    assert message.content == [ThinkingBlock(thinking="x", thinking_signature="reasoning_content")]


async def test_content_in_parts_is_read(ask: Ask) -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "so"},
        "odd",
    ]
    _, message, _ = await ask(delta(content=parts), finish("stop"))
    assert message.content == [ThinkingBlock(thinking="hm"), TextBlock(text="so")]


async def test_encrypted_reasoning_is_kept_with_its_call(ask: Ask) -> None:
    detail = {"type": "reasoning.encrypted", "id": "a", "data": "blob", "format": "x"}
    _, message, _ = await ask(
        delta(tool_calls=[call(0, "a", "read", "{}")]),
        delta(reasoning_details=[detail, {"type": "reasoning.text"}, "odd"]),
        finish("tool_calls"),
    )
    import json

    assert json.loads(message.content[0].thought_signature) == detail


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5}, (10, 5, 0, 0)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            (4, 5, 4, 2),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 6}, (4, 5, 6, 0)),
        ({"prompt_tokens": 10, "completion_tokens": None, "cached_tokens": 6}, (4, 0, 6, 0)),
    ],
)
async def test_usage_is_read_from_wherever_it_stands(ask: Ask, usage: Any, expected: Any) -> None:
    _, apart, _ = await ask(delta(content="x"), finish("stop"), {"choices": [], "usage": usage})
    inside = {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop", "usage": usage}]}
    _, in_choice, _ = await ask(inside, "[DONE]")
    for message in (apart, in_choice):
        numbers = message.usage
        assert (numbers.input, numbers.output, numbers.cache_read, numbers.cache_write) == expected
        assert numbers.total_tokens == sum(expected)


@pytest.mark.parametrize(
    ("said", "billed"),
    [(0.25, 0.25), (0, 0), ("0.25", UNSET), ({"total": 1}, UNSET), (True, UNSET), (None, UNSET)],
)
async def test_what_the_provider_billed_is_kept_beside_the_price(
    ask: Ask, said: Any, billed: Any
) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "cost": said}
    _, message, _ = await ask(delta(content="x"), finish("stop"), {"choices": [], "usage": usage})
    assert message.usage.cost.total_from_provider == billed
    assert message.usage.cost.total == pytest.approx(20 / 1e6)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("stop", "stop"), ("end", "stop"), ("length", "length"), ("function_call", "toolUse")],
)
async def test_finish_reasons_have_their_stop_reason(ask: Ask, reason: str, stop: str) -> None:
    _, message, _ = await ask(delta(content="x"), finish(reason), "[DONE]")
    assert message.stop_reason == stop
    assert message.raw_stop_reason == reason


@pytest.mark.parametrize(
    ("reason", "kind", "retryable"),
    [
        ("content_filter", ProviderError, False),
        ("insufficient_system_resource", ServerError, True),
        ("error", ServerError, True),
        ("model_context_window_exceeded", ContextOverflowError, False),
        ("something_new", ProviderError, False),
    ],
)
async def test_finish_reasons_that_are_failures_fail(
    ask: Ask, reason: str, kind: type[ProviderError], retryable: bool
) -> None:
    stream, message, _ = await ask(delta(content="part"), finish(reason))
    assert message.stop_reason == "error"
    assert message.content == [TextBlock(text="part")]
    assert type(stream.error) is kind
    assert reason in str(message.error_message)
    assert is_retryable(message, stream.error) is retryable


async def test_a_server_without_finish_reasons_ends_by_closing(ask: Ask) -> None:
    _, message, _ = await ask(delta(content="x"), compat={"supportsFinishReason": False})
    assert message.stop_reason == "stop"


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        ({"error": {"message": "Overloaded", "code": 529}}, OverloadedError),
        ({"error": {"message": "boom", "type": "server_error"}, "choices": [{}]}, ServerError),
        ({"error": {"message": "prompt is too long"}}, ContextOverflowError),
        ({"object": "error", "message": "internal error"}, ProviderError),
        ({"choices": "none", "error": {"message": "x", "code": 500}}, ServerError),
        ({"choices": "none"}, MalformedStreamError),
        ("{broken", MalformedStreamError),
    ],
)
async def test_an_error_inside_the_stream_ends_it(ask: Ask, payload: Any, kind: Any) -> None:
    stream, message, _ = await ask(delta(content="part"), payload)
    assert type(stream.error) is kind
    assert message.content == [TextBlock(text="part")]


async def test_nulls_and_unknown_fields_are_read_over(ask: Ask) -> None:
    _, message, _ = await ask(
        {"choices": None, "usage": None, "error": None, "x": {"y": 1}},
        {"choices": [{"delta": None, "finish_reason": None}]},
        {"choices": [{"delta": {"content": None, "tool_calls": None, "role": "assistant"}}]},
        {"id": "r1", "model": "answered-by", "choices": [{"delta": {"content": "x", "new": []}}]},
        finish("stop"),
    )
    assert message.content == [TextBlock(text="x")]
    assert message.response_model == "answered-by"


def block_start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def block_delta(index: int, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def block_stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def message_end(reason: str | None, **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


STOP = {"type": "message_stop"}


async def test_thinking_signatures_and_redaction_are_read(claude: Ask) -> None:
    _, message, _ = await claude(
        {"type": "message_start", "message": {"id": "m1", "model": "test-model", "usage": {}}},
        block_start(0, type="thinking", thinking="", signature=""),
        block_delta(0, type="thinking_delta", thinking="hm"),
        block_delta(0, type="signature_delta", signature="si"),
        block_delta(0, type="signature_delta", signature="g"),
        block_stop(0),
        {"type": "ping"},
        block_start(1, type="redacted_thinking", data="blob"),
        block_stop(1),
        block_start(2, type="server_tool_use", id="x", name="search"),
        block_delta(2, type="input_json_delta", partial_json="{}"),
        block_stop(2),
        block_start(3, type="text", text="pre"),
        block_delta(3, type="text_delta", text="fix"),
        block_delta(3, type="citations_delta", citation={}),
        block_stop(3),
        message_end("end_turn", output_tokens=9),
        STOP,
    )
    assert message.content == [
        ThinkingBlock(thinking="hm", thinking_signature="sig"),
        ThinkingBlock(thinking="", thinking_signature="blob", redacted=True),
        TextBlock(text="prefix"),
    ]
    assert message.response_id == "m1"
    assert message.stop_reason == "stop"


async def test_a_call_whose_input_came_whole_is_read(claude: Ask) -> None:
    _, message, _ = await claude(
        block_start(0, type="tool_use", id="a", name="read", input={"path": "x"}),
        block_stop(0),
        block_start(1, type="tool_use", id="b", name="write", input={"ignored": 1}),
        block_delta(1, type="input_json_delta", partial_json=""),
        block_delta(1, type="input_json_delta", partial_json='{"path":"y"}'),
        message_end("tool_use"),
        STOP,
    )
    assert message.content == [A_CALL, B_CALL]
    assert message.stop_reason == "toolUse"


async def test_usage_is_merged_from_both_ends_of_the_message(claude: Ask) -> None:
    start_usage = {
        "input_tokens": 10,
        "output_tokens": 1,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_1h_input_tokens": 12},
    }
    _, message, _ = await claude(
        {"type": "message_start", "message": {"usage": start_usage}},
        message_end("max_tokens", output_tokens=5),
        STOP,
    )
    usage = message.usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (10, 5, 20, 30)
    assert usage.cache_write_1h == 12
    assert usage.total_tokens == 65
    assert usage.cost.cache_write == pytest.approx((18 * 1.25 + 12 * 2 * 1) / 1e6)
    assert message.stop_reason == "length"


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("pause_turn", "stop")],
)
async def test_stop_reasons_have_their_equivalent(claude: Ask, reason: str, stop: str) -> None:
    _, message, _ = await claude(message_end(reason), STOP)
    assert message.stop_reason == stop


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("refusal", ProviderError),
        ("model_context_window_exceeded", ContextOverflowError),
        ("something_new", ProviderError),
    ],
)
async def test_stop_reasons_that_are_failures_fail(claude: Ask, reason: str, kind: Any) -> None:
    stream, message, _ = await claude(message_end(reason), STOP)
    assert type(stream.error) is kind
    assert not is_retryable(message, stream.error)


async def test_a_stream_that_stops_before_its_reason_is_retryable(claude: Ask) -> None:
    stream, message, _ = await claude(
        block_start(0, type="text", text=""), block_delta(0, type="text_delta", text="par")
    )
    assert isinstance(stream.error, MalformedStreamError)
    assert message.error_message == "acme: the stream ended before message_stop"
    assert message.content == [TextBlock(text="par")]
    assert is_retryable(message, stream.error)
    assert is_retryable(message)


async def test_a_cut_after_the_stop_reason_is_a_success(claude: Ask) -> None:
    _, message, _ = await claude(message_end("end_turn"), '{"type": "mess')
    assert message.stop_reason == "stop"


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, OverloadedError),
        ({"error": {"type": "api_error", "message": "x"}}, ServerError),
        ({"type": "error"}, ProviderError),
        ("{broken", MalformedStreamError),
        ({"type": "message_start", "message": {"usage": "much"}}, MalformedStreamError),
        ({"type": "message_start", "message": None}, MalformedStreamError),
    ],
)
async def test_an_error_event_ends_the_stream(claude: Ask, payload: Any, kind: Any) -> None:
    stream, _, _ = await claude(payload)
    assert type(stream.error) is kind
