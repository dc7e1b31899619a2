"""Answers of the dialect bedrock-converse-stream.

The streams (see ``bedrock_wire``) are written by hand in the shape AWS documents; botocore's own
client reads them alike (see ``sdk_opinion``). They were not recorded from AWS's server.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from msgspec import UNSET

from pi_rpc.llm.errors import (
    AccessError,
    BadRequestError,
    ContextOverflowError,
    MalformedStreamError,
    OverloadedError,
    ProviderError,
    RateLimitError,
    ServerError,
    StreamTimeoutError,
)
from pi_rpc.llm.events import AssistantMessageEvent, TextDelta, ThinkingDelta, ToolCallDelta
from pi_rpc.llm.failures import is_retryable
from pi_rpc.llm.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCall
from pi_rpc.llm.models import Model
from pi_rpc.llm.overflow import is_overflow
from pi_rpc.llm.provider import Context, StreamOptions, stream_simple
from pi_rpc.llm.providers import _bedrock_frames
from pi_rpc.llm.providers._bedrock_frames import FrameDecoder
from pi_rpc.llm.providers.bedrock_converse_stream import _Reader
from pi_rpc.llm.stream import AssistantMessageStream, MessageBuilder
from tests.llm.bedrock_wire import (
    BEGUN,
    CONTENT_TYPE,
    STREAMS,
    call,
    delta,
    encoded,
    ended,
    failure,
    forget_aws,
    frame,
    recorded,
    stop,
)

pytestmark = pytest.mark.anyio

API = "bedrock-converse-stream"
COUNTS = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
CONTENT = {
    "text": [
        ThinkingBlock(
            thinking="The person wants one sentence.", thinking_signature="EqQBCkYIBxgCKkDxQ9vT=="
        ),
        TextBlock(text='The sea \u2013 \u6d77, la mer, \U0001f30a \u2013 is "blue".'),
    ],
    "tool": [
        TextBlock(text="Reading both."),
        ToolCall(
            id="tooluse_kZJMlvQmRJ6eAyJE5GIl7Q",
            name="read",
            arguments={"path": "README.md", "deep": {"caf\u00e9": [1, 2.5, None, True]}},
        ),
        ToolCall(id="tooluse_2", name="ls", arguments={}),
    ],
    "redacted": [
        ThinkingBlock(
            thinking="", thinking_signature="AP9zZWFsZWQsIGluIHR3byBwaWVjZXM=", redacted=True
        ),
        TextBlock(text="Done."),
    ],
}

Answer = tuple[AssistantMessageStream, AssistantMessage, list[AssistantMessageEvent]]


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_aws(monkeypatch, tmp_path)


@pytest.fixture
def bedrock(serve: Any, make_model: Callable[..., Model], hello: Context) -> Callable[..., Any]:
    """Ask a server that answers with these bytes and closes."""

    async def run(
        raw: bytes, *, size: int = 1_000_000, status: str = "200 OK", **changes: Any
    ) -> Answer:
        async def answer(exchange: Any) -> None:
            await exchange.head(status, CONTENT_TYPE, "x-amzn-requestid: req-1")
            for start in range(0, len(raw), size):
                await exchange.send(raw[start : start + size])

        async with serve(answer) as server:
            model = make_model(api=API, base_url=server.url, **changes)
            stream = stream_simple(model, hello, StreamOptions(api_key="key"))
            events = [event async for event in stream]
            return stream, await stream.result(), events

    return run


def checked(data: bytes) -> bytes:
    return data + struct.pack(">I", crc32(data))


def read_in(model: Model, *reads: bytes) -> tuple[AssistantMessage, list[AssistantMessageEvent]]:
    builder = MessageBuilder(model)
    reader, decoder = _Reader(model, builder), FrameDecoder()
    events: list[AssistantMessageEvent] = []
    for read in reads:
        events += reader.read(decoder.feed(read))
    assert decoder.eof() == []
    events += reader.finish()
    return builder.snapshot(), events


@pytest.mark.parametrize("name", list(STREAMS))
def test_the_kept_bytes_are_those_of_the_events(name: str) -> None:
    assert recorded(name) == encoded(*STREAMS[name])


@pytest.mark.parametrize("name", list(STREAMS))
def test_a_stream_is_read_the_same_wherever_it_is_cut(
    name: str, make_model: Callable[..., Model]
) -> None:
    model, raw = make_model(api=API), recorded(name)
    whole, _ = read_in(model, raw)
    assert whole.content == CONTENT[name]
    for cut in range(1, len(raw)):
        message, events = read_in(model, raw[:cut], raw[cut:])
        assert message.content == whole.content, cut
        assert message.usage == whole.usage
        thoughts = "".join(each.delta for each in events if isinstance(each, ThinkingDelta))
        texts = "".join(each.delta for each in events if isinstance(each, TextDelta))
        blocks = whole.content
        assert thoughts == "".join(b.thinking for b in blocks if isinstance(b, ThinkingBlock))
        assert texts == "".join(b.text for b in blocks if isinstance(b, TextBlock))
    bytewise, _ = read_in(model, *(raw[at : at + 1] for at in range(len(raw))))
    assert bytewise.content == whole.content


@pytest.mark.parametrize("size", [1, 100, 1_000_000])
async def test_a_text_comes_with_thinking_signature_usage_and_names(
    size: int, bedrock: Callable[..., Any]
) -> None:
    _, message, events = await bedrock(recorded("text"), size=size)
    names = [type(event).__name__ for event in events]
    folded = [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]
    assert folded == [
        "Start", "ThinkingStart", "ThinkingDelta", "ThinkingEnd", "TextStart", "TextDelta",
        "TextEnd", "Done",
    ]  # fmt: skip
    assert message.content == CONTENT["text"]
    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "end_turn")
    assert (message.response_id, message.response_model) == ("req-1", UNSET)
    usage = message.usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (12, 61, 3000, 1200)
    assert (usage.cache_write_1h, usage.total_tokens) == (1000, 4273)
    cost = 12 * 1 + 61 * 2 + 3000 * 0.1 + 200 * 1.25 + 1000 * 2
    assert usage.cost.total == pytest.approx(cost / 1e6)


async def test_calls_come_with_their_arguments_as_they_stream(bedrock: Callable[..., Any]) -> None:
    _, message, events = await bedrock(recorded("tool"))
    assert message.content == CONTENT["tool"]
    assert message.stop_reason == "toolUse"
    deltas = [event.delta for event in events if isinstance(event, ToolCallDelta)]
    assert deltas[0] == '{"path": "READ'
    assert len(deltas) == 2


async def test_withheld_reasoning_is_kept_whole_and_the_routed_model_is_named(
    bedrock: Callable[..., Any],
) -> None:
    _, message, _ = await bedrock(recorded("redacted"))
    assert message.content == CONTENT["redacted"]
    assert message.stop_reason == "length"
    assert message.response_model == "arn:aws:bedrock:us-east-1::m/real-one"


async def test_reasoning_that_is_partly_withheld_becomes_two_blocks(
    bedrock: Callable[..., Any],
) -> None:
    events = [
        delta(0, reasoningContent={"text": "open"}),
        delta(0, reasoningContent={"redactedContent": "AAAA"}),
        delta(0, reasoningContent={"redactedContent": "BBBB"}),
    ]
    _, message, _ = await bedrock(encoded(*events, *ended("end_turn", COUNTS)))
    assert message.content == [
        ThinkingBlock(thinking="open"),
        ThinkingBlock(thinking="", thinking_signature="AAAABBBB", redacted=True),
    ]


async def test_blocks_that_are_not_closed_are_closed_at_the_end(
    bedrock: Callable[..., Any],
) -> None:
    events = [delta(0, text="a"), call(1, "x", "read"), delta(1, toolUse={"input": '{"p": 1}'})]
    _, message, given = await bedrock(encoded(*events, *ended("tool_use", COUNTS)))
    assert message.content == [
        TextBlock(text="a"),
        ToolCall(id="x", name="read", arguments={"p": 1}),
    ]
    assert [type(each).__name__ for each in given][-3:] == ["TextEnd", "ToolCallEnd", "Done"]


async def test_blocks_of_kinds_we_do_not_know_are_left_out(bedrock: Callable[..., Any]) -> None:
    own_tool = {"toolUse": {"toolUseId": "s", "name": "nova_grounding", "type": "server_tool_use"}}
    events = [
        BEGUN,
        ("contentBlockStart", {"contentBlockIndex": 0, "start": own_tool}),
        delta(0, toolUse={"input": "{}"}),
        stop(0),
        ("contentBlockStart", {"contentBlockIndex": 1, "start": {"image": {"format": "png"}}}),
        delta(1, image={"source": {"bytes": "AAAA"}}),
        stop(1),
        delta(2, citation={"title": "t"}),
        delta(2, text="a"),
        stop(2),
        ("somethingNew", {"x": [1]}),
    ]
    _, message, _ = await bedrock(encoded(*events, *ended("stop_sequence", COUNTS)))
    assert message.content == [TextBlock(text="a")]
    assert message.stop_reason == "stop"


async def test_a_character_that_was_cut_in_two_is_put_together(bedrock: Callable[..., Any]) -> None:
    headers = {":event-type": "contentBlockDelta", ":message-type": "event"}
    raw = b"".join(
        frame(headers, b'{"contentBlockIndex":0,"delta":{"text":"%s"}}' % text)
        for text in (b"a\\ud83c", b"\\udf0a!")
    )
    _, message, _ = await bedrock(raw + encoded(*ended("end_turn", COUNTS)))
    assert message.content == [TextBlock(text="a\U0001f30a!")]


@pytest.mark.parametrize(
    ("reason", "kind", "retried", "words"),
    [
        ("guardrail_intervened", ProviderError, False, "withheld the rest"),
        ("content_filtered", ProviderError, False, "withheld the rest"),
        ("malformed_model_output", MalformedStreamError, True, "cannot be read"),
        ("malformed_tool_use", MalformedStreamError, True, "cannot be read"),
        ("model_context_window_exceeded", ContextOverflowError, False, "context_window"),
        ("unheard_of", ProviderError, False, "'unheard_of'"),
    ],
)
async def test_an_end_that_was_not_agreed_is_an_error_and_keeps_what_came(
    *,
    reason: str,
    kind: type[ProviderError],
    retried: bool,
    words: str,
    bedrock: Callable[..., Any],
) -> None:
    raw = encoded(delta(0, text="a"), stop(0), *ended(reason, COUNTS))
    stream, message, _ = await bedrock(raw)
    assert type(stream.error) is kind
    assert words in message.error_message
    assert is_retryable(message, stream.error) is retried
    assert message.raw_stop_reason == reason
    assert message.content == [TextBlock(text="a")]
    assert message.usage.total_tokens == 2


@pytest.mark.parametrize(
    ("name", "kind", "retried"),
    [
        ("internalServerException", ServerError, True),
        ("modelStreamErrorException", ServerError, True),
        ("throttlingException", RateLimitError, True),
        ("serviceUnavailableException", OverloadedError, True),
        ("ModelTimeoutException", StreamTimeoutError, True),
        ("validationException", BadRequestError, False),
        ("accessDeniedException", AccessError, False),
        ("neverSeenException", ProviderError, False),
    ],
)
async def test_an_exception_in_the_stream_says_what_and_whether_to_retry(
    *, name: str, kind: type[ProviderError], retried: bool, bedrock: Callable[..., Any]
) -> None:
    raw = encoded(delta(0, text="a")) + failure(name, message="Something\nwent wrong.")
    stream, message, _ = await bedrock(raw)
    assert type(stream.error) is kind
    said = f"acme reported an error ({name}): Something went wrong"
    assert message.error_message.startswith(said)
    assert is_retryable(message, stream.error) is retried
    assert message.content == [TextBlock(text="a")]


async def test_a_prompt_that_is_too_long_is_told_from_too_many_requests(
    bedrock: Callable[..., Any],
) -> None:
    raw = failure("validationException", message="Input is too long for requested model.")
    stream, message, _ = await bedrock(raw)
    assert type(stream.error) is ContextOverflowError
    assert is_overflow(message)
    raw = failure("throttlingException", message="Too many tokens, please wait before trying again")
    stream, message, _ = await bedrock(raw)
    assert type(stream.error) is RateLimitError
    assert not is_overflow(message)
    assert is_retryable(message)


async def test_an_error_that_is_not_modelled_is_told_too(bedrock: Callable[..., Any]) -> None:
    headers = {
        ":message-type": "error",
        ":error-code": "InternalError",
        ":error-message": "An internal server error occurred",
    }
    stream, message, _ = await bedrock(frame(headers, b""))
    assert "(InternalError): An internal server error occurred" in message.error_message
    assert is_retryable(message, stream.error)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "without messageStop"),
        (encoded(BEGUN, delta(0, text="a"), stop(0)), "without messageStop"),
        (encoded(BEGUN)[:-1], "without the rest of a frame"),
        (encoded(BEGUN)[:7], "without the rest of a frame"),
        (encoded(BEGUN)[:-1] + b"\x00", "a wrong checksum"),
        (b"\x00" + encoded(BEGUN)[1:7] + b"\xff" + encoded(BEGUN)[8:], "a wrong checksum"),
        (b"\x00\x20\x00\x00" + encoded(BEGUN)[4:], "a wrong checksum"),
        (b"data: {}\n\ndata: {}\n\n", "a wrong checksum"),
        (checked(struct.pack(">II", 3, 0)), "a frame of 3 bytes"),
        (checked(struct.pack(">II", 2**31, 0)), "a frame of 2147483648 bytes"),
        (checked(struct.pack(">II", 20, 5)), "a frame of 20 bytes"),
        (checked(checked(struct.pack(">II", 20, 4)) + b"\x01a\x63x"), "cannot be read"),
        (frame({}, b"{}"), "reported an error (None)"),
        (frame({":message-type": "event", ":event-type": "x"}, b"{"), "event that cannot be read"),
        (encoded(delta(0, text=7)), "event that cannot be read"),
        (encoded(delta(0, reasoningContent={"redactedContent": "%"})), "not base64"),
        (encoded(("messageStop", {})), "without messageStop"),
    ],
)
async def test_bytes_that_are_no_answer_are_an_error(
    raw: bytes, words: str, bedrock: Callable[..., Any]
) -> None:
    stream, message, _ = await bedrock(raw)
    assert message.stop_reason == "error"
    assert words in message.error_message
    assert isinstance(stream.error, ProviderError)


def test_every_flipped_bit_is_noticed(make_model: Callable[..., Model]) -> None:
    raw = encoded(BEGUN, delta(0, text="abc"))
    model = make_model(api=API)
    for at in range(len(raw) * 8):
        broken = bytearray(raw)
        broken[at // 8] ^= 1 << at % 8
        with pytest.raises(MalformedStreamError):
            read_in(model, bytes(broken))


async def test_numbers_that_never_come_fail_nothing(bedrock: Callable[..., Any]) -> None:
    raw = encoded(delta(0, text="a"), stop(0), ("messageStop", {"stopReason": "end_turn"}))
    stream, message, _ = await bedrock(raw + b"\x00\x00")
    assert stream.error is None
    assert message.stop_reason == "stop"
    assert message.usage.total_tokens == 0


@pytest.mark.parametrize("name", list(STREAMS))
def test_the_library_s_own_buffer_finds_the_same_frames(name: str) -> None:
    from botocore.eventstream import EventStreamBuffer

    raw = recorded(name) + failure("throttlingException", message="m")
    buffer = EventStreamBuffer()
    buffer.add_data(raw)
    theirs: list[tuple[Any, bytes]] = []
    for message in buffer:
        headers: Any = message.headers
        kind = headers.get(":event-type") or f"!{headers[':exception-type']}"
        theirs.append((kind, message.payload))
    assert FrameDecoder().feed(raw) == theirs
    assert len(theirs) == len(STREAMS[name]) + 1


def test_every_byte_is_checked_once_however_frames_and_reads_are_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked_bytes = 0

    def counted(data: memoryview) -> int:
        nonlocal checked_bytes
        checked_bytes += len(data)
        return crc32(data)

    monkeypatch.setattr(_bedrock_frames, "crc32", counted)
    small = encoded(delta(0, text="x" * 50)) * 2000
    assert len(FrameDecoder().feed(small)) == 2000
    assert checked_bytes <= len(small) + 2000 * 8
    checked_bytes = 0
    big = encoded(delta(0, text="y" * 2_000_000))
    decoder = FrameDecoder()
    events = [each for at in range(0, len(big), 1000) for each in decoder.feed(big[at : at + 1000])]
    assert len(events) == 1
    assert checked_bytes <= len(big) + 2 * 8
    assert decoder.eof() == []
