"""The ``write`` tool: a whole file at once.

Owns the result and the diff against what was there. How the file is replaced is the ``FileSystem``
port's; the order of calls on one file is ``_steps``'.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.ports import FileSystem, PortError, ToolContext
from pi_rpc.agent.tool import AgentTool, OnUpdate, ToolDescription, ToolResult
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.tools._diff import diff_of_texts
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
    """The ``write`` tool. Details: ``{created, diff?, patch?, firstChangedLine?}``."""
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
    del tool_call_id, on_update
    shown, content = display_text(params["path"]), params["content"]
    data = encoded(content, "content")
    files = context.files
    with port_failures(f"Could not write {shown}. "):
        path = resolve_path(params["path"], context.cwd)
        async with exclusive_change(files, path, signal):
            details = await _compared(files, path, content, len(data), shown)
            stop_if_aborted(signal)
            await anyio.lowlevel.checkpoint_if_cancelled()
            with anyio.CancelScope(shield=True):  # the next in line must not meet half a write
                await files.write(path, data)
    return ToolResult.of_text(
        f"Successfully wrote to {shown} ({len(data)} byte{'' if len(data) == 1 else 's'}"
        f"{', a new file' if details['created'] else ''}).",
        details=details,
    )


async def _compared(
    files: FileSystem, path: Path, content: str, size: int, shown: str
) -> dict[str, Any]:
    """The details: whether the file is new, and else what changes, where that is cheap to say."""
    try:
        found = await files.stat(path)
    except PortError as error:
        if error.code != "not_found":
            raise
        return {"created": True}
    if found.kind != "file" or max(found.size, size) > _MAX_COMPARED:
        return {"created": False}
    try:
        old = (await files.read(path, limit=_MAX_COMPARED)).decode()
    except (PortError, UnicodeDecodeError):  # may be written, though not compared
        return {"created": False}
    diff = await run_blocking(diff_of_texts, old, content, shown)
    return {"created": False, **diff.details()}


def _describe(params: Mapping[str, Any], context: ToolContext | None) -> ToolDescription:
    cwd = context.cwd if context else None
    path = params.get("path")
    return ToolDescription(
        title=f"write {title_path(path, cwd)}", locations=locations_of(path, cwd)
    )
