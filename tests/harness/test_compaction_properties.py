"""What holds for the compaction of any branch, however it came about."""

from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_rpc.agent.messages import BashExecutionMessage, convert_to_llm
from pi_rpc.harness.compaction import (
    CompactionPlan,
    NothingToCompactError,
    plan_compaction,
    summarize_compaction,
)
from pi_rpc.harness.settings import CompactionSettings
from pi_rpc.harness.usage import branch_tokens, estimate_tokens
from pi_rpc.llm.messages import AssistantMessage, ToolCall, ToolResultMessage
from pi_rpc.session.entries import (
    BranchSummaryEntry,
    CustomEntry,
    CustomMessageEntry,
    ModelChangeEntry,
)
from tests.harness.branches import ROLES, Asked, Branch, call, reply, result, tokens, usage_of

CALL_IDS = ("1", "2", "3")

steps = st.one_of(
    st.tuples(st.just("user"), st.integers(0, 40)),
    st.tuples(
        st.just("reply"), st.integers(0, 40), st.lists(st.sampled_from(CALL_IDS), max_size=2)
    ),
    st.tuples(st.just("turn"), st.integers(1, 40)),
    st.tuples(st.just("result"), st.sampled_from(CALL_IDS), st.integers(0, 40)),
    st.tuples(st.just("bash"), st.booleans()),
    st.tuples(st.sampled_from(["custom", "note", "model", "summary", "failure"])),
    st.tuples(st.sampled_from(["hide", "replace"]), st.integers(0, 60)),
    st.tuples(st.just("compact"), st.integers(0, 60)),
)


def apply(branch: Branch, step: tuple[Any, ...]) -> None:
    match step:
        case ("user", size):
            branch.say(tokens(size))
        case ("reply", size, calls):
            branch.say(reply("r" * size, *(call(each, path=f"f{each}") for each in calls)))
        case ("turn", size):
            branch.say(tokens(size), reply("", call("1")), result("1", "x" * size), reply("d"))
        case ("result", call_id, size):
            branch.say(result(call_id, "x" * size))
        case ("bash", excluded):
            ran = BashExecutionMessage(
                command="ls",
                output="o" * 20,
                cancelled=False,
                truncated=False,
                timestamp=1,
                exclude_from_context=excluded,
            )
            branch.say(ran)
        case ("custom",):
            branch.add(CustomMessageEntry, custom_type="t", content="note", display=True)
        case ("note",):
            branch.add(CustomEntry, custom_type="t")
        case ("model",):
            branch.add(ModelChangeEntry, provider="acme", model_id="one")
        case ("summary",):
            branch.add(BranchSummaryEntry, summary="elsewhere", from_id=None)
        case ("failure",):
            branch.say(reply("half", stop_reason="error", usage=usage_of(5)))
        case ("hide" | "replace" as kind, place):
            messages = [each.id for each in branch.entries if "message" in each.type]
            if messages:
                target = messages[place % len(messages)]
                _ = branch.hide(target) if kind == "hide" else branch.replace(target, "edited")
        case ("compact", keep):
            try:
                made = planned(branch, keep)
            except NothingToCompactError:
                return
            summarised(branch, made)


def planned(branch: Branch, keep: int, room: int | None = None) -> CompactionPlan:
    """With a ``room``: after the provider refused a context that is longer."""
    settings = CompactionSettings(keep_recent_tokens=keep, reserve_tokens=100)
    if room is None:
        return plan_compaction(branch.entries, settings)
    return plan_compaction(branch.entries, settings, context_window=room + 100, overflowed=True)


def summarised(branch: Branch, made: CompactionPlan) -> None:
    branch.compact(anyio.run(partial(summarize_compaction, made, Asked("S", "T"))))


@st.composite
def branches(draw: st.DrawFn) -> Branch:
    branch = Branch()
    for step in draw(st.lists(steps, max_size=30)):
        apply(branch, step)
    return branch


def said(branch: Branch) -> list[Any]:
    """What the model reads after the newest summary."""
    messages = [each for each in branch.context if convert_to_llm([each], ROLES)]
    compacted = any(stored.type == "compaction" for stored in branch.entries)
    return messages[1:] if compacted else messages


keeps = st.integers(0, 120)
rooms = st.none() | st.integers(-5, 120)


@settings(deadline=None, max_examples=300)
@given(branches(), keeps, rooms)
def test_what_is_summarised_and_what_stays_are_the_whole(
    branch: Branch, keep: int, room: int | None
) -> None:
    before = said(branch)
    try:
        made = planned(branch, keep, room)
    except NothingToCompactError:
        return
    summarised(branch, made)
    kept = said(branch)
    assert [*made.messages_to_summarize, *made.turn_prefix, *kept] == before
    assert made.messages_to_summarize or made.turn_prefix
    assert made.tokens_kept == sum(estimate_tokens(each) for each in kept)
    if room is not None and made.first_kept_entry_id is not None and kept:
        assert made.tokens_kept <= max(room, 0)


@settings(deadline=None, max_examples=300)
@given(branches(), keeps, rooms)
def test_a_cut_never_parts_a_call_from_its_result(
    branch: Branch, keep: int, room: int | None
) -> None:
    try:
        made = planned(branch, keep, room)
    except NothingToCompactError:
        return
    gone = [*made.messages_to_summarize, *made.turn_prefix]
    open_calls = set()
    for message in gone:
        if isinstance(message, AssistantMessage):
            open_calls |= {each.id for each in message.content if isinstance(each, ToolCall)}
    summarised(branch, made)
    for message in said(branch):
        if isinstance(message, AssistantMessage):
            open_calls -= {each.id for each in message.content if isinstance(each, ToolCall)}
        elif isinstance(message, ToolResultMessage):
            assert message.tool_call_id not in open_calls


@settings(deadline=None, max_examples=300)
@given(branches(), keeps)
def test_compacting_twice_finds_nothing_more(branch: Branch, keep: int) -> None:
    try:
        made = planned(branch, keep)
    except NothingToCompactError:
        return
    summarised(branch, made)
    with pytest.raises(NothingToCompactError, match="already"):
        planned(branch, keep)
    branch.add(CustomEntry, custom_type="t")
    with pytest.raises(NothingToCompactError):
        planned(branch, keep)


@settings(deadline=None, max_examples=300)
@given(branches(), keeps, rooms)
def test_the_context_is_smaller_afterwards_by_what_the_summary_saves(
    branch: Branch, keep: int, room: int | None
) -> None:
    before = sum(estimate_tokens(each) for each in branch.context)
    try:
        made = planned(branch, keep, room)
    except NothingToCompactError:
        return
    done = anyio.run(partial(summarize_compaction, made, Asked("S", "T")))
    gone = [*made.messages_to_summarize, *made.turn_prefix]
    branch.compact(done)
    assert branch_tokens(branch.entries) == done.estimated_tokens_after
    saved = sum(estimate_tokens(each) for each in gone)
    if saved >= -(-len(done.summary) // 4):
        assert done.estimated_tokens_after <= before


@settings(deadline=None, max_examples=300)
@given(branches(), keeps)
def test_planning_changes_nothing_and_is_the_same_each_time(branch: Branch, keep: int) -> None:
    before = branch.context
    lines = [stored.raw for stored in branch.entries]

    def outcome() -> Any:
        try:
            made = planned(branch, keep)
        except NothingToCompactError as nothing:
            return str(nothing)
        return made.first_kept_entry_id, made.messages_to_summarize, made.files.details()

    assert outcome() == outcome()
    assert branch.context == before
    assert [stored.raw for stored in branch.entries] == lines
