"""The Agent: prompts, state, queues, listeners."""

import logging
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

import pi_rpc.agent
from pi_rpc.agent import (
    Agent,
    AgentBusyError,
    AgentContext,
    InitialState,
    LoopEvent,
    LoopTurnUpdate,
    MessageRoles,
    NothingToContinueError,
    ToolResult,
    convert_to_llm,
    default_roles,
)
from pi_rpc.agent.events import AgentEnd, MessageEnd, MessageUpdate, TurnEnd
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    Wire,
)
from pi_rpc.llm.models import Model
from pi_rpc.llm.scripted import (
    ScriptedModel,
    error,
    scripted_model,
    scripted_stream_fn,
    text,
    tool_call,
    until,
)
from tests.agent.stage import name_message, names, said, tool, user
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio


def make_agent(replies: Sequence[Any] = (), *, state: Any = None, **fields: Any) -> Agent:
    initial = {"model": scripted_model(), "system_prompt": "be brief"} | (state or {})
    fields.setdefault("stream_fn", scripted_stream_fn(replies))
    return Agent(InitialState(**initial), **fields)


def listen(agent: Agent) -> list[LoopEvent]:
    events: list[LoopEvent] = []
    agent.subscribe(events.append)
    return events


def asked(model: ScriptedModel) -> list[list[str]]:
    return [[name_message(each) for each in r.context.messages] for r in model.requests]


# --- prompts ------------------------------------------------------------------------------------

IMAGE = ImageBlock(data="aGk=", mime_type="image/png")


@pytest.mark.parametrize(
    ("prompt", "images", "contents"),
    [
        ("hi", [], [[TextBlock(text="hi")]]),
        ("hi", [IMAGE], [[TextBlock(text="hi"), IMAGE]]),
        (user("hi"), [], ["hi"]),
        ([user("one"), user("two")], [], ["one", "two"]),
        ((user("one"),), [], ["one"]),
    ],
)
async def test_a_prompt_is_text_text_with_images_a_message_or_messages(
    prompt: Any, images: list[ImageBlock], contents: list[Any]
) -> None:
    agent = make_agent([[text("ok")]])
    new = await agent.prompt(prompt, images)
    prompts = [each for each in new if isinstance(each, UserMessage)]
    assert [each.content for each in prompts] == contents
    assert all(each.timestamp > 0 for each in prompts)
    assert agent.state.messages == new


@pytest.mark.parametrize(
    ("prompt", "images", "problem"),
    [
        ([], [], ValueError),
        (user("hi"), [IMAGE], ValueError),
        (["hi"], [], TypeError),
        (TextBlock(text="hi"), [], TypeError),
    ],
)
async def test_what_is_no_prompt_is_refused_and_leaves_the_agent_idle(
    prompt: Any, images: list[ImageBlock], problem: type[Exception]
) -> None:
    agent = make_agent([[text("ok")]])
    with pytest.raises(problem):
        await agent.prompt(prompt, images)
    assert not agent.state.is_streaming
    await agent.prompt("hi")


async def test_prompts_build_one_conversation() -> None:
    model = scripted_stream_fn([[text("a")], [text("b")]])
    agent = make_agent(stream_fn=model)
    await agent.prompt("one")
    await agent.prompt("two")
    assert asked(model) == [["user one"], ["user one", "assistant", "user two"]]
    assert model.requests[0].context.system_prompt == "be brief"


# --- one run at a time --------------------------------------------------------------------------


async def test_prompt_continue_reset_and_set_messages_are_refused_while_a_run_is_active() -> None:
    agent = make_agent()
    refused: list[str] = []

    async def intrude() -> None:
        for attempt in (lambda: agent.prompt("again"), agent.continue_):
            with pytest.raises(AgentBusyError):
                await attempt()
            refused.append("run")
        with pytest.raises(AgentBusyError):
            agent.reset()
        with pytest.raises(AgentBusyError):
            agent.set_messages([])

    model = scripted_stream_fn([[text("a"), until(intrude)], [text("b")]])
    agent = make_agent(stream_fn=model)
    new = await agent.prompt("hi")
    assert refused == ["run", "run"]
    assert [name_message(each) for each in new] == ["user hi", "assistant"]
    assert isinstance(new[-1], AssistantMessage)
    assert new[-1].stop_reason == "stop"


