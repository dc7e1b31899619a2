"""What is told about a branch that is left."""

from typing import Any

import pytest
from msgspec import UNSET

from pi_rpc.harness.branch_summary import (
    BranchSummaryPlan,
    BranchSummaryResult,
    left_behind,
    plan_branch_summary,
    summarize_branch,
)
from pi_rpc.harness.summaries import SummaryFailedError
from pi_rpc.llm.scripted import scripted_stream_fn, stop_reason, text
from pi_rpc.session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    LabelEntry,
    ModelChangeEntry,
)
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
)


def plan(branch: Branch, budget: int, **options: Any) -> BranchSummaryPlan | None:
    return plan_branch_summary(branch.entries, budget + 100, 100, **options)


def planned(branch: Branch, budget: int) -> BranchSummaryPlan:
    made = plan(branch, budget)
    assert made is not None
    return made


def in_order(text: str, parts: tuple[str, ...]) -> bool:
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


# --- what is left -------------------------------------------------------------------------------


def test_what_is_left_is_the_old_path_up_to_the_deepest_shared_entry() -> None:
    old, new = Branch(), Branch()
    for branch in (old, new):
        branch.say(user("a"), reply("b"))
    shared = list(old.entries)
    old.say(user("c"), reply("d"))
    assert left_behind(old.entries, shared) == old.entries[2:]
    assert left_behind(old.entries, []) == old.entries
    assert left_behind(shared, old.entries) == []
    assert left_behind([], shared) == []


# --- what is summarised -------------------------------------------------------------------------


def test_all_of_a_branch_that_fits_is_summarised_without_tool_results() -> None:
    branch = Branch()
    branch.say(tokens(10), reply("", call("1", path="a.py")), result("1", "x" * 4_000), reply("d"))
    made = planned(branch, 100)
    assert made.messages == [branch.context[0], branch.context[1], branch.context[3]]
    assert made.entries == branch.entries
    assert made.tokens == 10 + 5 + 1


@pytest.mark.parametrize(("budget", "count"), [(40, 4), (39, 3), (30, 3), (29, 2), (10, 1)])
def test_the_newest_messages_are_taken_first(budget: int, count: int) -> None:
    branch = Branch()
    branch.say(*(tokens(10, letter) for letter in "abcd"))
    assert planned(branch, budget).messages == branch.context[-count:]


def test_a_message_that_does_not_fit_ends_the_taking() -> None:
    branch = Branch()
    branch.say(tokens(1), tokens(50), tokens(10))
    assert len(planned(branch, 40).messages) == 1


@pytest.mark.parametrize(("used", "taken"), [(89, True), (90, False)])
@pytest.mark.parametrize("kind", ["compaction", "branch_summary"])
def test_a_summary_over_the_budget_is_taken_while_a_tenth_is_free(
    kind: str, used: int, taken: bool
) -> None:
    branch = Branch()
    branch.say(tokens(1))
    if kind == "compaction":
        branch.add(CompactionEntry, summary="s" * 400, first_kept_entry_id="e0", tokens_before=1)
    else:
        branch.add(BranchSummaryEntry, summary="s" * 400, from_id="e0")
    branch.say(tokens(used))
    made = planned(branch, 100)
    assert len(made.messages) == (2 if taken else 1)
    assert made.tokens == used + (100 if taken else 0)


def test_what_was_compacted_on_the_branch_is_still_shown() -> None:
    branch = Branch()
    branch.say(tokens(10, "a"), tokens(10, "b"))
    branch.add(CompactionEntry, summary="short", first_kept_entry_id="e1", tokens_before=1)
    branch.say(tokens(10, "c"))
    kinds = [type(message).__name__ for message in planned(branch, 1_000).messages]
    assert kinds == ["UserMessage", "UserMessage", "CompactionSummaryMessage", "UserMessage"]


def test_edits_hold_in_what_is_summarised() -> None:
    branch = Branch()
    branch.say(user("one"), user("two"))
    branch.replace("e0", "first")
    branch.replace("e0", "second")
    branch.hide("e1")
    assert [message.content for message in planned(branch, 100).messages] == ["second"]  # type: ignore[union-attr]


