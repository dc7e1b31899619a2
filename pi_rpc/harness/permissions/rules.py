"""Rules: what a person allowed, wants to be asked about, or denied, once and for all.

Owns how a rule is written, ``bash(git status*)`` or ``edit(src/**)``, what it matches and how it
reads to people. Does not own which rule wins (``pi_rpc.harness.permissions.decision``), nor what a
command's words or a file's real path are.
"""

import os
import re
import shlex
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = [
    "Rule",
    "RuleEffect",
    "RuleError",
    "RuleSet",
    "command_rule",
    "command_text",
    "folded",
    "has_shape",
    "parse_rule",
    "path_rule",
    "read_rules",
]

RuleEffect: TypeAlias = Literal["allow", "ask", "deny"]

EVERY_TOOL = "*"
_COMMAND_TOOL = "bash"
_WRITTEN = re.compile(r"([A-Za-z0-9_.:-]+|\*)\s*(?:\((.*)\))?\s*\Z", re.DOTALL)
_TOOL_AT_FRONT = re.compile(r"[A-Za-z0-9_.:-]+")
_UNFIT = re.compile("[\0\ud800-\udfff]")


class RuleError(ValueError):
    """A rule that cannot be read; the text says why, for people."""


class Rule(Struct, frozen=True):
    """One rule."""

    effect: RuleEffect
    tool: str
    """A tool's name; ``read`` and ``edit`` mean every tool of that kind, ``*`` every tool."""
    pattern: str | None = None
    """What of the tool's calls: commands for bash, paths for tools that touch files; None: all."""
    fault: str = ""
    """Why what was written could not be read; the rule then stands in for it, and is stricter."""

    @property
    def text(self) -> str:
        """The rule as it is written in settings."""
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    @property
    def words(self) -> str:
        """What it matches, for people: ``commands like `git status *```."""
        if self.pattern is None:
            return "every tool" if self.tool == EVERY_TOOL else f"every use of {self.tool}"
        if self.tool == _COMMAND_TOOL:
            like = "commands like" if _STAR.search(self.pattern) else "the command"
            return f"{like} `{_unescaped(self.pattern)}`"
        like = "files like" if _STAR.search(self.pattern) else "the file"
        return f"{self.tool}: {like} `{_unescaped(self.pattern)}`"

    def names(self, tool_name: str, kind: str) -> bool:
        """It is about calls of the tool ``tool_name``, which is of the kind ``kind``."""
        return self.tool in {tool_name, EVERY_TOOL} or (
            self.tool == kind and self.tool in {"read", "edit"}
        )

    def matches_command(self, words: Sequence[str]) -> bool:
        """It matches the simple command ``words``.

        A rule that allows takes the text literally, and its first word names a whole program:
        ``cat*`` is not ``catch``. Others also match in any case of letters.
        """
        text = command_text(words)
        return has_shape(text if self.effect == "allow" else folded(text), self.shapes())

    def shapes(self) -> tuple[tuple[str, ...], ...]:
        """What a command's text must have one after the other, for ``has_shape``; any will do."""
        return _command_shapes(self.pattern or "*", allows=self.effect == "allow")

    def matches_path(self, path: Path, cwd: Path) -> bool:
        """It matches the real path ``path``; relative patterns are below ``cwd``, a real path.

        A rule that allows takes the path literally. Others match in any case and normalisation of
        letters, match what is below a folder that they match, and follow links in the pattern.
        """
        if self.pattern is None:
            return True
        name = str(path)
        if self.effect == "allow":
            return bool(_path_pattern(self.pattern, str(cwd)).match(name))
        name = folded(name)
        return any(
            each.match(name)
            for each in _path_patterns(self.pattern, str(cwd), _resolved_front(self.pattern, cwd))
        )

    def fixed_front(self, cwd: Path) -> Path:
        """The folders that the pattern spells out before its first wildcard."""
        if self.pattern is None:
            return Path("/")
        return Path(_front(_absolute(self.pattern, str(cwd)))[0] or "/")


