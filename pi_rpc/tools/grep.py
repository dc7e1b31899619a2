"""The ``grep`` tool: lines that match a pattern, in a file or below a directory.

Owns its arguments, which lines are shown and how. What matches is ripgrep's to say
(``pi_rpc.tools._ripgrep``). Results are collected only until they meet a limit; then ripgrep is
ended, however much it has left to search.
"""

import re
from collections.abc import Mapping
from pathlib import Path
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
from pi_rpc.tools._globs import Glob, GlobError, expand_braces, split_literal_folder
from pi_rpc.tools._grep_events import Event, EventReader
from pi_rpc.tools._paths import display_text, locations_of, title_path
from pi_rpc.tools._ripgrep import RipgrepEnd, run_ripgrep
from pi_rpc.tools._search_roots import (
    MOST_LINES,
    PATH_PARAMETER,
    Found,
    Root,
    add_unsaved,
    child_argument,
    excluded_below,
    find_root,
    limit_of,
)
from pi_rpc.tools._steps import encoded, port_failures
from pi_rpc.tools._truncate import MAX_BYTES, format_size

__all__ = ["grep_tool"]

_LIMIT = 100
_MOST_CONTEXT = 200
_LINE_CHARACTERS = 500
_BEFORE_MATCH = 100
"""How much is shown before a match that is far to the right in its line."""
_MOST_PATTERN = 50_000
_MAX_TITLE = 80

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "pattern": {
            "type": "string",
            "description": "A regular expression (Rust syntax), or plain text with literal; it is"
            " looked for in each line by itself",
        },
        "path": PATH_PARAMETER,
        "glob": {
            "type": "string",
            "description": "Only files that match, such as *.py, src/**/*.{ts,tsx} or !*.min.js",
        },
        "ignoreCase": {"type": "boolean", "description": "Upper and lower case are the same"},
        "literal": {"type": "boolean", "description": "The pattern is plain text"},
        "context": {
            "type": "integer",
            "minimum": 0,
            "description": "Lines to show before and after each match",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "description": f"The most matches to show; {_LIMIT} when left out",
        },
    },
    "required": ["pattern"],
    "additionalProperties": False,
}


