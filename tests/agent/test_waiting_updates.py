"""Updates of a running tool that wait: made few, and nothing lost in silence."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from pi_rpc.agent.events import ToolExecutionUpdate
from pi_rpc.agent.tool import ToolResult
from pi_rpc.agent.waiting_updates import WAITING_LIMIT, WaitingUpdates
from pi_rpc.llm.messages import text_of


def added(delta: str, **fields: Any) -> ToolExecutionUpdate:
    return update(ToolResult(content=[], delta=delta, **fields))


def replaced(text: str, **fields: Any) -> ToolExecutionUpdate:
    return update(ToolResult.of_text(text, **fields))


def update(partial: ToolResult) -> ToolExecutionUpdate:
    return ToolExecutionUpdate(
        tool_call_id="c", tool_name="t", args={"a": 1}, partial_result=partial
    )


def waiting(*updates: ToolExecutionUpdate) -> WaitingUpdates:
    made = WaitingUpdates()
    for each in updates:
        made.add(each)
    return made


def test_one_update_comes_out_as_it_went_in() -> None:
    for one in (added("a"), added("", omitted_bytes=3), replaced("x", details={"n": 1})):
        assert waiting(one).take() == [one]


def test_what_was_taken_does_not_wait_any_more() -> None:
    made = waiting(added("a"), added("b"))
    assert len(made.take()) == 1
    assert made.take() == []


def test_new_output_is_added_to_what_waits() -> None:
    first, last = added("a", details={"n": 1}, omitted_bytes=1), added("b", details={"n": 2})
    (one,) = waiting(first, last).take()
    assert one == added("ab", details={"n": 2}, omitted_bytes=1)


def test_a_replacement_takes_the_place_of_all_before_it() -> None:
    new = replaced("new", details={"n": 2})
    assert waiting(replaced("old"), added("a"), added("b", omitted_bytes=9), new).take() == [new]


def test_what_is_added_to_a_replacement_comes_after_it() -> None:
    whole = replaced("whole")
    assert waiting(whole, added("a"), added("b")).take() == [whole, added("ab")]


def test_beyond_its_limit_the_beginning_is_left_out_and_counted_from_then_on() -> None:
    made = waiting(added("\xe4" * 10), added("b" * WAITING_LIMIT), added("c"))
    (one,) = made.take()
    assert one.partial_result.delta == "b" * (WAITING_LIMIT - 1) + "c"
    assert one.partial_result.omitted_bytes == 21  # ten of two bytes, and a b
    assert made.lossy
    made.add(added("d"))
    assert made.take() == [added("d")]
    made.add(added("e", omitted_bytes=100))
    assert made.take() == [added("e", omitted_bytes=121)]


def test_a_replacement_says_everything_so_nothing_is_left_out_any_more() -> None:
    made = waiting(added("b" * (WAITING_LIMIT + 5)))
    made.take()
    made.add(replaced("all of it"))
    assert not made.lossy
    made.add(added("x", omitted_bytes=7))
    assert made.take() == [replaced("all of it"), added("x", omitted_bytes=7)]


def test_half_a_character_of_another_program_costs_nobody_the_rest() -> None:
    made = waiting(added("\ud800"), added("b" * WAITING_LIMIT))
    assert made.take()[0].partial_result.omitted_bytes == 3


STEPS = st.lists(
    st.one_of(
        st.text("abc", max_size=4).map(added), st.text("xyz", max_size=4).map(replaced), st.none()
    ),
    max_size=30,
)


def screen(updates: list[ToolExecutionUpdate]) -> str:
    """What a client that heard them draws."""
    drawn = ""
    for each in updates:
        partial = each.partial_result
        drawn = text_of(partial.content) if partial.delta is UNSET else drawn + str(partial.delta)
    return drawn


@settings(deadline=None)
@given(STEPS)
def test_whenever_they_are_taken_a_client_draws_the_same(steps: list[Any]) -> None:
    made, heard = WaitingUpdates(), []
    for step in steps:
        if step is None:
            heard += made.take()
        else:
            made.add(step)
    heard += made.take()
    assert screen(heard) == screen([each for each in steps if each is not None])
    assert len(heard) <= 2 * (steps.count(None) + 1)
