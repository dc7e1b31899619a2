"""What a receiver hears of a session: merged, numbered, in order, and nothing lost."""

import itertools
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_rpc.agent.events import (
    AgentEvent,
    BashOutput,
    Diagnostic,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionUpdate,
    TurnStart,
)
from pi_rpc.agent.tool import ToolResult
from pi_rpc.agent.waiting_updates import WAITING_LIMIT
from pi_rpc.host.outlet import EventOutlet, EventPreferences, Numbered, Ticker
from pi_rpc.llm.events import TextDelta, TextStart, ThinkingDelta, ToolCallDelta
from tests.deadlines import DEADLINE_S

STREAM: Any = object()
"""Nothing here looks at it."""

DELTAS = (TextDelta, ThinkingDelta, ToolCallDelta)


def update(event: Any, message: str = "m1") -> MessageUpdate:
    return MessageUpdate(assistant_message_event=event, stream=STREAM, message_id=message)


def words(*deltas: str, block: int = 0, message: str = "m1") -> list[AgentEvent]:
    return [update(TextDelta(content_index=block, delta=each), message) for each in deltas]


def output(delta: str, call: str = "c1", **fields: Any) -> ToolExecutionUpdate:
    return tool_update(ToolResult(content=[], delta=delta, **fields), call)


def tool_update(partial: ToolResult, call: str = "c1") -> ToolExecutionUpdate:
    return ToolExecutionUpdate(tool_call_id=call, tool_name="t", args={}, partial_result=partial)


def tool_end(call: str = "c1") -> ToolExecutionEnd:
    return ToolExecutionEnd(
        tool_call_id=call, tool_name="t", result=ToolResult.of_text("done"), is_error=False
    )


class Bench(Ticker):
    """An outlet with a clock and a ticker that are moved by hand; also what was delivered."""

    def __init__(self, **preferences: Any) -> None:
        super().__init__()
        self.now = 100.0
        self.crowded = False
        self.heard: list[Numbered] = []
        self.batches: list[Sequence[Numbered]] = []
        self.waiting: dict[EventOutlet, float] = {}
        self.outlet = EventOutlet(
            self.deliver, EventPreferences(**preferences), self, lambda: self.crowded
        )

    def deliver(self, numbered: Sequence[Numbered]) -> None:
        self.batches.append(numbered)
        self.heard.extend(numbered)

    def monotonic(self) -> float:
        return self.now

    def schedule(self, outlet: EventOutlet, at: float) -> None:
        self.waiting.setdefault(outlet, at)

    def forget(self, outlet: EventOutlet) -> None:
        self.waiting.pop(outlet, None)

    def pass_time(self, seconds: float) -> None:
        """Move the clock, and tick if the moment that was asked for has come."""
        self.now += seconds
        for outlet in [each for each, at in self.waiting.items() if at <= self.now]:
            del self.waiting[outlet]
            outlet.tick()

    @property
    def events(self) -> list[AgentEvent]:
        return [event for _, event in self.heard]

    @property
    def deltas(self) -> list[str]:
        return [
            event.assistant_message_event.delta
            for event in self.events
            if isinstance(event, MessageUpdate)
            and isinstance(event.assistant_message_event, DELTAS)
        ]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def make(**preferences: Any) -> Bench:
        made = Bench(**preferences)
        monkeypatch.setattr("pi_rpc.host.outlet.time", SimpleNamespace(monotonic=made.monotonic))
        return made

    return make  # type: ignore[return-value]


def test_the_first_delta_goes_out_at_once_and_the_next_ones_as_one(bench: Any) -> None:
    it = bench(min_interval_ms=16)
    it.outlet.take(words("a"))
    assert it.deltas == ["a"]
    it.outlet.take(words("b"))
    it.outlet.take(words("c", "d"))
    assert it.deltas == ["a"]
    it.pass_time(0.015)
    assert it.deltas == ["a"]
    it.pass_time(0.002)
    assert it.deltas == ["a", "bcd"]
    it.pass_time(1)
    assert it.deltas == ["a", "bcd"]


def test_a_delta_that_comes_after_the_interval_goes_out_at_once(bench: Any) -> None:
    it = bench(min_interval_ms=16)
    it.outlet.take(words("a"))
    it.pass_time(0.017)
    it.outlet.take(words("b"))
    assert it.deltas == ["a", "b"]


def test_deltas_that_come_together_go_out_at_once_as_one(bench: Any) -> None:
    it = bench(min_interval_ms=16)
    it.outlet.take(words("a", "b", "c"))
    assert it.deltas == ["abc"]
    assert it.outlet.merged == 2
    it.outlet.take(words("d", "e"))
    assert it.deltas == ["abc"]
    assert it.outlet.waiting_size == 2
    it.pass_time(0.017)
    assert it.deltas == ["abc", "de"]


