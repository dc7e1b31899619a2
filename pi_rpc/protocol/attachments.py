"""Attachments: what an editor knows and sends along with a message.

Owns their shapes, their checks and the text a model reads of them. Does not read files: a ``file``
attachment is a pointer that the model follows with a tool."""

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
    "attachments_text",
    "check_attachments",
]

MAX_ATTACHMENT_BYTES = 256 * 1024
"""Most bytes that the texts of one message's attachments may have together, as UTF-8."""

_SEVERITIES = {1: "error", 2: "warning", 3: "information", 4: "hint"}


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
            message = f"Expected a `file:` URI, got `{each.uri}` - at `$.attachments[{index}].uri`"
            raise ProtocolError("invalidParams", message)
        size += len(_text_of(each).encode())
    if size > MAX_ATTACHMENT_BYTES:
        message = (
            f"Expected at most {MAX_ATTACHMENT_BYTES} bytes of text, got {size}"
            " - at `$.attachments`"
        )
        raise ProtocolError("invalidParams", message)


def attachments_text(attachments: list[Attachment]) -> str:
    """What the model reads of the attachments, to stand after the message's own text."""
    return "\n".join(_text_of(each) for each in attachments)


def _text_of(attachment: Attachment) -> str:
    match attachment:
        case FileAttachment():
            return f"<attached-file {_place(attachment.uri, attachment.range)}/>"
        case SelectionAttachment():
            place = _place(attachment.uri, attachment.range)
            return f"<attached-selection {place}>\n{attachment.text}\n</attached-selection>"
        case DiagnosticsAttachment():
            lines = "\n".join(_diagnostic_line(each) for each in attachment.diagnostics)
            place = _place(attachment.uri, UNSET)
            return f"<attached-diagnostics {place}>\n{lines}\n</attached-diagnostics>"
        case TextAttachment():
            name = f' name="{_quoted(attachment.name)}"' if attachment.name else ""
            return f"<attached-text{name}>\n{attachment.text}\n</attached-text>"


def _place(uri: str, range_: Range | UnsetType) -> str:
    path = f'path="{_quoted(file_path(uri) or uri)}"'
    if range_ is UNSET:
        return path
    # People and the read tool count lines from one; an end at column 0 does not touch its line.
    first, last = range_.start.line + 1, range_.end.line + 1
    if range_.end.character == 0 and last > first:
        last -= 1
    return f'{path} lines="{first}-{last}"'


def _quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("\n", " ")


def _diagnostic_line(diagnostic: EditorDiagnostic) -> str:
    start = diagnostic.range.start
    severity = _SEVERITIES[diagnostic.severity] if diagnostic.severity else "problem"
    origin = " ".join(str(part) for part in (diagnostic.source, diagnostic.code) if part)
    place = f"{start.line + 1}:{start.character + 1}"
    return f"{place} {severity}: {diagnostic.message}" + (f" [{origin}]" if origin else "")
