"""An edit is looked at before it is written, and what the person makes of it is what is written."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_rpc.agent.ports import ToolContext
from pi_rpc.agent.review import ProposedEdit
from pi_rpc.agent.tool import AgentTool, ToolFailure, ToolResult
from pi_rpc.llm.abort import AbortController, AbortSignal
from pi_rpc.llm.messages import text_of
from pi_rpc.tools.edit import edit_tool
from pi_rpc.tools.read import read_tool
from pi_rpc.tools.write import write_tool
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

READ, EDIT, WRITE = read_tool(), edit_tool(), write_tool()

Answer = Callable[[ProposedEdit], Awaitable[str] | str]


class Person:
    """A reviewer; ``answer`` is what the next question gets, the proposal unless it is set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[ProposedEdit] = []
        self.moved: list[bool] = []
        self.answer: Answer = lambda edit: edit.new_text
        self.before: list[str] = []

    async def review(self, edit: ProposedEdit, *, moved: bool = False) -> str:
        self.asked.append(edit)
        self.moved.append(moved)
        self.before = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))
        answer = self.answer(edit)
        return answer if isinstance(answer, str) else await answer


@pytest.fixture
def person(workdir: Path) -> Person:
    return Person(workdir)


@pytest.fixture
def use(file_context: Callable[..., ToolContext], person: Person) -> Callable[..., Any]:
    context = file_context(reviewer=person)

    async def run(
        tool: AgentTool, *, signal: AbortSignal | None = None, **params: Any
    ) -> ToolResult:
        if tool.prepare_arguments is not None:
            params = tool.prepare_arguments(params)
        signal = signal or AbortController().signal
        return await tool.run("1", params, signal, lambda _: None, context)

    return run


Use = Callable[..., Awaitable[ToolResult]]


async def test_the_person_sees_what_there_is_and_what_it_would_become(
    use: Use, workdir: Path, person: Person
) -> None:
    (workdir / "f").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (workdir / "link").symlink_to("f")
    result = await use(EDIT, path="link", oldText="one", newText="1")
    assert person.asked == [
        ProposedEdit(path=workdir / "f", old_text="one\r\ntwo\r\n", new_text="1\r\ntwo\r\n")
    ]
    assert (workdir / "f").read_bytes() == b"\xef\xbb\xbf1\r\ntwo\r\n"
    assert "reviewed" not in result.details


async def test_a_new_file_is_shown_before_there_is_a_trace_of_it(
    use: Use, workdir: Path, person: Person
) -> None:
    await use(WRITE, path="a/b/c.txt", content="new\n")
    assert person.before == []
    assert person.asked == [
        ProposedEdit(path=workdir / "a/b/c.txt", old_text=None, new_text="new\n", is_new=True)
    ]
    assert (workdir / "a/b/c.txt").read_text() == "new\n"


async def test_a_refusal_leaves_no_trace_and_is_what_the_model_reads(
    use: Use, workdir: Path, person: Person
) -> None:
    def refuse(_: ProposedEdit) -> str:
        raise ToolFailure("The person said no: not today")

    person.answer = refuse
    (workdir / "f").write_text("one\n")
    before = (workdir / "f").stat()
    for using in (
        use(WRITE, path="a/b/c.txt", content="new\n"),
        use(WRITE, path="f", content="new\n"),
        use(EDIT, path="f", oldText="one", newText="1"),
    ):
        with pytest.raises(ToolFailure, match=r"^The person said no: not today$"):
            await using
    assert [path.name for path in workdir.rglob("*")] == ["f"]
    after = (workdir / "f").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


async def test_what_the_person_makes_of_it_is_written_and_told(
    use: Use, workdir: Path, person: Person
) -> None:
    person.answer = lambda _: "one\nzwei\nthree\n"
    (workdir / "f").write_text("one\ntwo\nthree\n")
    result = await use(EDIT, path="f", oldText="two", newText="2")
    assert (workdir / "f").read_text() == "one\nzwei\nthree\n"
    text = text_of(list(result.content))
    assert "The person looked at what you proposed and changed it" in text
    assert "-2 2" in text
    assert "+2 zwei" in text
    assert "Successfully replaced" not in text
    assert result.details["reviewed"] is True
    assert "-2 two" in result.details["diff"]
    assert "+2 zwei" in result.details["diff"]
    # What it was told it knows: the next edit is not refused.
    person.answer = lambda edit: edit.new_text
    await use(EDIT, path="f", oldText="zwei", newText="II")
    person.answer = lambda _: "whole\n"
    result = await use(WRITE, path="f", content="all\n")
    assert (workdir / "f").read_text() == "whole\n"
    assert "(6 bytes)" in text_of(list(result.content))
    assert "+1 whole" in result.details["reviewDiff"]


async def test_a_mark_and_line_ends_that_an_editor_keeps_to_itself_are_put_back(
    use: Use, workdir: Path, person: Person
) -> None:
    (workdir / "f").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    person.answer = lambda _: "uno\ntwo\n"
    await use(EDIT, path="f", oldText="one", newText="1")
    assert (workdir / "f").read_bytes() == b"\xef\xbb\xbfuno\r\ntwo\r\n"
    person.answer = lambda _: "uno\r\nlast\n"  # with both kinds it is exactly this
    await use(EDIT, path="f", oldText="uno", newText="1")
    assert (workdir / "f").read_bytes() == b"\xef\xbb\xbfuno\r\nlast\n"


