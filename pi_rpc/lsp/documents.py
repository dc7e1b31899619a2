"""The documents that the editor has open: its truth, kept by pygls.

Owns what was opened, changed, saved and closed, and waiting for a change to come. The text of each
document and the units of its positions are pygls's trade; that a line ends where editors end it,
and that a document which cannot be followed any more counts as closed, is seen to here.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote

import anyio
import msgspec
from lsprotocol import types
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace
from pygls.workspace import PositionCodec, TextDocument, Workspace
from pygls.workspace.position_codec import ServerTextPosition

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.tool import Position, Range
from pi_rpc.host.edited_files import MAX_DOCUMENT_BYTES
from pi_rpc.host.editor import OpenDocument
from pi_rpc.host.text_edits import PositionEncoding, TextEdit
from pi_rpc.lsp import shapes as s
from pi_rpc.protocol.base import file_path
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.handshake import WorkspaceFolder

__all__ = ["Documents", "LineChange", "on_disk"]

_log = logging.getLogger("pi_rpc.lsp")


class LineChange(Struct, frozen=True):
    """Lines of a document that became others."""

    uri: str
    first: int
    last: int
    """The last line that was touched, as it was numbered before."""
    more: int
    """How many lines there are more; below zero: less."""


class Documents:
    """What one editor has open."""

    def __init__(self, encoding: PositionEncoding, folders: Sequence[WorkspaceFolder]) -> None:
        self._workspace = _Workspace(types.PositionEncodingKind(encoding), folders)
        self._open: dict[str, OpenDocument] = {}
        self._unlooked: set[str] = set()
        """URIs of documents that have not been compared with their files."""
        self._changed = anyio.Event()

    @property
    def open(self) -> Mapping[str, OpenDocument]:
        """Those that are files, by URI."""
        return MappingProxyType(self._open)

    async def folders(self) -> list[str]:
        """Paths of the editor's folders, as far as they are there."""
        uris = [each.uri for each in self._workspace.folders.values()]
        paths = [path for path in map(file_path, uris) if path is not None]
        return await run_blocking(lambda: [each for each in paths if Path(each).is_dir()])

    def get(self, uri: str) -> TextDocument | None:
        """The document, of whatever kind."""
        document: TextDocument | None = self._workspace.text_documents.get(unquote(uri))
        return document

    # --- what the editor says --------------------------------------------------------------------

    def opened(self, params: Raw) -> None:
        """``textDocument/didOpen``. Raises ``msgspec.MsgspecError``."""
        said = decode_params(s.TextDocumentOpened, params).text_document
        self._forget(said.uri)
        self._workspace.put_text_document(
            types.TextDocumentItem(
                uri=said.uri, language_id=said.language_id, version=said.version, text=said.text
            )
        )
        if (path := file_path(said.uri)) is not None and "\0" not in path:
            self._open[said.uri] = OpenDocument(said.uri, Path(path), dirty=False)
            self._unlooked.add(said.uri)
        self._wake()

    def changed(self, params: Raw) -> list[LineChange]:
        """``textDocument/didChange``; which lines. Raises ``msgspec.MsgspecError``."""
        try:
            said = decode_params(s.TextDocumentChanged, params)
        except msgspec.MsgspecError:
            self._lose(params)
            raise
        named = said.text_document
        document = self.get(named.uri)
        if document is None:
            _log.warning("a change of %s, which is not open, was ignored", named.uri)
            return []
        lines = [_line_change(named.uri, each) for each in said.content_changes]
        version = document.version if named.version is None else named.version
        for each in said.content_changes:
            if not _is_range(each.range):
                self._lose(params)
                raise msgspec.ValidationError("Expected a range from a start to an end behind it")
            document.apply_change(_change(each))
        document.version = version
        self._set_dirty(document.uri, dirty=True)
        self._wake()
        return [each for each in lines if each is not None]

    def saved(self, params: Raw) -> None:
        """``textDocument/didSave``. Raises ``msgspec.MsgspecError``."""
        named = decode_params(s.TextDocumentNamed, params).text_document
        if (document := self.get(named.uri)) is not None:
            self._set_dirty(document.uri, dirty=False)

    def closed(self, params: Raw) -> None:
        """``textDocument/didClose``. Raises ``msgspec.MsgspecError``."""
        self._forget(decode_params(s.TextDocumentNamed, params).text_document.uri)

    def folders_changed(self, params: Raw) -> None:
        """``workspace/didChangeWorkspaceFolders``. Raises ``msgspec.MsgspecError``."""
        event = decode_params(s.FoldersChanged, params).event
        known = self._workspace.folders
        for gone in event.removed:
            # pygls's own way to remove one fails where it is not known.
            known.pop(unquote(gone.uri), None)
        for each in event.added:
            self._workspace.add_folder(_folder(each))

    def _lose(self, params: Raw) -> None:
        """What it says now is not known any more: until it is opened again it is the file's."""
        try:
            uri = decode_params(s.TextDocumentNamed, params).text_document.uri
        except msgspec.MsgspecError:
            return
        _log.warning("%s cannot be followed any more; it counts as closed", uri)
        self._forget(uri)

    def _forget(self, uri: str) -> None:
        document = self.get(uri)
        uri = uri if document is None else document.uri  # as it was spelled when it was opened
        self._workspace.remove_text_document(uri)
        self._open.pop(uri, None)
        self._unlooked.discard(uri)
        self._wake()

    def _set_dirty(self, uri: str, *, dirty: bool) -> None:
        self._unlooked.discard(uri)
        if (document := self._open.get(uri)) is not None:
            self._open[uri] = replace(document, dirty=dirty)

    # --- what is made of it ----------------------------------------------------------------------

    async def look(self) -> None:
        """Find out which of those that were just opened have changes that are not saved."""
        for uri in list(self._unlooked):
            known, document = self._open.get(uri), self.get(uri)
            if known is None or document is None:
                continue
            is_same = await run_blocking(_is_saved, known.path, document.source)
            if uri in self._unlooked and self.get(uri) is document:
                self._set_dirty(uri, dirty=not is_same)

    def text_in(self, uri: str, part: Range | None) -> str | None:
        """The text of an open document, or of a part of it; None: it is not open."""
        if (document := self.get(uri)) is None:
            return None
        if part is None:
            return document.source
        start, end = (document.offset_at_position(_position(at)) for at in (part.start, part.end))
        return document.source[start:end]

    def edited(self, text: str, edits: Sequence[TextEdit]) -> str:
        """``text`` with ``edits``, which are in its order."""
        document = self._workspace.of_text(text)
        pieces, done = [], 0
        for edit in edits:
            start, end = (
                document.offset_at_position(_position(at))
                for at in (edit.range.start, edit.range.end)
            )
            pieces += [text[done:start], edit.new_text]
            done = end
        return "".join([*pieces, text[done:]])

    async def until(
        self, uri: str, wanted: str, *, since: int, timeout_s: float, grace_s: float
    ) -> None:
        """Return once the editor has shown that a document reads ``wanted``; or something else
        than version ``since`` for ``grace_s``, or nothing new for ``timeout_s``, or that it is
        closed."""
        deadline = anyio.current_time() + timeout_s
        has_moved = False
        while (document := self.get(uri)) is not None and document.source != wanted:
            if not has_moved and document.version != since:
                has_moved = True
                deadline = min(deadline, anyio.current_time() + grace_s)
            with anyio.move_on_at(deadline) as waiting:
                await self._changed.wait()
            if waiting.cancelled_caught:
                return

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class _Document(TextDocument):
    """A document whose lines end where an editor ends them, and whose changes cost what they touch.

    ``str.splitlines``, which pygls uses, ends them at form feeds and other characters, too: every
    position behind one would be wrong. And to split a megabyte for each key that is pressed takes
    a tenth of a second.
    """

    _near = (0, 0)
    """A line and where it begins: one that was asked for lately."""

    def apply_change(self, change: types.TextDocumentContentChangeEvent) -> None:
        if isinstance(change, types.TextDocumentContentChangeWholeDocument):
            self._near = (0, 0)
            super().apply_change(change)
            return
        text = self.source
        end = self.offset_at_position(change.range.end)
        # What is remembered of the two is the start, before which nothing changes.
        start = self.offset_at_position(change.range.start)
        self._source = f"{text[:start]}{change.text}{text[end:]}"

    def offset_at_position(self, client_position: types.Position) -> int:
        """Where it is in the text, in characters; the nearest place there is."""
        text, wanted = self.source, max(client_position.line, 0)
        line, start = self._near if wanted > self._near[0] // 2 else (0, 0)
        while line < wanted:
            if not (after := text.find("\n", start) + 1):
                return len(text)
            line, start = line + 1, after
        while line > wanted:
            line, start = line - 1, text.rfind("\n", 0, start - 1) + 1
        self._near = (line, start)
        end = text.find("\n", start)
        here = text[start:] if end < 0 else text[start : end + 1]
        place = types.Position(line=0, character=client_position.character)
        return start + self.position_codec.position_from_client_units([here], place).character