def test_deltas_of_another_block_kind_or_message_are_never_merged(bench: Any) -> None:
    it = bench(min_interval_ms=1000)
    one = update(TextDelta(content_index=0, delta="a"))
    it.outlet.take([one])
    it.outlet.take(
        [
            *words("b", "c"),
            *words("d", block=1),
            update(ThinkingDelta(content_index=1, delta="e")),
            update(ToolCallDelta(content_index=1, delta="f")),
            *words("g", "h", message="m2"),
        ]
    )
    it.outlet.flush()
    assert it.deltas == ["a", "bc", "d", "e", "f", "gh"]
    kinds = [type(event.assistant_message_event) for event in it.events]
    assert kinds == [TextDelta, TextDelta, TextDelta, ThinkingDelta, ToolCallDelta, TextDelta]
    assert [event.message_id for event in it.events] == ["m1"] * 5 + ["m2"]
    assert [event.assistant_message_event.content_index for event in it.events] == [
        0,
        0,
        1,
        1,
        1,
        0,
    ]
    assert all(event.stream is STREAM for event in it.events)


def test_whatever_is_no_delta_sends_what_waits_before_it(bench: Any) -> None:
    it = bench(min_interval_ms=1000)
    it.outlet.take(words("a"))
    it.outlet.take(words("b", "c"))
    it.outlet.take([TurnStart()])
    assert it.deltas == ["a", "bc"]
    assert isinstance(it.events[-1], TurnStart)
    assert it.waiting == {}
    it.outlet.take([*words("d"), update(TextStart(content_index=1)), *words("e", block=1)])
    assert [type(each).__name__ for each in it.events[3:]] == ["MessageUpdate", "MessageUpdate"]
    assert it.deltas == ["a", "bc", "d"]


def test_an_interval_of_zero_sends_every_delta_as_it_came(bench: Any) -> None:
    it = bench(min_interval_ms=0)
    it.outlet.take(words("a", "b"))
    it.outlet.take(words("c"))
    assert it.deltas == ["a", "b", "c"]
    assert it.waiting == {}
    assert [len(batch) for batch in it.batches] == [2, 1]


@pytest.mark.parametrize("interval", [0, 16])
def test_while_the_receiver_is_slow_deltas_grow_and_go_out_once_it_is_not(
    bench: Any, interval: int
) -> None:
    it = bench(min_interval_ms=interval)
    it.crowded = True
    for _ in range(100):
        it.outlet.take(words("x", "y"))
        it.pass_time(0.02)
    assert it.heard == []
    it.crowded = False
    it.pass_time(0.02)
    assert it.deltas == ["xy" * 100]


def test_a_slow_receiver_still_gets_everything_that_is_no_delta_in_its_place(bench: Any) -> None:
    it = bench(min_interval_ms=0)
    it.crowded = True
    it.outlet.take([*words("a", "b"), TurnStart(), *words("c"), *words("d", block=1)])
    assert [type(each).__name__ for each in it.events] == [
        "MessageUpdate",
        "TurnStart",
        "MessageUpdate",
    ]
    it.crowded = False
    it.outlet.take(words("e", block=1))
    assert it.deltas == ["ab", "c", "d", "e"]
    assert [number for number, _ in it.heard] == [1, 2, 3, 4, 5]


def test_types_that_were_opted_out_of_leave_no_gap_in_the_numbers(bench: Any) -> None:
    it = bench(min_interval_ms=0, opt_out=frozenset({"message_update", "turn_start"}))
    said = Diagnostic(severity="info", message="hello")
    it.outlet.take([*words("a"), said, TurnStart()])
    it.outlet.take(words("b"))
    it.outlet.take([said])
    assert it.heard == [(1, said), (2, said)]
    assert it.outlet.seq == 2


def test_a_number_is_given_when_an_event_is_handed_on(bench: Any) -> None:
    it = bench(min_interval_ms=1000)
    it.outlet.take(words("a"))
    it.outlet.take(words("b", "c"))
    assert it.outlet.seq == 1
    it.outlet.flush()
    it.outlet.flush()
    assert it.outlet.seq == 2
    it.outlet.take([])
    assert [number for number, _ in it.heard] == [1, 2]


# --- running tools and commands ------------------------------------------------------------------


