"""Keeping the shadow store within its limit.

Owns which checkpoints go, and that no content goes which a journal still needs, or somebody has
just begun to need. Does not own the lock that lets one process at a time do it, nor when
(``pi_rpc.harness.checkpoint_store``). All calls block.
"""

import contextlib
import errno
import json
import os
import re
from pathlib import Path

from msgspec import Struct, field

from pi_rpc.harness._checkpoint_files import all_journals, content_path, is_digest, listed

__all__ = ["MAX_JOURNAL", "prune_store"]

MAX_JOURNAL = 64 * 1024 * 1024
"""Bytes of a journal that are read."""

_KEPT = 0.9  # of the limit, after pruning
_ASIDE = "~"
_DIGESTS_IN = re.compile(rb'"([0-9a-f]{64})"').findall


class _Journal(Struct):
    """What pruning knows of a checkpoint."""

    path: Path
    size: int
    digests: set[str]
    in_use: bool


class _Contents(Struct):
    """What pruning knows of the contents."""

    sizes: dict[str, int] = field(default_factory=dict)
    aside: list[Path] = field(default_factory=list)


def prune_store(store: Path, max_bytes: int, began_ns: int) -> None:
    """Throw away what no checkpoint needs and, above ``max_bytes``, the oldest checkpoints.

    What was touched after ``began_ns`` stays. Raises ``OSError``.
    """
    # Contents are listed before journals are read: one that comes later is not looked at.
    contents = _contents(store / "objects", began_ns)
    journals = [_journal(path) for path in all_journals(store)]
    journals.sort(key=lambda each: each.path.name)
    needed: dict[str, int] = {}
    for journal in journals:
        for digest in journal.digests:
            needed[digest] = needed.get(digest, 0) + 1
    total = sum(contents.sizes.get(digest, 0) for digest in needed)
    total += sum(journal.size for journal in journals)
    target = max_bytes if total <= max_bytes else int(max_bytes * _KEPT)
    for journal in journals[:-1]:
        if total <= target:
            break
        if journal.in_use:
            continue
        journal.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            journal.path.parent.rmdir()
        total -= journal.size
        for digest in journal.digests:
            needed[digest] -= 1
            if not needed[digest]:
                del needed[digest]
                total -= contents.sizes.get(digest, 0)
    for path in contents.aside:
        _take_back(path) if path.name.rstrip(_ASIDE) in needed else path.unlink(missing_ok=True)
    for digest in contents.sizes:
        if digest not in needed:
            _throw_away(content_path(store, digest), began_ns)


def _contents(folder: Path, began_ns: int) -> _Contents:
    """The contents there are. Leftovers of writers that were killed are removed."""
    found = _Contents()
    for group in listed(folder):
        for path in listed(group):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                if path.name.endswith(_ASIDE):
                    found.aside.append(path)
                elif is_digest(path.name):
                    found.sizes[path.name] = status.st_size
                elif status.st_mtime_ns < began_ns - 3600 * 10**9:
                    path.unlink()
    return found


def _journal(path: Path) -> _Journal:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_JOURNAL)
    except OSError:
        return _Journal(path, 0, set(), in_use=False)
    digests = {digest.decode() for digest in _DIGESTS_IN(text)}
    lines = [line for line in text.split(b"\n") if line.strip()]
    in_use = False
    if lines and b'"end"' not in lines[-1]:
        with contextlib.suppress(ValueError, AttributeError, RecursionError):
            in_use = _is_alive(json.loads(lines[0]).get("pid"))
    return _Journal(path, len(text), digests, in_use)


def _is_alive(pid: object) -> bool:
    if not isinstance(pid, int) or pid <= 0 or os.name != "posix":
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError as error:
        return error.errno == errno.EPERM
    return True


def _throw_away(path: Path, began_ns: int) -> None:
    """Remove a content, unless somebody has touched it since the journals were read."""
    aside = path.with_name(path.name + _ASIDE)
    try:
        path.rename(aside)
        if aside.stat().st_mtime_ns >= began_ns:
            _take_back(aside)
        else:
            aside.unlink()
    except FileNotFoundError:
        return  # somebody else did it


def _take_back(aside: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        aside.rename(aside.with_name(aside.name.rstrip(_ASIDE)))
