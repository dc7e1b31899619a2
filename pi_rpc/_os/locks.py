"""Locks between processes, held on a sidecar file.

Owns one exclusive lock per path, kept by the kernel: it ends with its holder, however that ends.
Does not own what the lock protects, nor the naming of the sidecar.
"""

import contextlib
import os
import sys
from pathlib import Path
from types import TracebackType

__all__ = ["FileLock", "LockHeldError"]

_WINDOWS_LOCK_OFFSET = 1 << 30
"""Windows locks are mandatory: one far behind the pid leaves the pid readable."""


class LockHeldError(Exception):
    """Somebody else holds the lock; ``pid`` says who, where the holder has written it yet."""

    def __init__(self, path: Path, pid: int | None) -> None:
        holder = f"process {pid}" if pid is not None else "another process"
        super().__init__(f"{path} is locked by {holder}")
        self.path = path
        self.pid = pid


class FileLock:
    """An exclusive lock on the sidecar file ``path``, which holds the pid of its owner.

    Also keeps two ``FileLock`` objects of one process apart. Not reentrant. Blocking calls, all of
    them short. The sidecar is removed by ``release``; a sidecar that a killed process left behind
    is not locked and is taken over.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        """This object holds the lock."""
        return self._fd is not None

    def acquire(self) -> None:
        """Take the lock without waiting, creating the parent directory.

        Raises ``LockHeldError`` when it is taken (by this object too), ``OSError`` when the sidecar
        cannot be made.
        """
        if self._fd is not None:
            raise LockHeldError(self.path, os.getpid())
        self.path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
            fd = os.open(self.path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
            try:
                if not _try_lock(fd):
                    raise LockHeldError(self.path, _read_pid(fd))
                # The holder before us may have removed the file between our open and our lock;
                # then we hold a lock on a file that nobody else will ever see.
                if _is_current(fd, self.path):
                    os.ftruncate(fd, 0)
                    os.write(fd, f"{os.getpid()}\n".encode())
                    self._fd = fd
                    return
            finally:
                if self._fd is None:
                    os.close(fd)

    def release(self) -> None:
        """Give the lock back and remove the sidecar. Does nothing when it is not held."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        try:
            # Removed while still locked: whoever opened it before sees that it is not the current
            # file any more and opens anew. Windows refuses to remove an open file; it stays there.
            if sys.platform != "win32" and _is_current(fd, self.path):
                with contextlib.suppress(OSError):
                    self.path.unlink()
        finally:
            os.close(fd)

    def __enter__(self) -> "FileLock":
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def _try_lock(fd: int) -> bool:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(fd, _WINDOWS_LOCK_OFFSET, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(fd, 0, os.SEEK_SET)
        return True
    import fcntl

    try:
        # flock, not lockf: closing any other descriptor of the file would drop a lockf lock.
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_current(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _read_pid(fd: int) -> int | None:
    text = os.read(fd, 32).strip()
    return int(text) if text.isdigit() else None
