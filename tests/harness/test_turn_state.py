"""What is changed or recorded while a run goes on: when it holds, and that it is never lost."""

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import msgspec
import pytest

from pi_rpc.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentSettled,
    EntryAppended,
    MessageEnd,
    SavePoint,
    SessionChanged,
    TurnEnd,
    TurnStart,
)
from pi_rpc.agent.ports import ToolContext
from pi_rpc.agent.tool import AgentTool, ToolResult
from pi_rpc.harness.branching import BranchRequest
from pi_rpc.harness.configuration import custom_entry
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.settings import CompactionSettings
from pi_rpc.llm.provider import StreamOptions
from pi_rpc.llm.scripted import scripted_model, text, tool_call
from pi_rpc.session.context import RUN_SETTLED
from pi_rpc.session.entries import CustomMessageEntry
from tests.agent.stage import ANY_OBJECT, tool
from tests.harness.hall import DEADLINE_S, Hall, hall, said
from tests.harness.test_harness_runs import Gate, messages, settled
from tests.harness.test_persistence_order import Ledger

pytestmark = pytest.mark.anyio

OTHER = msgspec.structs.replace(scripted_model(), id="other", reasoning=True)


def at_once(coroutine: Any) -> None:
    """Run what needs no other task, from a plain function."""
    with pytest.raises(StopIteration):
        coroutine.send(None)


def kinds(here: Hall) -> list[str]:
    """What was told, in words; a recorded entry by its type."""
    return [
        msgspec.json.decode(bytes(each.entry))["type"]
        if isinstance(each, EntryAppended)
        else type(each).__name__
        for each in here.heard
    ]


# --- a turn keeps what it began with -------------------------------------------------------------


async def test_a_change_made_in_a_turn_holds_from_the_next_turn_on() -> None:
    changed, asked, ran = Gate(), [], []

    async def note(*arguments: Any) -> ToolResult:
        ran.append(arguments[-1].environment["PI_MODEL"])
        return ToolResult.of_text("noted")

    async def wait(*_arguments: Any) -> ToolResult:
        changed.reached.set()
        await changed.opened.wait()
        return ToolResult.of_text("waited")

    async def told(
        _id: str, _params: Any, _signal: Any, _update: Any, context: ToolContext
    ) -> ToolResult:
        return await note(context)

    noting = AgentTool(
        name="note", label="Note", description="n", parameters=ANY_OBJECT, execute=told
    )
    waiting = tool("wait", wait, execution_mode="sequential")

    def reply(steps: Sequence[Any]) -> Callable[[Any, Any], Any]:
        def play(context: Any, options: StreamOptions) -> Any:
            names = [each.name for each in context.tools]
            asked.append((names, context.system_prompt[:7], options.temperature))
            return steps

        return play

    script = [
        reply([tool_call("wait"), tool_call("note")]),
        reply([tool_call("note")]),
        reply([text("done")]),
    ]
    async with hall(script, tools=[waiting, noting]) as here:
        harness = here.harness
        harness.configuration.system_prompt = "Before."
        run = harness.prompt("go")
        await changed.reached.wait()
        harness.set_tools([noting])
        harness.configuration.permission_mode = "full"
        harness.configuration.system_prompt = "After!!"
        harness.configuration.stream_options = StreamOptions(temperature=0.25)
        await harness.set_model(OTHER)
        await harness.set_thinking_level("high")
        changed.opened.set()
        outcome = await settled(run)
    assert outcome.text == "done"
    assert asked == [
        (["wait", "note"], "Before.", None),
        (["note"], "After!!", 0.25),
        (["note"], "After!!", 0.25),
    ]
    assert ran == [scripted_model().id, "other"]
    replies = [each.message for each in here.of(TurnEnd)]
    assert [(each.model, each.thinking_level) for each in replies] == [
        (scripted_model().id, "off"),
        ("other", "high"),
        ("other", "high"),
    ]
    kept = [each.type for each in harness.session.branch()]
    # Stored at the end of the turn in which it was chosen, in that order.
    place = kept.index("model_change", 2)
    assert kept[place : place + 2] == ["model_change", "thinking_level_change"]
    assert kept[place - 1] == kept[place + 2] == "message"


