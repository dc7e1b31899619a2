"""Where a search begins, and what its result says beside what was found.

Owns what ``grep``, ``find`` and ``ls`` have in common: the path argument, the limit, the notes at
the end. Does not own how anything is searched or listed.
"""

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from pi_rpc._os.places import held_place, open_at
from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.ports import FileStat, PortError, ToolContext
from pi_rpc.agent.tool import ToolFailure, ToolResult
from pi_rpc.tools._freshness import unsaved_names
from pi_rpc.tools._local_files import port_errors
from pi_rpc.tools._paths import display_text, resolve_path
from pi_rpc.tools._truncate import MAX_BYTES, Truncation, format_size, truncate_head

__all__ = [
    "MOST_LINES",
    "PATH_PARAMETER",
    "Found",
    "Root",
    "add_unsaved",
    "child_argument",
    "excluded_below",
    "find_root",
    "limit_of",
]

MOST_LINES = MAX_BYTES // 2
"""Lines beyond which a result has met the limit of bytes for certain."""

PATH_PARAMETER: dict[str, Any] = {
    "type": "string",
    "description": "Where to look, relative to the working directory or absolute; the working"
    " directory when left out",
}

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)

_MACHINE_FOLDERS = ("/proc", "/sys", "/dev")
"""Not files of anybody: searched only when asked for."""


class Root(Struct, frozen=True):
    """What the path argument names."""

    path: Path
    """As it was named."""
    real: Path
    """Where that leads: what is searched."""
    shown: str
    is_folder: bool

    @asynccontextmanager
    async def held(self) -> AsyncIterator[Path]:
        """A path to what is searched that cannot be made to lead elsewhere, for other processes.

        It is held by a descriptor where the system shows those to others; elsewhere it is the real
        path, and ``still_there`` has the last word. Raises ``PortError``.
        """
        path, fd = await run_blocking(self._hold)
        try:
            yield path
        finally:
            if fd is not None:
                os.close(fd)

    def _hold(self) -> tuple[Path, int | None]:
        with port_errors(self.real, exact=True), held_place(self.real) as place:
            if place.directory is None:
                return self.real, None
            fd = open_at(place, _FLAGS)
        held = Path(f"/proc/{os.getpid()}/fd/{fd}")
        return (held if held.exists() else self.real), fd

    async def still_there(self, context: ToolContext) -> None:
        """Fail if the path leads elsewhere by now: what was found may be from there."""
        if await context.files.real_path(self.path) != self.real:
            raise PortError(
                "not_permitted",
                f"{self.shown} was made to lead elsewhere while it was looked at, so nothing of it "
                "is shown.",
            )


class Found(Struct):
    """Lines for the model, and what is to be said about them."""

    lines: list[str]
    notes: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def result(self, nothing: str) -> ToolResult:
        """The tool's result; ``nothing`` takes the place of no lines at all."""
        cut = truncate_head("\n".join(self.lines), max_lines=MOST_LINES)
        content = cut.content if self.lines else nothing
        if cut.truncated:
            self.notes.append(_cut_note(cut))
            self.details["truncation"] = cut.details()
        if self.notes:
            content = f"{content}\n\n[{' '.join(self.notes)}]"
        return ToolResult.of_text(content, details=self.details)


def _cut_note(cut: Truncation) -> str:
    return (
        f"Only the first {cut.output_lines} lines are shown ({format_size(cut.max_bytes)} limit)."
    )


async def find_root(text: Any, context: ToolContext) -> Root:
    """The file or directory that a path argument names, followed through links.

    Raises ``PortError`` where there is none, and ``ToolFailure`` where it is neither, such as a
    device or a pipe, which are never opened.
    """
    path = resolve_path(text or ".", context.cwd)
    real = await context.files.real_path(path)
    stat: FileStat = await context.files.stat(real, exact=True)
    shown = display_text(text or ".")
    if stat.kind == "other":
        raise ToolFailure(
            f"{shown} is neither a file nor a directory (a device, a pipe or a socket).",
            {"code": "not_regular"},
        )
    return Root(path, real, shown, stat.kind == "directory")


async def add_unsaved(found: Found, root: Root, context: ToolContext) -> None:
    """Name what an editor has not saved below ``root``: the disk was searched."""
    if unsaved := await context.files.unsaved(root.real):
        names = unsaved_names(unsaved, context.cwd)
        found.notes.append(f"Not saved in the editor, so the older file on disk counts: {names}.")


def child_argument(name: str) -> str:
    """A path below the directory a program runs in, as an argument that is no option."""
    return f"./{name}"


def excluded_below(root: Root) -> Iterable[str]:
    """Options of ripgrep that keep a search of the whole machine out of what is no file."""
    if root.real != Path("/"):
        return ()
    return [f"--glob=!{folder}" for folder in _MACHINE_FOLDERS]


def limit_of(params: dict[str, Any], default: int) -> int:
    """The ``limit`` argument, at least 1."""
    return max(int(params.get("limit") or default), 1)
