"""Tool calls: how each is checked, run, hooked, ended and answered."""

from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from pi_rpc.agent import (
    AfterToolCallContext,
    AfterToolCallResult,
    AgentTool,
    BeforeToolCallContext,
    BeforeToolCallResult,
    LoopEvent,
    ToolContext,
    ToolFailure,
    ToolResult,
)
from pi_rpc.agent.events import ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate, TurnEnd
from pi_rpc.agent.tool import Location, ToolDescription
from pi_rpc.llm.messages import AssistantMessage, TextBlock, Usage
from pi_rpc.llm.models import Model
from pi_rpc.llm.scripted import scripted_model, text, tool_call
from tests.agent.stage import names, play, results, said, tool, user
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

CALL = [tool_call("do", {"n": "1"}, call_id="a")]
TYPED = {"type": "object", "properties": {"n": {"type": "integer"}}}


async def run(used: AgentTool | list[AgentTool], **fields: Any) -> list[LoopEvent]:
    tools = used if isinstance(used, list) else [used]
    replies = fields.pop("replies", [CALL, [text("ok")]])
    with anyio.fail_after(DEADLINE_S):
        return await play(replies, tools=tools, **fields)


def end_of(events: list[LoopEvent], call_id: str = "a") -> ToolExecutionEnd:
    return next(e for e in events if isinstance(e, ToolExecutionEnd) and e.tool_call_id == call_id)


# --- running ------------------------------------------------------------------------------------


async def test_a_tool_gets_id_checked_arguments_signal_and_updates_and_events_the_originals() -> (
    None
):
    got: list[Any] = []

    async def execute(call_id: str, params: dict[str, Any], signal: Any, update: Any) -> ToolResult:
        got.extend([call_id, params, signal.aborted])
        update(ToolResult.of_text("half"))
        return ToolResult.of_text("whole", details={"n": 1}, usage=Usage.ZERO)

    events = await run(tool("do", execute, parameters=TYPED))
    assert got == ["a", {"n": 1}, False]
    start = next(e for e in events if isinstance(e, ToolExecutionStart))
    update = next(e for e in events if isinstance(e, ToolExecutionUpdate))
    assert start.args == update.args == {"n": "1"}
    answer = results(events)["a"]
    assert (said(answer), answer.details, answer.usage) == ("whole", {"n": 1}, Usage.ZERO)
    assert answer.is_error is False
    assert isinstance(answer.duration_ms, float)
    assert end_of(events).duration_ms == answer.duration_ms
    calls = [b for e in events if isinstance(e, TurnEnd) for b in e.message.content]
    assert calls[0].arguments == {"n": "1"}  # type: ignore[union-attr]


async def test_a_plain_function_is_a_tool_too_and_a_context_is_given_to_who_wants_it() -> None:
    got: list[Any] = []

    def execute(_id: str, _params: Any, _signal: Any, _update: Any, context: Any) -> ToolResult:
        got.append(context)
        return ToolResult.of_text("done")

    context = ToolContext(cwd=Path("/x"), files=cast(Any, None), shell=cast(Any, None), app="mine")
    events = await run(tool("do", execute), tool_context=context)
    assert got == [context]
    assert said(results(events)["a"]) == "done"


async def test_the_context_tells_tools_whether_the_model_can_see_images() -> None:
    got: list[bool] = []

    def execute(_id: str, _params: Any, _signal: Any, _update: Any, context: Any) -> ToolResult:
        got.append(context.supports_images)
        return ToolResult.of_text("done")

    context = ToolContext(cwd=Path("/x"), files=cast(Any, None), shell=cast(Any, None))
    blind = Model(**{**_fields(scripted_model()), "input": ["text"]})
    for model in (scripted_model(), blind):
        await run(tool("do", execute), tool_context=context, model=model)
    assert got == [True, False]


def _fields(model: Model) -> dict[str, Any]:
    return {field: getattr(model, field) for field in model.__struct_fields__}


@pytest.mark.parametrize(
    ("error", "answer", "details"),
    [
        (ValueError("no such thing"), "no such thing", {}),
        (ValueError(), "ValueError", {}),
        (ToolFailure("exit 1", {"code": 1}), "exit 1", {"code": 1}),
        (ExceptionGroup("g", [ValueError("one"), OSError("two")]), "one\ntwo", {}),
    ],
)
async def test_a_tool_fails_by_raising(error: Exception, answer: str, details: Any) -> None:
    async def execute(*_arguments: Any) -> ToolResult:
        raise error

    events = await run(tool("do", execute))
    result = results(events)["a"]
    assert (result.is_error, said(result), result.details) == (True, answer, details)
    assert end_of(events).is_error
    assert names(events)[-1] == "agent_end"


