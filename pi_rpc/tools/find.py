"""The ``find`` tool: files and directories by their names.

Owns its arguments and which of the files that there are it shows. Ripgrep lists them, so that
ignore files are honoured; directories are those that some file is below.
"""

from collections.abc import Mapping
from typing import Any

from pi_rpc.agent.ports import ToolContext
from pi_rpc.agent.tool import (
    AgentTool,
    OnUpdate,
    ToolDescription,
    ToolFailure,
    ToolResult,
)
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.tools._globs import Glob, GlobError
from pi_rpc.tools._paths import display_text, locations_of, title_path
from pi_rpc.tools._ripgrep import RipgrepEnd, run_ripgrep
from pi_rpc.tools._search_roots import (
    PATH_PARAMETER,
    Found,
    add_unsaved,
    excluded_below,
    find_root,
    limit_of,
)
from pi_rpc.tools._steps import encoded, port_failures
from pi_rpc.tools._truncate import MAX_BYTES, format_size

__all__ = ["find_tool"]

_LIMIT = 1000
_MOST_PATTERN = 4096
_MAX_TITLE = 80

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "pattern": {
            "type": "string",
            "description": "A glob such as *.py, test_* or src/**/*.{ts,tsx}. Without a slash it is"
            " about names in any directory, with one about the path below the directory searched",
        },
        "path": PATH_PARAMETER,
        "limit": {
            "type": "integer",
            "minimum": 1,
            "description": f"The most paths to show; {_LIMIT} when left out",
        },
    },
    "required": ["pattern"],
    "additionalProperties": False,
}


def find_tool() -> AgentTool:
    """The ``find`` tool. Details: ``{truncation?, resultLimitReached?}``."""
    return AgentTool(
        name="find",
        label="Find",
        description=(
            "Find files and directories by name with a glob. Returns paths relative to the "
            f"directory that was searched, directories with a slash at their end; at most {_LIMIT} "
            f"or {format_size(MAX_BYTES)}. Hidden files count; what ignore files such as "
            ".gitignore exclude does not. A pattern in lower case matches upper case as well."
        ),
        parameters=_PARAMETERS,
        execute=_execute,
        kind="read",
        guarded=True,
        describe=_describe,
        snippet="Find files by name",
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
    with port_failures():
        root = await find_root(params.get("path"), context)
        if not root.is_folder:
            raise ToolFailure(f"{root.shown} is a file; find looks for files below a directory.")
        names = _Names(_glob(params["pattern"], str(root.path)), limit_of(params, _LIMIT))
        async with root.held() as held:
            end = await run_ripgrep(
                ["--files", "--null", *excluded_below(root), "--", "./"],
                cwd=held,
                on_output=names.feed,
                signal=signal,
            )
        await root.still_there(context)
        found = names.found(end)
        await add_unsaved(found, root, context)
    return found.result("No files found matching pattern")


def _glob(pattern: str, root: str) -> Glob:
    """The pattern, relative to ``root``. Raises ``ToolFailure``."""
    encoded(pattern, "The pattern")
    shown = display_text(pattern[:_MAX_TITLE])
    if len(pattern) > _MOST_PATTERN:
        raise ToolFailure(f"The pattern is longer than {_MOST_PATTERN} characters.")
    if "\0" in pattern:
        raise ToolFailure(f"The pattern {shown} contains a NUL character, which no name has.")
    if pattern.startswith(f"{root.rstrip('/')}/"):
        pattern = pattern[len(root.rstrip("/")) + 1 :]
    if ".." in pattern.split("/"):
        raise ToolFailure(f"The pattern {shown} leads out of the directory; use path for that.")
    if not pattern.strip("/."):
        raise ToolFailure("The pattern names nothing; use * for every file.")
    try:
        return Glob(pattern, smart_case=True)
    except GlobError as error:
        raise ToolFailure(f"The pattern {shown} is not valid: {error}.") from None


class _Names:
    """What matches of the names that come in, up to the limits."""

    def __init__(self, glob: Glob, limit: int) -> None:
        self._glob = glob
        self._limit = limit
        self._rest = b""
        self._folders: set[str] = set()
        self._found: list[str] = []
        self._bytes = 0
        self._more = False

    def feed(self, piece: bytes) -> bool:
        """Take names, each with a NUL behind it; False when that is enough."""
        whole, _, rest = piece.rpartition(b"\0")
        if not whole:
            self._rest += rest
            return True
        text = (self._rest + whole).decode("utf-8", "surrogateescape")
        self._rest = rest
        folded = text.lower() if self._glob.fold else text
        if any(literal not in folded for literal in self._glob.literals):
            return True
        if folded is text:
            names = self._candidates(text.split("\0"))
            return all(self._take(name, name) for name in names)
        pairs = zip(text.split("\0"), folded.split("\0"), strict=True)
        literals = self._glob.literals
        return all(
            self._take(name, lower)
            for name, lower in pairs
            if all(literal in lower for literal in literals)
        )

    def _candidates(self, names: list[str]) -> list[str]:
        for literal in self._glob.literals:
            names = [name for name in names if literal in name]
        return names

    def _take(self, name: str, folded: str) -> bool:
        """One file; ``folded`` is what is matched. False when there are enough."""
        slash = name.rfind("/")
        while slash > 1 and (folder := name[:slash]) not in self._folders:
            self._folders.add(folder)
            if self._glob.matches_folder(folded[2:slash]) and not self._add(folder[2:] + "/"):
                return False
            slash = name.rfind("/", 0, slash)
        return not self._glob.matches_file(folded[2:]) or self._add(name[2:])

    def _add(self, name: str) -> bool:
        if len(self._found) == self._limit:
            self._more = True
            return False
        shown = display_text(name)
        self._found.append(shown)
        self._bytes += len(shown.encode()) + 1
        return self._bytes <= MAX_BYTES + 1

    def found(self, end: RipgrepEnd) -> Found:
        """All of it, in order, and the notes."""
        found = Found(sorted(self._found))
        if self._more:
            found.details["resultLimitReached"] = self._limit
            found.notes.append(
                f"Only {_paths(self._limit)} shown and there are more. Use "
                f"limit={self._limit * 2}, or a narrower pattern or path."
            )
        found.notes += end.notes()
        return found


def _paths(count: int) -> str:
    return "1 path is" if count == 1 else f"{count} paths are"


def _describe(params: Mapping[str, Any], context: ToolContext | None) -> ToolDescription:
    cwd = context.cwd if context else None
    where = params.get("path") or "."
    pattern = display_text(str(params.get("pattern", "?")))[:_MAX_TITLE]
    title = f"find {pattern} in {title_path(where, cwd)}"
    return ToolDescription(title=title, locations=locations_of(where, cwd))
