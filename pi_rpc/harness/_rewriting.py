"""Changing JSON files that other programs, pi among them, and people change too.

Owns the lock between the writers and the replacement in one step. Does not know what is in any
file."""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pi_rpc._os.files import atomic_replace
from pi_rpc._os.locks import FileLock, LockHeldError
from pi_rpc.harness._written import read_object

__all__ = ["RewriteError", "rewrite_object"]

_PATIENCE_S = 5.0
_PAUSE_S = 0.02
_STALE_S = 10.0
"""pi renews its lock every five seconds and takes one over that is older than this."""


class RewriteError(Exception):
    """The file was left as it is: it holds no JSON object, or another program keeps it locked."""


def rewrite_object(
    path: Path,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    *,
    private: bool = False,
) -> None:
    """Make the JSON object in ``path`` what ``change`` returns for it; blocking.

    A missing file counts as empty, and its folder is made. Nothing is written when nothing changes.
    ``private``: nobody but the owner may read what is written, from its first byte on and whatever
    the file's mode was; a folder that is made is private, too. Raises ``RewriteError`` and
    ``OSError``; the file is then as it was.
    """
    path.parent.mkdir(0o700 if private else 0o777, parents=True, exist_ok=True)
    with _locked(path):
        before, problems = read_object(path)
        if before is None and problems:
            raise RewriteError(problems[0].removesuffix("; the file is ignored"))
        after = change(dict(before or {}))
        if after != before:
            text = json.dumps(after, indent=2, ensure_ascii=False)
            written = f"{text}\n".encode("utf-8", "surrogatepass")
            atomic_replace(path, written, fsync=True, mode=0o600 if private else None)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep every other writer out.

    Our own processes meet at a kernel lock, which a killed holder cannot leave behind. pi's lock is
    a folder beside the file; it is honoured and made too, under the first.
    """
    own = FileLock(path.with_name(f".{path.name}.pi-rpc.lock"))
    theirs = path.with_name(f"{path.name}.lock")
    deadline = time.monotonic() + _PATIENCE_S
    while not _acquired(own):
        _wait(path, deadline)
    try:
        while not _made(theirs):
            _wait(path, deadline)
        try:
            yield
        finally:
            with contextlib.suppress(FileNotFoundError):
                theirs.rmdir()
    finally:
        own.release()


def _acquired(lock: FileLock) -> bool:
    try:
        lock.acquire()
    except LockHeldError:
        return False
    return True


def _made(folder: Path) -> bool:
    try:
        folder.mkdir()
        return True
    except FileExistsError:
        pass
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if time.time() - os.lstat(folder).st_mtime > _STALE_S:
            folder.rmdir()
    return False


def _wait(path: Path, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise RewriteError(f"{path}: another program keeps it locked; try again")
    time.sleep(_PAUSE_S)