async def test_a_file_that_moves_on_is_edited_anew_and_asked_about_again(
    use: Use, workdir: Path, person: Person
) -> None:
    path = workdir / "f"
    path.write_text("one\ntwo\n")
    await use(READ, path="f")

    def meanwhile(edit: ProposedEdit) -> str:
        if len(person.asked) == 1:
            path.write_text("one\ntwo\nthree\n")
        return edit.new_text

    person.answer = meanwhile
    await use(EDIT, path="f", oldText="one", newText="1")
    assert person.moved == [False, True]
    assert person.asked[1].old_text == "one\ntwo\nthree\n"
    assert person.asked[1].new_text == "1\ntwo\nthree\n"
    assert path.read_text() == "1\ntwo\nthree\n"


async def test_a_file_that_appears_meanwhile_is_shown_before_it_is_replaced(
    use: Use, workdir: Path, person: Person
) -> None:
    def meanwhile(edit: ProposedEdit) -> str:
        if len(person.asked) == 1:
            (workdir / "f").write_text("somebody else's\n")
        return edit.new_text

    person.answer = meanwhile
    result = await use(WRITE, path="f", content="new\n")
    assert [(each.is_new, each.old_text) for each in person.asked] == [
        (True, None),
        (False, "somebody else's\n"),
    ]
    assert result.details["created"] is False


async def test_an_edit_that_no_longer_applies_fails_as_any_other(
    use: Use, workdir: Path, person: Person
) -> None:
    def meanwhile(edit: ProposedEdit) -> str:
        (workdir / "f").write_text("nothing of it\n")
        return edit.new_text

    person.answer = meanwhile
    (workdir / "f").write_text("one\n")
    with pytest.raises(ToolFailure, match="oldText"):
        await use(EDIT, path="f", oldText="one", newText="1")
    assert (workdir / "f").read_text() == "nothing of it\n"


async def test_an_abort_ends_a_call_that_waits_for_the_person_and_writes_nothing(
    use: Use, workdir: Path, person: Person
) -> None:
    controller = AbortController()

    async def never(_: ProposedEdit) -> str:
        controller.abort()
        await anyio.sleep_forever()
        raise AssertionError

    person.answer = never
    (workdir / "f").write_text("one\n")
    for using in (
        use(EDIT, path="f", oldText="one", newText="1", signal=controller.signal),
        use(WRITE, path="new/g", content="x", signal=controller.signal),
    ):
        with anyio.fail_after(DEADLINE_S), pytest.raises(ToolFailure, match="Aborted"):
            await using
        controller = AbortController()
    assert [path.name for path in workdir.rglob("*")] == ["f"]
    assert (workdir / "f").read_text() == "one\n"


async def test_other_calls_on_the_file_wait_until_the_person_has_answered(
    use: Use, workdir: Path, person: Person
) -> None:
    (workdir / "f").write_text("a\nb\n")
    asked, answered = anyio.Event(), anyio.Event()

    async def slowly(edit: ProposedEdit) -> str:
        if len(person.asked) == 1:
            asked.set()
            await answered.wait()
        return edit.new_text

    person.answer = slowly
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: use(EDIT, path="f", oldText="a", newText="1"))
            await asked.wait()
            tasks.start_soon(lambda: use(EDIT, path="f", oldText="b", newText="2"))
            await anyio.wait_all_tasks_blocked()
            assert len(person.asked) == 1
            answered.set()
    assert (workdir / "f").read_text() == "1\n2\n"
    assert person.asked[1].old_text == "1\nb\n"
    assert person.moved == [False, False]


@pytest.mark.parametrize(
    "old", [b"caf\xe9", b"a\0b", b"x" * (8 * 1024 * 1024 + 1)], ids=["latin", "binary", "huge"]
)
async def test_what_cannot_be_shown_is_replaced_without_being_shown(
    use: Use, workdir: Path, person: Person, old: bytes
) -> None:
    (workdir / "f").write_bytes(old)
    await use(WRITE, path="f", content="text\n")
    (asked,) = person.asked
    assert (asked.old_text, asked.new_text, asked.is_new) == (None, "text\n", False)
    assert (workdir / "f").read_text() == "text\n"


async def test_a_huge_file_that_moves_on_meanwhile_is_asked_about_again(
    use: Use, workdir: Path, person: Person
) -> None:
    path = workdir / "f"
    path.write_bytes(b"x\n" * 5_000_000)

    def meanwhile(edit: ProposedEdit) -> str:
        if len(person.asked) == 1:
            path.write_bytes(b"y\n" * 5_000_001)
        return edit.new_text

    person.answer = meanwhile
    await use(WRITE, path="f", content="text\n")
    assert person.moved == [False, True]


async def test_what_cannot_be_written_is_not_asked_about(
    use: Use, workdir: Path, person: Person
) -> None:
    (workdir / "f").write_bytes(b"caf\xe9")
    (workdir / "folder").mkdir()
    for using in (
        use(EDIT, path="f", oldText="caf", newText="1"),
        use(WRITE, path="g", content="\ud800"),
        use(WRITE, path="folder", content="x"),
        use(EDIT, path="missing", oldText="caf", newText="1"),
    ):
        with pytest.raises(ToolFailure):
            await using
    assert person.asked == []
    person.answer = lambda _: "\ud800"
    with pytest.raises(ToolFailure, match="that came back from the review holds half"):
        await use(WRITE, path="g", content="x")
    assert not (workdir / "g").exists()
