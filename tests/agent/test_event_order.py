"""The order of everything, literally, as recorded from pi where we do not decide otherwise."""

from typing import Any

import anyio
import pytest

from pi_rpc.agent import (
    Agent,
    AgentContext,
    AgentTool,
    InitialState,
    LoopEvent,
    ToolResult,
    agent_loop_continue,
)
from pi_rpc.agent.events import MessageStart, ToolExecutionUpdate
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import AssistantMessage
from pi_rpc.llm.scripted import (
    scripted_model,
    scripted_stream_fn,
    stop_reason,
    text,
    tool_call,
    until,
)
from tests.agent.stage import (
    config,
    name,
    names,
    play,
    results,
    said,
    script,
    tool,
    user,
    waits_for,
)
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio


def of_calls(short: list[str]) -> list[str]:
    """The events of the calls ``a`` and ``b``."""
    return [each for each in short if {"a", "b"} & set(each.split())]


async def test_a_plain_prompt() -> None:
    events = await play([[text("hello")]])
    assert names(events) == script("""
        agent_start
        turn_start
        message_start user hi
        message_end user hi
        message_start assistant
        message_update
        message_end assistant
        turn_end
        agent_end
    """)
    start = next(e for e in events if isinstance(e, MessageStart) and name(e).endswith("assistant"))
    assert isinstance(start.message, AssistantMessage)
    assert start.message.content == []
    assert start.message.stop_reason == "pending"


async def test_four_calls_at_once_end_as_they_finish_and_are_answered_in_their_order() -> None:
    fast_ended = anyio.Event()

    async def slow(_id: str, _params: Any, _signal: Any, update: Any) -> ToolResult:
        update(ToolResult.of_text(""))
        await fast_ended.wait()
        return ToolResult.of_text("slow")

    async def fast(*_arguments: Any) -> ToolResult:
        fast_ended.set()
        return ToolResult.of_text("fast")

    wants_path = {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    }
    events = await play(
        [
            [
                tool_call("slow", call_id="a"),
                tool_call("fast", call_id="b"),
                tool_call("nothing", call_id="c"),
                tool_call("read", call_id="d"),
            ],
            [text("ok")],
        ],
        tools=[tool("slow", slow), tool("fast", fast), tool("read", parameters=wants_path)],
    )
    assert names(events)[6:] == script("""
        message_end assistant
        tool start a
        tool start b
        tool start c
        tool end c error
        tool start d
        tool end d error
        tool update a
        tool end b
        tool end a
        message_start result a
        message_end result a
        message_start result b
        message_end result b
        message_start result c
        message_end result c
        message_start result d
        message_end result d
        turn_end
        turn_start
        message_start assistant
        message_update
        message_end assistant
        turn_end
        agent_end
    """)
    answers = results(events)
    assert said(answers["c"]) == "Tool nothing not found"
    assert "path: is required" in said(answers["d"])


async def test_sequential_calls_are_answered_one_by_one() -> None:
    events = await play(
        [[tool_call("one", call_id="a"), tool_call("two", call_id="b")], [text("ok")]],
        tools=[tool("one"), tool("two")],
        tool_execution="sequential",
    )
    assert names(events)[6:-6] == script("""
        message_end assistant
        tool start a
        tool end a
        message_start result a
        message_end result a
        tool start b
        tool end b
        message_start result b
        message_end result b
        turn_end
    """)


async def test_one_sequential_tool_makes_the_whole_batch_sequential() -> None:
    events = await play(
        [[tool_call("one", call_id="a"), tool_call("two", call_id="b")], [text("ok")]],
        tools=[tool("one"), tool("two", execution_mode="sequential")],
    )
    order = of_calls(names(events))
    assert order == script("""
        tool start a
        tool end a
        message_start result a
        message_end result a
        tool start b
        tool end b
        message_start result b
        message_end result b
    """)


async def test_a_reply_cut_by_the_token_limit_has_its_calls_answered_one_by_one_and_not_run() -> (
    None
):
    ran: list[str] = []

    async def execute(call_id: str, *_rest: Any) -> ToolResult:
        ran.append(call_id)
        return ToolResult.of_text("ran")

    events = await play(
        [
            [
                tool_call("one", call_id="a"),
                tool_call("one", call_id="b"),
                stop_reason("length"),
            ],
            [text("shorter")],
        ],
        tools=[tool("one", execute)],
    )
    order = of_calls(names(events))
    assert order == script("""
        tool start a
        tool end a error
        message_start result a
        message_end result a
        tool start b
        tool end b error
        message_start result b
        message_end result b
    """)
    assert ran == []
    assert "token limit" in said(results(events)["a"])
    assert names(events)[-6:] == script("""
        turn_start
        message_start assistant
        message_update
        message_end assistant
        turn_end
        agent_end
    """)


async def test_a_continued_run_announces_only_what_is_new() -> None:
    stream = agent_loop_continue(AgentContext("", [user("hi")]), config([[text("hello")]]))
    assert names([event async for event in stream]) == script("""
        agent_start
        turn_start
        message_start assistant
        message_update
        message_end assistant
        turn_end
        agent_end
    """)
    assert [type(each) for each in await stream.result()] == [AssistantMessage]