class _Codec(PositionCodec):
    """Positions that are nowhere are at the nearest place, as LSP has it.

    pygls's own puts one behind the last line's end before its last character.
    """

    def position_from_client_units(
        self, lines: Sequence[str], position: types.Position
    ) -> ServerTextPosition:
        if position.line >= len(lines):
            return ServerTextPosition(len(lines), 0)
        line = lines[position.line]
        if line.endswith("\n"):
            line = line.removesuffix("\n").removesuffix("\r")
        units = max(position.character, 0)
        if self.encoding == types.PositionEncodingKind.Utf32 or line.isascii():
            return ServerTextPosition(position.line, min(units, len(line)))
        codec, size = ("utf-8", 1)
        if self.encoding == types.PositionEncodingKind.Utf16:
            codec, size = ("utf-16-le", 2)
        before = line.encode(codec, "surrogatepass")[: units * size]
        return ServerTextPosition(position.line, len(before.decode(codec, "ignore")))


class _Workspace(Workspace):
    """pygls's, of such documents and positions."""

    def __init__(self, encoding: types.PositionEncodingKind, folders: Sequence[WorkspaceFolder]):
        super().__init__(
            None, position_encoding=encoding, workspace_folders=list(map(_folder, folders))
        )
        self._position_codec = _Codec(encoding)

    def _create_text_document(
        self,
        doc_uri: str,
        source: str | None = None,
        version: int | None = None,
        language_id: str | None = None,
    ) -> TextDocument:
        return _Document(
            doc_uri,
            source=source,
            version=version,
            language_id=language_id,
            position_codec=self.position_codec,
        )

    def of_text(self, text: str) -> TextDocument:
        """A document that is nobody's."""
        return self._create_text_document("", source=text)


