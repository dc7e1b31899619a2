"""What a model is shown of a conversation, and which of its replies count as a summary."""

from typing import Any

import anyio
import pytest

from pi_rpc.agent.messages import BashExecutionMessage, CustomMessage
from pi_rpc.harness.file_operations import FileOperations, without_file_lists
from pi_rpc.harness.summaries import (
    SummaryCancelledError,
    SummaryFailedError,
    asked_summary,
    element,
    focused,
    serialized,
)
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import AssistantMessage, ImageBlock, TextBlock, ThinkingBlock, UserMessage
from pi_rpc.llm.scripted import (
    error,
    scripted_stream_fn,
    stop_reason,
    text,
    thinking,
    tool_call,
    until,
)
from tests.deadlines import DEADLINE_S
from tests.harness.branches import ROLES, Asked, asking, call, reply, result, usage_of, user

pytestmark = pytest.mark.anyio


def test_a_conversation_reads_as_tagged_text() -> None:
    said = reply("Let me look.", call("1", path="a.py", limit=3), call("2", "bash", command="ls"))
    said.content.insert(0, ThinkingBlock(thinking="secret thoughts"))
    image = ImageBlock(data="AAAA", mime_type="image/png")
    messages = [
        UserMessage(content=[TextBlock(text="Fix it"), image], timestamp=1),
        said,
        result("1", "x = 1"),
        result("2", ""),
        CustomMessage(custom_type="t", content="Note.", display=False, timestamp=1),
        BashExecutionMessage(
            command="ls", output="", cancelled=False, truncated=False, timestamp=1
        ),
        reply("", error="failed", stop_reason="error"),
        reply("Done."),
    ]
    assert serialized(messages, ROLES) == (
        "[User]: Fix it\n[image, image/png]\n\n"
        "[Assistant]: Let me look.\n\n"
        '[Assistant tool calls]: read(path="a.py", limit=3); bash(command="ls")\n\n'
        "[Tool result]: x = 1\n\n"
        "[User]: Note.\n\n"
        "[User]: Ran `ls`\n(no output)\n\n"
        "[Assistant]: Done."
    )


@pytest.mark.parametrize(("length", "more"), [(1_999, 0), (2_000, 0), (2_001, 1), (9_000, 7_000)])
def test_a_long_tool_result_is_cut_and_says_by_how_much(length: int, more: int) -> None:
    shown = serialized([result("1", "x" * length)], ROLES)
    note = f"\n[{more} more characters are left out here]" if more else ""
    assert shown == f"[Tool result]: {'x' * min(length, 2_000)}{note}"


def test_of_a_conversation_that_is_too_long_the_middle_is_left_out() -> None:
    messages = [user("a" * 100), user("b" * 100)]  # 8 + 100 characters each, 2 between them
    assert serialized(messages, ROLES, max_tokens=55) == serialized(messages, ROLES)
    shown = serialized(messages, ROLES, max_tokens=10)
    assert shown == f"[User]: {'a' * 12}\n[178 characters are left out here]\n{'b' * 20}"
    assert "216 characters" in serialized(messages, ROLES, max_tokens=-5)


def test_arguments_that_json_cannot_express_are_shown_all_the_same() -> None:
    assert "read(path=" in serialized([reply("", call("1", path="\ud800"))], ROLES)


def test_nothing_inside_an_element_can_close_it() -> None:
    shown = element("conversation", "a </conversation> b </conversation > c")
    assert shown.count("</conversation") == 1
    assert shown.endswith("\n</conversation>")


def test_instructions_name_the_focus_only_when_there_is_one() -> None:
    assert focused("Do.", "  the tests ") == "Do.\n\nAdditional focus: the tests"
    assert focused("Do.", "  ") == focused("Do.", None) == "Do."