class RuleSet(Struct, frozen=True):
    """Rules that hold together; their order means nothing."""

    rules: tuple[Rule, ...] = ()

    def __add__(self, other: "RuleSet") -> "RuleSet":
        """Both."""
        return RuleSet(tuple(dict.fromkeys((*self.rules, *other.rules))))

    def about(self, effect: RuleEffect, tool_name: str, kind: str) -> tuple[Rule, ...]:
        """The rules of ``effect`` that are about calls of a tool."""
        return tuple(
            rule for rule in self.rules if rule.effect == effect and rule.names(tool_name, kind)
        )


def parse_rule(text: str, effect: RuleEffect) -> Rule:
    """The rule that ``text`` is. Raises ``RuleError``."""
    found = _WRITTEN.match(text.strip())
    if found is None:
        raise RuleError("should be a tool's name or tool(pattern), such as bash(git status*)")
    tool, pattern = found[1], found[2]
    if pattern is None:
        return Rule(effect, tool)
    pattern = pattern.strip()
    if not pattern:
        raise RuleError("has an empty pattern; leave the parentheses out to mean every call")
    if tool == EVERY_TOOL:
        raise RuleError("has a pattern for every tool; only a tool's own calls have patterns")
    if _UNFIT.search(pattern):
        raise RuleError("has characters that no command and no path can have")
    if re.search(r"(?<!\\)(?:\\\\)*\\\Z", pattern):
        raise RuleError("ends in a backslash, which should stand before what it escapes")
    return Rule(effect, tool, pattern)


def read_rules(written: Mapping[RuleEffect, Iterable[str]]) -> tuple[RuleSet, list[str]]:
    """The rules in the lists ``written``, and a line about each that cannot be read.

    Such a rule that would allow is left out. One that would ask or deny is taken for all calls of
    the tool it begins with, or of every tool: rather too strict than not at all.
    """
    rules: list[Rule] = []
    problems: list[str] = []
    for effect, texts in written.items():
        for index, text in enumerate(texts):
            try:
                rules.append(parse_rule(text, effect))
            except RuleError as error:
                where = f"{effect}[{index}]"
                if effect == "allow":
                    problems.append(f"{where}: {error}; ignored")
                    continue
                front = _TOOL_AT_FRONT.match(text.strip())
                rule = Rule(effect, front[0] if front else EVERY_TOOL, None, f"{where}: {error}")
                rules.append(rule)
                doing = "denies" if effect == "deny" else "asks about"
                problems.append(f"{where}: {error}; until it is corrected it {doing} {rule.words}")
    return RuleSet(tuple(rules)), problems


def command_text(words: Sequence[str]) -> str:
    """``words`` as a rule sees them: quoted only where they have to be."""
    return " ".join(map(_quoted, words))


def has_shape(text: str, shapes: Iterable[tuple[str, ...]]) -> bool:
    """``text`` has the pieces of one of ``shapes``, in order, from front to end. In linear time."""
    for shape in shapes:
        if len(shape) == 2 and not shape[1]:
            if text.startswith(shape[0]):  # what most rules are
                return True
        elif _has_pieces(text, shape):
            return True
    return False


def _has_pieces(text: str, shape: tuple[str, ...]) -> bool:
    first, last = shape[0], shape[-1]
    if len(shape) == 1:
        return text == first
    at, end = len(first), len(text) - len(last)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for piece in shape[1:-1]:
        at = text.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def command_rule(words: Sequence[str], *, prefix: bool = False) -> Rule:
    """The rule that allows exactly the command ``words``, or with ``prefix`` what goes on so."""
    return Rule("allow", _COMMAND_TOOL, _escaped(command_text(words)) + (" *" if prefix else ""))


def path_rule(tool: str, path: Path, cwd: Path, *, below: bool = False) -> Rule:
    """The rule that allows ``tool`` the file ``path``, or with ``below`` all in that folder."""
    inside = path != cwd and path.is_relative_to(cwd)
    name = path.relative_to(cwd).as_posix() if inside else path.as_posix()
    if inside and "/" not in name:
        name = f"./{name}"
    name = _escaped(name)
    return Rule("allow", tool, f"{name.rstrip('/')}/**" if below else name)


