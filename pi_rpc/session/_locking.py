"""The lock between writers of one session file.

Owns which sidecar belongs to a file. The lock itself is ``pi_rpc._os.locks``. All calls block.
"""

from collections.abc import Iterable
from pathlib import Path

from pi_rpc._os.locks import FileLock, LockHeldError
from pi_rpc.session.storage import SessionLockedError

__all__ = ["lock_session", "writer_of", "writers_of"]


def _sidecar(path: Path) -> Path:
    """Never the file itself; the same for all names of one file."""
    real = path.resolve()
    return real.with_name(real.name + ".lock")


def lock_session(path: Path) -> FileLock:
    """Become the writer of a session file, which need not exist.

    Raises ``SessionLockedError``, and ``OSError`` when the sidecar cannot be made.
    """
    lock = FileLock(_sidecar(path))
    try:
        lock.acquire()
    except LockHeldError as error:
        who = "another process" if error.pid is None else f"process {error.pid}"
        raise SessionLockedError(f"{path} is being written by {who}", error.pid) from error
    return lock


def writer_of(path: Path) -> int | None:
    """The process that writes a session file; None when there is none, or it cannot be told."""
    sidecar = _sidecar(path)
    try:
        # Only one that is there: it is held, or was left by a process that was killed.
        if sidecar.exists():
            with FileLock(sidecar):
                return None
    except LockHeldError as error:
        return error.pid
    except OSError:
        return None
    return None


def writers_of(paths: Iterable[Path]) -> dict[Path, int]:
    """``writer_of`` for many files: those that have one."""
    found = {path: writer_of(path) for path in paths}
    return {path: pid for path, pid in found.items() if pid is not None}
