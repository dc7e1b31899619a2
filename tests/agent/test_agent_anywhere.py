"""Whatever happens at whatever moment of a run, what must always hold holds.

One run with everything in it is disturbed at each of its events in turn: by an abort, by a listener
that raises, by a store that refuses, by a cancelled caller."""

import logging
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from pi_rpc.agent import Agent, InitialState, LoopEvent, ToolResult
from pi_rpc.agent.events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
)
from pi_rpc.llm.messages import AssistantMessage, ToolCall, ToolResultMessage, UserMessage
from pi_rpc.llm.scripted import scripted_model, scripted_stream_fn, text, thinking, tool_call
from tests.agent.stage import said, tool
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

EVENTS = 80
"""At least as many as the undisturbed run has."""


async def slow(_id: str, _params: Any, _signal: Any, update: Any) -> ToolResult:
    update(ToolResult.of_text("half"))
    for _ in range(3):
        await anyio.lowlevel.checkpoint()
    return ToolResult.of_text("slow done")


def make_agent() -> Agent:
    replies = [
        [
            thinking("hm", pieces=1),
            tool_call("slow", call_id="a"),
            tool_call("quick", call_id="b"),
            tool_call("nothing", call_id="c"),
        ],
        [tool_call("alone", call_id="d"), tool_call("quick", call_id="e")],
        [text("to s1", pieces=1)],
        [text("to s2", pieces=1)],
        [text("to f1", pieces=1)],
    ]
    tools = [tool("slow", slow), tool("quick"), tool("alone", execution_mode="sequential")]
    agent = Agent(
        InitialState(model=scripted_model(), tools=tools),
        stream_fn=scripted_stream_fn(replies, loop=True),
    )
    agent.follow_up("f1")
    return agent


def check(agent: Agent, heard: list[LoopEvent]) -> None:
    """What must hold after any run."""
    assert not agent.state.is_streaming
    assert agent.state.streaming_message is None
    assert agent.state.pending_tool_calls == set()
    kinds = [type(each) for each in heard]
    assert kinds.count(AgentStart) == kinds.count(AgentEnd) == 1
    assert kinds[-1] is AgentEnd
    assert kinds.count(TurnStart) == kinds.count(TurnEnd)
    assert kinds.count(MessageStart) == kinds.count(MessageEnd)
    starts = [e.tool_call_id for e in heard if isinstance(e, ToolExecutionStart)]
    ends = [e.tool_call_id for e in heard if isinstance(e, ToolExecutionEnd)]
    assert sorted(starts) == sorted(ends)
    messages = agent.state.messages
    ended = [e.message for e in heard if isinstance(e, MessageEnd)]
    assert ended == messages
    assert heard[-1].messages == messages  # type: ignore[union-attr]
    assert calls_of(messages) == [
        each.tool_call_id for each in messages if isinstance(each, ToolResultMessage)
    ]
    delivered = [said(each) for each in messages if isinstance(each, UserMessage)]
    waiting = [said(each) for each in agent.clear_all_queues()]
    assert sorted(each for each in [*delivered, *waiting] if each != "hi") == queued(heard)


def calls_of(messages: Sequence[Any]) -> list[str]:
    """The calls that must have been answered: those of replies that did not fail."""
    return [
        block.id
        for each in messages
        if isinstance(each, AssistantMessage) and each.stop_reason not in {"error", "aborted"}
        for block in each.content
        if isinstance(block, ToolCall)
    ]


def queued(heard: list[LoopEvent]) -> list[str]:
    """What was said to the agent so far: the steers come when the second reply begins."""
    replies = [each for each in heard if is_reply(each)]
    return ["f1", "s1", "s2"] if len(replies) > 1 else ["f1"]


def is_reply(event: LoopEvent) -> bool:
    """A reply begins."""
    return (
        isinstance(event, MessageStart)
        and isinstance(event.message, AssistantMessage)
        and event.message.stop_reason == "pending"
    )


def steers(agent: Agent) -> Any:
    """A listener that steers twice when the second reply begins."""
    begun: list[LoopEvent] = []

    def listener(event: LoopEvent) -> None:
        if is_reply(event):
            begun.append(event)
            if len(begun) == 2:
                agent.steer("s1")
                agent.steer("s2")

    return listener


class Disturbance(Exception):
    pass


async def test_the_undisturbed_run_has_what_is_disturbed_below() -> None:
    agent = make_agent()
    heard: list[LoopEvent] = []
    agent.subscribe(heard.append)
    agent.subscribe(steers(agent))
    await agent.prompt("hi")
    check(agent, heard)
    assert 40 < len(heard) <= EVENTS
    replies = [each for each in agent.state.messages if isinstance(each, AssistantMessage)]
    assert [each.stop_reason for each in replies] == ["toolUse"] * 2 + ["stop"] * 3


@pytest.mark.parametrize("at", range(EVENTS))
async def test_an_abort_at_any_event(at: int) -> None:
    agent = make_agent()
    heard: list[LoopEvent] = []
    agent.subscribe(heard.append)
    agent.subscribe(steers(agent))
    agent.subscribe(lambda _event: agent.abort() if len(heard) == at + 1 else None)
    with anyio.fail_after(DEADLINE_S):
        await agent.prompt("hi")
    check(agent, heard)


@pytest.mark.parametrize("at", range(EVENTS))
async def test_a_listener_that_raises_at_any_event(
    at: int, caplog: pytest.LogCaptureFixture
) -> None:
    agent = make_agent()
    heard: list[LoopEvent] = []

    def disturb(_event: LoopEvent) -> None:
        if len(heard) == at + 1:
            raise Disturbance

    agent.subscribe(heard.append)
    agent.subscribe(steers(agent))
    agent.subscribe(disturb)
    with caplog.at_level(logging.CRITICAL), anyio.fail_after(DEADLINE_S):
        try:
            await agent.prompt("hi")
        except Disturbance:
            assert isinstance(heard[at], AgentEnd)
    check(agent, heard)


@pytest.mark.parametrize("at", range(EVENTS))
async def test_a_store_that_refuses_any_batch(at: int, caplog: pytest.LogCaptureFixture) -> None:
    agent = make_agent()
    heard: list[LoopEvent] = []
    stored: list[Any] = []
    batches: list[int] = []

    def store(events: Sequence[LoopEvent]) -> None:
        batches.append(len(events))
        if len(batches) == at + 1:
            raise Disturbance
        stored.extend(each.message for each in events if isinstance(each, MessageEnd))

    agent.subscribe_batch(store)
    agent.subscribe(heard.append)
    agent.subscribe(steers(agent))
    with caplog.at_level(logging.CRITICAL), anyio.fail_after(DEADLINE_S):
        try:
            await agent.prompt("hi")
        except Disturbance:
            assert len(batches) == at + 1
    assert stored == agent.state.messages
    assert [type(each) for each in heard].count(AgentEnd) == 1
    assert not agent.state.is_streaming
    with anyio.fail_after(DEADLINE_S):
        await agent.prompt("again")


@pytest.mark.parametrize("at", range(EVENTS))
async def test_a_caller_that_is_cancelled_at_any_event(at: int) -> None:
    agent = make_agent()
    heard: list[LoopEvent] = []

    async def disturb(_event: LoopEvent) -> None:
        if len(heard) == at + 1:
            scope.cancel()
            await anyio.lowlevel.checkpoint()

    agent.subscribe(heard.append)
    agent.subscribe(steers(agent))
    agent.subscribe(disturb)
    with anyio.fail_after(DEADLINE_S), anyio.CancelScope() as scope:
        await agent.prompt("hi")
    check(agent, heard)