def test_updates_of_a_tool_that_come_fast_are_merged_and_its_end_sends_them(bench: Any) -> None:
    it = bench(min_interval_ms=16)
    it.outlet.take([output("")])
    it.outlet.take([output("a")])
    it.outlet.take([output("b")])
    assert it.events == [output("")]
    it.pass_time(0.017)
    assert it.events == [output(""), output("ab")]
    end = tool_end()
    it.outlet.take([output("c"), output("d"), end])
    assert it.events[2:] == [output("cd"), end]
    assert it.waiting == {}


def test_an_interval_of_zero_sends_every_update_as_it_came(bench: Any) -> None:
    it = bench(min_interval_ms=0)
    events = [output("a"), output("b"), BashOutput(delta="x"), BashOutput(delta="y")]
    it.outlet.take(events)
    assert it.events == events


@pytest.mark.parametrize("interval", [0, 16])
def test_while_the_receiver_is_slow_updates_of_each_call_become_one(
    bench: Any, interval: int
) -> None:
    it = bench(min_interval_ms=interval)
    it.crowded = True
    for number in range(100):
        it.outlet.take([output("a", "c1"), tool_update(ToolResult.of_text(str(number)), "c2")])
        it.outlet.take([BashOutput(delta="x", token=1), BashOutput(delta="y", token="1")])
        it.pass_time(0.02)
    assert it.heard == []
    it.crowded = False
    it.pass_time(0.02)
    assert it.events == [
        output("a" * 100, "c1"),
        tool_update(ToolResult.of_text("99"), "c2"),
        BashOutput(delta="x" * 100, token=1),
        BashOutput(delta="y" * 100, token="1"),
    ]
    assert [number for number, _ in it.heard] == [1, 2, 3, 4]


def test_a_slow_receiver_gets_what_waits_of_tools_before_anything_else(bench: Any) -> None:
    it = bench(min_interval_ms=16)
    it.crowded = True
    end = tool_end()
    it.outlet.take([*words("a", "b"), output("c"), output("d"), *words("e"), output("f"), end])
    told = [
        each.assistant_message_event.delta
        if isinstance(each, MessageUpdate)
        else each.partial_result.delta
        for each in it.events[:-1]
    ]
    assert told == ["ab", "cd", "e", "f"]
    assert it.events[-1] is end


def test_of_a_command_the_last_count_of_what_was_left_out_is_told(bench: Any) -> None:
    it = bench(min_interval_ms=16)
    it.crowded = True
    it.outlet.take([BashOutput(delta="a", omitted_bytes=3), BashOutput(delta="", omitted_bytes=9)])
    it.outlet.flush()
    assert it.events == [BashOutput(delta="a", omitted_bytes=9)]


@pytest.mark.parametrize("interval", [0, 16])
def test_what_was_left_out_for_a_slow_receiver_is_counted_until_the_end(
    bench: Any, interval: int
) -> None:
    it = bench(min_interval_ms=interval)
    it.crowded = True
    it.outlet.take([output("a" * WAITING_LIMIT), output("b" * 7)])
    it.crowded = False
    it.pass_time(0.1)
    assert it.events[-1].partial_result.omitted_bytes == 7
    it.outlet.take([output("c", omitted_bytes=100)])
    it.pass_time(0.1)
    assert it.events[-1] == output("c", omitted_bytes=107)


def test_what_was_left_out_of_a_call_changes_nothing_once_it_has_ended(bench: Any) -> None:
    it = bench(min_interval_ms=0)
    it.crowded = True
    it.outlet.take([output("a" * WAITING_LIMIT), output("b" * 7)])
    it.crowded = False
    it.pass_time(0.1)
    it.outlet.take([tool_end()])
    sent = len(it.heard)
    it.outlet.take(words("x", "y", "z"))
    assert len(it.heard) == sent + 3


EVENT = st.one_of(
    st.tuples(st.just("output"), st.sampled_from(["c1", "c2"]), st.text("abc", max_size=3)),
    st.tuples(
        st.sampled_from(DELTAS),
        st.integers(0, 1),
        st.sampled_from(["m1", "m2"]),
        st.text("abc", max_size=3),
    ),
    st.sampled_from(["start", "turn", "note"]),
)
STEP = st.one_of(
    st.lists(EVENT, min_size=1, max_size=5),
    st.floats(0.001, 0.05),
    st.sampled_from(["crowd", "ease", "flush"]),
)


def made(drawn: Any, number: int) -> AgentEvent:
    match drawn:
        case "start":
            return update(TextStart(content_index=number))
        case "turn":
            return TurnStart()
        case "note":
            return Diagnostic(severity="info", message=str(number))
        case ("output", call, delta):
            return output(delta, call)
        case (kind, block, message, delta):
            return update(kind(content_index=block, delta=delta), message)
    raise AssertionError(drawn)


