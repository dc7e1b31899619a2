"""When a conversation is compacted, what is summarised of it and what stays."""

from types import MappingProxyType
from typing import Any

import pytest

from pi_rpc.agent.messages import BashExecutionMessage, OpaqueMessage, default_roles
from pi_rpc.harness.compaction import (
    CompactionPlan,
    CompactionResult,
    NothingToCompactError,
    plan_compaction,
    settings_for,
    should_compact,
)
from pi_rpc.harness.settings import CompactionOverride, CompactionSettings
from pi_rpc.harness.usage import branch_tokens, estimate_tokens, prompt_tokens
from pi_rpc.llm.messages import (
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    UserMessage,
    Wire,
)
from pi_rpc.llm.provider import ToolSpec
from pi_rpc.session.entries import (
    BranchSummaryEntry,
    CustomEntry,
    CustomMessageEntry,
    LabelEntry,
    ModelChangeEntry,
)
from tests.harness.branches import (
    Branch,
    call,
    model_of,
    reply,
    result,
    tokens,
    usage_of,
    user,
)


def plan(branch: Branch, keep: int, **options: Any) -> CompactionPlan:
    settings = CompactionSettings(keep_recent_tokens=keep, reserve_tokens=100)
    return plan_compaction(branch.entries, settings, **options)


def plan_refused(branch: Branch, keep: int, room: int, **options: Any) -> CompactionPlan:
    """After the provider refused what is longer than ``room`` tokens."""
    return plan(branch, keep, context_window=room + 100, overflowed=True, **options)


def conversation() -> Branch:
    """Three turns of 20 tokens: a prompt and an answer of 10 each."""
    branch = Branch()
    for letter in "abc":
        branch.say(tokens(10, letter), reply(letter.upper() * 40))
    return branch


# --- when ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "window", "expected"),
    [(83_616, 100_000, False), (83_617, 100_000, True), (1, 0, False), (1, -5, False)],
)
def test_the_threshold_is_the_window_without_the_reserve_and_is_strict(
    used: int, window: int, expected: bool
) -> None:
    assert should_compact(used, window, CompactionSettings()) is expected


def test_nothing_is_compacted_when_it_is_switched_off() -> None:
    assert not should_compact(99_999, 100_000, CompactionSettings(enabled=False))


def test_a_model_overrides_single_values() -> None:
    settings = CompactionSettings(
        reserve_tokens=1_000,
        model_overrides=MappingProxyType(
            {"acme/one": CompactionOverride(keep_recent_tokens=7), "acme/two": CompactionOverride()}
        ),
    )
    chosen = settings_for(settings, model_of())
    assert (chosen.enabled, chosen.reserve_tokens, chosen.keep_recent_tokens) == (True, 1_000, 7)


@pytest.mark.parametrize(
    ("window", "reserve", "keep"),
    [
        (200_000, 16_384, 20_000),
        (36_385, 16_384, 20_000),
        (32_768, 16_384, 8_192),
        (16_384, 8_192, 4_096),
        (4_096, 2_048, 1_024),
        (0, 16_384, 20_000),
    ],
)
def test_numbers_that_leave_a_small_window_no_room_are_lowered(
    window: int, reserve: int, keep: int
) -> None:
    chosen = settings_for(CompactionSettings(), model_of(window))
    assert (chosen.reserve_tokens, chosen.keep_recent_tokens) == (reserve, keep)


# --- where --------------------------------------------------------------------------------------


def test_the_newest_turns_stay_and_the_others_are_summarised() -> None:
    branch = conversation()
    made = plan(branch, 20)
    assert made.first_kept_entry_id == "e4"
    assert made.messages_to_summarize == branch.context[:4]
    assert made.turn_prefix == []
    assert not made.is_split_turn
    assert (made.tokens_before, made.tokens_kept) == (60, 20)
    assert made.previous_summary is None


def test_the_entry_that_reaches_the_kept_size_stays() -> None:
    assert plan(conversation(), 31).first_kept_entry_id == "e2"


def test_a_cut_inside_a_turn_splits_it() -> None:
    branch = conversation()
    made = plan(branch, 10)
    assert made.first_kept_entry_id == "e5"
    assert made.messages_to_summarize == branch.context[:4]
    assert made.turn_prefix == [branch.context[4]]
    assert made.is_split_turn


