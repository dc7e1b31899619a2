"""What becomes of reads and writes where an editor has the document open."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from pi_rpc.agent.ports import PortError
from pi_rpc.host import edited_files
from pi_rpc.host.edited_files import EditedFiles
from pi_rpc.host.editor import Applied, DocumentText, NoAnswerError, OpenDocument
from pi_rpc.host.text_edits import PositionEncoding, TextEdit
from pi_rpc.tools import LocalFiles
from tests.e2e.buffers import applied

pytestmark = pytest.mark.anyio


class OneDocument:
    """An editor with one document. What it does otherwise than it should is up to the test."""

    position_encoding: PositionEncoding = "utf-16"
    can_edit = True
    can_save = True

    def __init__(self, path: Path, text: str, *, dirty: bool = False, eol: str = "\n") -> None:
        self.path = path
        self.uri = path.as_uri()
        self.text = text
        self.dirty = dirty
        self.eol = eol
        self.version = 1
        self.said: list[str] = []
        self.on_edit: Callable[[], Awaitable[Applied | None]] | None = None
        self.on_save: Callable[[], bool] | None = None
        self.silent = False

    @property
    def documents(self) -> MappingProxyType[str, OpenDocument]:
        return MappingProxyType({self.uri: OpenDocument(self.uri, self.path, self.dirty)})

    async def look(self, path: Path) -> None:
        """It says by itself what is open."""

    async def read(self, uri: str) -> DocumentText | None:
        assert uri == self.uri
        self.said.append("read")
        if self.silent:
            raise NoAnswerError
        return DocumentText(self.text, self.version, self.eol)

    async def edit(self, uri: str, version: int, edits: Sequence[TextEdit]) -> Applied:
        assert uri == self.uri
        self.said.append("edit")
        if self.on_edit is not None and (answer := await self.on_edit()) is not None:
            return answer
        if version != self.version:
            return Applied(False, "version")
        self.change(applied(self.text, [_wire(each) for each in edits], "utf-16"))
        return Applied(True)

    async def save(self, uri: str, version: int) -> bool:
        assert (uri, version) == (self.uri, self.version)
        self.said.append("save")
        if self.on_save is not None and not self.on_save():
            return False
        self.path.write_bytes(self.text.encode())
        self.dirty = False
        return True

    def change(self, text: str) -> None:
        self.text, self.version, self.dirty = text, self.version + 1, True


def _wire(edit: TextEdit) -> dict[str, object]:
    start, end = (
        {"line": place.line, "character": place.character}
        for place in (edit.range.start, edit.range.end)
    )
    return {"range": {"start": start, "end": end}, "newText": edit.new_text}


def opened(path: Path, text: str, *, dirty: bool = False, eol: str = "\n") -> OneDocument:
    path.write_text("disk\n")
    return OneDocument(path, text, dirty=dirty, eol=eol)


def files_of(editor: OneDocument) -> EditedFiles:
    files = EditedFiles(LocalFiles())
    files.editor = editor
    return files


async def refused(writing: Awaitable[object], code: str) -> str:
    with pytest.raises(PortError) as caught:
        await writing
    assert caught.value.code == code, caught.value.message
    return caught.value.message


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "f.txt"


async def test_files_that_are_not_open_are_those_of_the_disk(tmp_path: Path, path: Path) -> None:
    editor = opened(path, "shown\n")
    files = files_of(editor)
    await files.write(tmp_path / "other", b"x")
    assert await files.read(tmp_path / "other") == b"x"
    async with files.open(tmp_path / "other") as file:
        assert await file.read(10) == b"x"
    assert editor.said == []


async def test_a_document_is_read_in_pieces_like_any_file(path: Path) -> None:
    files = files_of(opened(path, "shown text\n"))
    async with files.open(path) as file:
        assert await file.read(5) == b"shown"
        assert await file.read(100) == b" text\n"
        assert await file.read(100) == b""
        await file.seek(6)
        assert await file.read(4) == b"text"
    await refused(files.read(path, limit=3), "too_large")


async def test_what_is_written_is_made_from_what_is_shown_or_not_made(path: Path) -> None:
    editor = opened(path, "shown\n")
    files = files_of(editor)
    message = await refused(files.write(path, b"new\n", base=b"disk\n"), "changed")
    assert "in the editor in the meantime" in message
    assert "edit" not in editor.said
    written = await files.write(path, b"new\n", base=b"shown\n")
    assert (written.unsaved, written.altered) == ("", False)
    assert path.read_bytes() == b"new\n"


async def test_only_the_version_that_was_read_is_changed(path: Path) -> None:
    editor = opened(path, "shown\n")

    async def typed() -> None:
        editor.change("shown and typed\n")

    editor.on_edit = typed
    await refused(files_of(editor).write(path, b"new\n", base=b"shown\n"), "changed")
    assert editor.text == "shown and typed\n"
    assert path.read_bytes() == b"disk\n"


async def test_an_editor_that_says_it_did_what_it_did_not_is_not_believed(path: Path) -> None:
    editor = opened(path, "shown\n")

    async def nothing() -> Applied:
        return Applied(True)

    editor.on_edit = nothing
    message = await refused(files_of(editor).write(path, b"new\n", base=b"shown\n"), "other")
    assert "though it says that it did" in message
    assert "save" not in editor.said


async def test_a_stale_edit_that_is_skipped_and_called_applied_is_noticed(path: Path) -> None:
    editor = opened(path, "shown\n")

    async def typed() -> Applied:
        editor.change("typed\n")
        return Applied(True)

    editor.on_edit = typed
    await refused(files_of(editor).write(path, b"new\n", base=b"shown\n"), "changed")
    assert editor.text == "typed\n"


@pytest.mark.parametrize("answers", [True, False])
async def test_an_edit_that_is_there_counts_whatever_was_said_of_it(
    path: Path, answers: bool
) -> None:
    editor = opened(path, "shown\n")

    async def late() -> Applied:
        editor.change("new\n")
        if not answers:
            raise NoAnswerError
        return Applied(False, "so it says")

    editor.on_edit = late
    written = await files_of(editor).write(path, b"new\n", base=b"shown\n")
    assert written.unsaved == ""
    assert path.read_bytes() == b"new\n"


async def test_a_refusal_is_passed_on_with_its_reason(path: Path) -> None:
    editor = opened(path, "shown\n")

    async def read_only() -> Applied:
        return Applied(False, "the buffer is\nread-only")

    editor.on_edit = read_only
    message = await refused(files_of(editor).write(path, b"new\n", base=b"shown\n"), "other")
    assert "the buffer is\\nread-only" in message


async def test_an_editor_that_falls_silent_after_the_edit_leaves_it_open_what_happened(
    path: Path,
) -> None:
    editor = opened(path, "shown\n")

    async def falls_silent() -> None:
        editor.silent = True

    editor.on_edit = falls_silent
    message = await refused(files_of(editor).write(path, b"new\n", base=b"shown\n"), "other")
    assert "not known whether" in message
    assert path.read_bytes() == b"disk\n"


async def test_a_silent_editor_is_written_past_only_where_it_has_nothing_unsaved(
    path: Path,
) -> None:
    editor = opened(path, "shown\n", dirty=True)
    editor.silent = True
    files = files_of(editor)
    assert await files.read(path) == b"disk\n"
    assert "did not answer" in await refused(files.write(path, b"new\n"), "other")
    assert path.read_bytes() == b"disk\n"
    editor.dirty = False
    await files.write(path, b"new\n")
    assert path.read_bytes() == b"new\n"
    assert "edit" not in editor.said


async def test_unsaved_text_that_nobody_has_read_is_not_replaced(path: Path) -> None:
    editor = opened(path, "hours of work\n", dirty=True)
    files = files_of(editor)
    await refused(files.write(path, b"new\n"), "changed")
    await refused(files.remove(path), "changed")
    assert editor.text == "hours of work\n"
    assert path.exists()


async def test_what_was_unsaved_stays_so_and_what_was_saved_is_saved(path: Path) -> None:
    editor = opened(path, "shown\n", dirty=True)
    files = files_of(editor)
    written = await files.write(path, b"new\n", base=b"shown\n")
    assert written.unsaved == "it had unsaved changes before"
    assert list(await files.unsaved()) == [path]
    editor.dirty = False
    assert list(await files.unsaved()) == []
    await files.write(path, b"newer\n", base=b"new\n")
    assert editor.said.count("save") == 1
    assert path.read_bytes() == b"newer\n"


async def test_a_save_that_fails_is_told(path: Path) -> None:
    editor = opened(path, "shown\n")
    editor.on_save = lambda: False
    files = files_of(editor)
    written = await files.write(path, b"new\n", base=b"shown\n")
    assert written.unsaved == "the editor did not save it"
    assert list(await files.unsaved()) == [path]


async def test_what_an_editor_makes_of_a_text_on_saving_is_told(path: Path) -> None:
    editor = opened(path, "shown\n")

    def formats() -> bool:
        editor.text = "formatted\n"
        return True

    editor.on_save = formats
    written = await files_of(editor).write(path, b"new\n", base=b"shown\n")
    assert written.altered
    assert written.content == b"new\n"


async def test_nothing_is_asked_where_nothing_would_change(path: Path) -> None:
    editor = opened(path, "shown\n", dirty=True)
    await files_of(editor).write(path, b"shown\n", base=b"shown\n")
    assert editor.said == ["read"]
    assert editor.text == "shown\n"


async def test_a_line_break_that_an_editor_puts_at_the_end_is_no_other_text(path: Path) -> None:
    editor = opened(path, "shown\n")

    async def ends_lines() -> Applied:
        editor.change("new\n")
        return Applied(True)

    editor.on_edit = ends_lines
    written = await files_of(editor).write(path, b"new", base=b"shown\n")
    assert written.content == b"new\n"


@pytest.mark.parametrize("end", ["\r\n", "\n"], ids=["as in the file", "plain"])
async def test_line_ends_are_those_of_the_file_to_the_model_and_of_the_editor_to_it(
    path: Path, end: str
) -> None:
    editor = opened(path, f"a{end}b{end}", eol="\r\n")
    files = files_of(editor)
    assert await files.read(path) == b"a\r\nb\r\n"
    await files.write(path, b"a\nnew\r\nb\n", base=b"a\r\nb\r\n")
    assert editor.text == f"a{end}new{end}b{end}"
    assert await files.read(path) == b"a\r\nnew\r\nb\r\n"


async def test_a_byte_order_mark_stays_where_it_is(path: Path) -> None:
    editor = opened(path, "shown\n")  # editors keep the mark to themselves
    files = files_of(editor)
    await files.write(path, "\ufeffnew\n".encode(), base="\ufeffshown\n".encode())
    assert editor.text == "new\n"
    editor.change("\ufeffshown\n")
    editor.dirty = False
    assert await files.read(path) == b"shown\n"
    await files.write(path, b"new\n", base=b"shown\n")
    assert editor.text == "\ufeffnew\n"


async def test_large_documents_are_left_to_the_disk_and_refused_while_unsaved(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edited_files, "MAX_DOCUMENT_BYTES", 10)
    editor = opened(path, "x" * 11)
    files = files_of(editor)
    assert await files.read(path) == b"disk\n"
    await files.write(path, b"y" * 11)
    assert path.read_bytes() == b"y" * 11
    assert await files.read(path) == b"y" * 11
    assert "edit" not in editor.said
    editor.dirty = True
    await refused(files.read(path), "too_large")
    await refused(files.write(path, b"z"), "too_large")
    editor.text = "small"
    await refused(files.write(path, b"z" * 11, base=b"small"), "too_large")
    assert path.read_bytes() == b"y" * 11


async def test_what_is_no_text_is_not_given_to_an_editor(path: Path) -> None:
    editor = opened(path, "shown\n")
    await refused(files_of(editor).write(path, b"\xff", base=b"shown\n"), "other")
    assert "edit" not in editor.said


async def test_a_document_is_found_through_links(tmp_path: Path, path: Path) -> None:
    editor = opened(path, "shown\n")
    (tmp_path / "link").symlink_to(path)
    files = files_of(editor)
    assert await files.read(tmp_path / "link") == b"shown\n"
    editor.path, editor.uri = tmp_path / "link", (tmp_path / "link").as_uri()
    assert await files.read(path) == b"shown\n"


async def test_after_the_end_of_a_session_no_editor_is_asked(path: Path) -> None:
    editor = opened(path, "shown\n")
    files = files_of(editor)
    files.close()
    assert await files.read(path) == b"disk\n"
    assert editor.said == []
