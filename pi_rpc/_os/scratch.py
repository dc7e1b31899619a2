"""Temporary folders of this process, and removing those of processes that were killed.

Owns their names and the lock in each by which other processes see that it is in use: the kernel
drops it with its holder, however that ends, and it also holds between containers that share the
directory but not their process ids. Does not own what is in a folder. All calls block.
"""

import contextlib
import os
import stat
import time
from pathlib import Path

from pi_rpc._os.locks import FileLock, LockHeldError

__all__ = ["ScratchFolder", "remove_abandoned"]

_PREFIX = "pi-rpc-scratch-"
_LOCK = "in-use.lock"
_YOUNG_S = 60
"""A folder younger than this may not have its lock yet."""
_MOST = 1000
"""Folders looked at in one go."""


class ScratchFolder:
    """A new folder in the system's temporary directory that only this user can look into.

    It stays until ``remove``; without that, another process removes it once this one has ended.
    """

    def __init__(self) -> None:
        import tempfile

        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = FileLock(self.path / _LOCK)
        self._lock.acquire()

    def remove(self) -> None:
        """Remove it and what is in it, as far as that can be done."""
        _remove(self.path)
        self._lock.release()


def remove_abandoned() -> int:
    """Remove folders of this user that no process uses any more; how many."""
    import tempfile

    removed = 0
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        found = (Path(each.path) for each in entries if each.name.startswith(_PREFIX))
        for path, _ in zip(found, range(_MOST), strict=False):
            removed += _remove_if_abandoned(path)
    return removed


def _remove_if_abandoned(path: Path) -> bool:
    try:
        status = path.lstat()
        owner = os.getuid() if hasattr(os, "getuid") else status.st_uid
        is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == owner
        if not is_ours or time.time() - status.st_mtime < _YOUNG_S:
            return False
        lock = FileLock(path / _LOCK)
        lock.acquire()
    except (OSError, LockHeldError):
        return False  # in use, removed at this moment, or not for us to touch
    _remove(path)
    lock.release()
    return True


def _remove(path: Path) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)