async def test_wait_for_idle_returns_after_the_last_listener_and_at_once_when_idle() -> None:
    agent = make_agent([[text("ok")]])
    await agent.wait_for_idle()
    log: list[str] = []
    running = anyio.Event()

    async def slow(event: LoopEvent) -> None:
        running.set()
        if isinstance(event, AgentEnd):
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            log.append("heard the end")

    async def wait() -> None:
        await running.wait()
        await agent.wait_for_idle()
        log.append("idle")

    agent.subscribe(slow)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await agent.prompt("hi")
    assert log == ["heard the end", "idle"]


async def test_reset_forgets_messages_queues_and_error_and_keeps_the_rest() -> None:
    agent = make_agent([[error("no")], [text("ok")]], state={"tools": [tool("do")]})
    await agent.prompt("hi")
    agent.steer("x")
    agent.follow_up("y")
    assert agent.state.error_message == "no"
    agent.reset()
    assert agent.state.messages == []
    assert agent.state.error_message is None
    assert not agent.has_queued_messages()
    assert agent.state.system_prompt == "be brief"
    assert len(agent.state.tools) == 1
    assert len(await agent.prompt("again")) == 2


# --- continue -----------------------------------------------------------------------------------


async def test_continue_answers_what_is_last() -> None:
    agent = make_agent([[text("ok")]], state={"messages": [user("hi")]})
    events = listen(agent)
    assert [name_message(each) for each in await agent.continue_()] == ["assistant"]
    assert names(events)[:3] == ["agent_start", "turn_start", "message_start assistant"]


async def test_continue_after_a_reply_delivers_one_steer_then_a_follow_up_or_refuses() -> None:
    model = scripted_stream_fn([[text("a")], [text("b")], [text("c")], [text("d")]])
    agent = make_agent(stream_fn=model)
    with pytest.raises(NothingToContinueError):
        await agent.continue_()
    await agent.prompt("hi")
    with pytest.raises(NothingToContinueError):
        await agent.continue_()
    agent.steer("s1")
    agent.steer("s2")
    new = await agent.continue_()
    assert [name_message(each) for each in new] == [
        "user s1",
        "assistant",
        "user s2",
        "assistant",
    ]
    agent.follow_up("f")
    assert [name_message(each) for each in await agent.continue_()] == ["user f", "assistant"]
    assert not agent.has_queued_messages()


# --- queues -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "requests"),
    [
        ("one-at-a-time", [["user hi", "user s1"], ["user s2"], ["user f1"], ["user f2"]]),
        ("all", [["user hi", "user s1", "user s2"], ["user f1", "user f2"]]),
    ],
)
async def test_both_queues_have_both_modes(mode: Any, requests: list[list[str]]) -> None:
    model = scripted_stream_fn([[text("ok")]], loop=True)
    agent = make_agent(stream_fn=model, steering_mode=mode, follow_up_mode=mode)
    assert (agent.steering_mode, agent.follow_up_mode) == (mode, mode)
    for each in ("s1", "s2"):
        agent.steer(each)
    for each in ("f1", "f2"):
        agent.follow_up(each)
    await agent.prompt("hi")
    new_in_each = []
    known = 0
    for request in asked(model):
        new_in_each.append([each for each in request[known:] if each != "assistant"])
        known = len(request)
    assert new_in_each == requests


