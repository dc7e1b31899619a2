"""Events take their wire form, and deltas that wait become one."""

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from pi_rpc.agent import events as agent
from pi_rpc.agent.messages import OpaqueMessage
from pi_rpc.agent.tool import ToolResult
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.events import (
    AssistantMessageEvent,
    TextDelta,
    TextEnd,
    TextStart,
)
from pi_rpc.llm.messages import (
    AssistantMessage,
    TextBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from pi_rpc.llm.models import Model, ModelCost
from pi_rpc.llm.stream import AssistantMessageStream, MessageBuilder
from pi_rpc.protocol import events as wire
from pi_rpc.protocol.convert import EntryIds, to_wire
from pi_rpc.protocol.encode import encode, encode_event, encode_notification, encode_update
from pi_rpc.protocol.methods import EVENTS
from pi_rpc.protocol.state import SessionState

MODEL = Model(
    id="m",
    name="M",
    api="scripted",
    provider="p",
    base_url="",
    reasoning=False,
    input=["text"],
    cost=ModelCost(input=1_000_000, output=0, cache_read=0, cache_write=0),
    context_window=1000,
    max_tokens=100,
)
USER = UserMessage(content="hi", timestamp=1)
REPLY = AssistantMessage(
    content=[TextBlock(text="Hello")],
    api="scripted",
    provider="p",
    model="m",
    usage=Usage.ZERO,
    stop_reason="stop",
    timestamp=2,
)
RESULT = ToolResultMessage(
    tool_call_id="c", tool_name="read", content=[], is_error=False, timestamp=3
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def stream_with_text(text: str) -> AssistantMessageStream:
    """A stream that has said ``text`` and goes on."""

    async def produce(builder: MessageBuilder) -> AsyncIterator[list[AssistantMessageEvent]]:
        builder.usage = msgspec.structs.replace(Usage.ZERO, input=3)
        yield [builder.start_text(), builder.text(0, text)]

    stream = AssistantMessageStream(MODEL, produce, AbortController().signal)
    await stream.next_batch()
    return stream


def on_the_wire(event: Any) -> Any:
    return json.loads(encode(event))


def test_a_delta_is_sent_alone() -> None:
    update = agent.MessageUpdate(
        assistant_message_event=TextDelta(content_index=0, delta="a"),
        stream=None,  # type: ignore[arg-type]  # a delta must not look at it
        message_id="m",
    )
    assert on_the_wire(to_wire(update)) == {
        "type": "message_update",
        "messageId": "m",
        "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": "a"},
    }


@pytest.mark.anyio
async def test_the_end_of_a_block_brings_the_priced_usage() -> None:
    stream = await stream_with_text("Hello")
    end = TextEnd(content_index=0, content="Hello")
    update = agent.MessageUpdate(assistant_message_event=end, stream=stream, message_id="m")
    sent = on_the_wire(to_wire(update))
    assert (sent["usage"]["input"], sent["usage"]["cost"]["total"]) == (3, 3)
    assert "message" not in sent


@pytest.mark.anyio
async def test_a_snapshot_brings_the_message_so_far() -> None:
    stream = await stream_with_text("Hel")
    delta = TextDelta(content_index=0, delta="l")
    update = agent.MessageUpdate(assistant_message_event=delta, stream=stream, message_id="m")
    sent = on_the_wire(to_wire(update, snapshot=True))
    assert sent["message"]["content"] == [{"type": "text", "text": "Hel"}]
    assert sent["message"]["stopReason"] == "pending"


def test_the_ends_of_turns_and_attempts_name_entries_and_repeat_no_messages() -> None:
    turn = to_wire(agent.TurnEnd(message=REPLY, tool_results=[RESULT]), entry_ids=["a", "b"])
    assert on_the_wire(turn) == {"type": "turn_end", "entryIds": ["a", "b"]}
    end = to_wire(agent.AgentEnd(messages=[USER, REPLY], run_id="r"), entry_ids=["a"])
    assert on_the_wire(end) == {
        "type": "agent_end",
        "runId": "r",
        "entryIds": ["a"],
        "willRetry": False,
    }


def test_whole_messages_are_sent_to_those_who_ask() -> None:
    turn = on_the_wire(to_wire(agent.TurnEnd(message=REPLY, tool_results=[RESULT]), full=True))
    assert turn["message"]["content"] == [{"type": "text", "text": "Hello"}]
    assert [each["toolCallId"] for each in turn["toolResults"]] == ["c"]
    end = agent.AgentEnd(messages=[USER, REPLY], run_id="r", will_retry=True)
    sent = on_the_wire(to_wire(end, full=True))
    assert [each["role"] for each in sent["messages"]] == ["user", "assistant"]
    assert sent["willRetry"] is True


def test_the_changed_fields_stand_in_session_changed_itself() -> None:
    event = agent.SessionChanged(changes={"name": "n", "phase": "idle"}, removed=["limits"])
    assert on_the_wire(to_wire(event)) == {
        "type": "session_changed",
        "name": "n",
        "phase": "idle",
        "removed": ["limits"],
    }
    assert "removed" not in on_the_wire(to_wire(agent.SessionChanged(changes={"name": "n"})))


def test_session_changed_has_every_field_of_the_state_that_can_change() -> None:
    fixed = {"sessionId", "path", "cwd"}
    told_otherwise = {"queue", "lastSeq", "live"}
    state = set(SessionState.__struct_encode_fields__) - fixed - told_otherwise
    assert set(wire.SessionChanged.__struct_encode_fields__) - {"removed"} == state


def test_a_root_message_has_a_null_parent() -> None:
    event = agent.MessageEnd(message=USER, message_id="m", entry_id="e", parent_id=None)
    sent = on_the_wire(to_wire(event))
    assert sent["parentId"] is None
    assert "clientMessageId" not in sent


def test_a_message_of_an_unknown_role_crosses_as_it_came() -> None:
    raw = b'{"role":"note","x":[1,2]}'
    event = agent.MessageStart(message=OpaqueMessage("note", raw), message_id="m")
    assert raw in encode(to_wire(event))


def test_tool_updates_leave_the_arguments_out() -> None:
    event = agent.ToolExecutionUpdate(
        tool_call_id="c",
        tool_name="bash",
        args={"command": "ls"},
        partial_result=ToolResult(content=[], delta="out"),
    )
    sent = on_the_wire(to_wire(event))
    assert set(sent) == {"type", "toolCallId", "toolName", "partialResult"}
    assert sent["partialResult"]["delta"] == "out"


EVERY_EVENT: list[Any] = [
    agent.AgentStart(run_id="r"),
    agent.AgentEnd(messages=[], run_id="r", will_retry=False),
    agent.AgentSettled(run_id="r", stop_reason="stop", aborted=False),
    agent.TurnStart(),
    agent.TurnEnd(message=REPLY, tool_results=[]),
    agent.MessageStart(message=USER, message_id="m"),
    agent.MessageUpdate(
        assistant_message_event=TextStart(content_index=0),
        stream=None,  # type: ignore[arg-type]
        message_id="m",
    ),
    agent.MessageEnd(message=USER, message_id="m", entry_id="e", parent_id="p"),
    agent.ToolExecutionStart(
        tool_call_id="c", tool_name="t", args={}, kind="read", title="T", locations=[]
    ),
    agent.ToolExecutionUpdate(
        tool_call_id="c", tool_name="t", args={}, partial_result=ToolResult.of_text("x")
    ),
    agent.ToolExecutionEnd(
        tool_call_id="c", tool_name="t", result=ToolResult.of_text("x"), is_error=False
    ),
    agent.QueueUpdate(steering=[], follow_up=[], items=[]),
    agent.CompactionStart(reason="manual"),
    agent.CompactionEnd(reason="overflow", aborted=False, will_retry=True),
    agent.AutoRetryStart(attempt=1, max_attempts=3, delay_ms=2000, error_message="busy"),
    agent.AutoRetryEnd(success=True, attempt=1),
    agent.SavePoint(had_pending_mutations=False),
    agent.SessionChanged(changes={"name": "n"}),
    agent.EntryAppended(entry={"type": "label"}),
    agent.FilesChanged(
        changes=[agent.ChangedFile(uri="file:///p/a.py", kind="created")], tool_call_id="c"
    ),
    agent.BashOutput(delta="3 passed\n", token="b-1"),
    agent.CommandsChanged(),
    agent.Diagnostic(severity="info", message="m"),
]


def test_every_event_there_is_has_a_wire_form_that_clients_can_read() -> None:
    seen = set()
    for event in EVERY_EVENT:
        sent = encode(to_wire(event))
        kind = json.loads(sent)["type"]
        seen.add(kind)
        decoded = msgspec.json.decode(sent, type=EVENTS[kind].struct)
        assert json.loads(encode(decoded)) == json.loads(sent)
    assert seen == set(EVENTS)
    in_process = {each.__struct_config__.tag for each in agent.AgentEvent.__args__}
    assert in_process - {"abort"} == seen  # whoever stops a session over the wire is answered


# --- notifications as bytes ---------------------------------------------------------------------


def test_a_notification_is_complete() -> None:
    sent = json.loads(encode_notification("ui/notify", {"level": "info", "message": 'a"b'}))
    assert sent == {
        "jsonrpc": "2.0",
        "method": "ui/notify",
        "params": {"level": "info", "message": 'a"b'},
    }


@settings(deadline=None)
@given(st.text(), st.text(), st.integers(1, 2**53), st.text())
def test_the_fast_way_to_write_a_delta_gives_the_same_bytes_as_the_plain_one(
    session_id: str, message_id: str, seq: int, delta: str
) -> None:
    news = TextDelta(content_index=1, delta=delta)
    event = wire.MessageUpdate(message_id=message_id, assistant_message_event=news)
    session_json = encode(session_id)
    fast = encode_update(session_json, seq, encode(message_id), news)
    assert fast == encode_event(session_json, seq, event)
    params = json.loads(fast)["params"]
    assert (params["sessionId"], params["seq"]) == (session_id, seq)
    assert params["event"]["assistantMessageEvent"]["delta"] == delta


# --- entry ids ----------------------------------------------------------------------------------


def stored(message: Any, entry_id: str) -> agent.MessageEnd:
    return agent.MessageEnd(message=message, message_id="m", entry_id=entry_id, parent_id=None)


def test_a_turn_names_the_reply_and_results_and_an_attempt_names_all() -> None:
    ids = EntryIds()
    turn_end = agent.TurnEnd(message=REPLY, tool_results=[])
    for event in (
        agent.AgentStart(run_id="r"),
        agent.TurnStart(),
        stored(USER, "u1"),
        stored(REPLY, "a1"),
        stored(RESULT, "t1"),
    ):
        assert list(ids.observe(event)) == []
    assert list(ids.observe(turn_end)) == ["a1", "t1"]
    ids.observe(agent.TurnStart())
    ids.observe(stored(OpaqueMessage("note", b"{}"), "n1"))
    ids.observe(stored(REPLY, "a2"))
    assert list(ids.observe(turn_end)) == ["a2"]
    attempt = ids.observe(agent.AgentEnd(messages=[], run_id="r"))
    assert list(attempt) == ["u1", "a1", "t1", "n1", "a2"]


def test_a_second_attempt_names_only_what_it_added() -> None:
    ids = EntryIds()
    ids.observe(agent.AgentStart(run_id="r"))
    ids.observe(stored(REPLY, "a1"))
    ids.observe(agent.AgentEnd(messages=[], run_id="r"))
    ids.observe(agent.AgentStart(run_id="r"))
    ids.observe(stored(REPLY, "a2"))
    assert list(ids.observe(agent.AgentEnd(messages=[], run_id="r"))) == ["a2"]


def test_an_update_without_usage_leaves_it_out() -> None:
    event = wire.MessageUpdate(message_id="m", assistant_message_event=TextStart(content_index=0))
    assert event.usage is UNSET
    assert "usage" not in on_the_wire(event)