def block_of(event: AgentEvent) -> tuple[Any, ...] | None:
    if isinstance(event, ToolExecutionUpdate):
        return ("outputs",)
    if isinstance(event, MessageUpdate) and isinstance(event.assistant_message_event, DELTAS):
        new = event.assistant_message_event
        return event.message_id, new.content_index, type(new)
    return None


def story(events: Sequence[AgentEvent]) -> list[Any]:
    """The same for any two sequences that differ only in where deltas of a block are cut, and in
    how neighbouring updates of several tools are ordered."""
    told: list[Any] = []
    for block, group in itertools.groupby(events, block_of):
        members = list(group)
        if block is None:
            told.extend(id(each) for each in members)
        elif block == ("outputs",):
            by_call: dict[str, str] = {}
            for each in members:
                delta = by_call.get(each.tool_call_id, "") + each.partial_result.delta  # type: ignore[union-attr,operator]
                by_call[each.tool_call_id] = delta  # type: ignore[union-attr]
            told.append(by_call)
        else:
            pieces = [each.assistant_message_event.delta for each in members]  # type: ignore[union-attr]
            told.append((block, "".join(pieces)))
    return told


@given(st.lists(STEP, max_size=40), st.sampled_from([0.0, 1.0, 16.0]))
def test_at_any_pace_the_story_is_the_same_and_the_numbers_have_no_gap(
    steps: list[Any], interval: float
) -> None:
    it = Bench(min_interval_ms=interval)
    given_events: list[AgentEvent] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pi_rpc.host.outlet.time", it)
        for step in steps:
            match step:
                case float():
                    it.pass_time(step)
                case "crowd" | "ease":
                    it.crowded = step == "crowd"
                case "flush":
                    it.outlet.flush()
                case _:
                    events = [made(each, len(given_events) + n) for n, each in enumerate(step)]
                    given_events += events
                    it.outlet.take(events)
            heard = story(it.events)
            whole = story(given_events)
            assert heard == whole[: len(heard)] or heard[:-1] == whole[: len(heard) - 1]
        it.crowded = False
        it.pass_time(1)
    assert story(it.events) == story(given_events)
    assert [number for number, _ in it.heard] == list(range(1, len(it.heard) + 1))
    if interval == 0 and not any(step == "crowd" for step in steps):
        assert it.events == given_events


# --- the ticker ----------------------------------------------------------------------------------


async def until(condition: Any) -> None:
    with anyio.fail_after(DEADLINE_S):
        while not condition():
            await anyio.sleep(0.001)


@pytest.mark.anyio
async def test_the_ticker_sends_what_waits_without_further_events() -> None:
    heard: list[Numbered] = []
    ticker = Ticker()
    outlet = EventOutlet(heard.extend, EventPreferences(min_interval_ms=5), ticker)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ticker.run)
        for round_ in range(1, 4):
            outlet.take(words("a", "b", "c"))
            await until(
                lambda wanted=round_: (
                    "".join(
                        each.assistant_message_event.delta  # type: ignore[union-attr]
                        for _, each in heard
                    )
                    == "abc" * wanted
                )
            )
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_the_ticker_serves_several_outlets_and_goes_on_asking_a_slow_receiver() -> None:
    heard: dict[str, list[Numbered]] = {"one": [], "two": []}
    slow = True
    ticker = Ticker()
    wants = EventPreferences(min_interval_ms=1)
    one = EventOutlet(heard["one"].extend, wants, ticker, lambda: slow)
    two = EventOutlet(heard["two"].extend, wants, ticker)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ticker.run)
        one.take(words("a", "b"))
        two.take(words("c", "d"))
        await until(
            lambda: sum(len(each.assistant_message_event.delta) for _, each in heard["two"]) == 2
        )
        assert heard["one"] == []
        slow = False
        await until(lambda: heard["one"])
        tasks.cancel_scope.cancel()
    assert [each.assistant_message_event.delta for _, each in heard["one"]] == ["ab"]


@pytest.mark.anyio
async def test_what_is_asked_for_sooner_is_not_kept_waiting_by_what_is_due_later() -> None:
    ticked: list[str] = []

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def tick(self) -> None:
            ticked.append(self.name)

    late: Any = Named("late")
    soon: Any = Named("soon")
    ticker = Ticker()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ticker.run)
        ticker.schedule(late, anyio.current_time() + 3600)
        await anyio.wait_all_tasks_blocked()
        ticker.schedule(soon, anyio.current_time())
        await until(lambda: ticked == ["soon"])
        tasks.cancel_scope.cancel()
