"""The ``write`` tool: a whole file at once.

Owns the result and the diff against what was there. How the file is replaced is the ``FileSystem``
port's; the order of calls on one file is ``_steps``'.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio.lowlevel
from msgspec import Struct

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.ports import FileChange, ToolContext, Written
from pi_rpc.agent.tool import AgentTool, OnUpdate, ToolDescription, ToolResult
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.tools._bases import Base, base_if_any
from pi_rpc.tools._diff import diff_of_texts
from pi_rpc.tools._freshness import DIGEST_LIMIT, note_written, unseen_changes, written_note
from pi_rpc.tools._paths import display_text, locations_of, resolve_path, title_path
from pi_rpc.tools._review import Reviewed, reviewed
from pi_rpc.tools._steps import encoded, exclusive_change, port_failures

__all__ = ["write_tool"]

_MAX_COMPARED = 256 * 1024
"""Bytes up to which an overwritten file is compared with the new one."""

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {
            "type": "string",
            "description": "The file, relative to the working directory or absolute",
        },
        "content": {"type": "string", "description": "The whole new content of the file"},
    },
    "required": ["path", "content"],
    "additionalProperties": False,
}


def write_tool() -> AgentTool:
    """The ``write`` tool. Details: ``{created, diff?, patch?, firstChangedLine?, reviewed?,
    reviewDiff?, unsaved?}``: of what was written, which the person may have changed."""
    return AgentTool(
        name="write",
        label="Write",
        description=(
            "Write a whole file. Creates the file and its directories, or replaces everything the "
            "file contains. The content is stored exactly as given, in UTF-8."
        ),
        parameters=_PARAMETERS,
        execute=_execute,
        kind="edit",
        guarded=True,
        # A write that has begun is finished, and the result says so.
        abort_grace_s=2.0,
        describe=_describe,
        snippet="Create or overwrite whole files",
        guidelines=("Use write for new files and complete rewrites only; else use edit.",),
    )


async def _execute(
    tool_call_id: str,
    params: dict[str, Any],
    signal: AbortSignal,
    on_update: OnUpdate,
    context: ToolContext,
) -> ToolResult:
    del on_update
    shown, content = display_text(params["path"]), params["content"]
    data = encoded(content, "content")
    with port_failures(f"Could not write {shown}. "):
        path = resolve_path(params["path"], context.cwd)
        async with exclusive_change(context.files, path, signal) as real:
            final, written = await _change(context, real, data, shown=shown, signal=signal)
    is_new = final.base.stat is None
    change = FileChange(path, "created" if is_new else "changed")
    context.changes.changed([change], tool_call_id)
    size = len(final.content)
    text = (
        f"Successfully wrote to {shown} ({size} byte{'' if size == 1 else 's'}"
        f"{', a new file' if is_new else ''})."
    )
    if note := written_note(written, shown):
        text += f" {note}"
    if final.note:
        text += f"\n\n{final.note}"
    details = {"created": is_new, **final.made.details, **final.details}
    if written.unsaved:
        details["unsaved"] = True
    return ToolResult.of_text(text, details=details)


class _Whole(Struct, frozen=True):
    """The content that was given, and what it changes where that is cheap to say."""

    content: bytes
    details: dict[str, Any]


async def _change(
    context: ToolContext, real: Path, data: bytes, *, shown: str, signal: AbortSignal
) -> tuple[Reviewed[_Whole], Written]:
    """How the file was changed, and what became of it."""
    is_known = context.seen.mark_of(real) is not None

    async def look() -> Base:
        base = await base_if_any(context.files, real, DIGEST_LIMIT)
        if base.document is not None and not base.document.is_saved and not is_known:
            raise unseen_changes(shown)
        return base

    async def make(base: Base) -> _Whole:
        return _Whole(data, await run_blocking(_differences, base.data, data, shown))

    final = await reviewed(context, real, shown, look=look, make=make, signal=signal)
    await anyio.lowlevel.checkpoint_if_cancelled()
    # Of a document that the model has not seen the editor must not give up anything.
    base = final.base.data if is_known else None
    written = await context.files.write(real, final.content, base=base, exact=True)
    await note_written(context, real, final.base, final.content, written)
    return final, written


def _differences(old: bytes | None, new: bytes, shown: str) -> dict[str, Any]:
    if old is None or max(len(old), len(new)) > _MAX_COMPARED:
        return {}
    try:
        return diff_of_texts(old.decode(), new.decode(), shown).details()
    except UnicodeDecodeError:
        return {}


def _describe(params: Mapping[str, Any], context: ToolContext | None) -> ToolDescription:
    cwd = context.cwd if context else None
    path = params.get("path")
    return ToolDescription(
        title=f"write {title_path(path, cwd)}", locations=locations_of(path, cwd)
    )
