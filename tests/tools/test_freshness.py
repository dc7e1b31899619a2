"""A file that is not what the model believes is not overwritten, and the model is told."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import pi_rpc.tools._freshness as freshness
from pi_rpc.agent.ports import FileChange, ToolContext, Written
from pi_rpc.agent.seen_files import SeenFiles
from pi_rpc.agent.tool import AgentTool, ToolFailure, ToolResult
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import text_of
from pi_rpc.tools._local_files import LocalFiles
from pi_rpc.tools.edit import edit_tool
from pi_rpc.tools.read import read_tool
from pi_rpc.tools.write import write_tool

pytestmark = pytest.mark.anyio

READ, EDIT, WRITE = read_tool(), edit_tool(), write_tool()
STALE = "has changed since you last read it"

Use = Callable[..., Awaitable[str]]


@pytest.fixture
def use(file_context: Callable[..., ToolContext]) -> Use:
    """Calls tools of one session, and gives the text of the result."""
    context = file_context()

    async def run(tool: AgentTool, **params: Any) -> str:
        if tool.prepare_arguments is not None:
            params = tool.prepare_arguments(params)
        signal = AbortController().signal
        result: ToolResult = await tool.run("call-1", params, signal, lambda _: None, context)
        return text_of(list(result.content))

    return run


async def stale(using: Awaitable[str]) -> None:
    with pytest.raises(ToolFailure, match=STALE) as caught:
        await using
    assert caught.value.details == {"code": "changed"}


@pytest.mark.parametrize("how", ["whole", "a part", "through a link"])
async def test_a_file_that_changed_after_it_was_read_is_read_again_first(
    use: Use, workdir: Path, how: str
) -> None:
    path = workdir / "f"
    path.write_text("one\ntwo\nthree\n")
    (workdir / "link").symlink_to("f")
    match how:
        case "whole":
            await use(READ, path="f")
        case "a part":
            await use(READ, path="f", offset=3, limit=1)
        case _:
            await use(READ, path="link")
    path.write_text("one\ntwo\nthree, and somebody else's\n")
    await stale(use(EDIT, path="f", oldText="one", newText="1"))
    await stale(use(WRITE, path="f", content="new"))
    assert path.read_text() == "one\ntwo\nthree, and somebody else's\n"
    await use(READ, path="f")
    await use(EDIT, path="f", oldText="one", newText="1")
    assert path.read_text() == "1\ntwo\nthree, and somebody else's\n"


async def test_what_the_model_has_written_itself_it_knows(use: Use, workdir: Path) -> None:
    await use(WRITE, path="f", content="one\n")
    await use(EDIT, path="f", oldText="one", newText="two")
    await use(EDIT, path="f", oldText="two", newText="three")
    await use(WRITE, path="f", content="four\n")
    (workdir / "f").write_text("five\n")
    await stale(use(WRITE, path="f", content="six\n"))
    await stale(use(EDIT, path="f", oldText="five", newText="six"))


async def test_a_file_it_has_never_seen_may_be_edited_and_written(use: Use, workdir: Path) -> None:
    (workdir / "f").write_text("one\n")
    (workdir / "g").write_text("one\n")
    await use(EDIT, path="f", oldText="one", newText="1")
    await use(WRITE, path="g", content="1\n")
    assert (workdir / "f").read_text() == (workdir / "g").read_text() == "1\n"


async def test_a_file_whose_content_is_the_same_has_not_changed(use: Use, workdir: Path) -> None:
    path = workdir / "f"
    path.write_text("one\n")
    await use(READ, path="f")
    path.write_text("something else\n")
    path.unlink()
    path.write_text("one\n")
    os.utime(path, (1, 1))
    await use(EDIT, path="f", oldText="one", newText="1")
    path.write_bytes(b"\xef\xbb\xbf1\n")  # what an editor shows has no mark
    await use(EDIT, path="f", oldText="1", newText="2")


async def test_a_change_within_the_same_tick_and_of_the_same_size_is_one(
    use: Use, workdir: Path
) -> None:
    path = workdir / "f"
    path.write_text("one\n")
    before = path.stat()
    await use(READ, path="f")
    path.write_text("two\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    await stale(use(WRITE, path="f", content="x"))


async def test_a_file_that_is_gone_may_be_written_anew(use: Use, workdir: Path) -> None:
    (workdir / "f").write_text("one\n")
    await use(READ, path="f")
    (workdir / "f").unlink()
    await use(WRITE, path="f", content="new\n")
    await use(EDIT, path="f", oldText="new", newText="newer")


async def test_a_read_that_failed_tells_nothing(use: Use, workdir: Path) -> None:
    (workdir / "f").write_text("one\n")
    with pytest.raises(ToolFailure):
        await use(READ, path="f", offset=100)
    (workdir / "f").write_text("two\n")
    await use(WRITE, path="f", content="three\n")


async def test_large_files_are_told_apart_by_size_and_time(
    use: Use, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freshness, "DIGEST_LIMIT", 100)
    path = workdir / "f"
    path.write_text("one\n" + "x\n" * 200)
    await use(READ, path="f")
    await use(EDIT, path="f", oldText="one", newText="two")
    await use(EDIT, path="f", oldText="two", newText="three")
    path.write_text("three\n" + "y\n" * 200)
    await stale(use(EDIT, path="f", oldText="three", newText="four"))
    await stale(use(WRITE, path="f", content="x"))
    await use(READ, path="f")
    path.write_text("small")
    await stale(use(WRITE, path="f", content="x"))


async def test_a_small_file_that_has_become_large_has_changed(
    use: Use, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freshness, "DIGEST_LIMIT", 100)
    (workdir / "f").write_text("one\n")
    await use(READ, path="f")
    (workdir / "f").write_text("one\n" * 100)
    await stale(use(WRITE, path="f", content="x"))


async def test_calls_at_once_do_not_make_each_other_stale(use: Use, workdir: Path) -> None:
    (workdir / "f").write_text("".join(f"<{n}>\n" for n in range(20)))
    await use(READ, path="f")
    async with anyio.create_task_group() as tasks:
        for n in range(20):

            async def edit(n: int = n) -> None:
                await use(EDIT, path="f", oldText=f"<{n}>", newText=f"[{n}]")

            tasks.start_soon(edit)
    assert (workdir / "f").read_text() == "".join(f"[{n}]\n" for n in range(20))


async def test_a_new_session_knows_nothing(
    file_context: Callable[..., ToolContext], workdir: Path
) -> None:
    assert file_context().seen is not file_context().seen


def test_of_too_many_files_those_seen_longest_ago_are_forgotten() -> None:
    seen = SeenFiles()
    for n in range(10_001):
        seen.note(Path(f"/{n}"), n)
        seen.note(Path("/0"), 0)
    assert seen.mark_of(Path("/0")) == 0
    assert seen.mark_of(Path("/1")) is None
    assert seen.mark_of(Path("/2")) == 2


class Editor(LocalFiles):
    """Files that an editor keeps unsaved, or makes something else of."""

    def __init__(self, written: Written) -> None:
        self.written = written
        self.bases: list[bytes | None] = []

    async def write(self, path: Path, data: bytes, **given: Any) -> Written:
        self.bases.append(given["base"])
        await super().write(path, self.written.content or data)
        return self.written

    async def unsaved(self, below: Path | None = None) -> list[Path]:
        return [Path("/elsewhere/f")]


@pytest.mark.parametrize("tool", [EDIT, WRITE], ids=["edit", "write"])
async def test_what_became_of_a_write_is_told(
    file_context: Callable[..., ToolContext], workdir: Path, tool: AgentTool
) -> None:
    (workdir / "f").write_text("one\n")
    files = Editor(Written(altered=True, unsaved="the person is typing"))
    context = file_context(files)
    signal = AbortController().signal
    await READ.run("0", {"path": "f"}, signal, lambda _: None, context)
    edits = [{"oldText": "one", "newText": "two"}]
    params: dict[str, Any] = {"path": "f"} | (
        {"edits": edits} if tool is EDIT else {"content": "two\n"}
    )
    result = await tool.run("1", params, signal, lambda _: None, context)
    text = text_of(list(result.content))
    assert "because the person is typing" in text
    assert "The editor has changed f further; read it again" in text
    assert result.details["unsaved"] is True
    assert files.bases == [b"one\n"]


async def test_the_content_that_an_editor_made_of_a_write_is_known(
    file_context: Callable[..., ToolContext], workdir: Path
) -> None:
    context = file_context(Editor(Written(content=b"one\r\n")))
    signal = AbortController().signal
    for _ in range(2):
        params = {"path": "f", "content": "one\n"}
        await WRITE.run("1", params, signal, lambda _: None, context)
    assert (workdir / "f").read_bytes() == b"one\r\n"


class Listener:
    """Hears what tools change."""

    def __init__(self) -> None:
        self.heard: list[tuple[list[FileChange], str | None]] = []

    def changed(self, changes: list[FileChange], tool_call_id: str | None = None) -> None:
        self.heard.append((list(changes), tool_call_id))

    def around_command(self, cwd: Path, tool_call_id: str | None = None) -> Any:
        raise AssertionError("no command was run")


async def test_each_change_is_told_once_and_a_failure_is_none(
    file_context: Callable[..., ToolContext], workdir: Path
) -> None:
    listener = Listener()
    context = file_context(changes=listener)
    signal = AbortController().signal

    async def use(tool: AgentTool, call_id: str, **params: Any) -> None:
        await tool.run(call_id, params, signal, lambda _: None, context)

    await use(WRITE, "1", path="f", content="one")
    await use(EDIT, "2", path="f", edits=[{"oldText": "one", "newText": "two"}])
    await use(WRITE, "3", path="f", content="three")
    with pytest.raises(ToolFailure):
        await use(EDIT, "4", path="f", edits=[{"oldText": "nowhere", "newText": ""}])
    await use(READ, "5", path="f")
    path = workdir / "f"
    assert listener.heard == [
        ([FileChange(path, "created")], "1"),
        ([FileChange(path, "changed")], "2"),
        ([FileChange(path, "changed")], "3"),
    ]
