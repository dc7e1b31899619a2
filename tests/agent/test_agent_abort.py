"""Aborting a run, and cancelling whoever waits for it."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from pi_rpc.agent import (
    AfterToolCallResult,
    Agent,
    AgentContext,
    AgentTool,
    BeforeToolCallResult,
    InitialState,
    LoopEvent,
    ToolFailure,
    ToolResult,
    _interrupt,
    agent_loop,
)
from pi_rpc.agent.events import AgentEnd, MessageEnd, ToolExecutionUpdate
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import AssistantMessage
from pi_rpc.llm.scripted import scripted_model, scripted_stream_fn, text, tool_call, until
from tests.agent.stage import config, name_message, names, results, said, tool, user, waits_for
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

CALL = [tool_call("do", call_id="a")]


def make_agent(
    replies: Sequence[Any], *tools: AgentTool, **fields: Any
) -> tuple[Agent, list[LoopEvent]]:
    agent = Agent(
        InitialState(model=scripted_model(), tools=tools),
        stream_fn=scripted_stream_fn(replies),
        **fields,
    )
    events: list[LoopEvent] = []
    agent.subscribe(events.append)
    return agent, events


async def prompt_and_abort_when(agent: Agent, ready: anyio.Event, prompt: str = "hi") -> list[Any]:
    """The new messages of a run that is aborted once ``ready``."""
    new: list[Any] = []

    async def run() -> None:
        new.extend(await agent.prompt(prompt))

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await ready.wait()
            agent.abort()
            await agent.wait_for_idle()
    return new


async def test_an_abort_while_idle_does_nothing() -> None:
    agent, _events = make_agent([[text("ok")]])
    agent.abort()
    new = await agent.prompt("hi")
    assert isinstance(new[-1], AssistantMessage)
    assert new[-1].stop_reason == "stop"


# --- tools --------------------------------------------------------------------------------------


async def test_a_tool_that_ignores_the_signal_stops_at_once() -> None:
    started = anyio.Event()
    agent, events = make_agent([CALL], tool("do", waits_for(anyio.Event(), started)))
    new = await prompt_and_abort_when(agent, started)
    assert [name_message(each) for each in new] == ["user hi", "assistant", "result a"]
    assert said(new[-1]) == "Operation aborted"
    assert new[-1].is_error
    assert isinstance(new[-1].duration_ms, float)
    assert names(events)[-2:] == ["turn_end", "agent_end"]


@pytest.mark.parametrize("way", ["return", "raise"])
async def test_a_tool_may_catch_its_cancellation_clean_up_and_keep_partial_output(
    way: str,
) -> None:
    started, cleaned = anyio.Event(), anyio.Event()

    async def execute(*_arguments: Any) -> ToolResult:
        started.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
                cleaned.set()
            if way == "raise":
                raise ToolFailure("half of it", {"lines": 3}) from None
            return ToolResult.of_text("half of it", details={"lines": 3}, is_error=True)
        raise AssertionError

    agent, _events = make_agent([CALL], tool("do", execute))
    new = await prompt_and_abort_when(agent, started)
    assert cleaned.is_set()
    assert (said(new[-1]), new[-1].details, new[-1].is_error) == ("half of it", {"lines": 3}, True)


async def test_a_tool_with_grace_watches_the_signal_and_returns_what_it_has() -> None:
    started = anyio.Event()

    async def execute(_id: str, _params: Any, signal: Any, _update: Any) -> ToolResult:
        started.set()
        await signal.wait()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        return ToolResult.of_text("half of it", is_error=True)

    agent, _events = make_agent([CALL], tool("do", execute, abort_grace_s=60))
    new = await prompt_and_abort_when(agent, started)
    assert said(new[-1]) == "half of it"


async def test_grace_is_bounded() -> None:
    started = anyio.Event()
    stuck = tool("do", waits_for(anyio.Event(), started), abort_grace_s=0.01)
    agent, _events = make_agent([CALL], stuck)
    new = await prompt_and_abort_when(agent, started)
    assert said(new[-1]) == "Operation aborted"


async def test_each_tool_of_a_batch_is_stopped_in_its_own_way_and_what_had_ended_stays() -> None:
    started = anyio.Event()

    async def watches(_id: str, _params: Any, signal: Any, _update: Any) -> ToolResult:
        await signal.wait()
        return ToolResult.of_text("half of it", is_error=True)

    agent, events = make_agent(
        [
            [
                tool_call("ignores", call_id="a"),
                tool_call("watches", call_id="b"),
                tool_call("quick", call_id="c"),
            ]
        ],
        tool("ignores", waits_for(anyio.Event(), started)),
        tool("watches", watches, abort_grace_s=60),
        tool("quick"),
    )
    agent.subscribe(lambda event: started.set() if names([event]) == ["tool end c"] else None)
    new = await prompt_and_abort_when(agent, started)
    assert [said(each) for each in new[2:]] == ["Operation aborted", "half of it", "quick done"]
    assert [each for each in names(events) if each.startswith("message_end result")] == [
        "message_end result a",
        "message_end result b",
        "message_end result c",
    ]


async def test_later_calls_of_a_sequential_batch_are_answered_and_not_run() -> None:
    started = anyio.Event()
    agent, events = make_agent(
        [[tool_call("do", call_id="a"), tool_call("other", call_id="b")]],
        tool("do", waits_for(anyio.Event(), started)),
        tool("other"),
        tool_execution="sequential",
    )
    new = await prompt_and_abort_when(agent, started)
    assert [said(each) for each in new[2:]] == ["Operation aborted"] * 2
    assert not isinstance(results(events)["b"].duration_ms, float)


async def test_updates_of_a_cancelled_tool_are_kept_before_its_end() -> None:
    agent, events = make_agent([CALL], tool("do", _reports_for_ever))
    ready = anyio.Event()
    agent.subscribe(lambda e: ready.set() if isinstance(e, ToolExecutionUpdate) else None)
    await prompt_and_abort_when(agent, ready)
    assert "tool update a" in names(events)
    assert names(events).index("tool update a") < names(events).index("tool end a error")


async def _reports_for_ever(_id: str, _params: Any, _signal: Any, update: Any) -> ToolResult:
    while True:
        update(ToolResult.of_text("half"))
        await anyio.sleep(0.001)


# --- hooks --------------------------------------------------------------------------------------


async def test_an_abort_cuts_a_waiting_before_tool_call_short_and_the_call_is_aborted() -> None:
    asked, ran = anyio.Event(), anyio.Event()

    async def ask(*_arguments: Any) -> None:
        asked.set()
        await anyio.sleep_forever()

    agent, _events = make_agent([CALL], tool("do", waits_for(ran, ran)), before_tool_call=ask)
    new = await prompt_and_abort_when(agent, asked)
    assert said(new[-1]) == "Operation aborted"
    assert not ran.is_set()


async def test_a_before_tool_call_that_allows_after_the_abort_is_too_late() -> None:
    asked, ran = anyio.Event(), anyio.Event()

    async def ask(_call: Any, signal: Any) -> None:
        asked.set()
        with anyio.CancelScope(shield=True):
            await signal.wait()

    agent, _events = make_agent([CALL], tool("do", waits_for(ran, ran)), before_tool_call=ask)
    new = await prompt_and_abort_when(agent, asked)
    assert said(new[-1]) == "Operation aborted"
    assert not ran.is_set()


async def test_an_abort_outweighs_the_reason_of_a_block() -> None:
    asked = anyio.Event()

    async def ask(_call: Any, signal: Any) -> BeforeToolCallResult:
        asked.set()
        with anyio.CancelScope(shield=True):
            await signal.wait()
        return BeforeToolCallResult(block=True, reason="not now")

    agent, _events = make_agent([CALL], tool("do"), before_tool_call=ask)
    assert said((await prompt_and_abort_when(agent, asked))[-1]) == "Operation aborted"


async def test_a_call_that_was_prepared_before_the_abort_does_not_even_begin() -> None:
    ran: list[str] = []

    async def execute(call_id: str, *_rest: Any) -> ToolResult:
        ran.append(call_id)
        return ToolResult.of_text("done")

    agent, _events = make_agent([[*CALL, tool_call("nothing", call_id="b")]], tool("do", execute))
    agent.subscribe(lambda e: agent.abort() if names([e]) == ["tool end b error"] else None)
    new = await agent.prompt("hi")
    assert ran == []
    assert said(new[2]) == "Operation aborted"


async def test_after_tool_call_still_sees_what_an_aborted_tool_returned() -> None:
    started = anyio.Event()

    async def execute(_id: str, _params: Any, signal: Any, _update: Any) -> ToolResult:
        started.set()
        await signal.wait()
        return ToolResult.of_text("half, with a secret")

    async def redact(*_arguments: Any) -> AfterToolCallResult:
        await anyio.lowlevel.checkpoint()
        return AfterToolCallResult(content=ToolResult.of_text("half").content)

    agent, _events = make_agent(
        [CALL], tool("do", execute, abort_grace_s=60), after_tool_call=redact
    )
    new = await prompt_and_abort_when(agent, started)
    assert said(new[-1]) == "half"


async def test_an_after_tool_call_that_never_answers_hides_the_result_of_an_aborted_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reviewing = anyio.Event()
    monkeypatch.setattr("pi_rpc.agent.tool_calls.AFTER_ABORT_S", 0.01)

    async def review(*_arguments: Any) -> None:
        reviewing.set()
        await anyio.sleep_forever()

    agent, _events = make_agent([CALL], tool("do"), after_tool_call=review)
    new = await prompt_and_abort_when(agent, reviewing)
    assert said(new[-1]) == "Operation aborted"


@pytest.mark.parametrize(
    "hook",
    [
        "transform_context",
        "convert_to_llm",
        "get_api_key",
        "should_stop_after_turn",
        "prepare_next_turn",
    ],
)
async def test_an_abort_cuts_every_other_hook_short_too(hook: str) -> None:
    waiting = anyio.Event()

    async def wait(*_arguments: Any) -> Any:
        waiting.set()
        await anyio.sleep_forever()

    agent, events = make_agent([CALL, [text("no")]], tool("do"), **{hook: wait})
    new = await prompt_and_abort_when(agent, waiting)
    assert names(events)[-2:] == ["turn_end", "agent_end"]
    if hook in {"should_stop_after_turn", "prepare_next_turn"}:
        assert name_message(new[-1]) == "result a"
    else:
        assert new[-1].stop_reason == "aborted"
        assert new[-1].content == []


async def test_an_abort_while_a_turn_is_over_starts_no_other_and_calls_no_hook() -> None:
    called: list[str] = []
    agent, events = make_agent(
        [CALL, [text("no")]],
        tool("do"),
        should_stop_after_turn=lambda _turn: called.append("stop?") or False,
        prepare_next_turn=lambda _turn: called.append("prepare"),
    )
    agent.follow_up("later")
    agent.subscribe(lambda event: agent.abort() if names([event]) == ["turn_end"] else None)
    await agent.prompt("hi")
    assert names(events)[-2:] == ["turn_end", "agent_end"]
    assert names(events).count("turn_start") == 1
    assert called == []
    assert agent.has_queued_messages()


# --- queues -------------------------------------------------------------------------------------


async def test_a_steer_in_flight_goes_back_to_the_head_of_its_queue() -> None:
    preparing = anyio.Event()

    async def prepare(_turn: Any) -> None:
        agent.steer("later")
        preparing.set()
        await anyio.sleep_forever()

    async def queue() -> None:
        agent.steer("first")
        agent.follow_up("follow")

    agent, events = make_agent(
        [[text("a"), until(queue)], [text("b")], [text("c")], [text("d")]],
        prepare_next_turn=prepare,
    )
    at_end: list[str] = []
    agent.subscribe(
        lambda event: (
            at_end.extend(said(each) for each in agent.peek_queued_messages())
            if isinstance(event, AgentEnd)
            else None
        )
    )
    new = await prompt_and_abort_when(agent, preparing)
    assert [name_message(each) for each in new] == ["user hi", "assistant"]
    assert at_end == ["first"]
    agent.steering_mode = "all"
    assert [said(each) for each in agent.clear_all_queues()] == ["first", "later", "follow"]
    assert "message_start user first" not in names(events)


async def test_a_steer_whose_end_was_announced_is_delivered_and_does_not_come_back() -> None:
    agent, _events = make_agent([[text("no")]])
    agent.steer("now")

    def stop(event: LoopEvent) -> None:
        if isinstance(event, MessageEnd) and name_message(event.message) == "user now":
            agent.abort()

    agent.subscribe(stop)
    new = await agent.prompt("hi")
    assert [name_message(each) for each in new] == ["user hi", "user now", "assistant"]
    assert new[-1].stop_reason == "aborted"
    assert not agent.has_queued_messages()


async def test_what_continue_took_goes_back_when_the_run_fails_before_delivery() -> None:
    agent, _events = make_agent([[text("a")], [text("b")]])
    await agent.prompt("hi")
    agent.steer("now")

    def refuse(events: Sequence[LoopEvent]) -> None:
        if names(events) == ["agent_start", "turn_start"]:
            raise OSError("disk full")

    leave = agent.subscribe_batch(refuse)
    await agent.continue_()
    assert [said(each) for each in agent.peek_queued_messages()] == ["now"]
    leave()
    assert [name_message(each) for each in await agent.continue_()] == ["user now", "assistant"]


# --- the caller is cancelled --------------------------------------------------------------------


async def test_cancelling_the_caller_finishes_the_run_as_aborted_and_goes_on() -> None:
    started = anyio.Event()
    stored: list[str] = []

    async def store(events: Sequence[LoopEvent]) -> None:
        for each in names(events):
            await anyio.lowlevel.checkpoint()
            if each != "message_update":
                stored.append(each)

    agent, events = make_agent([CALL], tool("do", waits_for(anyio.Event(), started)))
    agent.subscribe_batch(store)
    reached: list[str] = []

    async def run() -> None:
        await agent.prompt("hi")
        reached.append("after the prompt")

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await started.wait()
            tasks.cancel_scope.cancel()
    assert reached == []
    assert not agent.state.is_streaming
    assert stored == [each for each in names(events) if each != "message_update"]
    assert names(events)[-5:] == [
        "tool end a error",
        "message_start result a",
        "message_end result a",
        "turn_end",
        "agent_end",
    ]
    assert said(agent.state.messages[-1]) == "Operation aborted"


async def test_cancelling_the_caller_while_text_streams_keeps_the_text() -> None:
    streaming = anyio.Event()

    async def wait() -> None:
        streaming.set()
        await anyio.sleep_forever()

    agent, events = make_agent([[text("partial"), until(wait)]])
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.prompt, "hi")
            await streaming.wait()
            tasks.cancel_scope.cancel()
    last = agent.state.messages[-1]
    assert isinstance(last, AssistantMessage)
    assert (said(last), last.stop_reason) == ("partial", "aborted")
    assert names(events)[-1] == "agent_end"


async def test_what_must_be_finished_after_a_cancellation_is_bounded_and_loses_no_steer() -> None:
    stuck = anyio.Event()

    async def store(events: Sequence[LoopEvent]) -> None:
        if "message_end user now" in names(events):
            stuck.set()
            await anyio.sleep_forever()

    agent, _events = make_agent([[text("ok")]], finish_within_s=0.01)
    leave = agent.subscribe_batch(store)
    agent.steer("now")
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.prompt, "hi")
            await stuck.wait()
            tasks.cancel_scope.cancel()
        leave()
        assert not agent.state.is_streaming
        assert [name_message(each) for each in agent.state.messages] == ["user hi"]
        await agent.wait_for_idle()
        new = await agent.prompt("again")
    assert [name_message(each) for each in new] == ["user again", "user now", "assistant"]


async def test_a_scope_that_was_cancelled_before_the_prompt_gives_an_aborted_run() -> None:
    agent, events = make_agent([[text("no")]])
    with anyio.CancelScope() as scope, anyio.fail_after(DEADLINE_S):
        scope.cancel()
        await agent.prompt("hi")
    assert scope.cancelled_caught
    assert names(events)[-1] == "agent_end"
    assert not agent.state.is_streaming
    last = agent.state.messages[-1]
    assert isinstance(last, AssistantMessage)
    assert last.stop_reason == "aborted"


async def test_cancelling_whoever_reads_the_bare_loop_stops_its_tools() -> None:
    started, stopped = anyio.Event(), anyio.Event()

    async def execute(*_arguments: Any) -> ToolResult:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    async def read() -> None:
        context = AgentContext("", [], [tool("do", execute)])
        async for _event in agent_loop([user("hi")], context, config([CALL])):
            pass

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await started.wait()
            tasks.cancel_scope.cancel()
    assert stopped.is_set()


# --- the scope itself ---------------------------------------------------------------------------


async def test_an_abort_scope_leaves_no_trace_on_the_signal_or_the_task() -> None:
    controller = AbortController()
    with _interrupt.AbortScope(controller.signal):
        await anyio.lowlevel.checkpoint()
    assert not controller.signal._callbacks
    reached = False
    with _interrupt.AbortScope(controller.signal):
        controller.abort()
        await anyio.sleep_forever()
        reached = True
    assert not reached
    await anyio.lowlevel.checkpoint()
    with anyio.move_on_after(5) as later:
        await anyio.lowlevel.checkpoint()
    assert not later.cancelled_caught
