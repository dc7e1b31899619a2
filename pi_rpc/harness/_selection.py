"""Which files a search takes: ignore files, and the lists of paths in settings.

Owns the patterns of both. Does not walk any folder."""

import os
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from pi_rpc.harness._texts import TooLargeError, read_text

__all__ = ["IGNORE_FILE_NAMES", "IgnoreRules", "Selection"]

IGNORE_FILE_NAMES = (".gitignore", ".ignore", ".fdignore")


class _Rule(Struct, frozen=True):
    path: re.Pattern[str]
    negated: bool
    folders_only: bool


class IgnoreRules(Struct, frozen=True):
    """The ignore files met on the way down; the last rule that fits a path decides.

    The patterns are git's: ``*``, ``?``, ``[…]``, ``**``, a leading ``/`` or one in the middle
    that ties a pattern to its folder, a trailing ``/`` for folders, ``!`` and ``\\``.
    """

    rules: tuple[_Rule, ...] = ()

    def within(self, folder: Path, prefix: str) -> "IgnoreRules":
        """These rules and those of ``folder``, whose path below the root of the walk is ``prefix``.

        ``prefix`` is empty or ends in a slash. An ignore file that cannot be read, or is
        far too large, says nothing.
        """
        more: list[_Rule] = []
        for name in IGNORE_FILE_NAMES:
            path = folder / name
            if os.path.isfile(path):  # noqa: PTH113 -- never raises
                try:
                    text = read_text(path)
                except (OSError, TooLargeError):
                    continue
                more += _rules(text.split("\n"), prefix)
        return IgnoreRules((*self.rules, *more)) if more else self

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """``path``, below the root of the walk and with slashes, is left out."""
        for rule in reversed(self.rules):
            if (is_folder or not rule.folders_only) and rule.path.fullmatch(path):
                return not rule.negated
        return False


def _rules(lines: Iterable[str], prefix: str) -> Iterable[_Rule]:
    for written in lines:
        line = re.sub(r"(?<!\\) +$", "", written)
        if not line or line.startswith("#"):
            continue
        negated = line.startswith("!")
        pattern = line[1:] if negated else line
        folders_only = pattern.endswith("/")
        pattern = pattern.rstrip("/") if folders_only else pattern
        if pattern.strip("/"):
            where = "" if "/" in pattern else "(?:.*/)?"
            text = re.escape(prefix) + where + _as_regex(pattern.removeprefix("/"))
            try:
                yield _Rule(re.compile(text, re.DOTALL), negated, folders_only)
            except re.error:  # such as the range [z-a], which fits nothing
                continue


_PIECE = re.compile(
    r"\\(?P<escaped>.)|(?P<any>(?:^|(?<=/))\*\*/)|(?P<rest>(?:^|(?<=/))\*\*$)|(?P<some>\*+)"
    r"|(?P<one>\?)|\[(?P<not>[!^]?)(?P<set>\]?[^\]]*)\]|(?P<plain>.)",
    re.DOTALL,
)


def _as_regex(pattern: str) -> str:
    """A glob as a regular expression; ``*`` and ``?`` never stand for a slash.

    What lies between two stars is looked for once, at the first place where it fits: if the rest
    fits behind any later one, it does behind that. Trying them all would take for ever.
    """
    sections = [[[""]]]
    """What lies between ``**/`` and the next; in it, between slashes; and there, between stars."""
    for piece in _PIECE.finditer(pattern):
        segments = sections[-1]
        if piece["any"]:
            sections.append([[""]])
        elif piece["some"]:
            segments[-1].append("")
        elif piece["plain"] == "/":
            segments.append([""])
        else:
            segments[-1][-1] += _one(piece)
    first, *more = ("/".join(map(_segment, segments)) for segments in sections)
    if not more:
        return first
    between = "".join(f"(?>(?:.*?/)??{section})" for section in more[:-1])
    return f"{first}{between}(?:.*/)?{more[-1]}"


def _segment(between_stars: list[str]) -> str:
    first, *more = between_stars
    if not more:
        return first
    return first + "".join(f"(?>[^/]*?{each})" for each in more[:-1]) + "[^/]*" + more[-1]


def _one(piece: re.Match[str]) -> str:
    if piece["rest"]:
        return ".+"
    if piece["one"]:
        return "[^/]"
    if piece["set"]:
        # Only a range's dash is special to git; Python knows more, and warns of what it may.
        inside = re.sub(r"[^\w-]", lambda each: f"\\{each[0]}", piece["set"])
        return f"[{'^/' if piece['not'] else ''}{inside.replace('--', '-')}]"
    return re.escape(piece["escaped"] or piece["plain"] or "")


@cache
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(_as_regex(pattern), re.DOTALL)


class Selection(Struct, frozen=True):
    """One list of paths as in settings: ``skills`` or ``prompts``.

    A plain entry adds a file or folder. ``!pattern`` leaves out what fits, ``+path`` takes exactly
    that in again and ``-path`` leaves exactly that out; all three also hold for what is found in
    the usual folders of the same scope.
    """

    entries: Sequence[str]
    base: Path
    """What relative paths start from: the folder of the settings file."""

    def paths(self) -> list[Path]:
        """The files and folders that are added; they need not exist."""
        return [self._path(entry) for entry in self.entries if entry and entry[0] not in "!+-"]

    def allows(self, path: Path) -> bool:
        """``path``, a file that was found, is not left out."""
        allowed = True
        names = {str(path), path.name, os.path.relpath(path, self.base)}
        if path.name == "SKILL.md":  # a skill is meant by its folder too
            folder = path.parent
            names |= {str(folder), folder.name, os.path.relpath(folder, self.base)}
        for sign, verdict in (("!", False), ("+", True), ("-", False)):
            for entry in self.entries:
                if entry.startswith(sign) and self._means(entry[1:], names, exact=sign != "!"):
                    allowed = verdict
        return allowed

    def _means(self, entry: str, names: set[str], *, exact: bool) -> bool:
        if exact:
            return str(self._path(entry)) in names
        pattern = entry.removeprefix("./")
        try:
            return any(_glob(pattern).fullmatch(name.replace(os.sep, "/")) for name in names)
        except re.error:
            return False

    def _path(self, entry: str) -> Path:
        named = Path(entry.strip())
        try:
            named = named.expanduser()
        except RuntimeError:  # ~name of a user that does not exist
            return self.base / entry
        return Path(os.path.normpath(self.base / named))