def test_a_first_turn_that_is_too_long_is_only_a_prefix() -> None:
    branch = Branch()
    branch.say(user("go"), reply("", call("1")), result("1", "x" * 400), reply("y" * 40))
    made = plan(branch, 10)
    assert made.messages_to_summarize == []
    assert made.turn_prefix == branch.context[:3]
    assert made.first_kept_entry_id == "e3"


def test_a_result_stays_with_its_call() -> None:
    branch = Branch()
    branch.say(user("go"), reply("", call("1"), call("2")), result("1", "x" * 40), result("2"))
    branch.say(reply("then"), user("so"))
    # The kept size is reached at the result of call 1; the next place to cut is the answer.
    assert plan(branch, 12).first_kept_entry_id == "e4"


def test_the_last_possible_place_is_taken_when_the_newest_result_is_too_long() -> None:
    branch = Branch()
    branch.say(user("go"), reply("ok", call("1")), result("1"), reply("", call("2")))
    branch.say(result("2", "x" * 4_000))
    made = plan(branch, 100)
    assert made.first_kept_entry_id == "e3"
    assert made.turn_prefix == branch.context[:3]


def test_a_message_between_a_call_and_its_result_is_no_place_to_cut() -> None:
    branch = Branch()
    branch.say(tokens(10), reply("", call("1")))
    branch.add(CustomMessageEntry, custom_type="t", content="n" * 40, display=True)
    branch.say(result("1", "x" * 40), reply("z" * 40))
    # 20 tokens end at the custom message's neighbour; it would part e1 from e3.
    assert plan(branch, 30).first_kept_entry_id == "e4"


def test_a_call_id_that_is_used_again_belongs_to_the_newest_call() -> None:
    branch = Branch()
    for _ in range(3):
        branch.say(tokens(10), reply("", call("1")), result("1"), reply("d" * 40))
    assert plan(branch, 11).first_kept_entry_id == "e11"
    assert plan(branch, 12).first_kept_entry_id == "e9"
    assert plan(branch, 22).first_kept_entry_id == "e8"


def test_what_says_nothing_to_the_model_stays_with_the_message_after_it() -> None:
    branch = conversation()
    del branch.entries[4:]
    hidden = branch.say(reply("failed", stop_reason="error"))
    branch.hide(hidden)
    branch.add(ModelChangeEntry, provider="acme", model_id="one")
    branch.say(tokens(10), reply("d" * 40))
    assert plan(branch, 20).first_kept_entry_id == hidden


@pytest.mark.parametrize("kind", ["bash", "custom", "branch_summary"])
def test_what_a_person_did_beside_the_conversation_starts_a_turn(kind: str) -> None:
    branch = conversation()
    if kind == "bash":
        branch.say(
            BashExecutionMessage(
                command="ls", output="o" * 40, cancelled=False, truncated=False, timestamp=1
            )
        )
    elif kind == "custom":
        branch.add(CustomMessageEntry, custom_type="t", content="n" * 40, display=False)
    else:
        branch.add(BranchSummaryEntry, from_id="e0", summary="s" * 40)
    made = plan(branch, 10)
    assert made.first_kept_entry_id == "e6"
    assert not made.is_split_turn


def test_messages_that_the_model_never_reads_are_no_place_to_cut_and_not_summarised() -> None:
    branch = Branch()
    branch.say(
        BashExecutionMessage(
            command="secret",
            output="o" * 400,
            cancelled=False,
            truncated=False,
            timestamp=1,
            exclude_from_context=True,
        ),
        OpaqueMessage("note", b'{"role":"note"}'),
        tokens(10),
        reply("a" * 40),
    )
    with pytest.raises(NothingToCompactError):
        plan(branch, 20)
    branch.say(tokens(10), reply("b" * 40))
    assert [type(each).__name__ for each in plan(branch, 20).messages_to_summarize] == [
        "UserMessage",
        "AssistantMessage",
    ]


def test_a_message_of_an_application_counts_as_it_reads() -> None:
    class Note(Wire, tag_field="role", tag="note", frozen=True, kw_only=True):
        text: str

    roles = default_roles()
    roles.register(Note, lambda note: [user(note.text)])
    branch = Branch()
    branch.say(tokens(10), reply("a" * 40), Note(text="n" * 40))
    assert plan(branch, 10).first_kept_entry_id == "e1"
    made = plan(branch, 10, roles=roles)
    assert (made.first_kept_entry_id, made.tokens_kept) == ("e2", 10)
    assert not made.is_split_turn


