"""The stream turns whatever a provider does into a well-formed sequence with one end."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.errors import MalformedStreamError, ProviderError, ServerError
from pi_rpc.llm.events import AssistantMessageEvent, Done, Failed, Start, TextEnd, ToolCallEnd
from pi_rpc.llm.messages import TextBlock, ThinkingBlock, ToolCall
from pi_rpc.llm.models import Model
from pi_rpc.llm.stream import AssistantMessageStream, MessageBuilder
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

Batches = AsyncIterator[list[AssistantMessageEvent]]


@pytest.fixture
def start(make_model: Callable[..., Model]) -> Callable[..., AssistantMessageStream]:
    def make(produce: Any, controller: AbortController | None = None) -> AssistantMessageStream:
        return AssistantMessageStream(
            make_model(), produce, (controller or AbortController()).signal
        )

    return make


async def test_blocks_left_open_are_ended_before_done(start: Any) -> None:
    async def produce(builder: MessageBuilder) -> Batches:
        yield [builder.start_text(), builder.text(0, "a"), builder.start_tool_call("x", "read")]
        builder.stop_reason = "toolUse"

    events = [event async for event in start(produce)]
    assert isinstance(events[0], Start)
    assert [type(event) for event in events[-3:]] == [TextEnd, ToolCallEnd, Done]


async def test_many_empty_batches_are_read_over_without_recursion(start: Any) -> None:
    async def produce(builder: MessageBuilder) -> Batches:
        for _ in range(20_000):
            yield []
        yield [builder.start_text(), builder.text(0, "late")]
        builder.stop_reason = "stop"

    stream = start(produce)
    first = await stream.next_batch()
    assert first is not None
    assert isinstance(first[0], Start)
    assert (await stream.result()).content == [TextBlock(text="late")]


async def test_a_provider_that_ends_without_a_reason_is_malformed(start: Any) -> None:
    async def produce(builder: MessageBuilder) -> Batches:
        yield [builder.start_text()]

    stream = start(produce)
    assert (await stream.result()).stop_reason == "error"
    assert isinstance(stream.error, MalformedStreamError)


async def test_a_failure_before_the_first_event_has_no_start(start: Any) -> None:
    def produce(builder: MessageBuilder) -> Batches:
        raise ServerError("down", status=500, retry_after_ms=5)

    events = [event async for event in start(produce)]
    (event,) = events
    assert isinstance(event, Failed)
    assert event.retry_after_ms == 5


async def test_a_failure_keeps_open_blocks_without_ending_them(start: Any) -> None:
    async def produce(builder: MessageBuilder) -> Batches:
        yield [
            builder.start_thinking(),
            builder.thinking(0, "so"),
            builder.start_tool_call("x", "write"),
            builder.arguments(1, '{"path": "a", "content": "half'),
        ]
        raise ProviderError("broke")

    stream = start(produce)
    events = [event async for event in stream]
    assert not any(isinstance(event, ToolCallEnd) for event in events)
    assert (await stream.result()).content == [
        ThinkingBlock(thinking="so"),
        ToolCall(id="x", name="write", arguments={"path": "a", "content": "half"}),
    ]


async def test_a_bug_in_a_provider_is_a_failed_reply_and_is_logged(
    start: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def produce(builder: MessageBuilder) -> Batches:
        yield [builder.text(3, "no such block")]

    stream = start(produce)
    message = await stream.result()
    assert message.error_message == "IndexError: list index out of range"
    assert stream.error is not None
    assert not stream.error.retryable
    assert "failed unexpectedly" in caplog.text


async def test_nothing_follows_the_end(start: Any) -> None:
    async def produce(builder: MessageBuilder) -> Batches:
        builder.stop_reason = "stop"
        yield [builder.start_text()]

    stream = start(produce)
    message = await stream.result()
    assert await stream.next_batch() is None
    await stream.aclose()
    assert await stream.result() is message
    assert stream.partial is message


async def test_two_calls_with_one_id_get_ids_of_their_own(start: Any) -> None:
    async def produce(builder: MessageBuilder) -> Batches:
        yield [builder.start_tool_call("same", "read") for _ in range(3)]
        builder.stop_reason = "toolUse"

    content = (await start(produce).result()).content
    assert [block.id for block in content] == ["same", "same_2", "same_3"]


async def test_the_partial_message_shows_arguments_as_far_as_they_came(start: Any) -> None:
    async def produce(builder: MessageBuilder) -> Batches:
        yield [builder.start_tool_call("x", "read"), builder.arguments(0, '{"path": "READ')]
        yield [builder.arguments(0, 'ME"}')]
        builder.stop_reason = "toolUse"

    stream = start(produce)
    await stream.next_batch()
    assert stream.partial.content[0].arguments == {"path": "READ"}
    assert stream.partial.stop_reason == "pending"
    await stream.next_batch()
    assert stream.partial.content[0].arguments == {"path": "README"}


async def test_an_argument_of_two_megabytes_in_small_deltas_is_read(start: Any) -> None:
    piece = "x" * 20

    async def produce(builder: MessageBuilder) -> Batches:
        yield [builder.start_tool_call("x", "write"), builder.arguments(0, '{"content": "')]
        for _ in range(1000):
            yield [builder.arguments(0, piece) for _ in range(100)]
        yield [builder.arguments(0, '"}')]
        builder.stop_reason = "toolUse"

    (call,) = (await start(produce).result()).content
    assert call.arguments == {"content": piece * 100_000}


async def test_an_abort_before_the_first_read_asks_nobody(start: Any) -> None:
    asked = False

    async def produce(builder: MessageBuilder) -> Batches:
        nonlocal asked
        asked = True
        yield []

    controller = AbortController()
    controller.abort()
    message = await start(produce, controller).result()
    assert message.stop_reason == "aborted"
    assert not asked


async def test_closing_lets_the_provider_clean_up_for_a_second_at_most(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pi_rpc.llm.stream._CLOSE_TIMEOUT_S", 0.05)
    cleaning = False

    async def produce(builder: MessageBuilder) -> Batches:
        nonlocal cleaning
        try:
            yield [builder.start_text()]
        finally:
            cleaning = True
            await anyio.sleep_forever()

    stream = start(produce)
    await stream.next_batch()
    with anyio.fail_after(DEADLINE_S):
        await stream.aclose()
    assert cleaning
    assert (await stream.result()).stop_reason == "aborted"


async def test_closing_while_another_task_reads_ends_that_read(start: Any) -> None:
    async def produce(builder: MessageBuilder) -> Batches:
        yield [builder.start_text(), builder.text(0, "a")]
        await anyio.sleep_forever()

    stream = start(produce)
    seen: list[AssistantMessageEvent] = []

    async def read() -> None:
        seen.extend([event async for event in stream])

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            await stream.aclose()
    assert isinstance(seen[-1], Failed)
    assert seen[-1].reason == "aborted"
    assert seen[-1].error.content == [TextBlock(text="a")]


async def test_signatures_and_redaction_are_kept(start: Any) -> None:
    async def produce(builder: MessageBuilder) -> Batches:
        yield [builder.start_thinking(redacted=True), builder.start_thinking()]
        builder.sign(0, "opaque")
        builder.sign(1, "part one,")
        builder.sign(1, "part two")
        yield [builder.thinking(1, "so")]
        builder.stop_reason = "stop"

    assert (await start(produce).result()).content == [
        ThinkingBlock(thinking="", thinking_signature="opaque", redacted=True),
        ThinkingBlock(thinking="so", thinking_signature="part one,part two"),
    ]


async def test_usage_is_priced_as_soon_as_it_is_known(start: Any) -> None:
    import msgspec

    from pi_rpc.llm.messages import Usage

    async def produce(builder: MessageBuilder) -> Batches:
        builder.usage = msgspec.structs.replace(Usage.ZERO, input=1_000_000, output=1_000_000)
        yield [builder.start_text()]
        builder.stop_reason = "stop"

    stream = start(produce)
    await stream.next_batch()
    assert stream.usage.cost.total == pytest.approx(3)
    assert (await stream.result()).usage.cost.output == pytest.approx(2)


PIECE = "x" * 1_000_000


def signed(builder: MessageBuilder) -> list[AssistantMessageEvent]:
    builder.sign(0, PIECE)
    return []


@pytest.mark.parametrize(
    ("begin", "add"),
    [
        (MessageBuilder.start_text, lambda builder: [builder.text(0, PIECE)]),
        (MessageBuilder.start_text, lambda builder: builder.texts(0, [PIECE[1:], "x"])),
        (MessageBuilder.start_thinking, lambda builder: [builder.thinking(0, PIECE)]),
        (MessageBuilder.start_thinking, signed),
        (
            lambda builder: builder.start_tool_call("1", "write"),
            lambda builder: [builder.arguments(0, PIECE)],
        ),
    ],
    ids=["text", "texts", "thinking", "signature", "arguments"],
)
async def test_a_reply_that_never_stops_fails_with_what_it_said_until_then(
    start: Any, begin: Any, add: Any
) -> None:
    pieces = 0
    closed = False

    async def produce(builder: MessageBuilder) -> Batches:
        nonlocal closed, pieces
        try:
            yield [begin(builder)]
            while True:
                yield add(builder)
                pieces += 1
        finally:
            closed = True

    stream = start(produce)
    with anyio.fail_after(DEADLINE_S):
        message = await stream.result()
    assert (pieces, closed) == (8, True)
    assert message.stop_reason == "error"
    assert "more than 8388608 characters" in message.error_message
    assert not stream.error.retryable