async def test_what_is_recorded_for_the_model_is_read_in_the_next_turn() -> None:
    seen: list[list[str]] = []

    def reply(steps: Sequence[Any]) -> Callable[[Any, Any], Any]:
        def play(context: Any, _options: Any) -> Any:
            seen.append(said(context.messages))
            return steps

        return play

    script = [reply([tool_call("look")]), reply([text("ok")])]
    async with hall(script, tools=[tool("look")]) as here:

        def listen(events: Sequence[AgentEvent]) -> None:
            if isinstance(events[-1], TurnStart) and len(here.of(TurnStart)) == 1:
                at_once(here.harness.record(note))

        def note(entry_id: str, parent_id: str | None, timestamp: str) -> CustomMessageEntry:
            return CustomMessageEntry(
                id=entry_id,
                parent_id=parent_id,
                timestamp=timestamp,
                custom_type="note",
                content="by the way",
                display=False,
            )

        here.harness.subscribe(listen)
        await settled(here.harness.prompt("go"))
    assert seen[0] == ["user: go"]
    assert [line for line in seen[1] if "by the way" in line] == ["user: by the way"]


# --- when what was recorded is stored ------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "before"),
    [(TurnEnd, "SavePoint"), (SavePoint, "TurnStart"), (AgentEnd, "AgentSettled")],
)
async def test_what_is_recorded_in_a_run_is_stored_at_the_next_boundary(
    moment: type[AgentEvent], before: str
) -> None:
    script = [[tool_call("look")], [text("ok")]]
    async with hall(script, tools=[tool("look")]) as here:
        asked = False

        def listen(events: Sequence[AgentEvent]) -> None:
            nonlocal asked
            if not asked and isinstance(events[-1], moment):
                asked = True
                at_once(here.harness.record(custom_entry("mine")))

        here.harness.subscribe(listen)
        await settled(here.harness.prompt("go"))
        assert asked
        told = kinds(here)
        since = told.index(moment.__name__)
        assert since < told.index("custom") < told.index(before, since)
        assert "custom" in [each.type for each in here.harness.session.branch()]


async def test_what_is_recorded_behind_the_last_save_point_is_stored_before_the_end_is_told() -> (
    None
):
    async with hall([[text("ok")]]) as here:

        def listen(events: Sequence[AgentEvent]) -> None:
            if isinstance(events[-1], SavePoint):
                at_once(here.harness.record(custom_entry("mine")))

        here.harness.subscribe(listen)
        await settled(here.harness.prompt("go"))
        told = kinds(here)
        assert told.index("SavePoint") < told.index("custom") < told.index("AgentEnd")


async def test_what_is_recorded_while_a_run_is_wound_up_is_stored_before_it_is_idle() -> None:
    """A run that was cut off behind its prompt ends with an entry of its own."""
    async with (
        anyio.create_task_group() as carrier,
        hall([[text("never")]], session=Ledger(), task_group=carrier) as here,
    ):

        def listen(events: Sequence[AgentEvent]) -> None:
            for event in events:
                if isinstance(event, MessageEnd):
                    carrier.cancel_scope.cancel()
                elif isinstance(event, EntryAppended) and RUN_SETTLED in str(bytes(event.entry)):
                    at_once(here.harness.record(custom_entry("mine")))

        here.harness.subscribe(listen)
        run = here.harness.prompt("go")
        with anyio.CancelScope(shield=True):
            await settled(run)
        entries = [each.type for each in here.harness.session.branch()]
        assert entries == ["model_change", "message", "custom", "custom"]
        ending = ["custom", "custom", "AgentEnd", "SessionChanged", "AgentSettled"]
        assert kinds(here)[-5:] == ending


async def test_what_is_recorded_while_a_summary_is_written_is_stored_when_it_is_idle() -> None:
    gate = Gate()
    script = [[text("one " * 50)], [gate.step, text("## Goal\nall")]]
    async with hall(script) as here:
        await settled(here.harness.prompt("go " * 50))
        first = here.harness.session.branch()[0].id
        async with anyio.create_task_group() as tasks:
            request = BranchRequest(first, summarize=True)
            tasks.start_soon(here.harness.branch, request)
            await gate.reached.wait()
            await here.harness.label(first, "start")
            assert here.harness.session.labels == {}
            gate.opened.set()
        assert here.harness.phase == "idle"
        assert here.harness.session.labels[first].text == "start"


async def test_what_a_failing_disk_did_not_take_is_stored_when_it_can_be() -> None:
    ledger, gate = Ledger(), Gate()
    async with hall([[gate.step, text("half")]], session=ledger) as here:
        run = here.harness.prompt("go")
        await gate.reached.wait()
        await here.harness.rename("a name")
        ledger.fails_at = ledger.appends + 1
        gate.opened.set()
        outcome = await settled(run)
        assert (outcome.stop_reason, outcome.error_message) == ("error", "the disk is full")
        assert ledger.name is None
        assert here.harness.phase == "idle"
        ledger.fails_at = None
        with anyio.fail_after(DEADLINE_S):
            await here.harness.aclose()
        assert ledger.name == "a name"