def on_disk(path: Path) -> str | None:
    """The text of a file; None: there is none that is a text and not too large. Blocks."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_DOCUMENT_BYTES:
            return None
        return path.read_bytes().decode()
    except (OSError, ValueError):
        return None


def _is_saved(path: Path, text: str) -> bool:
    saved = on_disk(path)
    return saved is not None and _plain(saved) == _plain(text)


def _plain(text: str) -> str:
    """A text but for how its lines end, and the last of them."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return text.removesuffix("\n")


def _folder(folder: WorkspaceFolder) -> types.WorkspaceFolder:
    return types.WorkspaceFolder(uri=folder.uri, name=folder.name or folder.uri)


def _change(change: s.ContentChange) -> types.TextDocumentContentChangeEvent:
    if change.range is UNSET:
        return types.TextDocumentContentChangeWholeDocument(text=change.text)
    start, end = _position(change.range.start), _position(change.range.end)
    return types.TextDocumentContentChangePartial(types.Range(start, end), change.text)


def _position(at: Position) -> types.Position:
    return types.Position(line=at.line, character=at.character)


def _is_range(part: Range | UnsetType) -> bool:
    """pygls takes others apart wrongly."""
    if part is UNSET:
        return True
    start, end = ((each.line, each.character) for each in (part.start, part.end))
    return min(start) >= 0 and start <= end


def _line_change(uri: str, change: s.ContentChange) -> LineChange | None:
    if change.range is UNSET:
        return None
    first, last = change.range.start.line, change.range.end.line
    return LineChange(uri, first, last, change.text.count("\n") - (last - first))
