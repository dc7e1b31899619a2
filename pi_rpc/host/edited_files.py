"""EditedFiles: files as the person in front of the editor sees them.

Owns the editor's truth: a document that the editor has open is read from it and changed through it,
as one step that can be undone, and saved afterwards if it was saved before. Everything else is left
to another ``FileSystem``. Does not own the conversation with the editor (``pi_rpc.host.editor``)
nor whether the model knows what it overwrites (the tools).

What an editor says is looked at rather than believed: after an edit the document is read again.
Nothing is ever written to the disk below unsaved changes. Files that no document is open of cost
nothing more than a look into an empty table.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.ports import Document, FileStat, FileSystem, OpenFile, PortError, Written
from pi_rpc.host.editor import DocumentText, Editor, NoAnswerError, NoEditor, OpenDocument
from pi_rpc.host.text_edits import text_edits
from pi_rpc.tools._freshness import disk_mark, unseen_changes
from pi_rpc.tools._paths import display_text
from pi_rpc.tools._truncate import format_size

__all__ = ["MAX_DOCUMENT_BYTES", "EditedFiles"]

MAX_DOCUMENT_BYTES = 8 * 1024 * 1024
"""Larger documents are not taken from an editor, nor given to it."""

_BOM = "\ufeff"


class _Shown(Struct, frozen=True):
    """A document as the editor shows it."""

    document: OpenDocument
    text: str
    """As the editor gave it."""
    version: int
    eol: str
    content: bytes
    """What the file would hold if it were saved, without a byte order mark."""


class EditedFiles:
    """The ``FileSystem`` of a session, in front of ``files``."""

    def __init__(self, files: FileSystem) -> None:
        self.editor: Editor = NoEditor()
        """Whom the front door has put in place."""
        self._files = files
        self._real: dict[str, Path] = {}
        """Real paths of open documents, by URI."""
        self._used: set[str] = set()
        """URIs of documents that were read or changed here."""

    def close(self) -> None:
        """The session is closed: no editor is asked any more."""
        self.editor = NoEditor()

    # --- looking ---------------------------------------------------------------------------------

    async def stat(self, path: Path, *, exact: bool = False) -> FileStat:
        """As on the disk; of a document that was never saved its size is known."""
        try:
            return await self._files.stat(path, exact=exact)
        except PortError as error:
            if error.code != "not_found" or (shown := await self._shown(path, exact)) is None:
                raise
            return FileStat("file", len(shown.content), 0, 0o644)

    async def real_path(self, path: Path) -> Path:
        """The path with symlinks resolved as far as it exists."""
        return await self._files.real_path(path)

    async def may_read(self, path: Path) -> bool:
        """As the port below."""
        return await self._files.may_read(path)

    @asynccontextmanager
    async def open(self, path: Path, *, exact: bool = False) -> AsyncIterator[OpenFile]:
        """What the editor shows, or the file on the disk."""
        shown = await self._shown(path, exact)
        if shown is not None:
            yield _OpenDocument(await self._on_disk(path, shown, exact))
            return
        async with self._files.open(path, exact=exact) as file:
            yield file

    async def read(self, path: Path, *, limit: int | None = None, exact: bool = False) -> bytes:
        """What the editor shows, or the file on the disk."""
        shown = await self._shown(path, exact)
        if shown is None:
            return await self._files.read(path, limit=limit, exact=exact)
        if limit is not None and len(shown.content) > limit:
            raise PortError("too_large", f"{_name(path)} is too large.")
        return shown.content

    async def unsaved(self, below: Path | None = None) -> Sequence[Path]:
        """Files whose documents have unsaved changes: those that were read or written here as the
        editor shows them, or all that are below a real path."""
        documents = self.editor.documents
        if below is not None:
            await self._resolve(documents)
            found = (each for each in documents.values() if each.dirty)
            return sorted(each.path for each in found if self._real_of(each).is_relative_to(below))
        self._used &= documents.keys()
        return sorted(documents[uri].path for uri in self._used if documents[uri].dirty)

    # --- changing --------------------------------------------------------------------------------

    async def write(
        self, path: Path, data: bytes, *, base: bytes | None = None, exact: bool = False
    ) -> Written:
        """Change the document in the editor, or replace the file on the disk.

        A cancelled caller does not wait for the editor; what it has been asked for may happen.
        """
        document = await self._document(path, exact)
        if document is None:
            return await self._files.write(path, data, base=base, exact=exact)
        try:
            shown = await self._ask(document)
        except NoAnswerError:
            shown = None
            if self._is_dirty(document):
                raise PortError(
                    "other",
                    f"{_name(path)} is open in the editor with unsaved changes, and the editor did "
                    "not answer; nothing was written.",
                ) from None
        is_fit = self.editor.can_edit and len(data) <= MAX_DOCUMENT_BYTES
        if shown is None or not (is_fit or self._is_dirty(document)):
            # Saved, as far as is known: the editor loads what it finds on the disk.
            return await self._files.write(path, data, base=base, exact=exact)
        written = await self._change(path, shown, data, base)
        if written.unsaved:
            return written
        return replace(written, disk=(await disk_mark(self._files, path, exact=exact))[0])

    async def remove(self, path: Path, *, exact: bool = False) -> None:
        """Take the file away, unless the editor has unsaved changes of it."""
        document = await self._document(path, exact)
        if document is not None and document.dirty:
            raise PortError(
                "changed",
                f"{_name(path)} is open in the editor with unsaved changes; it was left alone.",
            )
        await self._files.remove(path, exact=exact)

    async def set_mode(self, path: Path, mode: int, *, exact: bool = False) -> None:
        """Give the file on the disk the permission bits ``mode``."""
        await self._files.set_mode(path, mode, exact=exact)

    async def _change(self, path: Path, shown: _Shown, data: bytes, base: bytes | None) -> Written:
        was_dirty = self._is_dirty(shown.document)
        self._check(path, shown, data, base, was_dirty=was_dirty)
        wanted = _text_for(data, shown)
        if wanted == shown.text:
            return await self._written(shown, was_dirty=was_dirty, edited=False)
        edits = await run_blocking(text_edits, shown.text, wanted, self.editor.position_encoding)
        uri = shown.document.uri
        problem, by_version, saved = "", False, False
        try:
            answer = await self.editor.edit(uri, shown.version, edits)
            saved = answer.saved
            if not answer.applied:
                by_version = answer.reason == "version"
                problem = answer.reason or "it gave no reason"
        except NoAnswerError:
            problem = "it gave no answer, and may still do so"
        try:
            after = await self._ask(shown.document)
        except NoAnswerError:
            after = None
        if after is None:
            raise PortError(
                "other",
                f"The editor did not show {_name(path)} after it was asked to change it, so it is "
                "not known whether it did. Read the file before you go on.",
            )
        if _same(after.text, wanted):
            is_left = was_dirty and not saved
            return await self._written(after, was_dirty=is_left, edited=not saved)
        if by_version or after.text != shown.text:
            raise _moved_on(path)
        raise PortError(
            "other",
            f"The editor did not change {_name(path)}"
            f"{': ' + display_text(problem[:200]) if problem else ', though it says that it did'}.",
        )

    def _check(
        self, path: Path, shown: _Shown, data: bytes, base: bytes | None, *, was_dirty: bool
    ) -> None:
        """Refuse what must not be done to the document."""
        if base is not None and _without_bom(base) != shown.content:
            raise _moved_on(path)
        if base is None and was_dirty:
            raise unseen_changes(_name(path))
        if not self.editor.can_edit:
            raise PortError(
                "not_permitted",
                f"{_name(path)} is open in the editor with unsaved changes, and this editor cannot "
                "be asked to change it. Ask the person to save or close it.",
            )
        if len(data) > MAX_DOCUMENT_BYTES:
            raise PortError(
                "too_large",
                f"{_name(path)} is open in the editor, which is given at most "
                f"{format_size(MAX_DOCUMENT_BYTES)}. Ask the person to close it.",
            )

    async def _written(self, shown: _Shown, *, was_dirty: bool, edited: bool) -> Written:
        """Save what was saved before; how the write went as a whole."""
        self._used.add(shown.document.uri)
        unsaved, altered = "", False
        if was_dirty:
            unsaved = "it had unsaved changes before"
        elif edited and not self.editor.can_save:
            unsaved = "this editor cannot be asked to save it"
        elif edited and not await self.editor.save(shown.document.uri, shown.version):
            unsaved = "the editor did not save it"
        elif edited:
            altered = await self._altered_by_saving(shown)
        return Written(content=shown.content, altered=altered, unsaved=unsaved)

    async def _altered_by_saving(self, shown: _Shown) -> bool:
        """Editors may format what they save."""
        try:
            now = await self._ask(shown.document)
        except NoAnswerError:
            return False
        return now is not None and not _same(now.text, shown.text)

    # --- documents -------------------------------------------------------------------------------

    def _is_dirty(self, document: OpenDocument) -> bool:
        """Whether it has unsaved changes as far as is known by now."""
        return self.editor.documents.get(document.uri, document).dirty

    async def _document(self, path: Path, exact: bool) -> OpenDocument | None:
        """The open document of a file, by whatever path it is called."""
        await self.editor.look(path)
        documents = self.editor.documents
        if not documents:
            return None
        wanted = path if exact else await self._files.real_path(path)
        await self._resolve(documents)
        found = [each for each in documents.values() if self._real_of(each) == wanted]
        return max(found, key=lambda each: each.dirty, default=None)

    def _real_of(self, document: OpenDocument) -> Path:
        return self._real.get(document.uri, document.path)

    async def _resolve(self, documents: Mapping[str, OpenDocument]) -> None:
        """Find out the real paths of what is open."""
        for uri, each in documents.items():
            if uri not in self._real:
                try:
                    self._real[uri] = await self._files.real_path(each.path)
                except PortError:  # a name that no file can have
                    self._real[uri] = each.path
        for uri in self._real.keys() - self.editor.documents.keys():
            del self._real[uri]

    async def _shown(self, path: Path, exact: bool) -> _Shown | None:
        """The document as the editor shows it; None where the disk is to be read."""
        document = await self._document(path, exact)
        if document is None:
            return None
        try:
            shown = await self._ask(document)
        except NoAnswerError:
            return None
        if shown is not None:
            self._used.add(document.uri)
        return shown

    async def _on_disk(self, path: Path, shown: _Shown, exact: bool) -> Document:
        """The document, beside what the disk has of it."""
        mark, data = await disk_mark(self._files, path, exact=exact)
        is_saved = data is not None and await run_blocking(_is_text_of, shown.text, data)
        return Document(shown.content, shown.version, mark, is_saved)

    async def _ask(self, document: OpenDocument) -> _Shown | None:
        """The document as it is now; None: it is not open, or large and not changed."""
        if not self._is_dirty(document) and await self._is_large(document.path):
            return None
        answer = await self.editor.read(document.uri)
        if answer is None:
            return None
        content = _content(answer)
        if len(content) > MAX_DOCUMENT_BYTES:
            if not self._is_dirty(document):
                return None
            raise PortError(
                "too_large",
                f"{_name(document.path)} is open in the editor with unsaved changes, and at most "
                f"{format_size(MAX_DOCUMENT_BYTES)} are taken from there. Ask the person to save "
                "or close it.",
            )
        return _Shown(document, answer.text, answer.version, answer.eol, content)

    async def _is_large(self, path: Path) -> bool:
        """Its file is; then it need not be sent to find out."""
        try:
            return (await self._files.stat(path)).size > MAX_DOCUMENT_BYTES
        except PortError:
            return False


class _OpenDocument:
    """What an editor shows, as an open file."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._content = document.content
        self._position = 0

    async def read(self, size: int) -> bytes:
        piece = self._content[self._position : self._position + size]
        self._position += len(piece)
        return piece

    async def seek(self, offset: int) -> None:
        self._position = offset