async def test_a_mode_can_be_changed_and_peek_shows_what_is_next() -> None:
    agent = make_agent()
    assert not agent.has_queued_messages()
    assert agent.peek_queued_messages() == []
    agent.follow_up([user("f1"), user("f2")])
    assert [said(each) for each in agent.peek_queued_messages()] == ["f1"]
    agent.follow_up_mode = "all"
    assert [said(each) for each in agent.peek_queued_messages()] == ["f1", "f2"]
    agent.steer("s1")
    agent.steer("s2", [IMAGE])
    assert [said(each) for each in agent.peek_queued_messages()] == ["s1"]
    agent.steering_mode = "all"
    assert [said(each) for each in agent.peek_queued_messages()] == ["s1", "s2"]
    assert agent.has_queued_messages()


async def test_queues_can_be_cleared_one_by_one_and_give_back_what_waited() -> None:
    agent = make_agent()
    agent.steer("s")
    agent.follow_up("f")
    assert [said(each) for each in agent.clear_steering_queue()] == ["s"]
    assert [said(each) for each in agent.peek_queued_messages()] == ["f"]
    assert [said(each) for each in agent.clear_follow_up_queue()] == ["f"]
    agent.follow_up("f")
    agent.steer("s")
    assert [said(each) for each in agent.clear_all_queues()] == ["s", "f"]
    assert not agent.has_queued_messages()


# --- state --------------------------------------------------------------------------------------


async def test_state_is_read_only_and_its_lists_are_copies() -> None:
    mine = [user("before")]
    tools = [tool("do")]
    agent = make_agent(state={"messages": mine, "tools": tools})
    mine.clear()
    tools.clear()
    agent.state.messages.clear()
    agent.state.tools.clear()
    agent.state.pending_tool_calls.add("x")
    assert len(agent.state.messages) == len(agent.state.tools) == 1
    assert agent.state.pending_tool_calls == set()
    for attribute in ("messages", "tools", "model", "system_prompt", "is_streaming"):
        with pytest.raises(AttributeError):
            setattr(agent.state, attribute, None)


async def test_state_follows_the_run_before_listeners_hear_of_it() -> None:
    agent = make_agent(
        [[tool_call("do", call_id="a")], [text("hello", pieces=2)]], state={"tools": [tool("do")]}
    )
    seen: dict[str, Any] = {}

    def look(event: LoopEvent) -> None:
        state = agent.state
        assert state.is_streaming
        streaming = state.streaming_message
        seen.setdefault(names([event])[0], []).append(
            (
                len(state.messages),
                None if streaming is None else said(streaming),
                sorted(state.pending_tool_calls),
            )
        )

    agent.subscribe(look)
    await agent.prompt("hi")
    assert seen["message_start user hi"] == [(0, "hi", [])]
    assert seen["message_end user hi"] == [(1, None, [])]
    assert seen["tool start a"] == [(2, None, ["a"])]
    assert seen["tool end a"] == [(2, None, [])]
    assert seen["message_update"][-1] == (3, "hello", [])
    assert seen["agent_end"] == [(4, None, [])]
    assert not agent.state.is_streaming
    assert agent.signal is None


async def test_a_failed_run_is_seen_in_the_state_until_the_next_begins() -> None:
    agent = make_agent([[error("overloaded")], [text("ok")]])
    await agent.prompt("hi")
    assert agent.state.error_message == "overloaded"
    await agent.prompt("again")
    assert agent.state.error_message is None


async def test_what_is_set_holds_from_the_next_turn_on() -> None:
    other = Model(
        **{
            **{f: getattr(scripted_model(), f) for f in scripted_model().__struct_fields__},
            "id": "other",
        }
    )

    async def change() -> None:
        agent.set_model(other)
        agent.set_thinking_level("low")
        agent.set_system_prompt("be long")
        agent.set_tools([tool("more")])

    model = scripted_stream_fn([[tool_call("do"), until(change)], [text("ok")]])
    agent = make_agent(stream_fn=model, state={"tools": [tool("do")]})
    await agent.prompt("hi")
    first, second = model.requests
    assert (first.model.id, first.options.thinking_level) == ("scripted", "off")
    assert (second.model.id, second.options.thinking_level) == ("other", "low")
    assert second.context.system_prompt == "be long"
    assert [each.name for each in second.context.tools] == ["more"]
    assert agent.state.model.id == "other"
    assert len(second.context.messages) == 3


