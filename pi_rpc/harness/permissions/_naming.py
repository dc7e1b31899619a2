"""Files that the words of a command name, as far as that can be told without running it.

Owns where in a word a path may be: ``--file=PATH``, ``@PATH``, ``file:PATH``, ``-fPATH``. Only the
file system is asked, and only about names. Does not own what is secret
(``pi_rpc.harness.permissions.paths``).
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from urllib.parse import unquote

from pi_rpc.harness.permissions.commands import Parsed
from pi_rpc.harness.permissions.paths import Zones
from pi_rpc.harness.permissions.rules import folded

__all__ = ["Named", "named_in"]

_BEFORE_PATHS = re.compile(r"[=@:,]")
_NOT_JUST_A_PATH = re.compile(r"[=@:,%~]|^-")
_WILDCARD = re.compile(r"[*?\[]")
_CHANGES_FOLDER = frozenset({"cd", "pushd", "-C", "--directory", "--git-dir", "--work-tree"})
_MOST_FOLDERS = 8
_LONGEST_NAME = 4096


@dataclass(frozen=True, slots=True)
class Named:
    """What the words of a command name that matters."""

    secret: str = ""
    """The word that names a secret file; empty: none does."""
    holder: str = ""
    """The word that names a folder with secrets in it."""


def named_in(parsed: Parsed, zones: Zones) -> Named:
    """What the words of ``parsed`` name. Blocking."""
    paths = {path: word for word in parsed.named for path in _paths(word)}
    names = zones.secret_names()
    numbers = zones.secret_files()
    like_secrets = _like(names)
    holder = ""
    for folder in _folders(parsed, zones):
        for path, word in paths.items():
            whole = path if path[0] == "/" else f"{folder}/{path}"
            try:
                status = os.stat(whole)  # noqa: PTH116 - thousands of words
            except (OSError, ValueError):
                # Resolving takes long: of what does not exist only what is called like a secret.
                if _WILDCARD.search(path):
                    if any(fnmatchcase(name, each) for name in names for each in _shapes(whole)):
                        return Named(secret=word)
                elif (".." in path or like_secrets.search(folded(path))) and zones.is_secret(
                    zones.real(whole)
                ):
                    return Named(secret=word)
                continue
            if (status.st_dev, status.st_ino) in numbers or zones.is_secret(
                real := zones.real(whole)
            ):
                return Named(secret=word)
            if not holder and stat.S_ISDIR(status.st_mode) and zones.holds_secrets(real):
                holder = word
    return Named(holder=holder)


def _shapes(path: str) -> tuple[str, str]:
    """A path with wildcards, folded: as it is, and with the folders before them resolved."""
    first = _WILDCARD.search(path)
    end = path.rfind("/", 0, first.start()) if first else len(path)
    return folded(os.path.normpath(path)), folded(os.path.realpath(path[:end]) + path[end:])


def _like(names: Sequence[str]) -> re.Pattern[str]:
    last = {re.escape(name.rpartition("/")[2]) for name in names}
    return re.compile("|".join(last))


def _folders(parsed: Parsed, zones: Zones) -> Iterator[str]:
    """Where the command may be when a relative path is looked up."""
    yield str(zones.cwd)
    found = 0
    for words in parsed.found:
        if _CHANGES_FOLDER.isdisjoint(words):
            continue
        for before, word in pairwise(words):
            if before in _CHANGES_FOLDER and found < _MOST_FOLDERS:
                found += 1
                yield str(zones.real(word))


def _paths(word: str) -> Iterator[str]:
    """What of ``word`` may be a path, relative ones as they are."""
    if not word or len(word) > _LONGEST_NAME or "\0" in word:
        return
    if not _NOT_JUST_A_PATH.search(word):
        yield word
        return
    starts = {0, *(found.end() for found in _BEFORE_PATHS.finditer(word))}
    if word.startswith("-"):
        starts = starts - {0} | {2, word.find("/"), word.find("~")}
    for start in starts:
        path = word[start:] if start >= 0 else ""
        if path and not path.isdecimal():
            if path == "~" or path.startswith("~/"):
                path = os.path.expanduser("~") + path[1:]  # noqa: PTH111
            yield path
            if "%" in path:
                yield unquote(path)
