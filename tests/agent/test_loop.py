"""The bare loop: its hooks, its queues, its stream."""

from collections.abc import Sequence
from typing import Any

import anyio
import msgspec
import pytest

from pi_rpc.agent import (
    AgentContext,
    AgentMessage,
    LoopTurnUpdate,
    NothingToContinueError,
    ToolResult,
    TurnContext,
    agent_loop,
    agent_loop_continue,
    run_agent_loop,
    run_agent_loop_continue,
)
from pi_rpc.agent.events import AgentEnd, LoopEvent, MessageUpdate
from pi_rpc.agent.messages import CustomMessage, OpaqueMessage
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import AssistantMessage, ToolResultMessage, UserMessage
from pi_rpc.llm.provider import StreamOptions
from pi_rpc.llm.scripted import (
    ScriptedModel,
    error,
    repeat_text,
    scripted_model,
    scripted_stream_fn,
    text,
    thinking,
    tool_call,
)
from tests.agent.stage import config, name_message, names, play, said, tool, user
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

TOOL_THEN_TEXT = [[tool_call("do", call_id="a")], [text("ok")]]


def asked(stream_fn: Any) -> list[list[str]]:
    """The messages of each request."""
    assert isinstance(stream_fn, ScriptedModel)
    return [[name_message(each) for each in r.context.messages] for r in stream_fn.requests]


# --- what the model is asked --------------------------------------------------------------------


async def test_a_request_has_prompt_messages_tools_and_options() -> None:
    options = StreamOptions(api_key="static", session_id="s", temperature=0.5)
    model = scripted_stream_fn([[text("ok")]])
    stream = agent_loop(
        [user("hi")],
        AgentContext("be brief", [user("before")], [tool("do")]),
        config([], thinking_level="high", stream_options=options),
        stream_fn=model,
    )
    new = await stream.result()
    request = model.requests[0]
    assert asked(model) == [["user before", "user hi"]]
    assert request.context.system_prompt == "be brief"
    assert [each.name for each in request.context.tools] == ["do"]
    assert (request.options.api_key, request.options.thinking_level) == ("static", "high")
    assert (request.options.session_id, request.options.temperature) == ("s", 0.5)
    assert isinstance(new[-1], AssistantMessage)
    assert new[-1].thinking_level == "high"


async def test_a_turn_of_tools_goes_back_to_the_model() -> None:
    model = scripted_stream_fn(TOOL_THEN_TEXT)
    stream = agent_loop([user("hi")], AgentContext("", [], [tool("do")]), config([]), None, model)
    new = await stream.result()
    assert asked(model) == [["user hi"], ["user hi", "assistant", "result a"]]
    assert [name_message(each) for each in new] == ["user hi", "assistant", "result a", "assistant"]


async def test_the_callers_lists_are_not_changed() -> None:
    messages: list[AgentMessage] = [user("before")]
    tools = [tool("do")]
    await agent_loop(
        [user("hi")], AgentContext("", messages, tools), config(TOOL_THEN_TEXT)
    ).result()
    assert (len(messages), len(tools)) == (1, 1)


async def test_transform_context_rewrites_one_request_and_not_the_transcript() -> None:
    signals: list[bool] = []

    async def transform(messages: list[AgentMessage], signal: Any) -> Sequence[AgentMessage]:
        signals.append(signal.aborted)
        messages.insert(0, user(f"{len(messages)} messages"))
        return messages

    loop = config(TOOL_THEN_TEXT, transform_context=transform)
    new = await agent_loop([user("hi")], AgentContext("", [], [tool("do")]), loop).result()
    assert asked(loop.stream_fn) == [
        ["user 1 messages", "user hi"],
        ["user 3 messages", "user hi", "assistant", "result a"],
    ]
    assert len(new) == 4
    assert signals == [False, False]


async def test_convert_to_llm_decides_what_the_model_reads_after_transform_context() -> None:
    def convert(messages: Sequence[AgentMessage]) -> list[Any]:
        return [user(f"<{said(each)}>") for each in messages]

    loop = config(
        [[text("ok")]],
        convert_to_llm=convert,
        transform_context=lambda messages, _signal: [*messages, user("more")],
    )
    await agent_loop([user("hi")], AgentContext(), loop).result()
    assert asked(loop.stream_fn) == [["user <hi>", "user <more>"]]