async def test_what_prepare_next_turn_replaces_becomes_state() -> None:
    async def compact(turn: Any) -> LoopTurnUpdate:
        return LoopTurnUpdate(
            context=AgentContext("be long", [user("summary"), *turn.context.messages[-2:]], []),
            thinking_level="high",
        )

    model = scripted_stream_fn([[tool_call("do", call_id="a")], [text("ok")]])
    agent = make_agent(stream_fn=model, state={"tools": [tool("do")]}, prepare_next_turn=compact)
    new = await agent.prompt("hi")
    assert [name_message(each) for each in agent.state.messages] == [
        "user summary",
        "assistant",
        "result a",
        "assistant",
    ]
    assert agent.state.system_prompt == "be long"
    assert agent.state.thinking_level == "high"
    assert agent.state.tools == []
    assert len(new) == 4


async def test_messages_can_be_replaced_when_idle() -> None:
    model = scripted_stream_fn([[text("ok")]])
    agent = make_agent(stream_fn=model)
    agent.set_messages([user("before")])
    await agent.prompt("hi")
    assert asked(model) == [["user before", "user hi"]]


async def test_every_option_reaches_the_loop() -> None:
    called: set[str] = set()

    def note(name: str, value: Any = None) -> Any:
        def hook(*arguments: Any) -> Any:
            called.add(name)
            return value(*arguments) if callable(value) else value

        return hook

    hooks = {
        "transform_context": note("transform_context", lambda messages, _signal: messages),
        "convert_to_llm": note("convert_to_llm", list),
        "get_api_key": note("get_api_key", "key"),
        "should_stop_after_turn": note("should_stop_after_turn", False),
        "prepare_next_turn": note("prepare_next_turn"),
        "before_tool_call": note("before_tool_call"),
        "after_tool_call": note("after_tool_call"),
    }
    got: list[Any] = []

    def execute(_id: str, _params: Any, _signal: Any, _update: Any, context: Any) -> ToolResult:
        got.append(context)
        return ToolResult.of_text("done")

    context: Any = type("Context", (), {"supports_images": False})()
    agent = make_agent(
        [[tool_call("do"), tool_call("do")], [text("ok")]],
        state={"tools": [tool("do", execute)]},
        tool_context=context,
        tool_execution="sequential",
        **hooks,
    )
    events = listen(agent)
    await agent.prompt("hi")
    assert called == set(hooks)
    assert got == [context, context]
    starts = [i for i, each in enumerate(names(events)) if each.startswith("tool start")]
    assert starts[1] - starts[0] > 1


class Note(Wire, tag_field="role", tag="note", frozen=True, kw_only=True):
    """A role of an application."""

    content: str


async def test_a_custom_role_goes_through_an_agent_and_reads_as_it_was_registered() -> None:
    roles: MessageRoles = default_roles()
    roles.register(Note, lambda note: [user(f"note: {note.content}")])
    model = scripted_stream_fn([[text("ok")]])
    agent = make_agent(
        stream_fn=model, convert_to_llm=lambda messages: convert_to_llm(messages, roles)
    )
    note = Note(content="mind the gap")
    new = await agent.prompt([note, user("hi")])
    assert new[0] is note
    assert asked(model) == [["user note: mind the gap", "user hi"]]


# --- listeners ----------------------------------------------------------------------------------


async def test_listeners_are_awaited_in_the_order_they_came_batches_first() -> None:
    agent = make_agent([[text("ok")]])
    log: list[str] = []

    async def slow(event: LoopEvent) -> None:
        await anyio.lowlevel.checkpoint()
        log.append(f"slow {names([event])[0]}")

    agent.subscribe(slow)
    agent.subscribe(lambda event: log.append(f"quick {names([event])[0]}"))
    agent.subscribe_batch(lambda events: log.append(f"batch of {len(events)}"))
    await agent.prompt("hi")
    assert log[:10] == [
        "batch of 2",
        "slow agent_start",
        "quick agent_start",
        "slow turn_start",
        "quick turn_start",
        "batch of 2",
        "slow message_start user hi",
        "quick message_start user hi",
        "slow message_end user hi",
        "quick message_end user hi",
    ]


