"""What waits for a consumer of events: bounded, in order, and told where something is missing."""

import gc
import json
import weakref
from typing import Any

import anyio
import pytest
from msgspec import Raw

from pi_rpc.agent.messages import CustomMessage
from pi_rpc.client import Events, Missed, UnknownEvent
from pi_rpc.client._incoming import Incoming
from pi_rpc.client.events import with_known_messages
from pi_rpc.llm.messages import UserMessage
from pi_rpc.protocol.events import BashOutput, CommandsChanged, MessageEnd
from pi_rpc.protocol.requests import SessionMessagesResult
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio


def raw(**event: Any) -> Raw:
    return Raw(json.dumps(event).encode())


def output(text: str) -> Raw:
    return raw(type="bash_output", delta=text)


async def rest(events: Events) -> list[Any]:
    with anyio.fail_after(DEADLINE_S):
        return [event async for event in events]


async def test_events_come_typed_and_in_order_with_their_numbers() -> None:
    events = Events(limit_bytes=10_000)
    events.put(7, raw(type="commands_changed"))
    events.put(8, output("x"))
    assert (await anext(events), events.last_seq) == (CommandsChanged(), 7)
    assert (await anext(events), events.last_seq) == (BashOutput(delta="x"), 8)


async def test_an_unknown_type_and_an_unknown_shape_are_given_as_they_came() -> None:
    events = Events(limit_bytes=10_000)
    events.put(1, raw(type="sun_rise", at=5))
    events.put(2, raw(type="compaction_start", reason="of a newer daemon"))
    events.put(3, raw(type="commands_changed", newField=1))
    events.end()
    first, second, third = await rest(events)
    assert first == UnknownEvent("sun_rise", b'{"type": "sun_rise", "at": 5}')
    assert isinstance(second, UnknownEvent)
    assert json.loads(second.raw)["reason"] == "of a newer daemon"
    assert third == CommandsChanged()


async def test_of_too_much_the_oldest_is_dropped_and_told_once_in_its_place() -> None:
    events = Events(limit_bytes=1_000)
    for seq in range(1, 101):
        events.put(seq, output("x" * 60))
    events.end()
    missed, *others = await rest(events)
    assert isinstance(missed, Missed)
    assert missed.after_seq == 0
    assert missed.up_to_seq + len(others) == 100
    assert 1 < len(others) <= 1_000 // 60
    assert events.last_seq == 100


async def test_what_was_given_out_before_is_not_told_to_be_missing() -> None:
    events = Events(limit_bytes=300)
    events.put(41, output("first"))
    await anext(events)
    for seq in range(42, 60):
        events.put(seq, output("x" * 60))
    missed = await anext(events)
    assert isinstance(missed, Missed)
    assert missed.after_seq == 41
    for seq in range(60, 80):
        events.put(seq, output("x" * 60))
    again = await anext(events)
    assert isinstance(again, Missed)
    assert again.after_seq == missed.up_to_seq


async def test_an_event_larger_than_the_limit_is_still_given() -> None:
    events = Events(limit_bytes=10)
    events.put(1, output("x" * 1_000))
    events.end()
    assert await rest(events) == [BashOutput(delta="x" * 1_000)]


async def test_a_consumer_that_waits_is_woken_by_an_event_and_by_the_end() -> None:
    events = Events(limit_bytes=1_000)
    found: list[Any] = []

    async def consume() -> None:
        found.extend(await rest(events))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consume)
        await anyio.lowlevel.checkpoint()
        events.put(1, raw(type="commands_changed"))
        await anyio.lowlevel.checkpoint()
        events.end()
    assert found == [CommandsChanged()]


async def test_a_failure_is_raised_after_what_had_come() -> None:
    events = Events(limit_bytes=1_000)
    events.put(1, raw(type="commands_changed"))
    events.end(ValueError("gone"))
    events.put(2, raw(type="commands_changed"))
    assert await anext(events) == CommandsChanged()
    with pytest.raises(ValueError, match="gone"):
        await anext(events)


async def test_a_stream_that_was_closed_is_empty() -> None:
    with Events(limit_bytes=1_000) as events:
        events.put(1, raw(type="commands_changed"))
    assert await rest(events) == []


async def test_a_stream_that_nobody_holds_is_forgotten() -> None:
    incoming = Incoming({})
    dropped, kept = Events(limit_bytes=1_000), Events(limit_bytes=1_000)
    incoming.subscribe("s", dropped)
    incoming.subscribe("s", kept)
    trace = weakref.ref(dropped)
    del dropped
    gc.collect()
    assert trace() is None
    for session_id in ("s", "other"):
        params = {"sessionId": session_id, "seq": 1, "event": {"type": "commands_changed"}}
        incoming.notification("agent/event", Raw(json.dumps(params).encode()))
    incoming.end(None)
    assert await rest(kept) == [CommandsChanged()]


async def test_messages_are_structs_of_their_roles() -> None:
    events = Events(limit_bytes=1_000)
    message = {"role": "user", "content": "hi", "timestamp": 1}
    ids = {"messageId": "m", "entryId": "e", "parentId": None}
    events.put(1, raw(type="message_end", message=message, **ids))
    event = await anext(events)
    assert isinstance(event, MessageEnd)
    assert event.message == UserMessage(content="hi", timestamp=1)


def test_a_message_that_was_cut_or_has_an_unknown_role_stays_json() -> None:
    whole = {"role": "custom", "customType": "t", "content": "x", "display": True, "timestamp": 1}
    cut = {"role": "user", "content": "h…", "timestamp": 1, "truncated": True}
    unknown = {"role": "oracle", "content": "x"}
    odd = {"role": "user", "content": 5, "timestamp": 1}
    result = SessionMessagesResult(
        messages=[whole, cut, unknown, odd], entry_ids=[], has_more=False, last_seq=0
    )
    first, *others = with_known_messages(result).messages
    assert isinstance(first, CustomMessage)
    assert others == [cut, unknown, odd]
