"""Attachments: what an editor knows and sends along with a message.

Owns their shapes and their checks. What a model reads of them is made by the harness, from the same
shapes."""

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType

from pi_rpc.agent.tool import Range
from pi_rpc.llm.messages import Wire
from pi_rpc.protocol.base import file_path
from pi_rpc.protocol.errors import ProtocolError

__all__ = [
    "MAX_ATTACHMENT_BYTES",
    "Attachment",
    "DiagnosticsAttachment",
    "EditorDiagnostic",
    "FileAttachment",
    "SelectionAttachment",
    "TextAttachment",
    "check_attachments",
]

MAX_ATTACHMENT_BYTES = 256 * 1024
"""Most bytes that the texts of one message's attachments may have together, as UTF-8."""


class FileAttachment(Wire, tag_field="type", tag="file", frozen=True, kw_only=True):
    """A file to look at."""

    uri: str
    """A `file:` URI."""
    range: Range | UnsetType = UNSET
    """The part that matters."""


class SelectionAttachment(Wire, tag_field="type", tag="selection", frozen=True, kw_only=True):
    """Text that the person selected in an editor."""

    uri: str
    """A `file:` URI."""
    range: Range
    """Where the text stands."""
    text: str
    """The text as the editor shows it."""


class EditorDiagnostic(Wire, frozen=True, kw_only=True):
    """A diagnostic as LSP has it."""

    range: Range
    """Where."""
    message: str
    """What is wrong."""
    severity: Literal[1, 2, 3, 4] | UnsetType = UNSET
    """1 error, 2 warning, 3 information, 4 hint."""
    code: int | str | UnsetType = UNSET
    """The rule's code."""
    source: str | UnsetType = UNSET
    """Who says so, for instance a compiler."""
    code_description: Any | UnsetType = UNSET
    """LSP's; kept, not read."""
    tags: Any | UnsetType = UNSET
    """LSP's; kept, not read."""
    related_information: Any | UnsetType = UNSET
    """LSP's; kept, not read."""
    data: Any | UnsetType = UNSET
    """LSP's; kept, not read."""


class DiagnosticsAttachment(Wire, tag_field="type", tag="diagnostics", frozen=True, kw_only=True):
    """What an editor's diagnostics say about a file."""

    uri: str
    """A `file:` URI."""
    diagnostics: list[EditorDiagnostic]
    """The diagnostics."""


class TextAttachment(Wire, tag_field="type", tag="text", frozen=True, kw_only=True):
    """Any other text."""

    text: str
    """The text."""
    name: str | UnsetType = UNSET
    """What it is."""


Attachment: TypeAlias = (
    FileAttachment | SelectionAttachment | DiagnosticsAttachment | TextAttachment
)


def check_attachments(attachments: list[Attachment]) -> None:
    """Raise ``ProtocolError`` ``invalidParams`` for a URI that is no file, and for too much."""
    size = 0
    for index, each in enumerate(attachments):
        if not isinstance(each, TextAttachment) and file_path(each.uri) is None:
            path = f"attachments[{index}].uri"
            message = f"{path}: expected a `file:` URI, got `{each.uri}`"
            raise ProtocolError("invalidParams", message, path=path)
        size += _size(each)
    if size > MAX_ATTACHMENT_BYTES:
        message = f"attachments: expected at most {MAX_ATTACHMENT_BYTES} bytes of text, got {size}"
        raise ProtocolError("invalidParams", message, path="attachments")


def _size(attachment: Attachment) -> int:
    match attachment:
        case SelectionAttachment(text=text) | TextAttachment(text=text):
            return len(text.encode())
        case DiagnosticsAttachment(diagnostics=diagnostics):
            return sum(len(each.message.encode()) for each in diagnostics)
        case FileAttachment():
            return 0