def test_a_branch_that_says_nothing_has_no_summary() -> None:
    branch = Branch()
    assert plan(branch, 100) is None
    branch.add(ModelChangeEntry, provider="acme", model_id="one")
    branch.add(LabelEntry, target_id="e0", label="l")
    branch.add(CustomEntry, custom_type="t")
    branch.say(result("1"))
    branch.hide(branch.say(user("hidden")))
    assert plan(branch, 100) is None


def test_a_newest_message_larger_than_the_budget_leaves_nothing() -> None:
    branch = Branch()
    branch.say(tokens(101))
    assert plan(branch, 100) is None


def test_a_model_without_a_window_gets_the_usual_budget() -> None:
    branch = Branch()
    branch.say(tokens(128_000 - 16_384), tokens(0))
    for window in (0, -1):
        made = plan_branch_summary(branch.entries, window)
        assert made is not None
        assert len(made.messages) == 2
    branch.say(tokens(1))
    made = plan_branch_summary(branch.entries, 0)
    assert made is not None
    assert len(made.messages) == 2


def test_a_reserve_larger_than_the_window_leaves_half_of_it() -> None:
    branch = Branch()
    branch.say(tokens(600), tokens(500))
    made = plan_branch_summary(branch.entries, 1_000)
    assert made is not None
    assert made.tokens == 500


def test_files_are_those_of_the_branch_and_of_branches_left_before() -> None:
    branch = Branch()
    listed = {"readFiles": ["r.py", "x.py"], "modifiedFiles": ["m.py"]}
    branch.add(BranchSummaryEntry, summary="s", from_id="e0", details=listed)
    branch.add(
        BranchSummaryEntry, summary="h", from_id="e0", details={"readFiles": ["no"]}, from_hook=True
    )
    branch.say(reply("", call("1", "edit", path="x.py"), call("2", path="far.py")), tokens(99))
    made = planned(branch, 100)
    assert len(made.messages) == 1
    assert made.files.details() == {
        "readFiles": ["far.py", "r.py"],
        "modifiedFiles": ["m.py", "x.py"],
    }


# --- the request --------------------------------------------------------------------------------


async def test_a_branch_is_one_request_and_the_summary_says_where_it_comes_from() -> None:
    branch = Branch()
    branch.say(user("Try it"), reply("Tried.", call("1", "write", path="a.py")))
    asked = Asked("## Goal\nTo try.")
    done = await summarize_branch(planned(branch, 100), asked, "what failed")
    (request,) = asked.requests
    assert request.part == "branch"
    assert request.text.startswith("<conversation>\n[User]: Try it\n\n[Assistant]: Tried.")
    assert in_order(request.text, ("</conversation>", *SECTIONS, "Additional focus: what failed"))
    assert "Critical Context" not in request.text
    preamble, _, rest = done.summary.partition("\n\n")
    assert "another branch" in preamble
    assert rest == "## Goal\nTo try.\n\n<modified-files>\na.py\n</modified-files>"
    assert done.usage == usage_of(100)
    assert done.details == {"readFiles": [], "modifiedFiles": ["a.py"]}


async def test_own_instructions_can_take_the_place_of_ours() -> None:
    branch = Branch()
    branch.say(user("Try it"))
    asked = Asked("Yes.", "Yes.")
    await summarize_branch(planned(branch, 100), asked, "Answer yes.", replace_instructions=True)
    await summarize_branch(planned(branch, 100), asked, " ", replace_instructions=True)
    replaced, usual = asked.requests
    assert replaced.text == "<conversation>\n[User]: Try it\n</conversation>\n\nAnswer yes."
    assert "## Goal" in usual.text


async def test_a_reply_that_was_cut_short_is_no_summary() -> None:
    branch = Branch()
    branch.say(user("Try it"))
    script = scripted_stream_fn([[text("half"), stop_reason("length")]])
    with pytest.raises(SummaryFailedError, match="cut short"):
        await summarize_branch(planned(branch, 100), asking(script))


def test_the_entry_names_the_branch_it_stands_for() -> None:
    done = BranchSummaryResult("s", usage_of(1), {"readFiles": []})
    entry = done.entry("i", "p", "t", from_id="old")
    assert (entry.parent_id, entry.from_id, entry.usage) == ("p", "old", usage_of(1))
    assert entry.from_hook is UNSET
    from_root = BranchSummaryResult("s", from_hook=True).entry("i", None, "t", from_id=None)
    assert (from_root.from_id, from_root.from_hook, from_root.details) == ("root", True, UNSET)
