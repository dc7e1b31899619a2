"""The scripted model: replies in order, from Python and from a file."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.errors import ContextOverflowError, OverloadedError, ProviderError, RateLimitError
from pi_rpc.llm.events import Failed, TextDelta, ThinkingDelta
from pi_rpc.llm.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCall, UserMessage
from pi_rpc.llm.provider import Context, StreamFn, StreamOptions, stream_simple
from pi_rpc.llm.scripted import (
    ScriptedModel,
    Step,
    delay,
    error,
    repeat_text,
    scripted_model,
    scripted_stream_fn,
    stop_reason,
    text,
    thinking,
    tool_call,
    until,
    usage,
)
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

MODEL = scripted_model()


async def ask(stream_fn: StreamFn, context: Context, **options: Any) -> AssistantMessage:
    return await stream_fn(MODEL, context, StreamOptions(**options)).result()


async def test_a_reply_has_its_blocks_in_order_and_stops_for_its_tools(hello: Context) -> None:
    reply = [thinking("hmm"), text("I will read."), tool_call("read", {"path": "a"})]
    message = await ask(scripted_stream_fn([reply]), hello)
    assert message.content == [
        ThinkingBlock(thinking="hmm"),
        TextBlock(text="I will read."),
        ToolCall(id="call_1_1", name="read", arguments={"path": "a"}),
    ]
    assert message.stop_reason == "toolUse"
    assert message.response_id == "scripted-1"


async def test_each_call_takes_the_next_reply_and_is_recorded(hello: Context) -> None:
    stream_fn = scripted_stream_fn([[text("one")]])
    stream_fn.push([text("two")])
    assert stream_fn.pending == 2
    assert (await ask(stream_fn, hello)).content == [TextBlock(text="one")]
    assert (await ask(stream_fn, hello)).content == [TextBlock(text="two")]
    assert stream_fn.pending == 0
    assert [request.context.messages for request in stream_fn.requests] == [hello.messages] * 2


async def test_an_empty_queue_fails_the_reply_and_says_so(hello: Context) -> None:
    message = await ask(scripted_stream_fn([]), hello)
    assert message.stop_reason == "error"
    assert message.error_message == "the script has no reply left: it has 0 and this is call 1"


async def test_a_looping_script_starts_over_with_ids_of_its_own(hello: Context) -> None:
    stream_fn = ScriptedModel([[tool_call("read")], [text("done")]], loop=True)
    replies = [await ask(stream_fn, hello) for _ in range(3)]
    assert [message.stop_reason for message in replies] == ["toolUse", "stop", "toolUse"]
    first, third = replies[0].content[0], replies[2].content[0]
    assert isinstance(first, ToolCall)
    assert isinstance(third, ToolCall)
    assert (first.id, third.id) == ("call_1_1", "call_3_1")


async def test_a_reply_can_be_made_from_what_was_asked(hello: Context) -> None:
    async def later(context: Context, options: StreamOptions) -> list[Step]:
        return [text(f"session {options.session_id}")]

    stream_fn = scripted_stream_fn([lambda context, _: [text(str(len(context.messages)))], later])
    assert (await ask(stream_fn, hello)).content == [TextBlock(text="1")]
    assert (await ask(stream_fn, hello, session_id="s")).content == [TextBlock(text="session s")]


async def test_text_comes_in_pieces_of_three_to_five_tokens(hello: Context) -> None:
    stream = scripted_stream_fn([[text("x" * 100), thinking("y" * 30, pieces=3)]])(
        MODEL, hello, StreamOptions()
    )
    events = [event async for event in stream]
    pieces = [len(event.delta) for event in events if isinstance(event, TextDelta)]
    assert pieces == [12, 16, 20, 12, 16, 20, 4]
    thoughts = [len(event.delta) for event in events if isinstance(event, ThinkingDelta)]
    assert thoughts == [10, 10, 10]


async def test_a_big_reply_is_one_delta_for_each_repetition(hello: Context) -> None:
    stream = scripted_stream_fn([[repeat_text("ab", 20_000)]])(MODEL, hello, StreamOptions())
    events = [event async for event in stream]
    assert sum(isinstance(event, TextDelta) for event in events) == 20_000
    assert (await stream.result()).content == [TextBlock(text="ab" * 20_000)]


async def test_broken_arguments_are_reported_like_a_real_models(hello: Context) -> None:
    stream_fn = scripted_stream_fn([[tool_call("read", arguments_text='{"path": ')]])
    (call,) = (await ask(stream_fn, hello)).content
    assert isinstance(call, ToolCall)
    assert call.arguments == {}
    assert "not valid JSON" in str(call.arguments_error)


@pytest.mark.parametrize(
    ("step", "kind", "retryable"),
    [
        (error("slow down", status=429), RateLimitError, True),
        (error("overloaded", status=529), OverloadedError, True),
        (error("prompt is too long", status=400), ContextOverflowError, False),
        (error("connection reset by peer"), ProviderError, True),
        (error("no"), ProviderError, False),
        (error("no", retryable=True), ProviderError, True),
        (error("slow down", status=429, retryable=False), RateLimitError, False),
    ],
)
async def test_an_error_step_is_the_failure_that_fits(
    hello: Context, step: Step, kind: type[ProviderError], retryable: bool
) -> None:
    stream = scripted_stream_fn([[text("partly"), step]])(MODEL, hello, StreamOptions())
    message = await stream.result()
    assert message.content == [TextBlock(text="partly")]
    assert message.error_message == step.error.message  # type: ignore[union-attr]
    assert type(stream.error) is kind
    assert stream.error.retryable is retryable


async def test_the_wait_an_error_asks_for_is_passed_on(hello: Context) -> None:
    stream = scripted_stream_fn([[error("x", status=429, retry_after_ms=1234)]])(
        MODEL, hello, StreamOptions()
    )
    events = [event async for event in stream]
    assert isinstance(events[-1], Failed)
    assert events[-1].retry_after_ms == 1234


async def test_an_abort_cuts_a_delay_short_and_keeps_what_was_said(hello: Context) -> None:
    controller = AbortController()
    stream = scripted_stream_fn([[text("first"), delay(60_000), text("never")]])(
        MODEL, hello, StreamOptions(signal=controller.signal)
    )
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.result)
            await anyio.wait_all_tasks_blocked()
            controller.abort()
    message = await stream.result()
    assert message.stop_reason == "aborted"
    assert message.content == [TextBlock(text="first")]


async def test_a_reply_waits_for_what_it_is_told_to_wait_for(hello: Context) -> None:
    gate = anyio.Event()
    stream = scripted_stream_fn([[until(gate.wait), text("open")]])(MODEL, hello, StreamOptions())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stream.result)
        await anyio.wait_all_tasks_blocked()
        assert stream.partial.content == []
        gate.set()
    assert (await stream.result()).content == [TextBlock(text="open")]


async def test_usage_is_estimated_with_a_prompt_cache_for_each_session(hello: Context) -> None:
    stream_fn = scripted_stream_fn([[text("x" * 40)]], loop=True)
    longer = Context(messages=[*hello.messages, UserMessage(content="y" * 400, timestamp=2)])
    alone = (await ask(stream_fn, hello)).usage
    assert alone.input > 0
    assert alone.output == 10
    assert (alone.cache_read, alone.cache_write) == (0, 0)
    assert alone.total_tokens == alone.input + 10
    first = (await ask(stream_fn, hello, session_id="s")).usage
    assert (first.input, first.cache_read, first.cache_write) == (0, 0, alone.input)
    second = (await ask(stream_fn, longer, session_id="s")).usage
    assert second.cache_read >= alone.input - 2
    assert second.cache_write >= 100
    other = (await ask(stream_fn, longer, session_id="t")).usage
    assert other.cache_read == 0
    uncached = (await ask(stream_fn, longer, session_id="s", cache_retention="none")).usage
    assert (uncached.cache_read, uncached.cache_write) == (0, 0)


async def test_usage_and_stop_reason_can_be_given(hello: Context) -> None:
    steps = [
        usage(input=5, output=7, cache_read=1, cache_write=2),
        text("x"),
        stop_reason("length"),
    ]
    message = await ask(scripted_stream_fn([steps]), hello)
    assert message.stop_reason == "length"
    numbers = message.usage
    assert (numbers.input, numbers.output, numbers.cache_read, numbers.cache_write) == (5, 7, 1, 2)
    assert numbers.total_tokens == 15


def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: Any) -> None:
    path = tmp_path / "script.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    monkeypatch.setenv("PI_RPC_SCRIPT", str(path))


async def test_a_file_is_played_to_each_session_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hello: Context
) -> None:
    replies = [
        {"steps": [{"toolCall": {"name": "read", "arguments": {"path": "a"}, "id": "mine"}}]},
        {"steps": [{"thinking": "so"}, {"delayMs": 1}, {"text": "done", "pieces": 2}]},
    ]
    script(tmp_path, monkeypatch, {"replies": replies})
    for session in ("one", "two"):
        options = StreamOptions(session_id=session)
        first = await stream_simple(MODEL, hello, options).result()
        assert first.content == [ToolCall(id="mine", name="read", arguments={"path": "a"})]
        second = await stream_simple(MODEL, hello, options).result()
        assert second.content == [ThinkingBlock(thinking="so"), TextBlock(text="done")]
        third = await stream_simple(MODEL, hello, options).result()
        assert "no reply left" in str(third.error_message)


async def test_sessions_that_begin_a_file_at_once_keep_their_places_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hello: Context
) -> None:
    replies = [{"steps": [{"text": "first"}]}, {"steps": [{"text": "second"}]}]
    script(tmp_path, monkeypatch, {"replies": replies})
    said: dict[str, list[Any]] = {}

    async def play(session: str) -> None:
        options = StreamOptions(session_id=session)
        heard = [await stream_simple(MODEL, hello, options).result() for _ in replies]
        said[session] = [block for message in heard for block in message.content]

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(play, str(number))
    assert list(said.values()) == [[TextBlock(text="first"), TextBlock(text="second")]] * 8


async def test_a_file_can_repeat_and_hold_every_kind_of_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hello: Context
) -> None:
    steps = [
        {"repeatText": "ab", "count": 3},
        {"usage": {"input": 3}},
        {"stopReason": "length"},
        {"error": {"message": "broke", "status": 503, "retryable": False, "retryAfterMs": 9}},
    ]
    script(tmp_path, monkeypatch, {"replies": [{"steps": steps}], "repeat": True})
    for _ in range(2):
        stream = stream_simple(MODEL, hello)
        message = await stream.result()
        assert message.content == [TextBlock(text="ababab")]
        assert message.usage.input == 3
        assert message.error_message == "broke"
        assert stream.error is not None
        assert (stream.error.status, stream.error.retry_after_ms) == (503, 9)
        assert not stream.error.retryable


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is not valid"),
        (
            {"replies": [{"steps": [{"say": "x"}]}]},
            (
                "unknown field `say`, expected one of `text`, `thinking`, `repeatText`, `toolCall`,"
                " `error`, `delayMs`, `usage`, `stopReason`, `pieces`, `count` - at"
                " `$.replies[0].steps[0]`"
            ),
        ),
        (
            {"replies": [{"steps": [{"error": {"text": "x"}}]}]},
            (
                "unknown field `text`, expected one of `message`, `status`, `retryable`,"
                " `retryAfterMs` - at `$.replies[0].steps[0].error`"
            ),
        ),
        ({"answers": []}, "unknown field `answers`, expected one of `replies`, `repeat`"),
        (
            {"replies": [{"steps": [{"stopReason": "end"}]}]},
            "one of 'stop', 'length', 'toolUse', got 'end' - at `$.replies[0].steps[0].stopReason`",
        ),
        (
            {"replies": [{"steps": [{"text": "a", "delayMs": 1}]}]},
            (
                "exactly one of text, thinking, repeatText, toolCall, error, delayMs, usage,"
                " stopReason; this one has text and delayMs - at `$.replies[0].steps[0]`"
            ),
        ),
        ({"replies": [{"steps": [{"pieces": 2}]}]}, "this one has none - at"),
        ({"replies": []}, "no reply left"),
    ],
)
async def test_a_faulty_file_is_a_failed_reply_that_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hello: Context, content: Any, says: str
) -> None:
    script(tmp_path, monkeypatch, content)
    message = await stream_simple(MODEL, hello).result()
    assert message.stop_reason == "error"
    assert says in str(message.error_message)


async def test_without_a_file_the_reply_says_how_to_name_one(
    monkeypatch: pytest.MonkeyPatch, hello: Context, tmp_path: Path
) -> None:
    monkeypatch.delenv("PI_RPC_SCRIPT", raising=False)
    message = await stream_simple(MODEL, hello).result()
    assert "PI_RPC_SCRIPT" in str(message.error_message)
    monkeypatch.setenv("PI_RPC_SCRIPT", str(tmp_path / "missing.json"))
    message = await stream_simple(MODEL, hello).result()
    assert "No such file" in str(message.error_message)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (os.mkfifo, "cannot be read: not a regular file"),
        (Path.mkdir, "cannot be read: not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "cannot be read: not a regular file"),
        (lambda path: path.write_text("[" * 100_000), "is not valid"),
        (lambda path: (path.touch(), os.truncate(path, 2**26 + 1)), "larger than 64 MiB"),
    ],
)
async def test_a_script_that_is_no_file_is_named(
    make: Callable[[Path], object],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    hello: Context,
    tmp_path: Path,
) -> None:
    make(tmp_path / "script.json")
    monkeypatch.setenv("PI_RPC_SCRIPT", str(tmp_path / "script.json"))
    message = await stream_simple(MODEL, hello).result()
    assert says in str(message.error_message)


async def test_the_scripted_model_costs_nothing_and_survives_encoding() -> None:
    assert MODEL.ref == "scripted/scripted"
    assert msgspec.json.decode(msgspec.json.encode(MODEL), type=type(MODEL)) == MODEL
    assert MODEL.cost.input == MODEL.cost.output == 0
