"""The shapes of LSP that are read and written here.

Owns the fields that this server knows, and no more: what an editor sends beside them is ignored,
where lsprotocol's own types would refuse the whole message.
"""

from typing import Any

from msgspec import UNSET, Raw, UnsetType, field

from pi_rpc.agent.tool import Position, Range
from pi_rpc.protocol.handshake import WorkspaceFolder
from pi_rpc.wire import Wire

__all__ = [
    "ERROR",
    "INFO",
    "LOG",
    "WARNING",
    "ApplyEditResult",
    "CodeAction",
    "CodeActionParams",
    "Command",
    "Done",
    "ExecuteCommandParams",
    "FoldersChanged",
    "HoverParams",
    "MessageAction",
    "PlaceArguments",
    "ProgressNamed",
    "ShowDocumentResult",
    "TextDocumentChanged",
    "TextDocumentNamed",
    "TextDocumentOpened",
    "TraceParams",
    "Wire",
]

ERROR, WARNING, INFO, LOG = 1, 2, 3, 4
"""Types of a message."""


# --- documents -----------------------------------------------------------------------------------


class OpenedDocument(Wire, frozen=True, kw_only=True):
    """A document as it is opened."""

    uri: str
    text: str
    version: int = 0
    language_id: str = ""


class TextDocumentOpened(Wire, frozen=True, kw_only=True):
    """``textDocument/didOpen``."""

    text_document: OpenedDocument


class NamedDocument(Wire, frozen=True, kw_only=True):
    """A document, and of which version."""

    uri: str
    version: int | None = None


class TextDocumentNamed(Wire, frozen=True, kw_only=True):
    """``textDocument/didClose`` and ``textDocument/didSave``."""

    text_document: NamedDocument


class ContentChange(Wire, frozen=True, kw_only=True):
    """A change; without ``range`` of the whole text."""

    text: str
    range: Range | UnsetType = UNSET


class TextDocumentChanged(Wire, frozen=True, kw_only=True):
    """``textDocument/didChange``."""

    text_document: NamedDocument
    content_changes: list[ContentChange]


class FolderChanges(Wire, frozen=True, kw_only=True):
    """Folders that came and went."""

    added: list[WorkspaceFolder] = field(default_factory=list)
    removed: list[WorkspaceFolder] = field(default_factory=list)


class FoldersChanged(Wire, frozen=True, kw_only=True):
    """``workspace/didChangeWorkspaceFolders``."""

    event: FolderChanges


# --- what is asked of us -------------------------------------------------------------------------


class CodeActionContext(Wire, frozen=True, kw_only=True):
    """What a code action would be for."""

    diagnostics: list[Raw] = field(default_factory=list)
    """Of other servers, and not always as LSP has them."""
    only: list[str] | UnsetType = UNSET
    trigger_kind: int | UnsetType = UNSET


class CodeActionParams(Wire, frozen=True, kw_only=True):
    """``textDocument/codeAction``."""

    text_document: NamedDocument
    range: Range
    context: CodeActionContext = CodeActionContext()


class HoverParams(Wire, frozen=True, kw_only=True):
    """``textDocument/hover``."""

    text_document: NamedDocument
    position: Position


class ExecuteCommandParams(Wire, frozen=True, kw_only=True):
    """``workspace/executeCommand``."""

    command: str
    arguments: list[Raw] = field(default_factory=list)
    work_done_token: int | str | UnsetType = UNSET


class PlaceArguments(Wire, frozen=True, kw_only=True):
    """What a command may be about, and what is to be done there."""

    uri: str | UnsetType = UNSET
    range: Range | UnsetType = UNSET
    diagnostics: list[Raw] = field(default_factory=list)
    text: str | UnsetType = UNSET
    wait: bool = False
    """Answer when it has ended, not when it has begun."""


class ProgressNamed(Wire, frozen=True, kw_only=True):
    """``window/workDoneProgress/cancel``."""

    token: int | str


class TraceParams(Wire, frozen=True, kw_only=True):
    """``$/setTrace``."""

    value: str


# --- what we answer ------------------------------------------------------------------------------


class Command(Wire, frozen=True, kw_only=True):
    """A command that the editor may send."""

    title: str
    command: str
    arguments: list[Any]


class CodeAction(Wire, frozen=True, kw_only=True):
    """A code action."""

    title: str
    kind: str
    command: Command
    diagnostics: list[Raw] | UnsetType = UNSET


class Done(Wire, frozen=True, kw_only=True):
    """The result of a command that prompts."""

    session_id: str
    stop_reason: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    error_message: str | UnsetType = UNSET


# --- what the editor answers ---------------------------------------------------------------------


class MessageAction(Wire, frozen=True, kw_only=True):
    """The answer to ``window/showMessageRequest``."""

    title: str = ""


class ShowDocumentResult(Wire, frozen=True, kw_only=True):
    """The answer to ``window/showDocument``."""

    success: bool = False


class ApplyEditResult(Wire, frozen=True, kw_only=True):
    """The answer to ``workspace/applyEdit``."""

    applied: bool = False
    failure_reason: str | UnsetType = UNSET
