"""What a branch says to the model, to clients, and whether its last run settled."""

from typing import Any

import pytest

from pi_rpc.agent.messages import (
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    OpaqueMessage,
)
from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from pi_rpc.session import (
    RUN_SETTLED,
    JsonlSession,
    MemorySession,
    build_context,
    interrupted,
    transcript,
)
from pi_rpc.session.entries import (
    ActiveToolsChangeEntry,
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    ContextReplacement,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    ThinkingLevelChangeEntry,
)
from tests.session.builders import FIXTURE, assistant, tool_result, user

pytestmark = pytest.mark.anyio

STAMP = "2026-01-01T00:00:00.000Z"
STAMP_MS = 1767225600000


class Branch:
    """A session of which each added entry is named by its position: ``e0``, ``e1`` and so on."""

    def __init__(self) -> None:
        self.session = MemorySession("/w")
        self._count = 0

    async def add(self, kind: type[Entry], **fields: Any) -> str:
        entry_id = f"e{self._count}"
        self._count += 1
        entry = kind(id=entry_id, parent_id=None, timestamp=STAMP, **fields)  # type: ignore[call-arg]
        await self.session.append(entry)
        return entry_id

    async def say(self, *messages: Any) -> None:
        for message in messages:
            await self.add(MessageEntry, message=message)

    @property
    def messages(self) -> list[Any]:
        return list(build_context(self.session.branch()).messages)

    @property
    def ids(self) -> list[str]:
        return build_context(self.session.branch()).entry_ids

    @property
    def interrupted(self) -> bool:
        return interrupted(self.session.branch())


@pytest.fixture
def branch() -> Branch:
    return Branch()


async def edit(branch: Branch, target: str, content: Any) -> None:
    replacement = None if content is None else ContextReplacement(content=content)
    await branch.add(ContextEditEntry, target_id=target, replacement=replacement)


async def compact(branch: Branch, first_kept: str, summary: str = "short") -> str:
    return await branch.add(
        CompactionEntry, summary=summary, first_kept_entry_id=first_kept, tokens_before=9
    )


def summary_of(text: str) -> CompactionSummaryMessage:
    return CompactionSummaryMessage(summary=text, tokens_before=9, timestamp=STAMP_MS)


async def test_an_empty_branch_says_nothing(branch: Branch) -> None:
    context = build_context([])
    assert (context.messages, context.entry_ids, context.model) == ([], [], None)
    assert (context.thinking_level, context.active_tools) == ("off", None)


async def test_messages_come_in_order_with_their_entries(branch: Branch) -> None:
    said = [user("a"), assistant("b", "c1"), tool_result("c1"), assistant("d")]
    await branch.say(*said)
    await branch.add(LabelEntry, target_id="e0", label="x")
    await branch.add(CustomEntry, custom_type="x", data=1)
    assert branch.messages == said
    assert branch.ids == ["e0", "e1", "e2", "e3"]


async def test_system_messages_stay_out(branch: Branch) -> None:
    await branch.say(SystemMessage(content="be good", timestamp=1), user("a"))
    assert branch.messages == [user("a")]
    assert branch.session.message_count == 1
    assert [item.message for item in transcript(branch.session.branch())] == [user("a")]


async def test_the_model_is_the_one_used_or_chosen_last(branch: Branch) -> None:
    await branch.add(ModelChangeEntry, provider="p", model_id="m")
    assert build_context(branch.session.branch()).model == ("p", "m")
    await branch.say(assistant("x"))
    assert build_context(branch.session.branch()).model == ("acme", "one")
    await branch.add(ModelChangeEntry, provider="q", model_id="n")
    await compact(branch, "none")
    assert build_context(branch.session.branch()).model == ("q", "n")


async def test_level_and_tools_are_those_chosen_last(branch: Branch) -> None:
    for level, tools in [("low", ["read"]), ("high", [])]:
        await branch.add(ThinkingLevelChangeEntry, thinking_level=level)
        await branch.add(ActiveToolsChangeEntry, active_tool_names=tools)
    context = build_context(branch.session.branch())
    assert (context.thinking_level, context.active_tools) == ("high", [])


