"""A file that changes on the disk below a document that an editor shows."""

from collections.abc import Awaitable
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from pi_rpc.agent.ports import Shell, ToolContext
from pi_rpc.agent.review import ProposedEdit
from pi_rpc.agent.tool import AgentTool, ToolFailure
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import text_of
from pi_rpc.tools.edit import edit_tool
from pi_rpc.tools.read import read_tool
from pi_rpc.tools.write import write_tool
from tests.host.test_edited_files import OneDocument, files_of

pytestmark = pytest.mark.anyio

READ, EDIT, WRITE = read_tool(), edit_tool(), write_tool()
BELOW = "has changed on disk since you last read it, below what the editor shows"


class Desk:
    """A file, an editor that may show it, and a session that works on it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "f.txt"
        self.path.write_text("disk\n")
        self.editor = OneDocument(self.path, "disk\n")
        self.context = ToolContext(cwd=folder, files=files_of(self.editor), shell=cast(Shell, None))

    async def use(self, tool: AgentTool, **params: Any) -> str:
        if tool.prepare_arguments is not None:
            params = tool.prepare_arguments(params)
        signal = AbortController().signal
        result = await tool.run(
            "1", {"path": "f.txt", **params}, signal, lambda _: None, self.context
        )
        return text_of(list(result.content))

    async def read(self) -> str:
        return await self.use(READ)

    async def edit(self, old: str, new: str) -> str:
        return await self.use(EDIT, oldText=old, newText=new)

    async def refused(self, using: Awaitable[str], says: str = BELOW) -> None:
        edits = self.editor.said.count("edit")
        with pytest.raises(ToolFailure, match=says) as caught:
            await using
        assert caught.value.details == {"code": "changed"}
        assert self.editor.said.count("edit") == edits


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_below_unsaved_changes_it_is_not_edited_before_it_was_read_again(desk: Desk) -> None:
    desk.editor.change("typed\n")
    await desk.read()
    desk.path.write_text("somebody else's\n")
    await desk.refused(desk.edit("typed", "new"))
    await desk.refused(desk.use(WRITE, content="all new\n"))
    assert (desk.editor.text, desk.path.read_text()) == ("typed\n", "somebody else's\n")
    assert await desk.read() == "typed\n"
    await desk.edit("typed", "new")
    assert (desk.editor.text, desk.path.read_text()) == ("new\n", "somebody else's\n")


async def test_a_document_that_the_editor_has_not_loaded_again_is_not_edited(desk: Desk) -> None:
    await desk.read()
    desk.path.write_text("somebody else's\n")
    await desk.refused(desk.edit("disk", "new"))
    assert desk.path.read_text() == "somebody else's\n"


async def test_what_was_read_before_it_was_opened_is_known_below_it(desk: Desk) -> None:
    here = desk.editor
    desk.context.files.editor = type(here)(desk.path.with_name("other"), "")  # type: ignore[attr-defined]
    assert await desk.read() == "disk\n"
    desk.context.files.editor = here  # type: ignore[attr-defined]
    assert "Successfully" in await desk.edit("disk", "new")
    assert desk.path.read_text() == "new\n"
    desk.path.write_text("somebody else's\n")
    await desk.refused(desk.edit("new", "newer"))


async def test_the_editors_own_save_is_no_change(desk: Desk) -> None:
    desk.editor.change("typed\n")
    await desk.read()
    assert await desk.editor.save(desk.editor.uri, desk.editor.version)
    await desk.edit("typed", "new")
    assert (desk.editor.text, desk.path.read_text()) == ("new\n", "new\n")


async def test_a_save_that_ends_the_last_line_or_all_lines_otherwise_is_no_change(
    desk: Desk,
) -> None:
    desk.editor.change("typed\nmore")
    await desk.read()
    desk.path.write_bytes(b"\xef\xbb\xbftyped\r\nmore\r\n")
    desk.editor.dirty = False
    assert "Successfully" in await desk.edit("typed", "new")


@pytest.mark.parametrize("dirty", [False, True])
async def test_its_own_edits_one_after_the_other_are_no_change(desk: Desk, dirty: bool) -> None:
    if dirty:
        desk.editor.change("disk\n")
    await desk.read()
    for old, new in (("disk", "one"), ("one", "two"), ("two", "three")):
        await desk.edit(old, new)
    assert desk.editor.text == "three\n"
    desk.path.write_text("somebody else's\n")
    await desk.refused(desk.edit("three", "four"))


async def test_a_save_in_another_encoding_is_no_change(desk: Desk) -> None:
    def save() -> bool:
        desk.path.write_bytes(desk.editor.text.encode("latin-1"))
        return True

    async def saved(uri: str, version: int) -> bool:
        desk.editor.dirty = False
        return save()

    desk.editor.save = saved  # type: ignore[method-assign]
    desk.editor.text = "café\n"
    save()
    await desk.read()
    await desk.edit("café", "thé")
    await desk.edit("thé", "maté")
    assert desk.path.read_bytes() == b"mat\xe9\n"


async def test_a_file_that_is_gone_below_unsaved_changes_is_one_that_changed(desk: Desk) -> None:
    desk.editor.change("typed\n")
    await desk.read()
    desk.path.unlink()
    await desk.refused(desk.edit("typed", "new"))


async def test_a_document_that_was_never_seen_is_edited_as_it_is(desk: Desk) -> None:
    desk.editor.change("typed\n")
    await desk.edit("typed", "new")
    assert desk.editor.text == "new\n"
    desk.path.write_text("somebody else's\n")
    await desk.refused(desk.edit("new", "newer"))
    desk.context = ToolContext(
        cwd=desk.context.cwd, files=desk.context.files, shell=cast(Shell, None)
    )
    await desk.refused(desk.use(WRITE, content="x"), "unsaved changes that you have not seen")


async def test_a_review_names_the_version_that_the_editor_shows(desk: Desk) -> None:
    asked: list[ProposedEdit] = []

    class Person:
        async def review(self, edit: ProposedEdit, *, moved: bool = False) -> str:
            asked.append(edit)
            if not moved:
                desk.editor.change("typed, and more\n")
            return edit.new_text

    desk.editor.change("typed\n")
    await desk.read()
    desk.context = replace(desk.context, reviewer=Person())
    await desk.edit("typed", "new")
    assert [(each.old_text, each.new_text, each.version) for each in asked] == [
        ("typed\n", "new\n", 2),
        ("typed, and more\n", "new, and more\n", 3),
    ]
    assert desk.editor.text == "new, and more\n"


async def test_a_change_below_while_the_person_looks_is_told_like_any_other(desk: Desk) -> None:
    class Person:
        async def review(self, edit: ProposedEdit, *, moved: bool = False) -> str:
            desk.path.write_text("somebody else's\n")
            return edit.new_text

    desk.editor.change("typed\n")
    desk.context = replace(desk.context, reviewer=Person())
    await desk.refused(desk.edit("typed", "new"))
