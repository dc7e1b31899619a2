"""The ``edit`` tool: replaces passages of a text file.

Owns the tool's schema, the older shapes of its arguments, and reading and writing around
``_edited_content``. How passages are found is ``_edits``' and ``_fuzzy``'s.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.lowlevel

from pi_rpc.agent.ports import FileChange, ToolContext, Written
from pi_rpc.agent.tool import AgentTool, OnUpdate, ToolDescription, ToolFailure, ToolResult
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.tools._bases import Base, base_of
from pi_rpc.tools._freshness import note_written, written_note
from pi_rpc.tools._paths import display_text, locations_of, resolve_path, title_path
from pi_rpc.tools._review import Reviewed, reviewed
from pi_rpc.tools._steps import encoded, exclusive_change, port_failures, until_aborted

if TYPE_CHECKING:
    from pi_rpc.tools._edited_content import EditedContent
    from pi_rpc.tools._edits import Edit

__all__ = ["MAX_FILE_BYTES", "edit_tool", "prepare_edit_arguments"]

MAX_FILE_BYTES = 50 * 1024 * 1024
"""Larger files are refused."""

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {
            "type": "string",
            "description": "The file, relative to the working directory or absolute",
        },
        "edits": {
            "type": "array",
            "minItems": 1,
            "description": (
                "The replacements. Each is matched against the file as it is before this call, so "
                "they must not overlap; make one edit of changes that are close together."
            ),
            "items": {
                "type": "object",
                "properties": {
                    "oldText": {
                        "type": "string",
                        "description": (
                            "A passage of the file, copied exactly, that occurs in it only once"
                        ),
                    },
                    "newText": {"type": "string", "description": "What takes its place"},
                },
                "required": ["oldText", "newText"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["path", "edits"],
    "additionalProperties": False,
}


def edit_tool() -> AgentTool:
    """The ``edit`` tool. Details: ``{diff, patch, firstChangedLine, diffTruncated?, fuzzy?,
    reviewed?, reviewDiff?, unsaved?}``: of what was written, which the person may have changed."""
    return AgentTool(
        name="edit",
        label="Edit",
        description=(
            "Change a text file by replacing passages. Every oldText must occur exactly once in "
            "the file; all edits of a call are applied together, or none is. Everything outside "
            "the passages stays as it is, line endings included."
        ),
        parameters=_PARAMETERS,
        execute=_execute,
        prepare_arguments=prepare_edit_arguments,
        kind="edit",
        guarded=True,
        # A write that has begun is finished, and the result says so.
        abort_grace_s=2.0,
        describe=_describe,
        snippet="Replace passages of text files",
        guidelines=(
            "Use edit for precise changes; put all changes of a file into one call.",
            "Keep oldText as short as it can be while it occurs only once.",
        ),
    )


def prepare_edit_arguments(raw: dict[str, Any]) -> dict[str, Any]:
    """Bring the shapes that models really send into that of the schema; a copy.

    ``edits`` may be JSON in a string, or a single edit; ``oldText`` and ``newText`` may stand at
    the top, as an earlier form of the tool had them.
    """
    arguments = dict(raw)
    edits = _decoded(arguments.get("edits"))
    if isinstance(edits, dict):
        edits = [edits]
    if isinstance(edits, list):
        edits = [_decoded(edit) for edit in edits]
    old, new = arguments.get("oldText"), arguments.get("newText")
    if isinstance(old, str) and isinstance(new, str) and (edits is None or isinstance(edits, list)):
        edits = [*(edits or []), {"oldText": old, "newText": new}]
        del arguments["oldText"], arguments["newText"]
    if edits is not None:
        arguments["edits"] = edits
    return arguments


def _decoded(value: Any) -> Any:
    """What a JSON object or array in a string stands for; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        decoded = json.loads(value)
    except ValueError:
        return value  # the check against the schema says what is wrong
    return decoded if isinstance(decoded, dict | list) else value


async def _execute(
    tool_call_id: str,
    params: dict[str, Any],
    signal: AbortSignal,
    on_update: OnUpdate,
    context: ToolContext,
) -> ToolResult:
    # Most runs edit nothing.
    from pi_rpc.tools._edits import Edit

    del on_update
    shown = display_text(params["path"])
    edits = [Edit(edit["oldText"], edit["newText"]) for edit in params["edits"]]
    for index, edit in enumerate(edits):
        encoded(edit.new, f"edits[{index}].newText")
    with port_failures(f"Could not edit {shown}. "):
        path = resolve_path(params["path"], context.cwd)
        async with exclusive_change(context.files, path, signal) as real:
            final, written = await _change(context, real, edits, shown=shown, signal=signal)
    context.changes.changed([FileChange(path, "changed")], tool_call_id)
    details = final.made.details | final.details
    notes = [_told(final, len(edits), shown)]
    if note := written_note(written, shown):
        notes.append(note)
    if written.unsaved:
        details["unsaved"] = True
    return ToolResult.of_text(
        "\n\n".join(notes) if final.note else " ".join(notes), details=details
    )


def _told(final: "Reviewed[EditedContent]", count: int, shown: str) -> str:
    if final.note:
        return final.note
    text = f"Successfully replaced {count} block{'' if count == 1 else 's'} in {shown}."
    if final.made.fuzzy:
        text += (
            " Some oldText differed from the file in quotes, dashes or white space, "
            "and was matched nevertheless."
        )
    return text


async def _change(
    context: ToolContext,
    real: Path,
    edits: "list[Edit]",
    *,
    shown: str,
    signal: AbortSignal,
) -> "tuple[Reviewed[EditedContent], Written]":
    """How the file was changed, and what became of it."""
    from pi_rpc.tools._edited_content import edited_content
    from pi_rpc.tools._edits import EditError

    async def make(base: Base) -> "EditedContent":
        assert base.data is not None
        data = base.data
        try:
            return await until_aborted(signal, lambda: edited_content(data, edits, shown))
        except EditError as error:
            raise ToolFailure(str(error)) from None

    final = await reviewed(
        context,
        real,
        shown,
        look=lambda: base_of(context.files, real, MAX_FILE_BYTES),
        make=make,
        signal=signal,
    )
    await anyio.lowlevel.checkpoint_if_cancelled()
    written = await context.files.write(real, final.content, base=final.base.data, exact=True)
    await note_written(context, real, final.base, final.content, written)
    return final, written


def _describe(params: Mapping[str, Any], context: ToolContext | None) -> ToolDescription:
    cwd = context.cwd if context else None
    path = params.get("path")
    return ToolDescription(title=f"edit {title_path(path, cwd)}", locations=locations_of(path, cwd))
