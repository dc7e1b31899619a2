"""Where a search begins, and what its result says beside what was found.

Owns what ``grep``, ``find`` and ``ls`` have in common: the path argument, the limit, the notes at
the end. Does not own how anything is searched or listed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pi_rpc.agent.ports import FileStat, ToolContext
from pi_rpc.agent.tool import ToolFailure, ToolResult
from pi_rpc.tools._paths import display_text, resolve_path
from pi_rpc.tools._truncate import MAX_BYTES, Truncation, format_size, truncate_head

__all__ = [
    "MOST_LINES",
    "PATH_PARAMETER",
    "Found",
    "Root",
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

_MACHINE_FOLDERS = ("/proc", "/sys", "/dev")
"""Not files of anybody: searched only when asked for."""


@dataclass(frozen=True, slots=True)
class Root:
    """What the path argument names."""

    path: Path
    shown: str
    is_folder: bool


@dataclass(slots=True)
class Found:
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
    stat: FileStat = await context.files.stat(path)
    shown = display_text(text or ".")
    if stat.kind == "other":
        raise ToolFailure(
            f"{shown} is neither a file nor a directory (a device, a pipe or a socket).",
            {"code": "not_regular"},
        )
    return Root(path, shown, stat.kind == "directory")


def child_argument(name: str) -> str:
    """A path below the directory a program runs in, as an argument that is no option."""
    return f"./{name}"


def excluded_below(root: Path) -> Iterable[str]:
    """Options of ripgrep that keep a search of the whole machine out of what is no file."""
    if root != Path("/"):
        return ()
    return [f"--glob=!{folder}" for folder in _MACHINE_FOLDERS]


def limit_of(params: dict[str, Any], default: int) -> int:
    """The ``limit`` argument, at least 1."""
    return max(int(params.get("limit") or default), 1)