def test_edits_hold_in_what_is_summarised() -> None:
    branch = conversation()
    branch.hide("e1")
    branch.replace("e0", "edited")
    made = plan(branch, 20)
    assert [each.content for each in made.messages_to_summarize[:1]] == ["edited"]  # type: ignore[union-attr]
    assert len(made.messages_to_summarize) == 3


# --- nothing to do ------------------------------------------------------------------------------


def test_a_short_conversation_has_nothing_to_compact() -> None:
    for branch in (Branch(), conversation()):
        with pytest.raises(NothingToCompactError, match="too short"):
            plan(branch, 1_000)


def test_a_conversation_that_was_just_compacted_says_so() -> None:
    branch = conversation()
    branch.compact(CompactionResult("s", "e4", 60, 25))
    with pytest.raises(NothingToCompactError, match="already compacted"):
        plan(branch, 20)
    branch.add(LabelEntry, target_id="e0", label="here")
    with pytest.raises(NothingToCompactError):
        plan(branch, 20)


def test_only_results_without_calls_are_nothing_to_compact() -> None:
    branch = Branch()
    branch.say(result("1", "x" * 400), result("2", "y" * 400))
    with pytest.raises(NothingToCompactError):
        plan(branch, 10)


# --- again --------------------------------------------------------------------------------------


def test_the_next_compaction_starts_from_the_summary_and_what_it_kept() -> None:
    branch = conversation()
    details = {"readFiles": ["a.py"], "modifiedFiles": ["b.py"]}
    listed = "Earlier.\n\n<read-files>\na.py\n</read-files>"
    branch.compact(CompactionResult(listed, "e4", 60, 25, details=details))
    branch.say(tokens(10, "d"), reply("", call("1", "edit", path="a.py")), result("1"))
    branch.say(tokens(10, "e"))
    made = plan(branch, 10)
    assert made.previous_summary == "Earlier."
    assert made.messages_to_summarize == branch.context[1:6]
    assert made.first_kept_entry_id == "e10"
    assert (made.files.read, made.files.modified) == ([], ["a.py", "b.py"])


def test_an_older_compaction_inside_the_kept_part_adds_nothing() -> None:
    branch = conversation()
    branch.compact(CompactionResult("first", "e2", 60, 45))
    branch.say(tokens(10, "d"), reply("D" * 40))
    branch.compact(CompactionResult("second", "e4", 60, 45))
    branch.say(tokens(10, "e"), reply("E" * 40))
    made = plan(branch, 20)
    assert made.previous_summary == "second"
    assert len(made.messages_to_summarize) == 4
    assert made.first_kept_entry_id == "e10"
    assert plan(branch, 40).first_kept_entry_id == "e7"


def test_the_file_lists_of_a_hook_are_its_own_affair() -> None:
    branch = conversation()
    details = {"readFiles": ["a.py"], "modifiedFiles": ["b.py"]}
    branch.compact(CompactionResult("s", "e4", 60, 25, details=details, from_hook=True))
    branch.say(tokens(10, "d"))
    assert plan(branch, 10).files.details() == {"readFiles": [], "modifiedFiles": []}


def test_files_are_those_of_the_summarised_part_with_calls_that_tools_made() -> None:
    branch = Branch()
    nested = [
        {"name": "write", "arguments": {"path": "n.py"}, "nestedCalls": [{"name": "read"}]},
        {"toolName": "read", "args": {"path": "m.py"}},
        "odd",
    ]
    branch.say(
        user("go"),
        reply("", call("1", path="z.py"), call("2", path="a.py"), call("3", "write", path="w.py")),
        result("1", nested_calls=nested),
        result("2"),
        result("3"),
        reply(
            "", call("4", "bash", path="no.py"), call("5", path=7), call("6", "edit", path="a.py")
        ),
        result("4"),
        result("5"),
        result("6"),
        tokens(10),
        reply("", call("7", path="prefix.py")),
        result("7"),
        reply("", call("8", path="kept.py")),
        result("8"),
    )
    made = plan(branch, 6)
    assert made.is_split_turn
    assert made.files.read == ["m.py", "prefix.py", "z.py"]
    assert made.files.modified == ["a.py", "n.py", "w.py"]