def listening_agent(
    replies: list[Any], tools: list[AgentTool] | None = None, **fields: Any
) -> tuple[Agent, list[LoopEvent]]:
    events: list[LoopEvent] = []
    agent = Agent(
        InitialState(model=scripted_model(), tools=tools or []),
        stream_fn=scripted_stream_fn(replies),
        **fields,
    )
    agent.subscribe(events.append)
    return agent, events


async def test_two_steers_and_a_follow_up_are_delivered_one_per_turn_in_one_run() -> None:
    async def queue_up() -> None:
        agent.steer("st1")
        agent.steer("st2")
        agent.follow_up("fu1")

    agent, events = listening_agent(
        [[text("a"), until(queue_up)], [text("b")], [text("c")], [text("d")]]
    )
    await agent.prompt("hi")
    assert names(events) == script("""
        agent_start
        turn_start
        message_start user hi
        message_end user hi
        message_start assistant
        message_update
        message_end assistant
        turn_end
        turn_start
        message_start user st1
        message_end user st1
        message_start assistant
        message_update
        message_end assistant
        turn_end
        turn_start
        message_start user st2
        message_end user st2
        message_start assistant
        message_update
        message_end assistant
        turn_end
        turn_start
        message_start user fu1
        message_end user fu1
        message_start assistant
        message_update
        message_end assistant
        turn_end
        agent_end
    """)


async def test_an_abort_keeps_the_queues_and_the_next_prompt_delivers_them() -> None:
    async def stop() -> None:
        agent.steer("steered")
        agent.follow_up("followed")
        agent.abort()
        await anyio.sleep_forever()

    agent, events = listening_agent([[text("a"), until(stop)], [text("b")], [text("c")]])
    await agent.prompt("one")
    assert names(events)[-3:] == ["message_end assistant", "turn_end", "agent_end"]
    assert len(agent.peek_queued_messages()) == 1
    events.clear()
    await agent.prompt("two")
    assert names(events) == script("""
        agent_start
        turn_start
        message_start user two
        message_end user two
        message_start user steered
        message_end user steered
        message_start assistant
        message_update
        message_end assistant
        turn_end
        turn_start
        message_start user followed
        message_end user followed
        message_start assistant
        message_update
        message_end assistant
        turn_end
        agent_end
    """)


async def test_an_abort_during_text_keeps_what_had_come() -> None:
    async def stop() -> None:
        agent.abort()
        await anyio.sleep_forever()

    agent, events = listening_agent([[text("partial"), until(stop)]])
    new = await agent.prompt("hi")
    assert names(events) == script("""
        agent_start
        turn_start
        message_start user hi
        message_end user hi
        message_start assistant
        message_update
        message_end assistant
        turn_end
        agent_end
    """)
    reply = new[-1]
    assert isinstance(reply, AssistantMessage)
    assert (reply.stop_reason, said(reply)) == ("aborted", "partial")


async def test_an_abort_during_tools_keeps_partial_output_and_starts_no_further_turn() -> None:
    started = anyio.Event()

    async def partial(_id: str, _params: Any, signal: Any, update: Any) -> ToolResult:
        update(ToolResult.of_text("half"))
        started.set()
        await signal.wait()
        return ToolResult.of_text("half\n\nCommand aborted", is_error=True)

    controller = AbortController()
    context = AgentContext(
        "", [user("hi")], [tool("watch", partial, abort_grace_s=5), tool("ignore", _for_ever)]
    )
    replies = [[tool_call("ignore", call_id="a"), tool_call("watch", call_id="b")], [text("no")]]
    stream = agent_loop_continue(context, config(replies), controller.signal)
    events: list[LoopEvent] = []
    with anyio.fail_after(DEADLINE_S):
        async for event in stream:
            events.append(event)
            if isinstance(event, ToolExecutionUpdate):
                await started.wait()
                controller.abort()
    assert names(events)[4:] == script("""
        message_end assistant
        tool start a
        tool start b
        tool update b
        tool end a error
        tool end b error
        message_start result a
        message_end result a
        message_start result b
        message_end result b
        turn_end
        agent_end
    """)
    answers = results(events)
    assert said(answers["a"]) == "Operation aborted"
    assert said(answers["b"]) == "half\n\nCommand aborted"


async def _for_ever(*_arguments: Any) -> ToolResult:
    await anyio.sleep_forever()
    raise AssertionError


async def test_an_abort_before_the_calls_run_answers_each_of_them() -> None:
    controller = AbortController()
    started = anyio.Event()
    context = AgentContext("", [user("hi")], [tool("wait", waits_for(anyio.Event(), started))])
    replies = [[tool_call("wait", call_id="a"), tool_call("wait", call_id="b")]]
    stream = agent_loop_continue(context, config(replies), controller.signal)
    events: list[LoopEvent] = []
    async for event in stream:
        events.append(event)
        if name(event) == "message_end assistant":
            controller.abort()
    assert names(events)[5:] == script("""
        tool start a
        tool end a error
        tool start b
        tool end b error
        message_start result a
        message_end result a
        message_start result b
        message_end result b
        turn_end
        agent_end
    """)
    assert not started.is_set()
