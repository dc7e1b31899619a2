"""The ``write`` tool: a whole file at once.

Owns the result and the diff against what was there. How the file is replaced is the ``FileSystem``
port's; the order of calls on one file is ``_steps``'.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio.lowlevel

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.ports import FileChange, PortError, ToolContext
from pi_rpc.agent.tool import AgentTool, OnUpdate, ToolDescription, ToolResult
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.tools._diff import diff_of_texts
from pi_rpc.tools._freshness import (
    DIGEST_LIMIT,
    changed_since_read,
    differs,
    note_written,
    written_note,
)
from pi_rpc.tools._paths import display_text, locations_of, resolve_path, title_path
from pi_rpc.tools._steps import encoded, exclusive_change, port_failures, stop_if_aborted

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
    """The ``write`` tool. Details: ``{created, diff?, patch?, firstChangedLine?,
    unsaved?}``."""
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
    files = context.files
    with port_failures(f"Could not write {shown}. "):
        path = resolve_path(params["path"], context.cwd)
        async with exclusive_change(files, path, signal) as real:
            with signal.cancel_scope():  # an editor may take its time
                base, details = await _compared(context, path, real, data, shown)
            stop_if_aborted(signal)
            await anyio.lowlevel.checkpoint_if_cancelled()
            written = await files.write(path, data, base=base)
            await note_written(context, path, real, data, written)
    change = FileChange(path, "created" if details["created"] else "changed")
    context.changes.changed([change], tool_call_id)
    text = (
        f"Successfully wrote to {shown} ({len(data)} byte{'' if len(data) == 1 else 's'}"
        f"{', a new file' if details['created'] else ''})."
    )
    if note := written_note(written, shown):
        text += f" {note}"
    if written.unsaved:
        details["unsaved"] = True
    return ToolResult.of_text(text, details=details)


async def _compared(
    context: ToolContext, path: Path, real: Path, data: bytes, shown: str
) -> tuple[bytes | None, dict[str, Any]]:
    """What the model believes is replaced, None where it has not seen it; and the details: whether
    the file is new, and else what changes, where that is cheap to say.

    Refuses when the file is not what the model believes.
    """
    try:
        found = await context.files.stat(path)
    except PortError as error:
        if error.code != "not_found":
            raise
        return None, {"created": True}
    details: dict[str, Any] = {"created": False}
    if found.kind != "file":
        return None, details  # the write says what is wrong
    known = context.seen.mark_of(real)
    is_small = max(found.size, len(data)) <= _MAX_COMPARED
    old: bytes | None = None
    if known is not None or is_small:
        limit = _MAX_COMPARED if known is None else DIGEST_LIMIT
        with contextlib.suppress(PortError):  # may be written, though not compared
            old = await context.files.read(path, limit=limit)
    if known is not None and await run_blocking(differs, known, old, found):
        raise changed_since_read(shown)
    if old is not None and is_small:
        with contextlib.suppress(UnicodeDecodeError):
            before, after = old.decode(), data.decode()
            details |= (await run_blocking(diff_of_texts, before, after, shown)).details()
    return (None if known is None else old), details


def _describe(params: Mapping[str, Any], context: ToolContext | None) -> ToolDescription:
    cwd = context.cwd if context else None
    path = params.get("path")
    return ToolDescription(
        title=f"write {title_path(path, cwd)}", locations=locations_of(path, cwd)
    )