async def test_a_failure_that_is_returned_keeps_its_details() -> None:
    async def execute(*_arguments: Any) -> ToolResult:
        return ToolResult.of_text("partly", details={"done": 3}, is_error=True)

    result = results(await run(tool("do", execute)))["a"]
    assert (result.is_error, said(result), result.details) == (True, "partly", {"done": 3})


async def test_what_is_no_result_or_no_update_is_an_error_that_says_so() -> None:
    async def nothing(*_arguments: Any) -> Any:
        return None

    async def text_update(_id: str, _params: Any, _signal: Any, update: Any) -> ToolResult:
        update("half")
        return ToolResult.of_text("whole")

    result = results(await run(tool("do", nothing)))["a"]
    assert said(result) == "Tool do returned NoneType instead of a ToolResult"
    result = results(await run(tool("do", text_update)))["a"]
    assert said(result) == "on_update was given str instead of a ToolResult"


async def test_a_tool_that_cancels_itself_fails_alone() -> None:
    async def execute(*_arguments: Any) -> ToolResult:
        raise anyio.get_cancelled_exc_class()

    replies = [[*CALL, tool_call("other", call_id="b")], [text("ok")]]
    events = await run([tool("do", execute), tool("other")], replies=replies)
    assert said(results(events)["a"]) == "Tool do was cancelled from inside"
    assert said(results(events)["b"]) == "other done"


async def test_updates_come_before_the_end_and_those_after_it_are_ignored() -> None:
    kept: list[Any] = []

    async def execute(_id: str, _params: Any, _signal: Any, update: Any) -> ToolResult:
        kept.append(update)
        for number in range(3):
            update(ToolResult.of_text(str(number)))
        return ToolResult.of_text("whole")

    async def late(*_arguments: Any) -> ToolResult:
        while not kept:
            await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        kept[0](ToolResult.of_text("too late"))
        return ToolResult.of_text("late done")

    replies = [[*CALL, tool_call("late", call_id="b")], [text("ok")]]
    events = await run([tool("do", execute), tool("late", late)], replies=replies)
    updates = [said(e.partial_result) for e in events if isinstance(e, ToolExecutionUpdate)]
    assert updates == ["0", "1", "2"]
    of_a = [e for e in names(events) if e.startswith("tool") and e.endswith(" a")]
    assert of_a == ["tool start a", *["tool update a"] * 3, "tool end a"]


async def test_updates_that_nobody_takes_do_not_pile_up() -> None:
    async def execute(_id: str, _params: Any, _signal: Any, update: Any) -> ToolResult:
        for number in range(10_000):
            update(ToolResult.of_text(str(number)))
        for number in range(100):
            update(ToolResult.of_text("", delta=f"<{number}>"))
        return ToolResult.of_text("whole")

    events = await run(tool("do", execute))
    updates = [e.partial_result for e in events if isinstance(e, ToolExecutionUpdate)]
    assert len(updates) <= 20
    whole = [said(each) for each in updates if not each.delta]
    assert whole[-1] == "9999"
    assert "".join(each.delta or "" for each in updates) == "".join(f"<{n}>" for n in range(100))


@pytest.mark.parametrize("whole", [True, False])
async def test_large_updates_that_nobody_takes_cost_a_fixed_amount_of_memory(whole: bool) -> None:
    size = 100_000

    async def execute(_id: str, _params: Any, _signal: Any, update: Any) -> ToolResult:
        for number in range(200):
            news = chr(ord("a") + number % 26) * size
            update(ToolResult.of_text(news) if whole else ToolResult(content=[], delta=news))
        return ToolResult.of_text("done")

    events = await run(tool("do", execute))
    updates = [e.partial_result for e in events if isinstance(e, ToolExecutionUpdate)]
    shown = [said(each) if whole else each.delta or "" for each in updates]
    assert sum(map(len, shown)) < 600_000
    assert shown[-1].endswith(chr(ord("a") + 199 % 26) * size)
    if not whole:
        assert updates[-1].omitted_bytes == 200 * size - sum(map(len, shown))


async def test_calls_of_a_parallel_batch_really_run_at_the_same_time() -> None:
    meet = [anyio.Event(), anyio.Event()]

    def waiter(mine: int) -> Any:
        async def execute(*_arguments: Any) -> ToolResult:
            meet[mine].set()
            await meet[1 - mine].wait()
            return ToolResult.of_text("met")

        return execute

    replies = [[*CALL, tool_call("other", call_id="b")], [text("ok")]]
    events = await run([tool("do", waiter(0)), tool("other", waiter(1))], replies=replies)
    assert [said(each) for each in results(events).values()] == ["met", "met"]


