"""Events that no strict reader takes: cut characters, bytes that are no text, deep nesting."""

from collections.abc import Callable
from typing import Any

import pytest

from pi_rpc.llm.events import AssistantMessageEvent, TextDelta
from pi_rpc.llm.failures import is_retryable
from pi_rpc.llm.messages import AssistantMessage, TextBlock, ToolCall
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import stream_simple
from pi_rpc.llm.stream import AssistantMessageStream

pytestmark = pytest.mark.anyio

Answer = tuple[AssistantMessageStream, AssistantMessage, list[AssistantMessageEvent]]
Ask = Callable[..., Any]


def finish(reason: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def chunk(text: str) -> str:
    return '{"choices":[{"index":0,"delta":{"content":"' + text + '"}}]}'


HALVES = [
    ([r"a\ud800b"], "a\ufffdb"),
    ([r"a\udc00b"], "a\ufffdb"),
    ([r"a\ud83d", r"\ude00b"], "a\U0001f600b"),
    ([r"\ud83d", r"\ude00\ud83d", r"\ude01"], "\U0001f600\U0001f601"),
    ([r"a\ud83d", "", r"\ude00b"], "a\U0001f600b"),
    ([r"a\ud83d", "b"], "a\ufffdb"),
    ([r"a\ud83d", r"\ud83d\ude00"], "a\ufffd\U0001f600"),
    (["a", r"\ude00b"], "a\ufffdb"),
    ([r"a\ud83d"], "a"),
]


@pytest.mark.parametrize(("texts", "said"), HALVES)
async def test_a_character_that_was_cut_in_two_is_whole_again(
    ask: Ask, texts: list[str], said: str
) -> None:
    _, message, events = await ask(*map(chunk, texts), finish("stop"))
    assert message.content == [TextBlock(text=said)]
    assert "".join(each.delta for each in events if isinstance(each, TextDelta)) == said


@pytest.mark.parametrize(("texts", "said"), HALVES)
async def test_claude_s_cut_characters_are_whole_again(
    claude: Ask, texts: list[str], said: str
) -> None:
    _, message, _ = await claude(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"'
            f'{text}"}}}}'
            for text in texts
        ),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )
    assert message.content == [TextBlock(text=said)]


async def test_halves_in_calls_and_names_come_out_as_characters(ask: Ask) -> None:
    _, message, _ = await ask(
        r'{"id":"r\ud83d","choices":[{"delta":{"tool_calls":[{"index":0,"id":"a\ud83d","function":'
        r'{"name":"read","arguments":"{\"path\":\"\ud83d"}}]}}]}',
        r'{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\ude00\"}"}}]}}]}',
        r'{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":'
        r'{"name":"read","arguments":{"text":"\ud83d"}}}]}}]}',
        finish("tool_calls"),
    )
    assert message.response_id == "r\ufffd"
    assert message.content == [
        ToolCall(id="a\ufffd", name="read", arguments={"path": "\U0001f600"}),
        ToolCall(id="b", name="read", arguments={"text": "\ufffd"}),
    ]


async def test_an_error_with_half_a_character_is_still_that_error(ask: Ask, claude: Ask) -> None:
    stream, message, _ = await ask(r'{"error":{"message":"Overloaded \ud83d","code":529}}')
    assert "Overloaded \ufffd" in message.error_message
    assert is_retryable(message, stream.error)
    _, message, _ = await claude(r'{"type":"error","error":{"message":"busy \ud83d"}}')
    assert "busy \ufffd" in message.error_message


@pytest.mark.parametrize("depth", [900, 5_000])
@pytest.mark.parametrize("around", ['{"choices":%s}', '{"error":%s}', '{"choices":[],"x":%s}'])
async def test_events_that_are_nested_too_deeply_are_malformed_and_nothing_else(
    ask: Ask, claude: Ask, depth: int, around: str
) -> None:
    for asked in (ask, claude):
        _, message, _ = await asked(around % ("[" * depth + "1" + "]" * depth))
        assert message.stop_reason == "error"
        assert "ecursion" not in message.error_message


async def test_deep_nesting_after_the_end_spoils_nothing(ask: Ask) -> None:
    _, message, _ = await ask(chunk("hi"), finish("stop"), '{"choices":' + "[" * 5000)
    assert message.content == [TextBlock(text="hi")]
    assert message.stop_reason == "stop"


async def test_bytes_that_are_no_text_come_out_as_such(
    serve: Any, make_model: Callable[..., Model], hello: Any
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.send(b"data: " + chunk("a_b").encode().replace(b"_", b"\xff") + b"\n\n")
        await exchange.events(finish("stop"))

    async with serve(answer) as server:
        message = await stream_simple(make_model(base_url=server.url), hello).result()
    assert message.content == [TextBlock(text="a\ufffdb")]