def test_file_lists_are_sorted_and_a_changed_file_is_not_also_read() -> None:
    files = FileOperations()
    assert files.lists() == ""
    files.add_details({"readFiles": ["b", "a", "c", 7], "modifiedFiles": ["c"]})
    files.add_details({"readFiles": "no list"})
    files.add_details("no object")
    lists = "\n\n<read-files>\na\nb\n</read-files>\n\n<modified-files>\nc\n</modified-files>"
    assert files.lists() == lists
    assert files.details() == {"readFiles": ["a", "b"], "modifiedFiles": ["c"]}


@pytest.mark.parametrize("summary", ["Said.", "", "About <read-files> in text.", "a\n\nb"])
def test_only_lists_at_the_end_are_taken_off(summary: str) -> None:
    files = FileOperations()
    files.add_details({"readFiles": ["a"], "modifiedFiles": ["c"]})
    assert without_file_lists(summary + files.lists()) == summary
    assert without_file_lists(summary) == summary


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n" * 200_000 + "x", "x"),
        ("<read-files>" * 100_000, "<read-files>" * 100_000),
        ("x" + "</read-files>" * 100_000, "x" + "</read-files>" * 100_000),
        ("x" + "\n<read-files>\na\n</read-files>\n" * 50_000, "x"),
        ("<read-files>a</read-files>" * 50_000 + "x", "<read-files>a</read-files>" * 50_000 + "x"),
    ],
)
def test_taking_lists_off_a_strange_text_takes_one_pass(text: str, expected: str) -> None:
    # The test's time limit is what fails when it takes more.
    assert without_file_lists(text) == expected


async def test_a_complete_text_is_the_summary_and_has_a_price() -> None:
    reply_with_lists = "The summary.\n\n<modified-files>\nmade-up\n</modified-files>"
    asked = Asked(reply(reply_with_lists, usage=usage_of(42)))
    assert await asked_summary(asked, "the text", "history") == ("The summary.", usage_of(42))
    (request,) = asked.requests
    assert (request.text, request.part, request.max_tokens) == ("the text", "history", None)
    assert "no instruction" in request.system_prompt


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([text("half of"), stop_reason("length")], "cut short"),
        ([text("so"), tool_call("read", {"path": "a"})], "called a tool"),
        ([text("so"), tool_call("read", {}), stop_reason("stop")], "called a tool"),
        ([text("so"), stop_reason("toolUse")], "toolUse"),
        ([text("so"), error("overloaded", status=529)], "overloaded"),
        ([thinking("hm")], "said nothing"),
        ([text("  \n ")], "said nothing"),
        ([text("<read-files>\na\n</read-files>")], "said nothing"),
        ([], "said nothing"),
    ],
)
async def test_a_reply_that_is_no_complete_text_is_refused(steps: list[Any], said: str) -> None:
    with pytest.raises(SummaryFailedError, match=said):
        await asked_summary(asking(scripted_stream_fn([steps])), "the text", "turn")


async def test_a_deferred_reply_is_refused() -> None:
    with pytest.raises(SummaryFailedError, match="deferred"):
        await asked_summary(Asked(reply("later", stop_reason="deferred")), "the text", "turn")


async def test_an_abort_while_the_model_writes_is_a_cancelled_summary() -> None:
    controller = AbortController()
    writing = anyio.Event()

    async def stop() -> None:
        await writing.wait()
        controller.abort()

    async def never() -> None:
        writing.set()
        await anyio.sleep_forever()

    script = scripted_stream_fn([[text("half of"), until(never)]])
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as group:
            group.start_soon(stop)
            with pytest.raises(SummaryCancelledError):
                await asked_summary(asking(script, controller.signal), "the text", "history")


async def test_a_cancellation_goes_through() -> None:
    async def ask(_request: object) -> AssistantMessage:
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.move_on_after(0) as scope:
        await asked_summary(ask, "the text", "history")
    assert scope.cancelled_caught


async def test_what_the_asking_itself_raises_goes_through() -> None:
    async def ask(_request: object) -> AssistantMessage:
        raise RuntimeError("no credential")

    with pytest.raises(RuntimeError, match="no credential"):
        await asked_summary(ask, str(user("x")), "history")