def grep_tool() -> AgentTool:
    """The ``grep`` tool. Details: ``{truncation?, matchLimitReached?, linesTruncated?}``."""
    return AgentTool(
        name="grep",
        label="Grep",
        description=(
            "Search the contents of files for a pattern. Returns lines as path:number: text, "
            "lines of context as path-number- text, with paths relative to the directory that was "
            f"searched. At most {_LIMIT} matches or {format_size(MAX_BYTES)}; lines longer than "
            f"{_LINE_CHARACTERS} characters are cut. Files that ignore files such as .gitignore "
            "exclude are not searched, nor binary files; hidden files are."
        ),
        parameters=_PARAMETERS,
        execute=_execute,
        kind="read",
        guarded=True,
        describe=_describe,
        snippet="Search the contents of files for a pattern",
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
    pattern = _checked(params["pattern"], "The pattern")
    glob = _Files(_checked(params["glob"], "The glob")) if params.get("glob") else None
    with port_failures():
        root = await find_root(params.get("path"), context)
        limit = limit_of(params, _LIMIT)
        matches = _Matches(root, glob, limit)
        async with root.held() as held:
            end = await run_ripgrep(
                _arguments(params, pattern, root, glob, limit) + _places(root, held, glob),
                cwd=held if root.is_folder else Path(held.anchor),
                on_output=matches.feed,
                signal=signal,
            )
        await root.still_there(context)
        await matches.leave_out(context)
    if end.outcome == "finished" and end.exit_code not in {0, 1} and not matches.complete:
        raise ToolFailure(_reason(end))
    found = matches.found(end)
    await add_unsaved(found, root, context)
    return found.result("No matches found")


def _checked(text: str, name: str) -> str:
    encoded(text, name)
    if "\0" in text:
        raise ToolFailure(f"{name} contains a NUL character, which no text file has.")
    if "\n" in text:
        raise ToolFailure(
            f"{name} contains a newline. Lines are searched one by one: look for one of them, "
            "with context to see those around it."
        )
    if len(text) > _MOST_PATTERN:
        raise ToolFailure(f"{name} is longer than {_MOST_PATTERN} characters.")
    return text


def _arguments(
    params: dict[str, Any], pattern: str, root: Root, glob: "_Files | None", limit: int
) -> list[str]:
    # One more than wanted, to know whether there are more. Of a file with many matches ripgrep
    # holds all of them in memory before it writes the first.
    arguments = ["--json", f"--max-count={min(limit, MOST_LINES) + 1}"]
    if params.get("ignoreCase"):
        arguments.append("--ignore-case")
    if params.get("literal"):
        arguments.append("--fixed-strings")
    if context := min(params.get("context") or 0, _MOST_CONTEXT):
        arguments.append(f"--context={context}")
    if root.is_folder:
        arguments += excluded_below(root)
        if glob is not None:
            arguments += glob.arguments
    return [*arguments, f"--regexp={pattern}"]


def _places(root: Root, held: Path, glob: "_Files | None") -> list[str]:
    """What is searched, as the last arguments."""
    if not root.is_folder:
        return ["--", str(held)]
    return ["--", child_argument("" if glob is None else glob.folder)]


class _Files:
    """The ``glob`` argument.

    Ripgrep's own ``--glob`` brings back files that ignore files exclude. So names are given to it
    as a file type, which does not, and patterns of whole paths are matched here.
    """

    def __init__(self, glob: str) -> None:
        self.folder = ""
        self.arguments: list[str] = []
        self._paths: Glob | None = None
        if glob.startswith("!"):
            self.arguments = [f"--glob={glob}"]
            return
        glob = re.sub(r"^(\./|/)+", "", glob)
        try:
            whole = Glob(glob)
            names = [each.rpartition("/")[2] for each in expand_braces(glob)]
        except GlobError as error:
            raise ToolFailure(f"The glob {display_text(glob)} is not valid: {error}.") from None
        if "/" in glob:
            self._paths = whole
            self.folder = split_literal_folder(glob)[0]
        if all(name not in {"", "*", "**"} for name in names):
            self.arguments = [f"--type-add=wanted:{name}" for name in names] + ["--type=wanted"]

    def has(self, path: str) -> bool:
        """Whether the file with this relative path is wanted."""
        return self._paths is None or self._paths.matches_file(path)


class _Matches:
    """What was found so far."""

    def __init__(self, root: Root, glob: _Files | None, limit: int) -> None:
        self.complete = False
        """Ripgrep has said that it is done."""
        self._root = root
        self._glob = glob
        self._limit = limit
        self._reader = EventReader()
        self._files: list[tuple[str, list[str]]] = []
        self._left_out = 0
        self._count = 0
        self._bytes = 0
        self._wanted = True
        self._more = False
        self._cut_lines = False

    def feed(self, piece: bytes) -> bool:
        """Take what ripgrep writes; False when that is enough."""
        return all(self._take(event) for event in self._reader.feed(piece))

    def _take(self, event: Event) -> bool:
        data = event.data
        if event.type == "begin" and data.path is not None:
            path = self._root.real.name
            if self._root.is_folder:
                path = data.path.decoded("surrogateescape").removeprefix("./")
            self._wanted = self._glob is None or self._glob.has(path)
            if self._wanted:
                self._files.append((path, []))
        elif event.type in {"match", "context"} and self._wanted:
            return self._add(event)
        elif event.type == "summary":
            self.complete = True
        return True

    def _add(self, event: Event) -> bool:
        is_match = event.type == "match"
        if is_match and self._count == self._limit:
            self._more = True
            return False
        self._count += is_match
        data = event.data
        text = data.lines.decoded("replace") if data.lines is not None else ""
        start = data.submatches[0].start if data.submatches else 0
        path, lines = self._files[-1]
        mark = ":" if is_match else "-"
        place = f"{display_text(path)}{mark}{data.line_number}{mark}"
        line = f"{place} {self._shown(text.rstrip(), start)}"
        lines.append(line)
        self._bytes += len(line.encode()) + 1
        return self._bytes <= MAX_BYTES + 1

    def _shown(self, text: str, match_start: int) -> str:
        """A line, or the part of it with the match; ``match_start`` counts bytes."""
        if len(text) <= _LINE_CHARACTERS:
            return text
        self._cut_lines = True
        start = len(text.encode()[:match_start].decode("utf-8", "ignore"))
        if start <= _LINE_CHARACTERS - _BEFORE_MATCH:
            return f"{text[:_LINE_CHARACTERS]}…"
        start = min(start - _BEFORE_MATCH, len(text) - _LINE_CHARACTERS)
        end = start + _LINE_CHARACTERS
        return f"…{text[start:end]}{'…' if end < len(text) else ''}"

    async def leave_out(self, context: ToolContext) -> None:
        """Drop what was found in files that may not be read."""
        folder = self._root.real if self._root.is_folder else self._root.real.parent
        may_read = context.files.may_read
        readable = [each for each in self._files if await may_read(folder / each[0])]
        self._left_out = len(self._files) - len(readable)
        self._files = readable

    def found(self, end: RipgrepEnd) -> Found:
        """All of it, with files in order, and the notes."""
        files = sorted((display_text(path), lines) for path, lines in self._files)
        found = Found([line for _, lines in files for line in lines])
        if self._left_out:
            what = "1 file" if self._left_out == 1 else f"{self._left_out} files"
            found.notes.append(f"{what} with matches may not be read, and nothing of it is shown.")
        if self._more:
            found.details["matchLimitReached"] = self._limit
            found.notes.append(
                f"Only {_matches(self._limit)} shown and there are more. Use "
                f"limit={self._limit * 2}, or a narrower pattern, path or glob."
            )
        if self._cut_lines:
            found.details["linesTruncated"] = True
            found.notes.append(
                f"Lines longer than {_LINE_CHARACTERS} characters are cut; read shows them whole."
            )
        found.notes += end.notes()
        return found


def _matches(count: int) -> str:
    return "1 match is" if count == 1 else f"{count} matches are"


def _reason(end: RipgrepEnd) -> str:
    """Why ripgrep refused, without its advice on options that the model cannot give."""
    text = end.errors.strip().removeprefix("rg: ")
    text = text.partition("\n\nConsider ")[0]
    if "is not allowed in a regex" in text:
        text = "a pattern cannot match across lines; look for one of them, with context"
    elif "impossible to match" in text:
        text = "text files contain no NUL character"
    elif text.startswith("regex parse error"):
        text += "\nUse literal to search for plain text."
    return f"The search was refused: {text or 'ripgrep ended without saying why'}"


def _describe(params: Mapping[str, Any], context: ToolContext | None) -> ToolDescription:
    cwd = context.cwd if context else None
    pattern = display_text(str(params.get("pattern", "?")))
    if len(pattern) > _MAX_TITLE:
        pattern = pattern[: _MAX_TITLE - 1] + "…"
    where = params.get("path") or "."
    title = f"grep {pattern} in {title_path(where, cwd)}"
    if glob := params.get("glob"):
        title += f" ({display_text(str(glob))[:_MAX_TITLE]})"
    return ToolDescription(title=title, locations=locations_of(where, cwd))