async def test_an_entry_that_can_never_be_stored_does_not_hold_up_the_others() -> None:
    gate = Gate()

    def broken(*_place: Any) -> Any:
        raise ZeroDivisionError

    async with hall([[gate.step, text("ok")], [text("again")]]) as here:
        run = here.harness.prompt("go")
        await gate.reached.wait()
        await here.harness.record(broken)
        await here.harness.rename("a name")
        gate.opened.set()
        outcome = await settled(run)
        assert outcome.stop_reason == "error"
        assert here.harness.session.name == "a name"
        assert (await settled(here.harness.prompt("more"))).text == "again"


# --- listeners and other people's code -----------------------------------------------------------


async def test_all_listeners_hear_one_order_also_of_what_one_of_them_causes() -> None:
    first: list[AgentEvent] = []
    async with hall([[text("one")], [text("two")]]) as here:
        last: list[AgentEvent] = []

        def go_on(events: Sequence[AgentEvent]) -> None:
            if isinstance(events[-1], AgentSettled) and len(here.of(AgentSettled)) == 1:
                here.harness.next_turn("aside")
                here.harness.prompt("more")

        here.harness.subscribe(go_on)
        here.harness.subscribe(last.extend)
        here.harness.prompt("go")
        with anyio.fail_after(DEADLINE_S):
            await here.harness.wait_for_idle()
        first = here.heard
        assert last == first
        phases = [
            each.changes["phase"] if isinstance(each, SessionChanged) else "settled"
            for each in last
            if isinstance(each, AgentSettled)
            or (isinstance(each, SessionChanged) and "phase" in each.changes)
        ]
        assert phases == ["turn", "idle", "settled", "turn", "idle", "settled"]


async def test_a_listener_that_always_raises_changes_nothing() -> None:
    def script() -> list[Any]:
        return [[tool_call("look")], [text("ok " * 50)], [text("## Goal\nx")], [text("on")]]

    async def go(here: Hall) -> tuple[list[str], list[str]]:
        harness = here.harness
        harness.configuration.compaction = CompactionSettings(keep_recent_tokens=1)
        await settled(harness.prompt("go " * 50))
        await harness.compact()
        await settled(harness.prompt("more"))
        await harness.branch(harness.session.branch()[0].id)
        await harness.abort()
        return kinds(here), [each.type for each in harness.session.entries()]

    async with hall(script(), tools=[tool("look")]) as here:
        expected = await go(here)
    async with hall(script(), tools=[tool("look")]) as here:

        def fail(_events: Any) -> None:
            raise RuntimeError("no")

        here.harness.subscribe(fail)
        assert await go(here) == expected
    assert "compaction" in expected[1]


async def test_a_callback_that_raises_leaves_the_session_idle() -> None:
    def fail(_operation: Any) -> None:
        raise ZeroDivisionError

    async with hall([[text("ok " * 50)], [text("on")]]) as here:
        await settled(here.harness.prompt("go " * 50))
        for begin in (here.harness.compact(None, fail), here.harness.branch(None, fail)):
            with pytest.raises(ZeroDivisionError):
                await begin
            assert here.harness.phase == "idle"
        assert (await settled(here.harness.prompt("more"))).text == "on"


async def test_a_prompt_function_that_raises_fails_the_run_and_no_more() -> None:
    async with hall([[text("ok")]]) as here:

        def fail(_choices: Any) -> str:
            raise ZeroDivisionError("by zero")

        here.harness.configuration.system_prompt = fail
        outcome = await settled(here.harness.prompt("go"))
        assert outcome.stop_reason == "error"
        assert "ZeroDivisionError" in (outcome.error_message or "")
        assert len(here.of(AgentSettled)) == 1
        here.harness.configuration.system_prompt = None
        assert (await settled(here.harness.prompt("again"))).text == "ok"


async def test_the_session_is_idle_only_just_before_the_run_is_said_to_have_settled() -> None:
    async with hall([[tool_call("look")], [text("ok")]], tools=[tool("look")]) as here:
        seen: list[tuple[str, str]] = []

        def look(events: Sequence[AgentEvent]) -> None:
            seen.extend((type(each).__name__, here.harness.phase) for each in events)

        here.harness.subscribe(look)
        await settled(here.harness.prompt("go"))
        idle = [name for name, phase in seen if phase == "idle"]
        assert idle == ["SessionChanged", "AgentSettled"]


async def test_two_runs_never_overlap_whatever_is_asked_at_once() -> None:
    async with hall([[text("one")], [text("two")]]) as here:
        run = here.harness.prompt("a")
        with pytest.raises(HarnessError) as refused:
            here.harness.prompt("b")
        assert refused.value.code == "busy"
        with pytest.raises(HarnessError) as refused:
            await here.harness.compact()
        assert refused.value.code == "busy"
        await settled(run)
        assert messages(here) == ["user: a", "assistant: one"]