async def test_a_listener_may_take_the_signal_and_leave() -> None:
    agent = make_agent([[text("ok")], [text("ok")]])
    signals: list[AbortSignal] = []
    batches: list[AbortSignal] = []
    defaults: list[Any] = []

    async def with_signal(_event: LoopEvent, signal: AbortSignal) -> None:
        signals.append(signal)

    def with_default(_event: LoopEvent, kept: Any = "mine") -> None:
        defaults.append(kept)

    leave = agent.subscribe(with_signal)
    agent.subscribe_batch(lambda _events, signal: batches.append(signal))
    agent.subscribe(with_default)
    await agent.prompt("hi")
    assert set(defaults) == {"mine"}
    assert len(set(signals)) == len(set(batches)) == 1
    assert isinstance(signals[0], AbortSignal)
    heard = len(signals)
    leave()
    leave()
    await agent.prompt("again")
    assert len(signals) == heard


@pytest.mark.parametrize("kind", ["subscribe", "subscribe_batch"])
@pytest.mark.parametrize(
    "where",
    [
        "agent_start",
        "message_start user hi",
        "message_end user hi",
        "message_start assistant",
        "message_update",
        "message_end assistant",
        "tool start a",
        "tool end a",
        "message_end result a",
        "turn_end",
        "turn_start",
        "agent_end",
    ],
)
async def test_a_listener_that_raises_once_ends_the_run_in_order_and_leaves_the_agent_idle(
    kind: str, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = make_agent(
        [[tool_call("do", call_id="a")], [text("ok")], [text("ok")]],
        state={"tools": [tool("do")]},
    )
    raised: list[str] = []
    turns: list[str] = []

    def raises(event: Any) -> None:
        events = event if isinstance(event, list) else [event]
        turns.extend(each for each in names(events) if each == "turn_start")
        if where in names(events) and not raised and (where != "turn_start" or len(turns) > 1):
            raised.append(where)
            raise RuntimeError("the listener broke")

    getattr(agent, kind)(raises)
    events = listen(agent)
    with caplog.at_level(logging.CRITICAL), anyio.fail_after(DEADLINE_S):
        if where == "agent_end":
            with pytest.raises(RuntimeError, match="the listener broke"):
                await agent.prompt("hi")
        else:
            await agent.prompt("hi")
            assert names(events)[-2:] == ["turn_end", "agent_end"]
            assert names(events).count("agent_end") == 1
            assert agent.state.error_message == "the listener broke"
            last = agent.state.messages[-1]
            assert isinstance(last, AssistantMessage)
            assert last.stop_reason == "error"
    assert raised == [where]
    assert not agent.state.is_streaming
    assert agent.state.pending_tool_calls == set()
    calls = [
        block.id
        for message in agent.state.messages
        if isinstance(message, AssistantMessage) and message.stop_reason != "error"
        for block in message.content
        if isinstance(block, ToolCall)
    ]
    answers = [
        message.tool_call_id
        for message in agent.state.messages
        if isinstance(message, ToolResultMessage)
    ]
    assert calls == answers
    with anyio.fail_after(DEADLINE_S):
        await agent.prompt("again")
    assert agent.state.error_message is None


async def test_a_listener_that_always_raises_is_told_to_the_caller_and_others_hear_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = make_agent([[text("ok")]])
    events = listen(agent)

    def raises(_event: LoopEvent) -> None:
        raise RuntimeError("always")

    agent.subscribe(raises)
    with (
        caplog.at_level(logging.CRITICAL),
        anyio.fail_after(DEADLINE_S),
        pytest.raises(RuntimeError, match="always"),
    ):
        await agent.prompt("hi")
    assert names(events)[-1] == "agent_end"
    assert not agent.state.is_streaming
    await agent.wait_for_idle()


async def test_the_end_of_a_run_that_broke_has_the_events_of_any_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_arguments: Any) -> Any:
        raise RuntimeError("no key today")

    agent = make_agent([[text("ok")]], get_api_key=broken)
    events = listen(agent)
    with caplog.at_level(logging.CRITICAL):
        new = await agent.prompt("hi")
    assert names(events)[4:] == [
        "message_start assistant",
        "message_end assistant",
        "turn_end",
        "agent_end",
    ]
    failed = new[-1]
    assert isinstance(failed, AssistantMessage)
    assert (failed.stop_reason, failed.error_message) == ("error", "no key today")
    assert failed.content == [TextBlock(text="")]
    assert failed.usage.total_tokens == 0
    end, turn = events[-1], events[-2]
    assert isinstance(end, AgentEnd)
    assert isinstance(turn, TurnEnd)
    assert end.messages == new
    assert turn.message is failed


