"""Code actions: what can be done with pi at a place of a document, and what a model is then told.

Owns which actions are offered when, and their prompts. Does not own how they are carried out
(``pi_rpc.lsp.commands``).
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import UNSET, Raw, ValidationError, json, to_builtins

from pi_rpc.agent.tool import Position, Range
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.lsp import shapes as s
from pi_rpc.lsp.documents import Documents
from pi_rpc.protocol.attachments import (
    MAX_ATTACHMENT_BYTES,
    Attachment,
    DiagnosticsAttachment,
    EditorDiagnostic,
    FileAttachment,
    SelectionAttachment,
    TextAttachment,
    check_attachments,
)
from pi_rpc.protocol.base import file_path
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.errors import ProtocolError

__all__ = ["TEXTS", "actions", "place_of", "prompt_about", "send_action", "stop_action"]

_AUTOMATIC = 2
"""The editor asks by itself, for instance to show a lamp."""
_DIAGNOSED_BYTES = 64 * 1024
"""Messages of diagnostics that a model is told; who has more begins with these."""
_SELECTED_BYTES = MAX_ATTACHMENT_BYTES - _DIAGNOSED_BYTES
"""A larger selection the model reads from the file by itself."""
_QUICKFIX, _REWRITE, _SOURCE = "quickfix", "refactor.rewrite", "source"

_TITLES = {"pi.fix": "Fix with pi", "pi.explain": "Explain with pi", "pi.ask": "Ask pi…"}
TEXTS = {
    ("pi.fix", True): "Fix what these diagnostics say, in the file itself. Change nothing else.",
    ("pi.fix", False): "Find out what is wrong here and fix it in the file itself. Change nothing"
    " else.",
    ("pi.explain", True): "Explain what these diagnostics mean here and how to get rid of them."
    " Change nothing.",
    ("pi.explain", False): "Explain what this does. Change nothing.",
}
"""By command, and whether there are diagnostics."""


def actions(params: s.CodeActionParams) -> Iterator[s.CodeAction]:
    """What is offered at a place; where nothing is selected, only to a person who asks."""
    context, part = params.context, params.range
    found = context.diagnostics
    if not found and part.start == part.end and context.trigger_kind == _AUTOMATIC:
        return
    for command, title in _TITLES.items():
        kind = _SOURCE
        if command == "pi.fix":
            kind = _QUICKFIX if found else _REWRITE
        if not _is_wanted(kind, context):
            continue
        arguments = s.PlaceArguments(
            uri=params.text_document.uri, range=part, diagnostics=context.diagnostics
        )
        yield s.CodeAction(
            title=title,
            kind=kind,
            command=s.Command(title=title, command=command, arguments=[arguments]),
            diagnostics=found if found and kind == _QUICKFIX else UNSET,
        )


def stop_action() -> s.CodeAction:
    """Where something goes on."""
    return _plain("Stop pi", "pi.stop", [])


def send_action(uri: str) -> s.CodeAction:
    """In a document in which the person writes what they ask."""
    return _plain("Send to pi", "pi.send", [s.PlaceArguments(uri=uri)])


def _plain(title: str, command: str, arguments: list[s.PlaceArguments]) -> s.CodeAction:
    call = s.Command(title=title, command=command, arguments=list(arguments))
    return s.CodeAction(title=title, kind=_QUICKFIX, command=call)


def _is_wanted(kind: str, context: s.CodeActionContext) -> bool:
    if not context.only:
        return True
    return any(not each or f"{kind}.".startswith(f"{each}.") for each in context.only)


def place_of(arguments: s.PlaceArguments) -> str:
    """Where it is, for people: ``app.py:3``; empty where nothing is named."""
    if not arguments.uri:
        return ""
    name = Path(file_path(arguments.uri) or arguments.uri).name
    return f"{name}:{arguments.range.start.line + 1}" if arguments.range else name


def prompt_about(text: str, arguments: s.PlaceArguments, documents: Documents) -> PromptInput:
    """``text`` with what the editor shows at the place, and what is wrong there.

    Raises ``ProtocolError`` for what is no file and not open, and for too much text.
    """
    attachments: list[Attachment] = []
    if uri := arguments.uri or "":
        attachments.append(_place(uri, arguments.range or None, documents))
        found = _readable(arguments.diagnostics)
        if found and file_path(uri) is not None:
            attachments.append(DiagnosticsAttachment(uri=uri, diagnostics=found))
    check_attachments(attachments)
    return PromptInput(content=text, attachments=[to_builtins(each) for each in attachments])


def _place(uri: str, part: Range | None, documents: Documents) -> Attachment:
    selected = documents.text_in(uri, _whole_lines(part) if part else None)
    if file_path(uri) is None:
        # It was never saved, and no tool will find it.
        shown = selected or documents.text_in(uri, None)
        if shown is None:
            message = f"`{uri}` is no file and not open"
            raise ProtocolError("invalidParams", message, path="arguments[0].uri")
        return TextAttachment(text=shown, name=uri)
    if part and selected and len(selected.encode()) <= _SELECTED_BYTES:
        return SelectionAttachment(uri=uri, range=part, text=selected)
    return FileAttachment(uri=uri, range=part or UNSET)


def _readable(diagnostics: list[Raw]) -> list[EditorDiagnostic]:
    """Those that say what is wrong where, as many as there is room for."""
    found: list[EditorDiagnostic] = []
    room = _DIAGNOSED_BYTES
    for each in diagnostics:
        if (read := _read(each)) is None:
            continue
        room -= len(read.message.encode())
        if room < 0:
            break
        found.append(read)
    return found


def _read(raw: Raw) -> EditorDiagnostic | None:
    diagnostic = json.decode(raw)
    if not isinstance(diagnostic, dict):
        return None
    message = diagnostic.get("message")
    if isinstance(message, dict):
        message = message.get("value")  # Markdown, since LSP 3.18
    least = {"range": diagnostic.get("range"), "message": message}
    for fields in ({**diagnostic, **least}, least):
        with suppress(ValidationError):
            return decode_params(EditorDiagnostic, json.encode(fields))
    return None


def _whole_lines(part: Range) -> Range:
    """Nothing selected means the line; half of a line says little to a model."""
    end = part.end
    if end.character or end.line == part.start.line:
        end = Position(line=end.line + 1, character=0)
    return Range(start=Position(line=part.start.line, character=0), end=end)
