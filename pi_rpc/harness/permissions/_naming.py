"""Files that the words of a command name, as far as that can be told without running it.

Owns where in a word a path may be: ``--file=PATH``, ``@PATH``, ``file:PATH``, ``-xfPATH``. Only the
file system is asked, and only about names. Does not own what is secret
(``pi_rpc.harness.permissions.paths``).
"""

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice, pairwise
from stat import S_ISDIR
from typing import Literal
from urllib.parse import unquote

from msgspec import Struct

from pi_rpc.harness.permissions.commands import Parsed
from pi_rpc.harness.permissions.paths import Zones
from pi_rpc.harness.permissions.rules import folded

__all__ = ["Named", "named_in"]

_MARKS = re.compile(r"[=@:,;<>\"'?#{}]")
"""Between which there may be a path in a word."""
_NOT_JUST_A_PATH = re.compile(rf"{_MARKS.pattern}|[%~]|^-")
_LETTERS = re.compile(r"-[A-Za-z0-9]{1,8}")
_WILDCARD = re.compile(r"[*?\[]")
_MOVES = frozenset({"cd", "pushd"})
_CHANGES_FOLDER = frozenset({*_MOVES, "--", "-C", "--directory", "--git-dir", "--work-tree"})
_CWD_OF_PROCESS = re.compile(r"/+proc/+(?:self|thread-self|\d+)/+(?:task/+\d+/+)?cwd(?=/|\Z)")
_OF_THE_SYSTEM = ("/proc/", "/dev/")
_MOST_FOLDERS = 32
_MOST_MARKS = 16
"""Of one word: behind how many of them a path is looked for that has further marks in it."""
_MOST_NAMES = 2000
"""Beyond it words are looked up one by one."""
_LONGEST_NAME = 4096


class Named(Struct, frozen=True):
    """What the words of a command name that matters."""

    secret: str = ""
    """The word that names a secret file; empty: none does."""
    holder: str = ""
    """The word that names a folder with secrets in it."""


def named_in(parsed: Parsed, zones: Zones) -> Named:
    """What the words of ``parsed`` name. Blocking."""
    paths = {word: word for word in parsed.named if word}
    for word in [word for word in paths if _NOT_JUST_A_PATH.search(word)]:
        paths.update(dict.fromkeys(_paths(word), word))
    look = _Look(zones)
    holder = ""
    for folder in _folders(parsed, zones):
        present = _present(folder)
        for path, word in paths.items():
            # Thousands of words are looked up, and next to none of them is a file.
            may_exist = path[0] == "/" or not present or folded(path.split("/", 1)[0]) in present
            if not may_exist and not look.odd.search(path):
                continue
            found = look.at(_whole(path, folder))
            if found == "secret":
                return Named(secret=word)
            if found == "holder" and not holder:
                holder = word
    return Named(holder=holder)


def _whole(path: str, folder: str) -> str:
    """``path`` as a process in ``folder`` sees it."""
    own = _CWD_OF_PROCESS.match(path)
    if own is not None:
        return folder + path[own.end() :]
    return path if path[0] == "/" else f"{folder}/{path}"


class _Look:
    """Looks at paths for secrets."""

    def __init__(self, zones: Zones) -> None:
        self._zones = zones
        self._names = zones.secret_names()
        self._numbers = zones.secret_files()
        called = "|".join({re.escape(name.rpartition("/")[2]) for name in self._names})
        self._called = re.compile(called, re.IGNORECASE)
        self.odd = re.compile(rf"{_WILDCARD.pattern}|\.\.|{called}", re.IGNORECASE)
        """What may be in a path that does not exist, and names a secret for all that."""

    def at(self, path: str) -> Literal["secret", "holder", ""]:
        """What is at the absolute ``path``."""
        if path.startswith(_OF_THE_SYSTEM) and self._called.search(path):
            return "secret"  # links there are another process's own
        try:
            status = os.stat(path)  # noqa: PTH116 - thousands of words
        except (OSError, ValueError):
            if _WILDCARD.search(path):
                return "secret" if _may_become(path, self._names) else ""
            if not self.odd.search(path):
                return ""
            return "secret" if self._zones.is_secret(self._zones.real(path)) else ""
        real = self._zones.real(path)
        if (status.st_dev, status.st_ino) in self._numbers or self._zones.is_secret(real):
            return "secret"
        return "holder" if S_ISDIR(status.st_mode) and self._zones.holds_secrets(real) else ""


def _present(folder: str) -> frozenset[str]:
    """The folded names in ``folder``; empty where there are none, or too many."""
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except (OSError, ValueError):
        return frozenset()
    if len(names) > _MOST_NAMES:
        return frozenset()
    return frozenset({".", "..", *map(folded, names)})


def _may_become(path: str, names: Sequence[str]) -> bool:
    """Whether wildcards in ``path`` may stand for one of the folded ``names``."""
    found = _WILDCARD.search(path)
    start = path.rfind("/", 0, found.start()) if found else len(path)
    folder, rest = path[:start] or "/", path[start:]
    places = {os.path.normpath(folder)}
    if os.path.isdir(folder):  # noqa: PTH112 - thousands of words
        places.add(os.path.realpath(folder))
    for place in places:
        fixed = folded(place).rstrip("/")
        if any(
            name.startswith(fixed) and fnmatchcase(name, fixed + folded(rest)) for name in names
        ):
            return True
    return False


def _folders(parsed: Parsed, zones: Zones) -> Iterator[str]:
    """Where the command may be when a relative path is looked up."""
    here = zones.cwd
    yield str(here)
    found = 0
    for words in parsed.found:
        if _CHANGES_FOLDER.isdisjoint(words):
            continue
        moves = words[0] in _MOVES
        for before, word in pairwise(words):
            if (moves or before in _CHANGES_FOLDER) and found < _MOST_FOLDERS:
                found += 1
                yield str(zones.real(word))
                if moves:
                    here = zones.real(word, here)
                    yield str(here)


def _paths(word: str) -> Iterator[str]:
    """What of ``word`` may be a path beside all of it, relative ones as they are."""
    if len(word) > _LONGEST_NAME:
        return
    for part in _parts(word):
        if part and not part.isdecimal():
            at_home = part == "~" or part.startswith("~/")
            path = os.path.expanduser("~") + part[1:] if at_home else part  # noqa: PTH111
            yield path
            if "%" in path:
                yield unquote(path)


def _parts(word: str) -> Iterator[str]:
    """All of ``word``, what is behind or between marks in it, and what is behind short options."""
    yield word
    yield from _MARKS.split(word)
    marks = islice(_MARKS.finditer(word), _MOST_MARKS)
    yield from (word[mark.end() :] for mark in marks)
    if letters := _LETTERS.match(word):
        yield from (word[start:] for start in range(2, letters.end() + 1))
    if word.startswith("-"):
        yield from (word[start:] for mark in "/~" if (start := word.find(mark)) > 0)