async def test_by_default_other_roles_read_as_they_do_and_unknown_ones_are_dropped() -> None:
    note = CustomMessage(custom_type="t", content="a note", display=True, timestamp=1)
    loop = config([[text("ok")]])
    opaque = OpaqueMessage("artifact", b'{"role":"artifact"}')
    await agent_loop([note, opaque, user("hi")], AgentContext(), loop).result()
    assert asked(loop.stream_fn) == [["user a note", "user hi"]]


@pytest.mark.parametrize(("found", "used"), [("dynamic", "dynamic"), (None, "static")])
async def test_get_api_key_is_asked_by_provider_before_each_request(
    found: str | None, used: str
) -> None:
    asked_for: list[str] = []

    async def get_api_key(provider: str) -> str | None:
        asked_for.append(provider)
        return found

    loop = config(
        TOOL_THEN_TEXT, get_api_key=get_api_key, stream_options=StreamOptions(api_key="static")
    )
    await agent_loop([user("hi")], AgentContext("", [], [tool("do")]), loop).result()
    assert isinstance(loop.stream_fn, ScriptedModel)
    assert [each.options.api_key for each in loop.stream_fn.requests] == [used, used]
    assert asked_for == ["scripted", "scripted"]


# --- failures -----------------------------------------------------------------------------------


async def test_a_failed_reply_ends_the_run_and_its_calls_are_not_run() -> None:
    polls: list[str] = []
    events = await play(
        [[text("half"), tool_call("do", call_id="a"), error("overloaded", status=529)]],
        tools=[tool("do")],
        get_follow_up_messages=lambda: polls.append("follow-up") or [user("x")],
        should_stop_after_turn=lambda _turn: polls.append("stop") or False,
        prepare_next_turn=lambda _turn: polls.append("prepare"),
    )
    assert names(events)[-3:] == ["message_end assistant", "turn_end", "agent_end"]
    assert polls == []
    reply = events[-1].messages[-1]  # type: ignore[union-attr]
    assert (reply.stop_reason, reply.error_message, said(reply)) == ("error", "overloaded", "half")


async def test_a_reply_that_fails_before_it_starts_is_announced_all_the_same() -> None:
    events = await play([[error("no credit", status=402)]])
    assert names(events) == [
        "agent_start",
        "turn_start",
        "message_start user hi",
        "message_end user hi",
        "message_start assistant",
        "message_end assistant",
        "turn_end",
        "agent_end",
    ]


@pytest.mark.parametrize(
    "hook",
    [
        "transform_context",
        "convert_to_llm",
        "get_api_key",
        "get_steering_messages",
        "get_follow_up_messages",
        "should_stop_after_turn",
        "prepare_next_turn",
    ],
)
async def test_a_hook_that_must_not_raise_ends_the_bare_loop_by_raising(hook: str) -> None:
    def raises(*_arguments: Any) -> Any:
        raise RuntimeError(f"{hook} broke")

    replies = [[text("ok")]] if hook == "get_follow_up_messages" else TOOL_THEN_TEXT
    with pytest.raises(RuntimeError, match=f"{hook} broke"):
        await play(replies, tools=[tool("do")], **{hook: raises})


# --- between turns ------------------------------------------------------------------------------


