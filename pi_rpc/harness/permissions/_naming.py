"""Files that the words of a command name, as far as that can be told without running it.

Owns where in a word a path may be: ``--file=PATH``, ``@PATH``, ``file:PATH``, ``-fPATH``. Only the
file system is asked, and only about names. Does not own what is secret
(``pi_rpc.harness.permissions.paths``).
"""

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from urllib.parse import unquote

from pi_rpc.harness.permissions.commands import Parsed
from pi_rpc.harness.permissions.paths import Zones
from pi_rpc.harness.permissions.rules import folded

__all__ = ["named_holder", "named_secret"]

_BEFORE_PATHS = re.compile(r"[=@:,]")
_WILDCARD = re.compile(r"[*?\[]")
_CHANGES_FOLDER = frozenset({"cd", "pushd", "-C", "--directory", "--git-dir", "--work-tree"})
_MOST_FOLDERS = 8
_LONGEST_NAME = 4096


def named_secret(parsed: Parsed, zones: Zones) -> str:
    """The word of ``parsed`` that names a secret file; empty: none does."""
    names = zones.secret_names()
    numbers = zones.secret_files()
    for folder in _folders(parsed, zones):
        for word in parsed.named:
            for path in _paths(word):
                whole = os.path.join(folder, path)  # noqa: PTH118 - thousands of words
                if _WILDCARD.search(path):
                    shape = folded(os.path.normpath(whole))
                    if any(fnmatchcase(name, shape) for name in names):
                        return word
                elif _is_secret(whole, zones, names, numbers):
                    return word
    return ""


def named_holder(parsed: Parsed, zones: Zones) -> str:
    """The word of ``parsed`` that names a folder with secrets in it; empty: none does."""
    for word in parsed.named:
        for path in _paths(word):
            if zones.holds_secrets(zones.real(path)):
                return word
    return ""


def _is_secret(
    path: str, zones: Zones, names: Sequence[str], numbers: Iterable[tuple[int, int]]
) -> bool:
    """Resolving takes long; so only what exists, or is called like a secret, is resolved."""
    try:
        status = os.stat(path)  # noqa: PTH116 - thousands of words
    except (OSError, ValueError):
        last = folded(path)
        if not any(name.rpartition("/")[2] in last for name in names):
            return False
    else:
        if (status.st_dev, status.st_ino) in numbers:
            return True
    return zones.is_secret(zones.real(path))


def _folders(parsed: Parsed, zones: Zones) -> Iterator[str]:
    """Where the command may be when a relative path is looked up."""
    yield str(zones.cwd)
    found = 0
    for words in parsed.found:
        for before, word in itertools.pairwise(words):
            if before in _CHANGES_FOLDER and found < _MOST_FOLDERS:
                found += 1
                yield str(zones.real(word))


def _paths(word: str) -> Iterator[str]:
    """What of ``word`` may be a path, relative ones as they are."""
    if not word or len(word) > _LONGEST_NAME or "\0" in word:
        return
    home = os.path.expanduser("~")  # noqa: PTH111
    starts = {0, *(found.end() for found in _BEFORE_PATHS.finditer(word))}
    if word.startswith("-"):
        starts |= {2, word.find("/"), word.find("~")}
    for start in starts:
        if 0 <= start < len(word):
            path = word[start:]
            yield home + path[1:] if path == "~" or path.startswith("~/") else path
            if "%" in path:
                yield unquote(path)