def _content(document: DocumentText) -> bytes:
    """What the file would hold."""
    text = document.text.removeprefix(_BOM)
    return _with_ends(text, document.eol).encode("utf-8", "replace")


def _with_ends(text: str, eol: str) -> str:
    if eol not in {"\r\n", "\r"}:
        return text
    return text.replace("\r\n", "\n").replace("\n", eol)


def _text_for(data: bytes, shown: _Shown) -> str:
    """What the editor is to show: ``data`` in the line endings of the document."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise PortError("other", "What is to be written is not UTF-8 text.") from error
    text = text.removeprefix(_BOM)
    if shown.eol in {"\r\n", "\r"}:
        text = text.replace("\r\n", "\n")
        if shown.eol == "\r":
            text = text.replace("\r", "\n")
        if shown.eol in shown.text:
            text = text.replace("\n", shown.eol)
    return _BOM + text if shown.text.startswith(_BOM) else text


def _same(one: str, other: str) -> bool:
    """Alike but for line endings and a line break at the end, which some editors see to."""
    return one == other or _plain(one) == _plain(other)


def _is_text_of(text: str, data: bytes) -> bool:
    try:
        saved = data.decode()
    except UnicodeDecodeError:
        return False
    return _same(text.removeprefix(_BOM), saved.removeprefix(_BOM))


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")


def _without_bom(data: bytes) -> bytes:
    return data.removeprefix(_BOM.encode())


def _moved_on(path: Path) -> PortError:
    return PortError(
        "changed",
        f"{_name(path)} was changed in the editor in the meantime, so your change was not made, or "
        "not as you meant it. Read it again and repeat what is still needed.",
    )


def _name(path: Path) -> str:
    return display_text(str(path))