async def test_a_compaction_stands_for_what_it_does_not_keep(branch: Branch) -> None:
    await branch.say(user("old"), assistant("old"), user("kept"), assistant("kept"))
    await compact(branch, "e2")
    await branch.say(user("new"))
    assert branch.messages == [summary_of("short"), user("kept"), assistant("kept"), user("new")]
    assert branch.ids == ["e4", "e2", "e3", "e5"]


@pytest.mark.parametrize("first_kept", ["e2", "missing", "e3"])
async def test_a_compaction_that_keeps_nothing_it_can_name_keeps_nothing(
    branch: Branch, first_kept: str
) -> None:
    await branch.say(user("old"), assistant("old"))
    await compact(branch, first_kept)  # e2 itself, an unknown entry, a later entry
    await branch.say(user("new"))
    assert branch.messages == [summary_of("short"), user("new")]


async def test_only_the_newest_of_several_compactions_counts(branch: Branch) -> None:
    await branch.say(user("a"), assistant("b"))
    await compact(branch, "e1", "first")
    await branch.say(SystemMessage(content="s", timestamp=1), user("c"))
    await compact(branch, "e1", "second")
    await branch.say(user("d"))
    assert branch.messages == [summary_of("second"), assistant("b"), user("c"), user("d")]


async def test_custom_messages_and_branch_summaries_reach_the_model(branch: Branch) -> None:
    await branch.add(
        CustomMessageEntry, custom_type="note", content="hi", display=False, details={"a": 1}
    )
    await branch.add(BranchSummaryEntry, from_id="root", summary="went wrong")
    await branch.add(BranchSummaryEntry, from_id=None, summary="")
    note = CustomMessage(
        custom_type="note", content="hi", display=False, details={"a": 1}, timestamp=STAMP_MS
    )
    summary = BranchSummaryMessage(summary="went wrong", from_id="root", timestamp=STAMP_MS)
    assert branch.messages == [note, summary]
    assert [item.message for item in transcript(branch.session.branch())] == [note, summary]


async def test_an_edit_to_null_hides_a_message_and_the_transcript_keeps_it(branch: Branch) -> None:
    await branch.say(user("a"), assistant("failed", stop_reason="error"))
    await edit(branch, "e1", None)
    assert branch.messages == [user("a")]
    assert [item.entry_id for item in transcript(branch.session.branch())] == ["e0", "e1"]


async def test_the_newest_edit_counts_and_text_becomes_a_block_where_blocks_belong(
    branch: Branch,
) -> None:
    await branch.say(user("a"), assistant("b"), tool_result("c"))
    for target in ("e0", "e1", "e2"):
        await edit(branch, target, None)
        await edit(branch, target, "new")
    contents = [message.content for message in branch.messages]
    assert contents == ["new", [TextBlock(text="new")], [TextBlock(text="new")]]
    assert isinstance(branch.messages[1], AssistantMessage)
    assert isinstance(branch.messages[2], ToolResultMessage)


async def test_blocks_of_an_edit_that_a_role_cannot_hold_are_left_out(branch: Branch) -> None:
    blocks = [
        TextBlock(text="t"),
        ThinkingBlock(thinking="h"),
        ImageBlock(data="", mime_type="image/png"),
        ToolCall(id="c", name="n", arguments={}),
    ]
    await branch.say(user("a"), assistant("b"))
    await edit(branch, "e0", blocks)
    await edit(branch, "e1", blocks)
    assert branch.messages[0].content == [blocks[0], blocks[2]]
    assert branch.messages[1].content == [blocks[0], blocks[1], blocks[3]]


async def test_an_edit_before_a_compaction_holds_for_what_was_kept(branch: Branch) -> None:
    await branch.say(user("a"), user("b"))
    await edit(branch, "e1", "B")
    await compact(branch, "e1")
    assert branch.messages == [summary_of("short"), user("B")]


async def test_an_edit_on_another_branch_does_not_count(branch: Branch) -> None:
    await branch.say(user("a"))
    await edit(branch, "e0", "changed")
    assert branch.messages == [user("changed")]
    await branch.session.append(
        LabelEntry(id="other", parent_id=None, timestamp=STAMP, target_id="e0")
    )
    branch_without = branch.session.branch("e0")
    assert build_context(branch_without).messages == [user("a")]