async def test_two_calls_with_one_id_are_both_answered() -> None:
    replies = [[tool_call("do", call_id="x"), tool_call("other", call_id="x")], [text("ok")]]
    events = await run([tool("do"), tool("other")], replies=replies)
    assert sorted(said(each) for each in results(events).values()) == ["do done", "other done"]
    assert len(results(events)) == 2


async def test_a_call_is_described_for_people_and_a_describe_that_fails_does_not_matter() -> None:
    place = Location(uri="file:///x")
    described = tool(
        "do",
        kind="read",
        describe=lambda args, _context: ToolDescription(f"Read {args['n']}", (place,)),
    )
    start = next(e for e in await run(described) if isinstance(e, ToolExecutionStart))
    assert (start.title, start.kind, start.locations) == ("Read 1", "read", [place])

    broken = tool("do", describe=lambda args, _context: ToolDescription(args["missing"]))
    start = next(e for e in await run(broken) if isinstance(e, ToolExecutionStart))
    assert (start.title, start.kind, start.locations) == ("Do", "other", [])


async def test_a_tool_with_a_broken_schema_is_an_error_result_that_names_it() -> None:
    events = await run(tool("do", parameters={"type": "nonsense"}))
    assert said(results(events)["a"]).startswith("Tool do cannot be called")
    assert names(events)[-1] == "agent_end"


# --- terminate ----------------------------------------------------------------------------------


def terminating(name: str, terminate: bool) -> AgentTool:
    async def execute(*_arguments: Any) -> ToolResult:
        return ToolResult.of_text("done", terminate=terminate)

    return tool(name, execute)


@pytest.mark.parametrize(("second", "turns"), [(True, 1), (False, 2)])
async def test_the_run_stops_after_a_batch_only_if_every_result_asks_for_it(
    second: bool, turns: int
) -> None:
    replies = [[*CALL, tool_call("other", call_id="b")], [text("ok")]]
    tools = [terminating("do", True), terminating("other", second)]
    events = await run(tools, replies=replies)
    assert names(events).count("turn_end") == turns


async def test_queues_are_still_asked_after_a_terminating_batch() -> None:
    queue: list[Any] = []

    async def execute(*_arguments: Any) -> ToolResult:
        queue.append(user("steered"))
        return ToolResult.of_text("done", terminate=True)

    def take() -> list[Any]:
        taken = list(queue)
        queue.clear()
        return taken

    events = await run(tool("do", execute), get_steering_messages=take)
    assert "message_end user steered" in names(events)
    assert names(events).count("turn_end") == 2


# --- before_tool_call ---------------------------------------------------------------------------


async def test_before_tool_call_sees_the_call_and_may_change_its_arguments_unchecked() -> None:
    got: list[Any] = []

    async def execute(_id: str, params: dict[str, Any], *_rest: Any) -> ToolResult:
        got.append(params)
        return ToolResult.of_text("done")

    async def before(call: BeforeToolCallContext, signal: Any) -> None:
        assert isinstance(call.assistant_message, AssistantMessage)
        assert call.context.messages[-1] is call.assistant_message
        assert (call.tool_call.id, call.args, signal.aborted) == ("a", {"n": 1}, False)
        call.args["n"] = "changed"

    events = await run(tool("do", execute, parameters=TYPED), before_tool_call=before)
    assert got == [{"n": "changed"}]
    assert [e.args for e in events if isinstance(e, ToolExecutionStart)] == [{"n": "1"}]


@pytest.mark.parametrize(("reason", "answer"), [("not here", "not here"), (None, "blocked")])
async def test_before_tool_call_blocks_with_its_reason(reason: str | None, answer: str) -> None:
    ran: list[int] = []

    def execute(*_arguments: Any) -> ToolResult:
        ran.append(1)
        return ToolResult.of_text("done")

    events = await run(
        tool("do", execute),
        before_tool_call=lambda *_: BeforeToolCallResult(block=True, reason=reason),
    )
    assert answer in said(results(events)["a"])
    assert results(events)["a"].is_error
    assert not isinstance(end_of(events).duration_ms, float)
    assert ran == []


async def test_a_blocked_call_may_end_the_run() -> None:
    events = await run(
        tool("do"), before_tool_call=lambda *_: BeforeToolCallResult(block=True, terminate=True)
    )
    assert names(events).count("turn_end") == 1