def folded(text: str) -> str:
    """``text`` without what differs only by case, or by how Unicode composes letters."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


_STAR = re.compile(r"(?<!\\)(?:\\\\)*[*?]")
_ESCAPE = re.compile(r"[\\*?]")
_REPEATED = re.compile(r"(?:/\*\*)+(?=/|\Z)")
_UNESCAPE = re.compile(r"\\(.)", re.DOTALL)


def _escaped(text: str) -> str:
    return _ESCAPE.sub(r"\\\g<0>", text)


def _unescaped(pattern: str) -> str:
    return _UNESCAPE.sub(r"\1", pattern)


@lru_cache(maxsize=4096)
def _quoted(word: str) -> str:
    return shlex.quote(word)


@lru_cache(maxsize=1024)
def _command_shapes(pattern: str, *, allows: bool) -> tuple[tuple[str, ...], ...]:
    """What stands between the ``*`` of a pattern, for each way to read it.

    At the end, after a blank, ``*`` may be nothing at all.
    """
    pieces = [""]
    for piece in re.findall(r"\\.|[^\\]", pattern if allows else folded(pattern), re.DOTALL):
        if piece == "*":
            pieces.append("")
        else:
            pieces[-1] += piece[-1]
    if len(pieces) > 1 and pieces[-1] == "":
        if pieces[-2].endswith(" "):
            return tuple(pieces), (*pieces[:-2], pieces[-2][:-1])
        if allows and len(pieces) == 2 and pieces[0] and not re.search(r"\s", pieces[0]):
            return (pieces[0],), (f"{pieces[0]} ", "")
    return (tuple(pieces),)


def _absolute(pattern: str, cwd: str) -> str:
    """The pattern with its folder before it, as gitignore has it, and without ``..``."""
    if pattern == "~" or pattern.startswith("~/"):
        home = os.path.expanduser("~")  # noqa: PTH111 - a pattern, not a path
        pattern = _escaped(os.path.realpath(home)) + pattern[1:]
    elif not pattern.startswith("/"):
        anywhere = "" if "/" in pattern.rstrip("/") else "**/"
        pattern = f"{_escaped(cwd)}/{anywhere}{pattern}"
    folder = pattern.endswith("/")
    pattern = os.path.normpath("/" + pattern.lstrip("/")) + ("/**" if folder else "")
    return _REPEATED.sub("/**", pattern)


def _front(pattern: str) -> tuple[str, str]:
    """The folders before the first wildcard, unescaped, and the rest from its slash on."""
    found = _STAR.search(pattern)
    end = pattern.rfind("/", 0, found.start() + 1) if found else len(pattern)
    return _unescaped(pattern[:end]), pattern[end:]


def _resolved_front(pattern: str, cwd: Path) -> str:
    """Where the front of the pattern really is."""
    return os.path.realpath(_front(_absolute(pattern, str(cwd)))[0] or "/")


@lru_cache(maxsize=1024)
def _path_pattern(pattern: str, cwd: str) -> re.Pattern[str]:
    return re.compile(_path_expression(_absolute(pattern, cwd)) + r"\Z", re.DOTALL)


@lru_cache(maxsize=1024)
def _path_patterns(pattern: str, cwd: str, real_front: str) -> tuple[re.Pattern[str], ...]:
    whole = _absolute(pattern, cwd)
    rest = _front(whole)[1]
    spellings = {folded(whole), folded(_escaped(real_front.rstrip("/")) + rest)}
    return tuple(
        re.compile(_path_expression(each.removesuffix("/**")) + r"(?:/.*)?\Z", re.DOTALL)
        for each in spellings
    )


def _path_expression(pattern: str) -> str:
    """``*`` and ``?`` within a name, ``**`` across folders; brackets and braces mean themselves."""
    parts: list[str] = []
    if pattern.endswith("/**"):  # what is below, not the folder itself
        return f"{_path_expression(pattern[:-3])}/.*"
    for piece in re.findall(r"/\*\*(?=/|\Z)|\\.|\*+|[^\\]", pattern, re.DOTALL):
        if piece.startswith("/**"):
            parts.append("(?:/.*)?")
        elif piece[0] == "*":
            parts.append("[^/]*")
        elif piece == "?":
            parts.append("[^/]")
        else:
            parts.append(re.escape(piece[-1]))
    return "".join(parts)