class Calls:
    """Hooks that note when they were called, and queues that can be filled."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.steering: list[AgentMessage] = []
        self.follow_up: list[AgentMessage] = []
        self.stop = False

    def hooks(self) -> dict[str, Any]:
        return {
            "should_stop_after_turn": self.should_stop,
            "prepare_next_turn": self.prepare,
            "get_steering_messages": lambda: self.take("steering", self.steering),
            "get_follow_up_messages": lambda: self.take("follow-up", self.follow_up),
        }

    def should_stop(self, _turn: TurnContext) -> bool:
        self.log.append("stop?")
        return self.stop

    async def prepare(self, _turn: TurnContext) -> None:
        self.log.append("prepare")

    def take(self, what: str, queue: list[AgentMessage]) -> list[AgentMessage]:
        self.log.append(what)
        taken = queue[:1]
        del queue[:1]
        return taken

    def hear(self, events: Sequence[LoopEvent]) -> None:
        self.log += [e for e in names(events) if e in {"turn_start", "turn_end", "agent_end"}]


async def order_of(calls: Calls, replies: list[Any]) -> list[str]:
    async def emit(events: Sequence[LoopEvent]) -> None:
        calls.hear(events)

    context = AgentContext("", [], [tool("do")])
    await run_agent_loop([user("hi")], context, config(replies, **calls.hooks()), emit)
    return calls.log


async def test_after_tools_steering_is_asked_again_once_the_next_turn_is_prepared() -> None:
    assert await order_of(Calls(), TOOL_THEN_TEXT) == [
        "turn_start",
        "steering",
        "turn_end",
        "stop?",
        "steering",
        "prepare",
        "steering",
        "turn_start",
        "turn_end",
        "stop?",
        "steering",
        "follow-up",
        "agent_end",
    ]


async def test_what_was_taken_is_not_followed_by_a_second_poll() -> None:
    calls = Calls()

    def steer(*_arguments: Any) -> list[Any]:
        calls.steering += [user("one"), user("two")]
        return [text("ok")]

    assert await order_of(calls, [steer, [text("to one")], [text("to two")]]) == [
        "turn_start",
        "steering",
        *["turn_end", "stop?", "steering", "prepare", "turn_start"] * 2,
        "turn_end",
        "stop?",
        "steering",
        "follow-up",
        "agent_end",
    ]


async def test_a_follow_up_is_taken_when_the_run_would_end_and_prepares_a_turn() -> None:
    calls = Calls()
    calls.follow_up.append(user("then"))
    assert await order_of(calls, [[text("ok")], [text("done")]]) == [
        "turn_start",
        "steering",
        "turn_end",
        "stop?",
        "steering",
        "follow-up",
        "prepare",
        "turn_start",
        "turn_end",
        "stop?",
        "steering",
        "follow-up",
        "agent_end",
    ]


async def test_should_stop_after_turn_ends_the_run_and_leaves_the_queues_alone() -> None:
    calls = Calls()
    calls.stop = True
    calls.follow_up.append(user("then"))
    assert await order_of(calls, TOOL_THEN_TEXT) == [
        "turn_start",
        "steering",
        "turn_end",
        "stop?",
        "agent_end",
    ]
    assert len(calls.follow_up) == 1


async def test_a_steer_queued_while_the_run_starts_is_part_of_the_first_request() -> None:
    calls = Calls()
    calls.steering.append(user("also"))
    loop = config([[text("ok")]], **calls.hooks())
    await agent_loop([user("hi")], AgentContext(), loop).result()
    assert asked(loop.stream_fn) == [["user hi", "user also"]]


async def test_turn_hooks_see_the_turn_that_ended() -> None:
    seen: list[TurnContext] = []

    async def should_stop(turn: TurnContext) -> bool:
        seen.append(turn)
        return False

    await play(
        TOOL_THEN_TEXT,
        messages=[user("before")],
        tools=[tool("do")],
        should_stop_after_turn=should_stop,
    )
    first, second = seen
    assert [each.tool_call_id for each in first.tool_results] == ["a"]
    assert first.message.stop_reason == "toolUse"
    assert [name_message(each) for each in first.new_messages] == [
        "user hi",
        "assistant",
        "result a",
    ]
    assert len(first.context.messages) == 4
    assert first.context.system_prompt == "be brief"
    assert second.tool_results == []
    assert said(second.message) == "ok"


async def test_prepare_next_turn_may_change_everything_for_the_next_request() -> None:
    other = msgspec.structs.replace(scripted_model(), id="other")

    async def prepare(turn: TurnContext) -> LoopTurnUpdate:
        kept = turn.context.messages[-2:]
        return LoopTurnUpdate(
            context=AgentContext("be long", [user("summary"), *kept], [tool("more")]),
            messages=[user("prepared")],
            model=other,
            thinking_level="low",
        )

    loop = config(TOOL_THEN_TEXT, prepare_next_turn=prepare, thinking_level="high")
    context = AgentContext("be brief", [user("before")], [tool("do")])
    new = await agent_loop([user("hi")], context, loop).result()
    assert asked(loop.stream_fn) == [
        ["user before", "user hi"],
        ["user summary", "assistant", "result a", "user prepared"],
    ]
    assert isinstance(loop.stream_fn, ScriptedModel)
    second = loop.stream_fn.requests[1]
    assert (second.model.id, second.options.thinking_level) == ("other", "low")
    assert second.context.system_prompt == "be long"
    assert [each.name for each in second.context.tools] == ["more"]
    assert [each.thinking_level for each in new if isinstance(each, AssistantMessage)] == [
        "high",
        "low",
    ]
    assert [name_message(each) for each in new] == [
        "user hi",
        "assistant",
        "result a",
        "user prepared",
        "assistant",
    ]


async def test_prepared_messages_come_before_queued_ones() -> None:
    calls = Calls()
    calls.follow_up.append(user("then"))
    hooks = calls.hooks() | {
        "prepare_next_turn": lambda _turn: LoopTurnUpdate(messages=[user("prepared")])
    }
    events = await play([[text("ok")], [text("done")]], **hooks)
    ends = [each for each in names(events) if each.startswith("message_end user")]
    assert ends == ["message_end user hi", "message_end user prepared", "message_end user then"]


# --- streams ------------------------------------------------------------------------------------


@pytest.mark.parametrize("messages", [[], [user("hi"), "reply"]])
async def test_there_must_be_something_to_continue(messages: list[Any]) -> None:
    reply = (await agent_loop([user("hi")], AgentContext(), config([[text("ok")]])).result())[-1]
    context = AgentContext("", [reply if each == "reply" else each for each in messages])
    with pytest.raises(NothingToContinueError):
        agent_loop_continue(context, config([]))
    with pytest.raises(NothingToContinueError):
        await run_agent_loop_continue(context, config([]), _ignore)


async def _ignore(_events: Sequence[LoopEvent]) -> None:
    return


async def test_the_result_of_a_continued_run_is_only_what_is_new() -> None:
    context = AgentContext("", [user("hi")])
    assert [
        name_message(each)
        for each in await agent_loop_continue(context, config([[text("ok")]])).result()
    ] == ["assistant"]
    new = await run_agent_loop_continue(context, config([[text("ok")]]), _ignore)
    assert [name_message(each) for each in new] == ["assistant"]


async def test_nothing_happens_before_a_stream_is_read_and_a_pause_pauses_the_run() -> None:
    ran: list[int] = []

    async def execute(*_arguments: Any) -> ToolResult:
        ran.append(1)
        return ToolResult.of_text("done")

    loop = config(TOOL_THEN_TEXT)
    stream = agent_loop([user("hi")], AgentContext("", [], [tool("do", execute)]), loop)
    async for event in stream:
        if names([event]) == ["message_end assistant"]:
            break
    assert ran == []
    new = await stream.result()
    assert ran == [1]
    assert len(new) == 4
    assert await stream.next_batch() is None


async def test_a_stream_can_be_read_event_by_event_and_then_by_batch() -> None:
    stream = agent_loop([user("hi")], AgentContext(), config([[text("ok")]]))
    first = await anext(aiter(stream))
    events = [first]
    while (batch := await stream.next_batch()) is not None:
        events += batch
    assert names(events)[:4] == [
        "agent_start",
        "turn_start",
        "message_start user hi",
        "message_end user hi",
    ]
    assert isinstance(events[-1], AgentEnd)


async def test_leaving_a_stream_stops_its_tools() -> None:
    stopped = anyio.Event()

    async def execute(_id: str, _params: Any, _signal: Any, update: Any) -> ToolResult:
        update(ToolResult.of_text("half"))
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    loop = config(TOOL_THEN_TEXT)
    context = AgentContext("", [], [tool("do", execute)])
    with anyio.fail_after(DEADLINE_S):
        async with agent_loop([user("hi")], context, loop) as stream:
            async for event in stream:
                if names([event]) == ["tool update a"]:
                    break
    assert stopped.is_set()
    with pytest.raises(RuntimeError, match="did not reach its end"):
        await stream.result()


async def test_what_emit_raises_stops_the_tools_and_is_passed_on() -> None:
    stopped = anyio.Event()

    async def execute(_id: str, _params: Any, _signal: Any, update: Any) -> ToolResult:
        update(ToolResult.of_text("half"))
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    async def emit(events: Sequence[LoopEvent]) -> None:
        if names(events) == ["tool update a"]:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), anyio.fail_after(DEADLINE_S):
        await run_agent_loop(
            [user("hi")], AgentContext("", [], [tool("do", execute)]), config(TOOL_THEN_TEXT), emit
        )
    assert stopped.is_set()


async def test_nothing_happens_while_a_finished_message_is_being_taken_in() -> None:
    log: list[str] = []

    async def emit(events: Sequence[LoopEvent]) -> None:
        for each in names(events):
            if each.startswith("message_end"):
                log.append(each)
                for _ in range(10):
                    await anyio.lowlevel.checkpoint()
                log.append("stored")

    async def execute(*_arguments: Any) -> ToolResult:
        log.append("run")
        return ToolResult.of_text("done")

    def reply(*_arguments: Any) -> list[Any]:
        log.append("asked")
        return [tool_call("do", call_id="a")]

    def last(*_arguments: Any) -> list[Any]:
        log.append("asked")
        return [text("ok")]

    context = AgentContext("", [], [tool("do", execute)])
    await run_agent_loop([user("hi")], context, config([reply, last]), emit)
    assert log == [
        "message_end user hi",
        "stored",
        "asked",
        "message_end assistant",
        "stored",
        "run",
        "message_end result a",
        "stored",
        "asked",
        "message_end assistant",
        "stored",
    ]


async def test_deltas_travel_in_the_batches_of_the_provider() -> None:
    sizes: list[int] = []

    async def emit(events: Sequence[LoopEvent]) -> None:
        assert events
        updates = [e for e in events if isinstance(e, MessageUpdate)]
        sizes.append(len(updates))

    await run_agent_loop([user("hi")], AgentContext(), config([[repeat_text("x", 2000)]]), emit)
    assert sum(sizes) >= 2000
    assert len(sizes) < 200


async def test_an_update_carries_the_message_as_it_stands() -> None:
    stream = agent_loop(
        [user("hi")], AgentContext(), config([[thinking("hm"), text("hello", pieces=5)]])
    )
    grown = [said(event.message) async for event in stream if isinstance(event, MessageUpdate)]
    assert grown[-1] == "hello"
    assert grown == sorted(grown, key=len)


async def test_prompts_may_be_of_any_role_and_keep_their_identity() -> None:
    first, second = user("one"), UserMessage(content="two", timestamp=2)
    new = await agent_loop([first, second], AgentContext(), config([[text("ok")]])).result()
    assert new[0] is first
    assert new[1] is second


async def test_a_signal_that_fired_before_the_run_gives_an_aborted_reply() -> None:
    controller = AbortController()
    controller.abort()
    asked_for: list[str] = []

    async def get_api_key(provider: str) -> str:
        asked_for.append(provider)
        await anyio.lowlevel.checkpoint()
        return "key"

    events = await play([[text("no")]], signal=controller.signal, get_api_key=get_api_key)
    assert names(events)[4:] == [
        "message_start assistant",
        "message_end assistant",
        "turn_end",
        "agent_end",
    ]
    reply = events[-1].messages[-1]  # type: ignore[union-attr]
    assert reply.stop_reason == "aborted"


async def test_results_of_a_turn_are_messages_of_the_conversation() -> None:
    events = await play(TOOL_THEN_TEXT, tools=[tool("do")])
    messages = events[-1].messages  # type: ignore[union-attr]
    assert isinstance(messages[2], ToolResultMessage)