async def test_a_before_tool_call_that_raises_blocks_with_its_text() -> None:
    def before(*_arguments: Any) -> None:
        raise RuntimeError("the rules are broken")

    events = await run(tool("do"), before_tool_call=before)
    assert said(results(events)["a"]) == "the rules are broken"
    assert results(events)["a"].is_error


async def test_hooks_do_not_hear_of_calls_that_are_not_run() -> None:
    heard: list[str] = []
    replies = [
        [
            tool_call("nothing", call_id="a"),
            tool_call("do", {"n": "x"}, call_id="b"),
            tool_call("do", arguments_text="{", call_id="c"),
        ],
        [text("ok")],
    ]
    events = await run(
        tool("do", parameters=TYPED),
        replies=replies,
        before_tool_call=lambda call, _signal: heard.append(call.tool_call.id),
        after_tool_call=lambda call, _signal: heard.append(call.tool_call.id),
    )
    assert heard == []
    assert all(each.is_error for each in results(events).values())
    assert "could not be read" in said(results(events)["c"])


# --- after_tool_call ----------------------------------------------------------------------------


async def full_result(*_arguments: Any) -> ToolResult:
    return ToolResult.of_text("whole", details={"d": 1}, structured_content={"s": 1})


async def test_after_tool_call_replaces_field_by_field() -> None:
    async def after(call: AfterToolCallContext, _signal: Any) -> AfterToolCallResult:
        assert (call.tool_call.id, call.args, call.is_error) == ("a", {"n": 1}, False)
        assert said(call.result) == "whole"
        return AfterToolCallResult(details={"new": True}, is_error=True, usage=Usage.ZERO)

    events = await run(tool("do", full_result, parameters=TYPED), after_tool_call=after)
    answer = results(events)["a"]
    assert (said(answer), answer.details) == ("whole", {"new": True})
    assert (answer.is_error, answer.usage) == (True, Usage.ZERO)
    assert end_of(events).result.structured_content == {"s": 1}
    assert isinstance(answer.duration_ms, float)


async def test_new_content_drops_structured_content_that_did_not_come_with_it() -> None:
    content: list[Any] = [TextBlock(text="new")]
    events = await run(
        tool("do", full_result),
        after_tool_call=lambda *_: AfterToolCallResult(content=content),
    )
    assert said(end_of(events).result) == "new"
    assert not end_of(events).result.structured_content
    events = await run(
        tool("do", full_result),
        after_tool_call=lambda *_: AfterToolCallResult(content=content, structured_content=[2]),
    )
    assert end_of(events).result.structured_content == [2]


async def test_after_tool_call_may_end_the_run() -> None:
    events = await run(tool("do"), after_tool_call=lambda *_: AfterToolCallResult(terminate=True))
    assert names(events).count("turn_end") == 1


async def test_an_after_tool_call_that_raises_makes_the_result_an_error() -> None:
    async def after(*_arguments: Any) -> None:
        raise RuntimeError("cannot look at it")

    events = await run(tool("do"), after_tool_call=after)
    assert (said(results(events)["a"]), results(events)["a"].is_error) == (
        "cannot look at it",
        True,
    )


async def test_after_tool_call_also_sees_failures() -> None:
    async def fails(*_arguments: Any) -> ToolResult:
        raise ValueError("no")

    events = await run(
        tool("do", fails),
        after_tool_call=lambda call, _signal: AfterToolCallResult(is_error=not call.is_error),
    )
    assert results(events)["a"].is_error is False


async def test_a_call_that_is_let_run_with_a_context_of_its_own_works_in_that() -> None:
    got: list[Any] = []

    def execute(_id: str, _params: Any, _signal: Any, _update: Any, context: Any) -> ToolResult:
        got.append(context)
        return ToolResult.of_text("done")

    def decide(call: BeforeToolCallContext, signal: Any) -> BeforeToolCallResult | None:
        return BeforeToolCallResult(tool_context=own) if call.tool_call.id == "a" else None

    common = ToolContext(cwd=Path("/x"), files=cast(Any, None), shell=cast(Any, None))
    own = ToolContext(cwd=Path("/own"), files=cast(Any, None), shell=cast(Any, None))
    calls = [tool_call("do", {}, call_id=call_id) for call_id in ("a", "b")]
    await run(
        tool("do", execute, execution_mode="sequential"),
        replies=[calls, [text("ok")]],
        tool_context=common,
        before_tool_call=decide,
    )
    assert got == [own, common]