async def test_a_message_of_an_unknown_role_stays_in_its_place(branch: Branch) -> None:
    oracle = OpaqueMessage("oracle", b'{"role":"oracle"}')
    await branch.say(user("a"), oracle, user("b"))
    assert branch.messages == [user("a"), oracle, user("b")]


async def test_the_file_of_pi_gives_the_context_that_pi_gives() -> None:
    session = await JsonlSession.open(FIXTURE, read_only=True)
    context = build_context(session.branch())
    assert context.entry_ids == [
        "a0000016",
        "a0000012",
        "a0000014",
        "a0000015",
        "a000001c",
        "a000001d",
    ]
    assert [type(message) for message in context.messages] == [
        CompactionSummaryMessage,
        BranchSummaryMessage,
        UserMessage,
        AssistantMessage,
        UserMessage,
        AssistantMessage,
    ]
    assert (context.model, context.thinking_level) == (("local", "tiny"), "low")
    assert context.active_tools == ["read", "bash"]
    drawn = [item.entry_id for item in transcript(session.branch())]
    assert drawn == [
        *("a0000004", "a0000005", "a0000006", "a0000007", "a000000b", "a000000d", "a0000012"),
        *("a0000014", "a0000015", "a0000016", "a000001c", "a000001d"),
    ]
    assert not interrupted(session.branch())
    await session.aclose()


SETTLED = [
    [],
    [user("a"), assistant("b")],
    [user("a"), assistant("b", stop_reason="length")],
    [user("a"), assistant("b", "c1", stop_reason="error")],
    [user("a"), assistant("", "c1", stop_reason="aborted")],
    [user("a"), assistant("b", "c1"), tool_result("c1"), assistant("d")],
]
UNSETTLED = [
    [user("a")],
    [user("a"), assistant("b"), user("c")],
    [user("a"), assistant("b", "c1", stop_reason="toolUse")],
    [user("a"), assistant("b", "c1", stop_reason="length")],
    [user("a"), assistant("b", "c1", "c2"), tool_result("c1")],
    [user("a"), assistant("b", "c1"), tool_result("c1")],
]


@pytest.mark.parametrize("said", SETTLED)
async def test_a_branch_whose_run_ended_is_not_interrupted(branch: Branch, said: list[Any]) -> None:
    await branch.say(*said)
    assert not branch.interrupted


@pytest.mark.parametrize("said", UNSETTLED)
async def test_a_branch_that_waits_for_an_answer_is_interrupted(
    branch: Branch, said: list[Any]
) -> None:
    await branch.say(*said)
    await branch.add(LabelEntry, target_id="e0", label="x")
    await branch.add(CustomEntry, custom_type="other", data=None)
    await branch.add(CustomMessageEntry, custom_type="note", content="hi", display=True)
    assert branch.interrupted


@pytest.mark.parametrize("said", UNSETTLED)
async def test_a_run_that_was_marked_as_settled_is_not_interrupted(
    branch: Branch, said: list[Any]
) -> None:
    await branch.say(*said)
    await branch.add(CustomEntry, custom_type=RUN_SETTLED)
    assert not branch.interrupted
    await branch.say(user("next"))
    assert branch.interrupted


async def test_a_failed_reply_that_was_hidden_for_a_retry_is_interrupted(branch: Branch) -> None:
    await branch.say(user("a"), assistant("b", stop_reason="error"))
    assert not branch.interrupted
    await edit(branch, "e1", None)
    assert branch.interrupted


async def test_a_compaction_in_a_run_leaves_it_interrupted(branch: Branch) -> None:
    await branch.say(user("a"), assistant("b", "c1"), tool_result("c1"))
    await compact(branch, "e1")
    assert branch.interrupted


async def test_a_branch_that_was_moved_to_is_not_interrupted(branch: Branch) -> None:
    await branch.say(user("a"))
    await branch.add(BranchSummaryEntry, from_id="root", summary="s")
    assert not branch.interrupted