async def test_a_reply_in_progress_is_closed_with_what_had_come_when_a_listener_raises(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = make_agent([[text("hello world", pieces=4)]])
    updates: list[str] = []

    def raises(event: LoopEvent) -> None:
        if isinstance(event, MessageUpdate):
            updates.append(said(event.message))
            if len(updates) == 3:
                raise RuntimeError("stop")

    agent.subscribe(raises)
    events = listen(agent)
    with caplog.at_level(logging.CRITICAL):
        await agent.prompt("hi")
    assert names(events).count("message_start assistant") == 1
    assert said(agent.state.messages[-1]) == updates[-1] != ""


async def test_a_message_that_a_batch_listener_refuses_does_not_enter_the_transcript(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = make_agent([[text("ok")]])
    refuse = True

    def store(events: Sequence[LoopEvent]) -> None:
        for event in events:
            if refuse and isinstance(event, MessageEnd) and name_message(event.message) == "user s":
                raise OSError("disk full")

    agent.subscribe_batch(store)
    agent.steer("s")
    with caplog.at_level(logging.CRITICAL):
        new = await agent.prompt("hi")
    assert [name_message(each) for each in new] == ["user hi", "assistant"]
    assert agent.state.messages == new
    assert [said(each) for each in agent.peek_queued_messages()] == ["s"]
    refuse = False
    new = await agent.prompt("again")
    assert [name_message(each) for each in new] == ["user again", "user s", "assistant"]


async def test_a_hook_that_cancels_itself_ends_the_run_as_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def cancels(*_arguments: Any) -> Any:
        raise anyio.get_cancelled_exc_class()

    agent = make_agent([[text("ok")]], should_stop_after_turn=cancels)
    with caplog.at_level(logging.CRITICAL), anyio.fail_after(DEADLINE_S):
        await agent.prompt("hi")
    assert "cancelled from inside" in str(agent.state.error_message)


# --- the package --------------------------------------------------------------------------------


def test_what_the_package_exports_is_there_and_complete() -> None:
    assert sorted(pi_rpc.agent.__all__) == sorted(pi_rpc.agent._MODULES)
    for name in pi_rpc.agent.__all__:
        assert getattr(pi_rpc.agent, name) is not None
    with pytest.raises(AttributeError):
        _ = pi_rpc.agent.Nothing  # type: ignore[attr-defined]


def test_asking_for_the_shapes_of_events_loads_neither_the_loop_nor_anything_heavy() -> None:
    code = (
        "import sys, pi_rpc.agent.events; assert 'pi_rpc.agent.loop' not in sys.modules;"
        "import pi_rpc.agent.agent;"
        "print({'httpx', 'jsonschema', 'pydantic', 'ssl'} & set(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=DEADLINE_S, check=True
    )
    assert ran.stdout.decode().strip() == "set()"
