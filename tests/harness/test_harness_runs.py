"""Who may start what and when, and that every run settles exactly once, whatever happens."""

import logging
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from pi_rpc.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentSettled,
    AgentStart,
    Diagnostic,
    MessageEnd,
    QueueUpdate,
    SessionChanged,
    ToolExecutionEnd,
)
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.queue import QueuedMessage
from pi_rpc.harness.runs import Limits, Run, RunOutcome
from pi_rpc.harness.usage import Totals
from pi_rpc.llm.messages import ToolResultMessage, Usage
from pi_rpc.llm.provider import StreamOptions
from pi_rpc.llm.scripted import error, text, tool_call, until, usage
from pi_rpc.session.entries import UsageEntry, iso_now
from pi_rpc.session.memory import MemorySession
from pi_rpc.session.storage import SessionStorageError
from tests.agent.stage import tool
from tests.harness.hall import DEADLINE_S, Hall, hall, said

pytestmark = pytest.mark.anyio


class Gate:
    """A step of a script that waits to be let through."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self.opened = anyio.Event()
        self.step = until(self._wait)

    async def _wait(self) -> None:
        self.reached.set()
        await self.opened.wait()


async def settled(run: Any) -> RunOutcome:
    assert isinstance(run, Run)
    with anyio.fail_after(DEADLINE_S):
        return await run.wait()


def messages(here: Hall) -> list[str]:
    return said(each.message for each in here.of(MessageEnd))


async def test_a_session_is_a_library_that_needs_no_daemon() -> None:
    replies = [[tool_call("look")], [text("I saw it.")]]
    async with hall(replies, tools=[tool("look")]) as here:
        outcome = await settled(here.harness.prompt(PromptInput("look around")))
        assert (outcome.stop_reason, outcome.aborted, outcome.error_message) == (
            "stop",
            False,
            None,
        )
        assert outcome.text == "I saw it."
        assert messages(here) == [
            "user: look around",
            "assistant: ",
            "toolResult: look done",
            "assistant: I saw it.",
        ]
        assert here.harness.message_count == 4
        assert outcome.usage.total_tokens == here.harness.totals.usage.total_tokens > 0
        again = await settled(here.harness.prompt(PromptInput("and now")))
        assert again.run_id != outcome.run_id
        assert again.stop_reason == "error"
        assert "no reply left" in (again.error_message or "")


async def test_the_phase_is_idle_before_the_run_is_said_to_have_settled() -> None:
    async with hall([[text("hi")]]) as here:
        seen: list[tuple[str, bool]] = []

        def look(events: Any) -> None:
            if any(isinstance(each, AgentSettled) for each in events):
                seen.append((here.harness.phase, here.harness.is_streaming))

        here.harness.subscribe(look)
        run = here.harness.prompt(PromptInput("go"))
        assert (here.harness.phase, here.harness.is_streaming) == ("turn", True)
        await settled(run)
        assert seen == [("idle", False)]
        changes = [each.changes for each in here.of(SessionChanged) if "phase" in each.changes]
        assert [each["phase"] for each in changes] == ["turn", "idle"]


async def test_a_prompt_while_busy_is_refused_or_queued_as_it_asks() -> None:
    gate = Gate()
    async with hall([[gate.step, text("one")], [text("two")]]) as here:
        run = here.harness.prompt(PromptInput("first"))
        await gate.reached.wait()
        with pytest.raises(HarnessError) as refused:
            here.harness.prompt(PromptInput("second"))
        assert refused.value.kind == "sessionBusy"
        queued = here.harness.prompt(PromptInput("third"), "followUp")
        assert isinstance(queued, QueuedMessage)
        with pytest.raises(HarnessError) as refused:
            here.harness.continue_()
        assert refused.value.kind == "sessionBusy"
        gate.opened.set()
        await settled(run)
        assert queued.run is run
        assert queued.resolved.is_set()
        assert messages(here)[-2:] == ["user: third", "assistant: two"]


async def test_an_abort_gives_back_what_waited_and_returns_once_idle() -> None:
    gate = Gate()
    async with hall([[text("half"), gate.step]]) as here:
        run = here.harness.prompt(PromptInput("go"))
        await gate.reached.wait()
        here.harness.send("steer", PromptInput("s"))
        here.harness.send("followUp", PromptInput("f"))
        with anyio.fail_after(DEADLINE_S):
            stopped, queue = await here.harness.abort()
        assert stopped is True
        assert (queue.steering, queue.follow_up) == (["s"], ["f"])
        assert not here.harness.is_streaming
        outcome = await settled(run)
        assert (outcome.stop_reason, outcome.aborted, outcome.text) == ("aborted", True, "half")
        assert here.of(QueueUpdate)[-1].items == []
        assert await here.harness.abort() == (False, here.harness.clear_queue())


async def test_an_abort_that_keeps_the_queue_leaves_it_to_continue() -> None:
    gate = Gate()
    replies = [[text("half"), gate.step], [text("to s")]]
    async with hall(replies) as here:
        here.harness.prompt(PromptInput("go"))
        await gate.reached.wait()
        here.harness.send("steer", PromptInput("s"))
        with anyio.fail_after(DEADLINE_S):
            stopped, queue = await here.harness.abort(clear_queue=False)
        assert (stopped, queue.items) == (True, [])
        outcome = await settled(here.harness.continue_())
        assert outcome.stop_reason == "stop"
        assert "user: s" in messages(here) or outcome.text == "to s"


async def test_one_queued_message_is_withdrawn_and_the_run_goes_on() -> None:
    gate = Gate()
    async with hall([[gate.step, text("done")]]) as here:
        run = here.harness.prompt(PromptInput("go"))
        await gate.reached.wait()
        queued = here.harness.send("steer", PromptInput("never mind"))
        assert isinstance(queued, QueuedMessage)
        here.harness.withdraw(queued)
        here.harness.withdraw(queued)
        assert here.of(QueueUpdate)[-1].items == []
        gate.opened.set()
        assert (await settled(run)).stop_reason == "stop"


async def test_after_stop_every_run_ends_as_it_starts_and_nothing_waits() -> None:
    gate = Gate()
    async with hall([[gate.step], [text("never said")]]) as here:
        run = here.harness.prompt(PromptInput("go"))
        await gate.reached.wait()
        here.harness.stop()
        here.harness.send("steer", PromptInput("too late"))
        assert (await settled(run)).aborted
        assert len(here.harness.queue) == 0
        outcome = await settled(here.harness.prompt(PromptInput("again")))
        assert outcome.aborted
        assert outcome.text == ""


async def test_a_provider_failure_is_an_outcome_and_continue_asks_again_without_it() -> None:
    asked: list[list[str]] = []

    def second(context: Any, _options: Any) -> Any:
        asked.append(said(context.messages))
        return [text("better")]

    async with hall([[text("ha"), error("wrong", status=400)], second]) as here:
        outcome = await settled(here.harness.prompt(PromptInput("go")))
        assert outcome.stop_reason == "error"
        assert "wrong" in (outcome.error_message or "")
        assert (await settled(here.harness.continue_())).text == "better"
        assert asked == [["user: go"]]
        with pytest.raises(HarnessError) as refused:
            here.harness.continue_()
        assert refused.value.kind == "nothingToContinue"


async def test_a_listener_that_raises_takes_nothing_from_the_others_or_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with hall([[text("hi")]]) as here:
        later: list[AgentEvent] = []

        calls = 0

        def raises(_events: Any) -> None:
            nonlocal calls
            calls += 1
            raise RuntimeError("not my day")

        end = here.harness.subscribe(raises)
        here.harness.subscribe(later.extend)
        with caplog.at_level(logging.ERROR, "pi_rpc.harness"):
            outcome = await settled(here.harness.prompt(PromptInput("go")))
        assert outcome.stop_reason == "stop"
        assert later == here.heard
        assert "not my day" in caplog.text
        assert calls > 1
        end()
        before = calls
        here.harness.report(Diagnostic(severity="info", message="one more"))
        assert calls == before


async def test_the_subscription_ends_when_it_is_told_to() -> None:
    async with hall([[text("hi")]]) as here:
        heard: list[AgentEvent] = []
        end = here.harness.subscribe(heard.extend)
        here.harness.report(Diagnostic(severity="info", message="one"))
        end()
        here.harness.report(Diagnostic(severity="info", message="two"))
        assert [each.message for each in heard] == ["one"]  # type: ignore[union-attr]


async def test_a_reply_is_read_with_the_patience_of_the_least_patient_listener() -> None:
    pauses: list[float] = []

    def reply(_context: Any, options: StreamOptions) -> Any:
        pauses.append(options.read_pause_s)
        return [text("hi")]

    async with hall([reply] * 4) as here:

        def listen(_events: Any) -> None:
            pass

        here.harness.subscribe(listen, patience_s=0.005)
        end = here.harness.subscribe(listen, patience_s=0.002)
        await settled(here.harness.prompt(PromptInput("go")))
        here.stop_hearing()
        await settled(here.harness.prompt(PromptInput("go")))
        end()
        await settled(here.harness.prompt(PromptInput("go")))
    assert pauses == [0, 0.002, 0.005]


async def test_a_run_that_breaks_inside_still_settles_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(MemorySession):
        async def refresh(self) -> Any:
            raise RuntimeError("a bug")

    async with hall([[text("hi")]], session=Broken(Path.cwd())) as here:
        with caplog.at_level(logging.ERROR, "pi_rpc.harness"):
            outcome = await settled(here.harness.prompt(PromptInput("go")))
        assert outcome.stop_reason == "error"
        assert "a bug" in (outcome.error_message or "")
        assert "a bug" in caplog.text
        assert len(here.of(AgentSettled)) == 1
        assert here.harness.phase == "idle"


async def test_a_session_that_can_no_longer_be_read_settles_its_run_all_the_same() -> None:
    class Vanishing(MemorySession):
        gone = False

        def branch(self, entry_id: str | None = None) -> Any:
            if self.gone:
                raise SessionStorageError("the file is gone")
            return super().branch(entry_id)

    gate = Gate()
    session = Vanishing(Path.cwd())
    async with hall([[text("half"), gate.step]], session=session) as here:
        run = here.harness.prompt(PromptInput("go"))
        await gate.reached.wait()
        session.gone = True
        with anyio.fail_after(DEADLINE_S):
            await here.harness.abort()
        outcome = await settled(run)
        assert outcome.stop_reason == "error"
        assert "the file is gone" in (outcome.error_message or "")
        assert len(here.of(AgentSettled)) == 1
        assert not here.harness.is_streaming
        session.gone = False


@pytest.mark.parametrize("event", range(24))
async def test_cancelling_the_group_that_carries_runs_settles_them_at_any_moment(
    event: int,
) -> None:
    class Slow(MemorySession):
        async def append_many(self, entries: Any, *, strict: bool = True) -> Any:
            await anyio.lowlevel.checkpoint()
            return await super().append_many(entries, strict=strict)

    replies = [[text("a"), tool_call("look")], [text("done")]]
    session = Slow(Path.cwd())
    async with (
        anyio.create_task_group() as carrier,
        hall(replies, session=session, tools=[tool("look")], task_group=carrier) as here,
    ):

        def cancel(_events: Any) -> None:
            if len(here.heard) > event:
                carrier.cancel_scope.cancel()

        here.harness.subscribe(cancel)
        run = here.harness.prompt(PromptInput("go"))
        assert isinstance(run, Run)
        with anyio.CancelScope(shield=True), anyio.fail_after(DEADLINE_S):
            outcome = await run.wait()
        assert outcome.stop_reason in {"stop", "aborted"}
        assert not here.harness.is_streaming
        kinds = [type(each) for each in here.heard]
        assert kinds[-1] is AgentSettled
        assert kinds.count(AgentSettled) == 1
        assert kinds.count(AgentEnd) == kinds.count(AgentStart)
        assert not here.harness.interrupted


async def test_a_run_at_its_turn_limit_ends_with_limit_and_keeps_its_queue() -> None:
    gate = Gate()
    replies = [[gate.step, tool_call("look")], [text("never")]]
    async with hall(replies, tools=[tool("look")]) as here:
        here.harness.configuration.limits = Limits(turns=1)
        run = here.harness.prompt(PromptInput("go"))
        await gate.reached.wait()
        here.harness.send("followUp", PromptInput("later"))
        gate.opened.set()
        outcome = await settled(run)
        assert (outcome.stop_reason, outcome.aborted) == ("limit", False)
        assert "1 turn" in (outcome.error_message or "")
        assert here.harness.queue.snapshot().follow_up == ["later"]


async def test_a_run_at_its_time_limit_ends_with_limit() -> None:
    gate = Gate()
    async with hall([[text("half"), gate.step]]) as here:
        here.harness.configuration.limits = Limits(seconds=0.05)
        outcome = await settled(here.harness.prompt(PromptInput("go")))
        assert (outcome.stop_reason, outcome.aborted) == ("limit", False)
        assert outcome.text == "half"


async def test_what_is_part_of_a_number_is_added_up_too_in_a_run_and_in_a_session() -> None:
    part = msgspec.structs.replace(Usage.ZERO, output=5, cache_write=9, total_tokens=14)
    whole = msgspec.structs.replace(part, reasoning=3, cache_write_1h=4)
    totals = Totals()
    for each in (part, whole, whole):
        totals.add(each)
    assert (totals.usage.reasoning, totals.usage.cache_write_1h) == (6, 8)
    session = MemorySession(Path.cwd())
    for used in (part, whole, whole):
        fields: Any = {"kind": "test", "provider": "p", "model": "m", "usage": used}
        place: Any = {"id": session.new_id(), "parent_id": session.leaf_id, "timestamp": iso_now()}
        await session.append(UsageEntry(**place, **fields))
    async with hall([], session=session) as here:
        assert here.harness.usage_fields()["tokens"] == {
            "input": 0, "output": 15, "cacheRead": 0, "cacheWrite": 27, "total": 42,
            "cacheWrite1h": 8, "reasoning": 6,
        }  # fmt: skip


async def test_a_cost_limit_counts_what_the_run_used() -> None:
    replies = [[usage(output=1000), tool_call("look")], [text("never")]]
    async with hall(replies, tools=[tool("look")]) as here:
        here.harness.configuration.limits = Limits(cost_usd=0.0)
        outcome = await settled(here.harness.prompt(PromptInput("go")))
        assert outcome.stop_reason == "limit"
        assert "cost limit" in (outcome.error_message or "")
        assert len(here.of(ToolExecutionEnd)) == 1


async def test_pressure_holds_the_run_and_an_abort_gets_past_it() -> None:
    held = anyio.Event()

    async def never() -> None:
        held.set()
        await anyio.sleep_forever()

    async with hall([[text("hi")], [text("never")]], pressure=never) as here:
        run = here.harness.prompt(PromptInput("go"))
        with anyio.fail_after(DEADLINE_S):
            await held.wait()
            assert here.of(AgentEnd) == []
            await here.harness.abort()
        assert (await settled(run)).aborted


async def test_a_crash_is_noticed_and_continue_answers_what_was_left_open() -> None:
    session = MemorySession(Path.cwd())
    gate = Gate()

    async def hang(*_: Any) -> Any:
        await gate._wait()

    async with hall([[tool_call("look")]], session=session, tools=[tool("look", hang)]) as before:
        before.harness.prompt(PromptInput("go"))
        await gate.reached.wait()
        # What a crash would leave, taken as it is at this moment.
        left = MemorySession(Path.cwd())
        await left.append_many([each.entry for each in session.branch()])
    async with hall([[text("where was I")]], session=left) as here:
        assert here.harness.interrupted
        outcome = await settled(here.harness.continue_())
        assert outcome.text == "where was I"
        results = [
            each.message
            for each in here.of(MessageEnd)
            if isinstance(each.message, ToolResultMessage)
        ]
        assert [each.is_error for each in results] == [True]
        assert not here.harness.interrupted
        first = here.of(SessionChanged)[0]
        assert first.removed == ["interrupted"]
