"""What is said about the documents that an editor has open.

Owns the params of ``editor/didChange`` and the requests that read, change and save documents; those
that LSP has are shaped as there. Does not own what is made of them (``pi_rpc.server.editor``)."""

from typing import Any

from msgspec import UNSET, UnsetType

from pi_rpc.agent.tool import Range
from pi_rpc.llm.messages import Wire
from pi_rpc.protocol.client_requests import Question, QuestionParams
from pi_rpc.protocol.handshake import ClientFeatures

__all__ = [
    "APPLY_EDIT",
    "READ_DOCUMENT",
    "SAVE_DOCUMENT",
    "ApplyEditParams",
    "ApplyEditResult",
    "EditorDidChangeParams",
    "OpenDocument",
    "ReadDocumentParams",
    "ReadDocumentResult",
    "SaveDocumentParams",
    "SaveDocumentResult",
    "TextDocumentEdit",
    "TextEdit",
    "VersionedDocument",
    "WorkspaceEdit",
]


class OpenDocument(Wire, frozen=True, kw_only=True):
    """A document that the editor has open."""

    uri: str
    """Its URI. What is no `file:` is not asked for."""
    version: int | UnsetType = UNSET
    """The editor's own number, which grows with every change, such as a change tick."""
    dirty: bool = False
    """True: it has changes that are not saved."""


class EditorDidChangeParams(Wire, frozen=True, kw_only=True):
    """What the editor shows. What is absent is as it was."""

    active_document: Any | UnsetType = UNSET
    """The document that has the focus: its URI."""
    selection: Any | UnsetType = UNSET
    """What is selected there, a range."""
    open_documents: list[OpenDocument] | UnsetType = UNSET
    """All documents that are open; those that are missing are not any more."""
    diagnostics: Any | UnsetType = UNSET
    """A list of `{uri, diagnostics[]}`, as LSP has them."""


class ReadDocumentParams(QuestionParams, frozen=True, kw_only=True):
    """Which document to read."""

    uri: str
    """The document, as `openDocuments` spelled it."""


class ReadDocumentResult(Wire, frozen=True, kw_only=True):
    """A document as the editor shows it. With `open` the other three are expected."""

    open: bool = False
    """False: it is not open any more, and the file on the disk counts."""
    text: str | UnsetType = UNSET
    """All of it, with a line break at the end if the file has one. Lines may end as in the file, or
    in `\\n` with `eol` telling how they do there."""
    version: int | UnsetType = UNSET
    """The version that this is."""
    eol: str | UnsetType = UNSET
    """What ends a line in the file: `\\n`, `\\r\\n` or `\\r`."""


class VersionedDocument(Wire, frozen=True, kw_only=True):
    """A document in a certain version."""

    uri: str
    """The document, as `openDocuments` spelled it."""
    version: int
    """The version that the edits are for. If it is another one by now, nothing is to be applied."""


class TextEdit(Wire, frozen=True, kw_only=True):
    """A change, as LSP has it."""

    range: Range
    """What goes. Positions are those before all edits, in the negotiated encoding."""
    new_text: str
    """What comes in its place."""


class TextDocumentEdit(Wire, frozen=True, kw_only=True):
    """Changes of one document, as LSP has them."""

    text_document: VersionedDocument
    """The document."""
    edits: list[TextEdit]
    """Its changes, in the order of the text. They do not overlap."""


class WorkspaceEdit(Wire, frozen=True, kw_only=True):
    """Changes of documents, as LSP has them."""

    document_changes: list[TextDocumentEdit]
    """Documents and their changes."""


class ApplyEditParams(QuestionParams, frozen=True, kw_only=True):
    """What to change."""

    edit: WorkspaceEdit
    """The changes. All of them together are one step to undo."""
    label: str | UnsetType = UNSET
    """What the step may be called."""


class ApplyEditResult(Wire, frozen=True, kw_only=True):
    """Whether it was changed, as LSP has it."""

    applied: bool
    """False: nothing was changed."""
    failure_reason: str | UnsetType = UNSET
    """Why not. `version`: the document is in another version."""
    failed_change: Any | UnsetType = UNSET
    """LSP's; not read."""


class SaveDocumentParams(QuestionParams, frozen=True, kw_only=True):
    """Which document to save."""

    uri: str
    """The document, as `openDocuments` spelled it."""
    version: int
    """The version that is meant. If it is another one by now, it need not be saved."""


class SaveDocumentResult(Wire, frozen=True, kw_only=True):
    """Whether it was saved."""

    saved: bool
    """True: the file holds what the editor shows."""


def _reads(features: ClientFeatures) -> bool:
    return features.editor.read_document


def _edits(features: ClientFeatures) -> bool:
    return features.editor.apply_edit


def _saves(features: ClientFeatures) -> bool:
    return features.editor.save_document


READ_DOCUMENT = Question(
    "editor/readDocument", ReadDocumentParams, ReadDocumentResult, _reads, is_for_person=False
)
APPLY_EDIT = Question(
    "workspace/applyEdit", ApplyEditParams, ApplyEditResult, _edits, is_for_person=False
)
SAVE_DOCUMENT = Question(
    "editor/saveDocument", SaveDocumentParams, SaveDocumentResult, _saves, is_for_person=False
)
