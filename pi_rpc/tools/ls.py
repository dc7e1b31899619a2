"""The ``ls`` tool: what a directory holds.

Owns its arguments, the order and the limits. Directories are read in pieces, so that one with
millions of entries holds nobody up, and only as many names are kept as can be shown.
"""

import heapq
import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.ports import ToolContext
from pi_rpc.agent.tool import (
    AgentTool,
    OnUpdate,
    ToolDescription,
    ToolFailure,
    ToolResult,
)
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.tools._paths import display_text, locations_of, title_path
from pi_rpc.tools._search_roots import MOST_LINES, PATH_PARAMETER, Found, find_root, limit_of
from pi_rpc.tools._steps import port_failures, stop_if_aborted
from pi_rpc.tools._truncate import MAX_BYTES, format_size

__all__ = ["ls_tool"]

_LIMIT = 500
_AT_ONCE = 2000
"""Entries read in one visit of a file thread."""

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {**PATH_PARAMETER, "description": PATH_PARAMETER["description"]},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "description": f"The most entries to show; {_LIMIT} when left out",
        },
    },
    "additionalProperties": False,
}


def ls_tool() -> AgentTool:
    """The ``ls`` tool. Details: ``{truncation?, entryLimitReached?}``."""
    return AgentTool(
        name="ls",
        label="Ls",
        description=(
            "List a directory: one name per line in alphabetical order, directories with a slash "
            f"at their end, hidden files as well; at most {_LIMIT} entries or "
            f"{format_size(MAX_BYTES)}."
        ),
        parameters=_PARAMETERS,
        execute=_execute,
        kind="read",
        guarded=True,
        describe=_describe,
        snippet="List a directory",
        on_request=True,
    )


async def _execute(
    tool_call_id: str,
    params: dict[str, Any],
    signal: AbortSignal,
    on_update: OnUpdate,
    context: ToolContext,
) -> ToolResult:
    del tool_call_id, on_update
    limit = limit_of(params, _LIMIT)
    with port_failures():
        root = await find_root(params.get("path"), context)
        if not root.is_folder:
            raise ToolFailure(f"{root.shown} is a file, not a directory; read shows it.")
        try:
            async with root.held() as held:
                names, total = await _listed(held, min(limit, MOST_LINES), signal)
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            raise ToolFailure(f"{root.shown} could not be listed: {reason}.") from error
        await root.still_there(context)
    found = Found([display_text(name) for name in names])
    if total > limit:
        found.details["entryLimitReached"] = limit
        found.notes.append(
            f"Only the first {limit} of {total} entries are shown. Use a larger limit, or find."
        )
    return found.result("(empty directory)")


async def _listed(folder: Path, limit: int, signal: AbortSignal) -> tuple[list[str], int]:
    """The first names in order, directories with a slash, and how many entries there are."""
    entries: Iterator[os.DirEntry[str]] = await run_blocking(os.scandir, folder)
    first: list[tuple[str, str, os.DirEntry[str]]] = []
    total = 0
    try:
        while read := await run_blocking(_read_some, entries):
            stop_if_aborted(signal)
            total += len(read)
            first = heapq.nsmallest(limit, itertools.chain(first, read))
    finally:
        with anyio.CancelScope(shield=True):
            await run_blocking(_close, entries)
    names: list[str] = []
    for start in range(0, len(first), _AT_ONCE):
        stop_if_aborted(signal)
        names += await run_blocking(_names, first[start : start + _AT_ONCE])
    return names, total


def _read_some(entries: Iterator[os.DirEntry[str]]) -> list[tuple[str, str, os.DirEntry[str]]]:
    # Names are unique within a directory, so entries themselves are never compared.
    return [
        (entry.name.lower(), entry.name, entry) for entry in itertools.islice(entries, _AT_ONCE)
    ]


def _close(entries: Any) -> None:
    entries.close()


def _names(entries: list[tuple[str, str, "os.DirEntry[str]"]]) -> list[str]:
    names = []
    for _, name, entry in entries:
        is_folder = False
        with suppress(OSError):  # a link that leads nowhere, or nowhere we may go
            is_folder = entry.is_dir()
        names.append(f"{name}/" if is_folder else name)
    return names


def _describe(params: Mapping[str, Any], context: ToolContext | None) -> ToolDescription:
    cwd = context.cwd if context else None
    where = params.get("path") or "."
    return ToolDescription(title=f"ls {title_path(where, cwd)}", locations=locations_of(where, cwd))
