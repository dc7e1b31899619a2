"""Private files that commands need: for output too long to show and commands too long to pass.

Owns their names, and when those that nobody will ask for any more are removed. All calls block.
Does not own what is written into them.
"""

import contextlib
import os
import re
import stat
import threading
import time
from pathlib import Path

from pi_rpc._os.files import private_temp_file, write_at

__all__ = ["command_file", "is_output_file", "output_file"]

_OURS = re.compile(r"pi-bash-rpc-[^/]+\.(log|sh)\Z")
_KEPT_S = 7 * 24 * 3600
"""How long a file stays after it was last written."""
_KEPT_BYTES = 1_000_000_000
"""Beyond this much in all the oldest go earlier, but not within ``_UNTOUCHED_S``."""
_UNTOUCHED_S = 3600
_PRUNE_EVERY_S = 60

_pruned_at: dict[str, float] = {}
_pruning = threading.Lock()


def output_file() -> tuple[int, Path]:
    """A new file that only this user can read, and its descriptor. It stays for a week."""
    import tempfile

    _prune(tempfile.gettempdir())
    return private_temp_file("pi-bash-rpc-", ".log")


def is_output_file(path: Path) -> bool:
    """Whether the real path ``path`` is such a file of this user, and has no other name."""
    import tempfile

    if not path.name.endswith(".log") or not _OURS.match(path.name):
        return False
    if str(path.parent) != os.path.realpath(tempfile.gettempdir()):
        return False
    try:
        status = path.lstat()
    except OSError:
        return False
    owner = os.getuid() if hasattr(os, "getuid") else status.st_uid
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_uid == owner


def command_file(command: bytes) -> Path:
    """A new file that only this user can read, with a command in it. The caller removes it."""
    fd, path = private_temp_file("pi-bash-rpc-", ".sh")
    try:
        write_at(fd, command, 0)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)
    return path


def _prune(folder: str) -> None:
    now = time.time()
    with _pruning:
        if abs(now - _pruned_at.get(folder, -_PRUNE_EVERY_S)) < _PRUNE_EVERY_S:
            return
        _pruned_at[folder] = now
    total = 0
    for written, size, path in sorted(_files(folder), reverse=True):
        total += size
        age = now - written
        if age > _KEPT_S or (total > _KEPT_BYTES and age > _UNTOUCHED_S):
            with contextlib.suppress(OSError):  # gone meanwhile, or protected: not worth a word
                path.unlink()


def _files(folder: str) -> list[tuple[float, int, Path]]:
    """When each of our files was written, its size and its path."""
    found = []
    owner = os.getuid() if hasattr(os, "getuid") else None
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not _OURS.match(entry.name):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gone meanwhile
            if stat.S_ISREG(status.st_mode) and owner in (None, status.st_uid):
                found.append((status.st_mtime, status.st_size, Path(entry.path)))
    return found
