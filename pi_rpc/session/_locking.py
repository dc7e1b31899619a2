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
        raise _locked(path, error) from error
    try:
        # Two who begin at once may both be refused, but never both let in: each has its own first.
        for other in _other_names(path):
            error_there = _holder(_sidecar(other))
            if error_there is not None:
                raise _locked(path, error_there)
    except BaseException:
        lock.release()
        raise
    return lock


def _locked(path: Path, error: LockHeldError) -> SessionLockedError:
    who = "another process" if error.pid is None else f"process {error.pid}"
    return SessionLockedError(f"{path} is being written by {who}", error.pid)


def _other_names(path: Path) -> list[Path]:
    """Hard links to the file, in its folder, that somebody may be writing to.

    One in another folder cannot be found; who writes to it is noticed as any other program is.
    """
    real = path.resolve()
    if not real.exists() or real.stat().st_nlink < 2:
        return []
    locked = [each.with_suffix("") for each in real.parent.glob("*.lock")]
    return [each for each in locked if each != real and each.exists() and each.samefile(real)]


def _holder(sidecar: Path) -> LockHeldError | None:
    """Says who holds a lock. Only one that is there is held, or was left by one that was killed."""
    try:
        if sidecar.exists():
            with FileLock(sidecar):
                return None
    except LockHeldError as error:
        return error
    return None


def writer_of(path: Path) -> int | None:
    """The process that writes a session file; None when there is none, or it cannot be told."""
    try:
        held = _holder(_sidecar(path))
    except OSError:
        return None
    return None if held is None else held.pid


def writers_of(paths: Iterable[Path]) -> dict[Path, int]:
    """``writer_of`` for many files: those that have one."""
    found = {path: writer_of(path) for path in paths}
    return {path: pid for path, pid in found.items() if pid is not None}
