"""A compaction from plan to effect."""

from typing import Any

import anyio
import pytest
from msgspec import UNSET

from pi_rpc.harness.compaction import (
    CompactionPlan,
    CompactionResult,
    plan_compaction,
    summarize_compaction,
)
from pi_rpc.harness.settings import CompactionSettings
from pi_rpc.harness.summaries import SummaryCancelledError, SummaryFailedError
from pi_rpc.harness.usage import branch_tokens
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.scripted import scripted_stream_fn, stop_reason, text, until
from pi_rpc.session.entries import CompactionEntry
from tests.harness.branches import (
    Asked,
    Branch,
    asking,
    call,
    reply,
    result,
    tokens,
    usage_of,
    user,
)

pytestmark = pytest.mark.anyio

SECTIONS = (
    "## Goal",
    "## Constraints & Preferences",
    "## Progress",
    "### Done",
    "### In Progress",
    "### Blocked",
    "## Key Decisions",
    "## Next Steps",
    "## Critical Context",
)
TURN_SECTIONS = ("## Original Request", "## Progress So Far", "## Context Needed to Continue")


def plan(branch: Branch, keep: int, **options: Any) -> CompactionPlan:
    return plan_compaction(branch.entries, CompactionSettings(keep_recent_tokens=keep), **options)


def two_turns() -> Branch:
    branch = Branch()
    branch.say(user("Fix a.py"), reply("", call("1", path="a.py")), result("1", "x" * 400))
    branch.say(reply("Fixed."), tokens(50), reply("n" * 40))
    return branch


def in_order(text: str, parts: tuple[str, ...]) -> bool:
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


async def test_whole_turns_are_one_request_with_the_sections() -> None:
    branch = two_turns()
    asked = Asked("## Goal\nTo fix a.py.")
    done = await summarize_compaction(plan(branch, 60), asked, "the tests")
    (request,) = asked.requests
    assert request.part == "history"
    assert request.text.startswith("<conversation>\n[User]: Fix a.py\n\n[Assistant tool calls]: ")
    assert in_order(request.text, ("</conversation>", *SECTIONS, "Additional focus: the tests"))
    assert "<previous-summary>" not in request.text
    assert "nnnn" not in request.text
    assert done == CompactionResult(
        summary="## Goal\nTo fix a.py.\n\n<read-files>\na.py\n</read-files>",
        first_kept_entry_id="e4",
        tokens_before=169,
        estimated_tokens_after=60 + 14,
        usage=usage_of(100),
        details={"readFiles": ["a.py"], "modifiedFiles": []},
    )


async def test_a_request_holds_no_more_than_fits_the_window() -> None:
    branch = Branch()
    branch.say(tokens(5_000), reply("y" * 40))
    asked = Asked("S")
    made = plan(branch, 10, context_window=16_384 + 1_000)
    await summarize_compaction(made, asked)
    conversation = asked.requests[0].text.partition("</conversation>")[0]
    assert "16008 characters are left out" in conversation
    assert len(conversation) < 4_100


async def test_the_entry_puts_the_summary_before_what_is_kept() -> None:
    branch = two_turns()
    before = branch.context
    done = await summarize_compaction(plan(branch, 60), Asked("Short."))
    branch.compact(done)
    summary, *kept = branch.context
    assert summary.summary == done.summary
    assert kept == before[4:]
    assert branch_tokens(branch.entries) == done.estimated_tokens_after
    entry = branch.entries[-1].entry
    assert isinstance(entry, CompactionEntry)
    assert (entry.usage, entry.from_hook) == (usage_of(100), UNSET)


async def test_a_previous_summary_is_brought_up_to_date() -> None:
    branch = two_turns()
    branch.compact(await summarize_compaction(plan(branch, 60), Asked("What was.")))
    branch.say(tokens(10, "d"), reply("D" * 40))
    asked = Asked("What is.")
    done = await summarize_compaction(plan(branch, 20), asked)
    (request,) = asked.requests
    previous = "<previous-summary>\nWhat was.\n</previous-summary>"
    assert in_order(request.text, ("</conversation>", previous, "In Progress to Done", *SECTIONS))
    assert done.summary == "What is.\n\n<read-files>\na.py\n</read-files>"


async def test_a_split_turn_is_two_requests_one_after_the_other() -> None:
    branch = two_turns()
    busy = 0

    async def ask(request: Any) -> Any:
        nonlocal busy
        busy += 1
        assert busy == 1
        await anyio.lowlevel.checkpoint()
        busy -= 1
        return await asked(request)

    asked = Asked("The past.", "The turn.")
    done = await summarize_compaction(plan(branch, 10), ask, "names")
    history, turn = asked.requests
    assert (history.part, turn.part) == ("history", "turn")
    assert in_order(turn.text, ("<conversation>", "</conversation>", *TURN_SECTIONS, "names"))
    assert "Fix a.py" not in turn.text
    assert done.summary == (
        "The past.\n\n---\n\n**Turn Context (split turn):**\n\nThe turn."
        "\n\n<read-files>\na.py\n</read-files>"
    )
    assert done.usage is not None
    assert done.usage.input == 200
    assert done.first_kept_entry_id == "e5"


async def test_a_split_first_turn_says_that_nothing_was_before() -> None:
    branch = Branch()
    branch.say(user("go"), reply("", call("1")), result("1"), reply("y" * 40))
    done = await summarize_compaction(plan(branch, 10), Asked("The turn."))
    assert done.summary.startswith("No prior history.\n\n---\n\n")


async def test_a_split_turn_right_after_a_summary_keeps_that_summary() -> None:
    branch = two_turns()
    branch.compact(await summarize_compaction(plan(branch, 60), Asked("What was.")))
    branch.hide("e4")
    branch.hide("e5")
    branch.say(tokens(30), reply("y" * 40))
    asked = Asked("The turn.")
    done = await summarize_compaction(plan(branch, 10), asked)
    assert len(asked.requests) == 1
    assert done.summary.startswith("What was.\n\n---\n\n")


@pytest.mark.parametrize("failing", [0, 1])
async def test_a_request_that_fails_fails_the_whole(failing: int) -> None:
    replies = [[text("fine")], [text("fine")]]
    replies[failing] = [text("half"), stop_reason("length")]
    script = scripted_stream_fn(replies)
    with pytest.raises(SummaryFailedError, match="cut short"):
        await summarize_compaction(plan(two_turns(), 10), asking(script))
    assert len(script.requests) == failing + 1


async def test_an_abort_between_two_requests_is_a_cancelled_summary() -> None:
    controller = AbortController()

    async def stop() -> None:
        controller.abort()

    script = scripted_stream_fn([[text("past"), until(stop)], [text("turn")]])
    with pytest.raises(SummaryCancelledError):
        await summarize_compaction(plan(two_turns(), 10), asking(script, controller.signal))
    assert len(script.requests) == 1


def test_a_hook_can_make_the_result() -> None:
    entry = CompactionResult("s", "e4", 60, 10, details=[1], from_hook=True).entry("i", "p", "t")
    assert entry.from_hook is True
    assert (entry.usage, entry.details) == (UNSET, [1])
    assert CompactionResult("s", "e4", 60, 10).entry("i", "p", "t").details is UNSET
