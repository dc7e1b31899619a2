"""The editor behind the client: what it has open, and asking it.

Owns what ``editor/didChange`` said last, and the step from the host's ``Editor`` to requests and
back. Sending and waiting is ``pi_rpc.server.questions``', what the answers mean for a file
``pi_rpc.host.edited_files``'.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Raw, structs
from msgspec.structs import replace

from pi_rpc.host import editor as e
from pi_rpc.host.hosted import HostedSession
from pi_rpc.host.text_edits import TextEdit
from pi_rpc.protocol import editor as p
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.handshake import EditorFeatures, PositionEncoding
from pi_rpc.server.questions import Questions, milliseconds

__all__ = ["ClientEditor", "EditorState"]

_log = logging.getLogger("pi_rpc.server")


class EditorState:
    """What the client's editor shows, as far as it has said. One for a connection."""

    def __init__(self) -> None:
        self.said = p.EditorDidChangeParams()
        """All that was said, the latest of each."""
        self._open: dict[str, e.OpenDocument] = {}
        self._saved: dict[str, int] = {}
        """Versions that documents have been saved in, at our request."""

    @property
    def open(self) -> Mapping[str, e.OpenDocument]:
        """Open documents by URI, those that are files."""
        return self._open

    def take(self, params: Raw) -> None:
        """``editor/didChange``. What cannot be read is ignored, and logged."""
        try:
            news = decode_params(p.EditorDidChangeParams, params)
        except msgspec.MsgspecError as error:
            _log.warning("editor/didChange was ignored: %s", error)
            return
        given = {
            name: value
            for name in news.__struct_fields__
            if (value := getattr(news, name)) is not UNSET and value is not None
        }
        self.said = structs.replace(self.said, **given)
        if isinstance(news.open_documents, list):
            self._take_documents(news.open_documents)

    def _take_documents(self, documents: Sequence[p.OpenDocument]) -> None:
        before, self._open = self._open, {}
        for each in documents:
            known = before.get(each.uri)
            path = _path_of(each.uri) if known is None else known.path
            if path is not None:
                # Said before the document was saved, though heard after it.
                stale = each.version is not UNSET and each.version <= self._saved.get(each.uri, -1)
                dirty = each.dirty and not stale
                self._open[each.uri] = e.OpenDocument(each.uri, path, dirty)
        for uri in self._saved.keys() - self._open.keys():
            del self._saved[uri]

    def edited(self, uri: str) -> None:
        """A document was changed at our request."""
        self._set_dirty(uri, dirty=True)

    def saved(self, uri: str, version: int) -> None:
        """A document was saved at our request."""
        self._set_dirty(uri, dirty=False)
        if uri in self._open:
            self._saved[uri] = version

    def _set_dirty(self, uri: str, *, dirty: bool) -> None:
        if (document := self._open.get(uri)) is not None:
            self._open[uri] = replace(document, dirty=dirty)


class ClientEditor:
    """The ``Editor`` of one session of a client."""

    def __init__(
        self,
        hosted: HostedSession,
        questions: Questions,
        state: EditorState,
        features: EditorFeatures,
        position_encoding: PositionEncoding,
        *,
        timeout_s: float | None,
    ) -> None:
        """``timeout_s``: how long each question waits for its answer; None: any time."""
        self._hosted = hosted
        self._questions = questions
        self._state = state
        self._timeout_s = timeout_s
        self.position_encoding = position_encoding
        # Without its text a document cannot be changed in parts, nor looked at afterwards.
        self.can_edit = features.read_document and features.apply_edit
        self.can_save = features.save_document

    @property
    def documents(self) -> Mapping[str, e.OpenDocument]:
        """Open documents by URI."""
        return self._state.open

    async def look(self, path: Path) -> None:
        """It says by itself what is open."""

    async def read(self, uri: str) -> e.DocumentText | None:
        """``editor/readDocument``."""
        params = p.ReadDocumentParams(uri=uri, **self._asking())
        answer = await self._questions.ask(p.READ_DOCUMENT, params, self._hosted)
        if answer is None:
            raise e.NoAnswerError
        if not answer.open:
            return None
        if answer.text is UNSET or answer.version is UNSET:
            why = "an open document without `text` and `version`"
            self._questions.misunderstood(p.READ_DOCUMENT.method, why, self._hosted)
            raise e.NoAnswerError
        return e.DocumentText(answer.text, answer.version, answer.eol or "")

    async def edit(self, uri: str, version: int, edits: Sequence[TextEdit]) -> e.Applied:
        """``workspace/applyEdit``."""
        change = p.TextDocumentEdit(
            text_document=p.VersionedDocument(uri=uri, version=version),
            edits=[p.TextEdit(range=each.range, new_text=each.new_text) for each in edits],
        )
        params = p.ApplyEditParams(
            edit=p.WorkspaceEdit(document_changes=[change]), label="pi-rpc", **self._asking()
        )
        answer = await self._questions.ask(p.APPLY_EDIT, params, self._hosted)
        if answer is None:
            raise e.NoAnswerError
        if answer.applied:
            self._state.edited(uri)
        return e.Applied(answer.applied, answer.failure_reason or "")

    async def save(self, uri: str, version: int) -> bool:
        """``editor/saveDocument``."""
        params = p.SaveDocumentParams(uri=uri, version=version, **self._asking())
        answer = await self._questions.ask(p.SAVE_DOCUMENT, params, self._hosted)
        if answer is None or not answer.saved:
            return False
        self._state.saved(uri, version)
        return True

    def _asking(self) -> dict[str, Any]:
        return {
            "request_id": self._questions.new_id(),
            "session_id": self._hosted.id,
            "timeout_ms": milliseconds(self._timeout_s),
        }


def _path_of(uri: str) -> Path | None:
    """The path that a ``file:`` URI names, byte for byte; None for anything else."""
    if uri[:5].lower() != "file:":
        return None
    from urllib.parse import unquote_to_bytes

    path = uri[5:].partition("#")[0].partition("?")[0]
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        if host.lower() not in {"", "localhost"}:
            return None
        path = slash + rest
    if not path.startswith("/"):
        return None
    name = os.fsdecode(unquote_to_bytes(path))
    return None if "\0" in name else Path(os.path.normpath(name))
