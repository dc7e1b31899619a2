"""What a conversation looks like to the model that is asked next."""

from collections.abc import Callable
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
from pi_rpc.llm.transform import IMAGE_PLACEHOLDER, NO_RESULT, transform_messages

IMAGE = ImageBlock(data="AAAA", mime_type="image/png")


def user(content: Any) -> UserMessage:
    return UserMessage(content=content, timestamp=1)


def reply(*content: Any, stop: Any = "stop", model: str = "test-model") -> AssistantMessage:
    return AssistantMessage(
        content=list(content),
        api="openai-completions",
        provider="acme",
        model=model,
        usage=Usage.ZERO,
        stop_reason=stop,
        timestamp=2,
    )


def call(call_id: str, **more: Any) -> ToolCall:
    return ToolCall(id=call_id, name="read", arguments={}, **more)


def result(call_id: str, *content: Any) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call_id,
        tool_name="read",
        content=list(content) or [TextBlock(text="ok")],
        is_error=False,
        timestamp=3,
    )


Transform = Callable[..., list[Message]]


@pytest.fixture
def transform(make_model: Callable[..., Model]) -> Transform:
    def run(*messages: Message, **changes: Any) -> list[Message]:
        return transform_messages(messages, make_model(**changes))

    return run


def test_images_become_one_placeholder_for_a_model_that_cannot_see(transform: Transform) -> None:
    asked = user([TextBlock(text="look"), IMAGE, IMAGE, TextBlock(text="and"), IMAGE])
    placeholder = TextBlock(text=IMAGE_PLACEHOLDER)
    (seen,) = transform(asked, input=["text"])
    assert seen.content == [
        TextBlock(text="look"), placeholder, TextBlock(text="and"), placeholder
    ]  # fmt: skip
    (kept,) = transform(asked)
    assert kept == asked
    _, _, shown = transform(user("x"), reply(call("a")), result("a", IMAGE, IMAGE), input=["text"])
    assert shown.content == [placeholder]


def test_thinking_stays_with_the_model_that_thought_it(transform: Transform) -> None:
    thoughts = [
        ThinkingBlock(thinking="plain"),
        ThinkingBlock(thinking="signed", thinking_signature="s"),
        ThinkingBlock(thinking="", thinking_signature="s"),
        ThinkingBlock(thinking="", thinking_signature="r", redacted=True),
        ThinkingBlock(thinking="  "),
    ]
    answer = TextBlock(text="so", text_signature="t")
    (own,) = transform(reply(*thoughts, answer))
    assert own.content == [*thoughts[:4], answer]
    (foreign,) = transform(reply(*thoughts, answer, model="another"))
    assert foreign.content == [TextBlock(text="so")]


def test_a_reply_of_foreign_thinking_alone_is_left_out(transform: Transform) -> None:
    assert transform(reply(ThinkingBlock(thinking="x"), model="another")) == []


def test_replay_data_of_calls_stays_with_its_model(transform: Transform) -> None:
    signed = call("a", thought_signature="s", namespace="n")
    own, _ = transform(reply(signed), result("a"))
    assert own.content == [signed]
    foreign, _ = transform(reply(signed, model="another"), result("a"))
    assert foreign.content == [call("a")]


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_failed_replies_are_left_out_with_their_results(transform: Transform, stop: str) -> None:
    failed = reply(TextBlock(text="par"), call("a"), stop=stop)
    assert transform(user("x"), failed, result("a"), user("y")) == [user("x"), user("y")]


def test_a_call_without_a_result_is_answered_before_whatever_follows(transform: Transform) -> None:
    out = transform(reply(call("a"), call("b"), call("c")), result("b"), user("next"))
    assert [getattr(each, "tool_call_id", "") for each in out] == [
        "", "b", "a", "c", "",
    ]  # fmt: skip
    missing = out[2]
    assert isinstance(missing, ToolResultMessage)
    assert missing.is_error
    assert missing.content == [TextBlock(text=NO_RESULT)]
    assert missing.tool_name == "read"


def test_calls_at_the_very_end_are_answered_too(transform: Transform) -> None:
    assert [type(each) for each in transform(reply(call("a")))] == [
        AssistantMessage, ToolResultMessage,
    ]  # fmt: skip


def test_results_that_answer_nothing_are_left_out(transform: Transform) -> None:
    out = transform(user("x"), result("ghost"), reply(call("a")), result("a"), result("a"))
    assert len(out) == 3


@pytest.mark.parametrize(("api", "limit"), [("anthropic-messages", 64), ("openai-completions", 40)])
def test_ids_fit_the_dialect_and_results_follow_them(
    transform: Transform, api: str, limit: int
) -> None:
    wild = "call_abc|fc_" + "é/" * 60
    asked, answered = transform(reply(call(wild)), result(wild), api=api)
    assert isinstance(asked.content[0], ToolCall)
    assert isinstance(answered, ToolResultMessage)
    new = asked.content[0].id
    assert answered.tool_call_id == new
    assert len(new) <= limit
    assert new.isascii()
    assert "|" not in new
    short, _ = transform(reply(call("call_1|fc_2")), result("call_1|fc_2"), api=api)
    assert isinstance(short.content[0], ToolCall)
    assert short.content[0].id == "call_1_fc_2"


def test_long_ids_that_begin_alike_stay_different(transform: Transform) -> None:
    one, two = "x" * 80 + "1", "x" * 80 + "2"
    out = transform(reply(call(one), call(two)), result(two), result(one))
    ids = [block.id for block in out[0].content if isinstance(block, ToolCall)]
    assert len(set(ids)) == 2
    assert [each.tool_call_id for each in out if isinstance(each, ToolResultMessage)] == ids[::-1]


def test_an_id_used_twice_is_made_unique_and_each_call_has_its_result(transform: Transform) -> None:
    first, second = TextBlock(text="1"), TextBlock(text="2")
    out = transform(
        reply(call("same"), call("same")),
        result("same", first),
        result("same", second),
        reply(call("same")),
        result("same"),
    )
    ids = [b.id for m in out if isinstance(m, AssistantMessage) for b in m.content]  # type: ignore[union-attr]
    assert ids == ["same", "same_2", "same_3"]
    results = [each for each in out if isinstance(each, ToolResultMessage)]
    assert [each.tool_call_id for each in results] == ids
    assert [each.content for each in results[:2]] == [[first], [second]]


def test_lone_surrogates_are_removed_everywhere(transform: Transform) -> None:
    bad = "a\ud800b"
    out = transform(
        user(bad),
        user([TextBlock(text=bad)]),
        reply(
            TextBlock(text=bad),
            ThinkingBlock(thinking=bad),
            ToolCall(id="a", name="read", arguments={bad: [bad, {"x": bad}]}),
        ),
        result("a", TextBlock(text=bad)),
    )
    encoded = msgspec.json.encode(out).decode()
    assert encoded.count("ab") == 8


def test_the_input_is_not_changed_and_the_outcome_is_stable(transform: Transform) -> None:
    messages = [user("x"), reply(call("a|b"), call("c"), model="another"), result("a|b")]
    before = msgspec.json.encode(messages)
    assert transform(*messages) == transform(*messages)
    assert msgspec.json.encode(messages) == before
    longer = transform(*messages, user("more"))
    assert longer[: len(messages) + 1] == transform(*messages)
