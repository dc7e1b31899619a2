"""Glob patterns over relative paths, matched in time that grows with the path and not with luck.

Owns the syntax: ``*`` and ``?`` within a name, ``**`` over any number of directories, ``[a-z]``,
``[!a-z]``, ``{one,two}`` and ``\\`` before what is to be taken literally. Does not own which paths
there are.

Every part between two stars is found as early as it can be and never looked for again (an atomic
group): that is enough for globs, and what keeps patterns with many stars from taking for ever.
"""

import itertools
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

__all__ = ["Glob", "GlobError", "expand_braces", "split_literal_folder"]

_MOST_ALTERNATIVES = 500
_MAGIC = re.compile(r"[*?\[\]{}\\]")


class GlobError(ValueError):
    """The pattern cannot be understood; the text says why."""


class Glob:
    """A pattern, ready to match.

    Without a slash it is about a name in any directory; with one it is about the whole relative
    path. One that ends in a slash matches directories only. A pattern without capitals matches
    them as well if ``smart_case``. Raises ``GlobError``.
    """

    def __init__(self, pattern: str, *, smart_case: bool = False) -> None:
        self.fold = smart_case and pattern == pattern.lower()
        """Paths are to be given in lower case."""
        alternatives = expand_braces(pattern)
        self._files = _any_of(_regex(each) for each in alternatives if not each.endswith("/"))
        self._folders = _any_of(_regex(each.rstrip("/")) for each in alternatives)
        self.literals: list[str] = _literals(alternatives[0]) if len(alternatives) == 1 else []
        """Texts that every path that matches contains, the longest first."""

    def matches_file(self, path: str) -> bool:
        """Whether the relative path of a file matches."""
        return self._files is not None and self._files.match(path) is not None

    def matches_folder(self, path: str) -> bool:
        """Whether the relative path of a directory, without a slash at its end, matches."""
        return self._folders is not None and self._folders.match(path) is not None


def expand_braces(pattern: str) -> list[str]:
    """The patterns that a pattern with ``{one,two}`` stands for. Raises ``GlobError``."""
    if "{" not in pattern:
        return [pattern]
    found: list[str] = []
    waiting = [pattern]
    while waiting:
        each = waiting.pop()
        brace = _first_brace(each)
        if brace is None:
            found.append(each)
        else:
            waiting += [each[: brace.start] + one + each[brace.end :] for one in brace.choices]
        if len(found) + len(waiting) > _MOST_ALTERNATIVES:
            raise GlobError(f"it stands for more than {_MOST_ALTERNATIVES} patterns")
    return list(dict.fromkeys(reversed(found)))


def split_literal_folder(pattern: str) -> tuple[str, str]:
    """The directory that every path that matches is in, ``""`` or ``a/b/``, and the rest."""
    *folders, name = pattern.split("/")
    literal: list[str] = []
    for folder in folders:
        if not folder or folder in {".", ".."} or _MAGIC.search(folder):
            break
        literal.append(folder)
    rest = "/".join([*folders[len(literal) :], name])
    return "".join(f"{folder}/" for folder in literal), rest


class _Brace(Struct, frozen=True):
    start: int
    end: int
    choices: Sequence[str]


def _first_brace(pattern: str) -> _Brace | None:
    """The first innermost pair of braces; None where there is none, or it is not closed."""
    start = -1
    commas: list[int] = []
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if char == "\\":
            index += 1
        elif char == "{":
            start, commas = index, []
        elif char == "," and start >= 0:
            commas.append(index)
        elif char == "}" and start >= 0:
            bounds = [start, *commas, index]
            choices = [pattern[one + 1 : two] for one, two in itertools.pairwise(bounds)]
            return _Brace(start, index + 1, choices)
        index += 1
    return None


def _any_of(regexes: Iterable[str]) -> re.Pattern[str] | None:
    parts = list(regexes)
    return re.compile("|".join(parts)) if parts else None


def _regex(pattern: str) -> str:
    """One regular expression for a pattern without braces."""
    whole = "/" in pattern
    segments = [each for each in pattern.split("/") if each not in {"", "."}]
    if not whole:
        return rf"(?:[^/]*/)*{_name(segments[0])}\Z" if segments else r"(?!)"
    # Runs of names between the `**`s; each is found as early as it can be.
    runs: list[list[str]] = [[]]
    for segment in segments:
        if segment != "**":
            runs[-1].append(_name(segment))
        elif runs[-1] or len(runs) == 1:
            runs.append([])
    first, *others = runs
    if not others:
        return "/".join(first) + r"\Z" if first else r"(?!)"
    regex = "".join(f"{name}/" for name in first)
    *middle, last = others
    for run in middle:
        regex += "(?>(?:[^/]*/)*?" + "".join(f"{name}/" for name in run) + ")"
    return regex + (r"(?:[^/]*/)*" + "/".join(last) + r"\Z" if last else r"(?s:.+)\Z")


def _name(segment: str) -> str:
    """A regular expression for one name."""
    parts = _between_stars(segment)
    first, *others = parts
    if not others:
        return first
    *middle, last = others
    found = "".join(f"(?>[^/]*?{part})" for part in middle if part)
    return f"{first}{found}[^/]*{last}(?![^/])" if last else f"{first}{found}[^/]*"


def _between_stars(segment: str) -> list[str]:
    parts = [""]
    index = 0
    while index < len(segment):
        char = segment[index]
        index += 1
        if char == "*":
            parts.append("")
        elif char == "?":
            parts[-1] += "[^/]"
        elif char == "[" and (end := _end_of_class(segment, index)) >= 0:
            parts[-1] += _character_class(segment[index:end])
            index = end + 1
        else:
            if char == "\\" and index < len(segment):
                char = segment[index]
                index += 1
            parts[-1] += re.escape(char)
    return parts


def _end_of_class(segment: str, start: int) -> int:
    if segment[start : start + 1] in {"!", "^"}:
        start += 1
    return segment.find("]", start + 1)


def _character_class(inside: str) -> str:
    negated = inside[0] in "!^"
    members = inside[1:] if negated else inside
    regex = ""
    index = 0
    while index < len(members):
        first = members[index]
        if index + 2 < len(members) and members[index + 1] == "-":
            last = members[index + 2]
            if first > last:
                raise GlobError(f"the range {first}-{last} goes backwards")
            regex += f"{re.escape(first)}-{re.escape(last)}"
            index += 3
        else:
            regex += re.escape(first)
            index += 1
    return f"(?![/])[^{regex}]" if negated else f"(?![/])[{regex}]"


def _literals(pattern: str) -> list[str]:
    if "\\" in pattern:
        return []
    plain = re.sub(r"\[[!^]?.[^\]]*\]|[*?]", "/", pattern)
    return sorted({part for part in plain.split("/") if part not in {"", "."}}, key=len)[::-1]
