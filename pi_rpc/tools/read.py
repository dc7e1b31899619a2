"""The ``read`` tool: text files in portions, images as models take them.

Owns what a model is shown of a file and the notes that tell it how to go on. Reads through the
``FileSystem`` port in pieces, so that memory stays small however large the file is. Images are
``_images``'.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pi_rpc.agent.ports import FileStat, FileSystem, OpenFile, PortError, ToolContext
from pi_rpc.agent.tool import (
    AgentTool,
    OnUpdate,
    Position,
    Range,
    ToolDescription,
    ToolFailure,
    ToolResult,
)
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.tools._freshness import DIGEST_LIMIT, ContentMark
from pi_rpc.tools._images import MAX_IMAGE_FILE, image_result
from pi_rpc.tools._line_count import skip_to_lines
from pi_rpc.tools._lines import LineWindow
from pi_rpc.tools._local_files import PIECE, LocalOpenFile
from pi_rpc.tools._paths import (
    display_text,
    locations_of,
    resolve_path,
    spellings_on_disk,
    title_path,
)
from pi_rpc.tools._sniff import binary_reason, image_type
from pi_rpc.tools._steps import port_failures, stop_if_aborted
from pi_rpc.tools._truncate import MAX_BYTES, MAX_LINES, Truncation, format_size, truncate_head

__all__ = ["read_tool"]

_SNIFF = 8192
_PIECE = PIECE
_COUNTED_BY_US = 4 * DIGEST_LIMIT
"""Bytes of a file up to which another program that counts its lines would not pay."""

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {
            "type": "string",
            "description": "The file, relative to the working directory or absolute",
        },
        "offset": {
            "type": "integer",
            "minimum": 0,
            "description": "First line to read; lines are counted from 1",
        },
        "limit": {"type": "integer", "minimum": 1, "description": "How many lines to read"},
    },
    "required": ["path"],
    "additionalProperties": False,
}


def read_tool() -> AgentTool:
    """The ``read`` tool. Details: ``{truncation?}``."""
    return AgentTool(
        name="read",
        label="Read",
        description=(
            "Read a file: text, or an image (png, jpeg, gif, webp). One call returns at most "
            f"{MAX_LINES} lines or {format_size(MAX_BYTES)} of text, whichever is met first, and "
            "says how to go on. Use offset and limit for a part of a large file; repeat with the "
            "next offset until you have seen what you need."
        ),
        parameters=_PARAMETERS,
        execute=_execute,
        kind="read",
        guarded=True,
        describe=_describe,
        snippet="Read text files and images",
        guidelines=("Look at files with read, not with cat or sed.",),
    )


async def _execute(
    tool_call_id: str,
    params: dict[str, Any],
    signal: AbortSignal,
    on_update: OnUpdate,
    context: ToolContext,
) -> ToolResult:
    del tool_call_id, on_update
    text = params["path"]
    first = max(params.get("offset") or 1, 1)
    with port_failures():
        path, stat = await _find(context.files, resolve_path(text, context.cwd))
        stop_if_aborted(signal)
        async with context.files.open(path) as file:
            head = await file.read(_SNIFF)
            image = image_type(head)
            if image is None:
                if (reason := binary_reason(head)) is not None:
                    raise ToolFailure(f"{display_text(text)} {reason}")
                window = LineWindow(first, params.get("limit"))
                content = ContentMark()
                await _read_lines(file, head, window, content, signal, size=stat.size)
                result = _text_result(display_text(text), path, window)
                real = await context.files.real_path(path)
                disk = None if file.document is None else file.document.disk
                context.seen.note(real, content.mark(stat), disk)
                return result
        return await _image_result(context, path, display_text(text), image, signal)


async def _find(files: FileSystem, path: Path) -> tuple[Path, FileStat]:
    """The path, or the first of its other spellings that exists where it does not."""
    try:
        return path, await files.stat(path)
    except PortError as error:
        if error.code != "not_found":
            raise
        for other in spellings_on_disk(path):
            try:
                return other, await files.stat(other)
            except PortError:  # the error of the spelling that was asked for says more
                continue
        raise


async def _read_lines(
    file: OpenFile,
    head: bytes,
    window: LineWindow,
    content: ContentMark,
    signal: AbortSignal,
    *,
    size: int,
) -> None:
    piece, read, is_counted_apart = head, 0, size < _COUNTED_BY_US
    while piece:
        stop_if_aborted(signal)
        window.feed(piece)
        content.feed(piece)
        read += len(piece)
        # What is large is known by size and time, so its lines need only be counted from here on.
        if (
            not is_counted_apart
            and read > DIGEST_LIMIT
            and isinstance(file, LocalOpenFile)
            and (window.needs_no_more or window.newlines < window.first - 1)
        ):
            is_counted_apart = True
            with signal.cancel_scope():
                if await skip_to_lines(file, read, window):
                    return
            stop_if_aborted(signal)
        piece = await file.read(_PIECE)


def _text_result(shown: str, path: Path, window: LineWindow) -> ToolResult:
    total, first = window.total_lines, window.first
    if total == 0 and first == 1:
        return ToolResult.of_text("[The file is empty.]")
    if first > total:
        raise ToolFailure(f"Offset {first} is past the end: {shown} has {_lines(total)}.")
    text = window.selected().decode("utf-8", "replace")
    if first == 1:
        text = text.removeprefix("\ufeff")
    cut = truncate_head(text)
    if not cut.truncated:
        left = total - (first + window.selected_lines - 1)
        if not left:
            return ToolResult.of_text(text)
        text = text.removesuffix("\n")
        note = f"[{_lines(left, 'more')} in the file. Use offset={total - left + 1} to go on.]"
        return ToolResult.of_text(f"{text}\n\n{note}")
    cut = replace(cut, total_lines=window.selected_lines, total_bytes=window.selected_bytes)
    note = _cut_note(cut, path, window)
    content = f"{cut.content}\n\n{note}" if cut.output_lines else note
    return ToolResult.of_text(content, details={"truncation": cut.details()})


def _cut_note(cut: Truncation, path: Path, window: LineWindow) -> str:
    first = window.first
    if cut.first_line_exceeds_limit:
        name = shlex.quote(display_text(str(path)))
        command = f"sed -n '{first}{{p;q;}}' {name} | head -c {cut.max_bytes}"
        return (
            f"[Line {first} is {format_size(window.first_line_bytes)}, more than the "
            f"{format_size(cut.max_bytes)} that can be shown. Its beginning: {command}]"
        )
    last = first + cut.output_lines - 1
    why = "" if cut.truncated_by == "lines" else f" ({format_size(cut.max_bytes)} limit)"
    return (
        f"[Showing lines {first}-{last} of {window.total_lines}{why}. "
        f"Use offset={last + 1} to go on.]"
    )


async def _image_result(
    context: ToolContext, path: Path, shown: str, mime_type: str, signal: AbortSignal
) -> ToolResult:
    try:
        content = await context.files.read(path, limit=MAX_IMAGE_FILE)
    except PortError as error:
        if error.code != "too_large":
            raise
        size = (await context.files.stat(path)).size
        return ToolResult.of_text(
            f"Image {shown} ({mime_type}, {format_size(size)}). It is too large to be shown "
            f"(at most {format_size(MAX_IMAGE_FILE)}); make a smaller copy and read that."
        )
    return await image_result(
        content, mime_type, shown, signal, seen_by_model=context.supports_images
    )


def _lines(count: int, more: str = "") -> str:
    return f"{count}{' ' + more if more else ''} line{'' if count == 1 else 's'}"


def _describe(params: Mapping[str, Any], context: ToolContext | None) -> ToolDescription:
    cwd = context.cwd if context else None
    offset, limit = _positive(params.get("offset")), _positive(params.get("limit"))
    title = f"read {title_path(params.get('path'), cwd)}"
    part = None
    if offset or limit:
        first = offset or 1
        last = first + limit - 1 if limit else None
        title += f":{first}-{last or ''}"
        start = Position(line=first - 1, character=0)
        # Without a limit the end is not known before the file is read: just where it begins.
        end = Position(line=last, character=0) if last else start
        part = Range(start=start, end=end)
    return ToolDescription(title=title, locations=locations_of(params.get("path"), cwd, part))


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