# --- after the provider refused the context -----------------------------------------------------


def test_a_kept_part_that_does_not_fit_gives_way() -> None:
    branch = conversation()
    assert plan_refused(branch, 40, 50).first_kept_entry_id == "e2"
    assert plan_refused(branch, 40, 25).first_kept_entry_id == "e4"
    assert plan_refused(branch, 40, 25, overhead=10).first_kept_entry_id == "e5"


def test_a_refused_context_is_shortened_even_if_it_seems_short() -> None:
    assert plan_refused(conversation(), 1_000, 100_000).first_kept_entry_id == "e3"
    assert plan(conversation(), 1_000, overflowed=True).first_kept_entry_id == "e3"
    assert plan(conversation(), 40, overflowed=True).first_kept_entry_id == "e2"


def test_a_refused_first_prompt_is_summarised_itself() -> None:
    branch = Branch()
    branch.say(tokens(100))
    branch.hide(branch.say(reply(stop_reason="error", error="prompt is too long")))
    made = plan_refused(branch, 1_000, 5_000)
    assert made.turn_prefix == branch.context
    assert made.first_kept_entry_id is None
    entry = CompactionResult("s", None, 1, 1).entry("me", None, "t")
    assert entry.first_kept_entry_id == "me"


def test_a_tool_result_larger_than_the_window_is_summarised() -> None:
    branch = Branch()
    branch.say(user("go"), reply("", call("1")), result("1", "x" * 40_000))
    branch.hide(branch.say(reply(stop_reason="error", error="prompt is too long")))
    assert plan(branch, 100).first_kept_entry_id == "e1"
    assert plan_refused(branch, 100, 5_000).first_kept_entry_id is None


def test_an_empty_refused_context_has_nothing_to_compact() -> None:
    with pytest.raises(NothingToCompactError):
        plan_refused(Branch(), 10, 10)


# --- how much -----------------------------------------------------------------------------------


def test_estimates_follow_the_characters() -> None:
    thought = ThinkingBlock(thinking="t" * 5)
    assert estimate_tokens(user("abcde")) == 2
    said = reply("abc", call("1", path="ä"))
    said.content.append(thought)
    assert estimate_tokens(said) == 6  # 3 + len('read{"path":"ä"}') + 5 = 24 characters
    image = ImageBlock(data="", mime_type="image/png")
    assert estimate_tokens(UserMessage(content=[TextBlock(text="a"), image], timestamp=1)) == 1201
    system = SystemMessage(
        content="abcd", timestamp=1, sections={"a": "efgh", "b": None}, tools_added=[{}]
    )
    assert estimate_tokens(system) == 3
    assert estimate_tokens(reply("", call("1", path="\ud800"))) > 0
    assert estimate_tokens(OpaqueMessage("note", b"{}")) == 0


def test_the_last_good_reply_says_how_full_the_context_is() -> None:
    branch = Branch()
    branch.say(tokens(10), reply("a", usage=usage_of(5_000)), tokens(7))
    branch.say(reply(stop_reason="error", usage=usage_of(9)), reply("zero"))
    assert branch_tokens(branch.entries, overhead=77) == 5_008


@pytest.mark.parametrize("change", ["edit", "compaction"])
def test_a_reply_from_before_a_change_of_the_context_is_not_believed(change: str) -> None:
    branch = Branch()
    branch.say(tokens(10), reply("a" * 40, usage=usage_of(5_000)), tokens(7))
    if change == "edit":
        branch.hide("e1")
        expected = 17
    else:
        branch.compact(CompactionResult("s" * 8, "e1", 1, 1))
        expected = 2 + 10 + 7
    assert branch_tokens(branch.entries) == expected
    assert branch_tokens(branch.entries, overhead=100) == expected + 100
    branch.say(reply("b", usage=usage_of(300)))
    branch.add(CustomEntry, custom_type="t")
    assert branch_tokens(branch.entries, overhead=100) == 300


def test_prompt_and_tools_have_a_size() -> None:
    tool = ToolSpec(name="read", description="abcd", parameters={"a": 1})
    assert prompt_tokens("p" * 10, [tool]) == 7  # 10 + 4 + 4 + 7 = 25 characters
