"""The file of a session, as bytes.

Owns the descriptor, what is known of the file (inode, size, whether its last line is complete), the
comparison with what is there now, reading a part and appending whole lines. All calls block;
but for ``read_at`` callers run them in file threads, one at a time. Does not own what the lines
mean.
"""

import contextlib
import errno
import os
import stat
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from pi_rpc._os.files import fsync_file
from pi_rpc.session.storage import Change

__all__ = ["FileChangedError", "SessionFile", "appear", "write_all"]

_TAIL_BYTES = 256
"""By so many bytes a file is known again."""
_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class FileChangedError(Exception):
    """The file is not as we left it."""

    def __init__(self, change: Change) -> None:
        super().__init__(change)
        self.change = change


def write_all(fd: int, data: bytes) -> None:
    """One ``write(2)``, and more only when the system takes less than it was given."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _read_at(fd: int, offset: int, length: int) -> bytes:
    if sys.platform == "win32":
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, length)
    return os.pread(fd, length, offset)


def appear(unfinished: Path, path: Path) -> None:
    """Give a finished file its name, unless something has it already."""
    try:
        os.link(unfinished, path)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links.
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        unfinished.rename(path)


class SessionFile:
    """An open session file.

    ``size`` is up to where we know the file, ``torn`` whether that is in the middle of a line and
    ``line_start`` where its last line begins. The descriptor stays open, so that no other file can
    be given the same inode.
    """

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.fd = fd
        status = os.fstat(fd)
        self._identity = (status.st_dev, status.st_ino)
        self.size = 0
        self.line_start = 0
        self.torn = False
        self._tail = b""
        self.disturbed = False
        """Somebody wrote while we did, or a write of ours has no known end: read it all anew."""
        self._unsynced = False
        self._new = False
        self._busy = threading.Lock()
        self._closing = False
        self._reading = threading.Lock()
        self._read_fd: int | None = os.dup(fd)

    @classmethod
    def create(cls, path: Path, data: Iterable[bytes]) -> "SessionFile":
        """Make a new file that holds the pieces of ``data``. Raises ``OSError``, and whatever
        ``data`` raises, and then there is no file.

        It appears whole: a death while it is written leaves no file without a header.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        unfinished.unlink(missing_ok=True)
        # Conversations hold what people would not show to others on the machine.
        fd = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | _FLAGS, 0o600)
        tail = b""
        try:
            for piece in data:
                write_all(fd, piece)
                tail = (tail + piece[-_TAIL_BYTES:])[-_TAIL_BYTES:]
            appear(unfinished, path)
        except BaseException:
            os.close(fd)
            raise
        finally:
            with contextlib.suppress(OSError):
                unfinished.unlink()
        file = cls(path, fd)
        file.size = file.line_start = os.fstat(fd).st_size
        file._tail = tail
        file._new = file._unsynced = True
        return file

    @classmethod
    def open(cls, path: Path, *, read_only: bool) -> "SessionFile":
        """Open an existing regular file. Raises ``OSError``."""
        access = os.O_RDONLY if read_only else os.O_RDWR | os.O_APPEND
        # A pipe must not keep us waiting for its other end.
        fd = os.open(path, access | _FLAGS | getattr(os, "O_NONBLOCK", 0))
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "Not a regular file", str(path))
            return cls(path, fd)
        except BaseException:
            os.close(fd)
            raise

    def look(self) -> Change:
        """Compare the file with what we know of it; ``FileNotFoundError`` when it is gone."""
        status = self.path.stat()
        if (status.st_dev, status.st_ino) != self._identity or status.st_size < self.size:
            return "replaced"
        if self.disturbed:
            return "grown"
        if status.st_size == self.size:
            return "unchanged"
        # Written anew in place it is still the same file.
        length = len(self._tail)
        is_longer = _read_at(self.fd, self.size - length, length) == self._tail
        return "grown" if is_longer else "replaced"

    def known_up_to(self, size: int, line_start: int) -> None:
        """It was read up to there; its last line begins at ``line_start``. Raises ``OSError``."""
        length = min(size, _TAIL_BYTES)
        self._tail = _read_at(self.fd, size - length, length)
        self.size, self.line_start, self.torn = size, line_start, line_start < size

    def read_at(self, offset: int, length: int) -> bytes:
        """What is in the file from ``offset``; less at its end. Works after ``close`` too, as long
        as the file is there. Any thread may call it. Raises ``OSError``."""
        with self._reading:
            if self._read_fd is not None:
                return _read_at(self._read_fd, offset, length)
        fd = os.open(self.path, os.O_RDONLY | _FLAGS)
        try:
            status = os.fstat(fd)
            if (status.st_dev, status.st_ino) != self._identity:
                raise FileNotFoundError(errno.ENOENT, "Another file is there now", str(self.path))
            return _read_at(fd, offset, length)
        finally:
            os.close(fd)

    def append(self, data: bytes) -> int:
        """Add whole lines at the end; a last line that is not complete is ended first.

        Returns where ``data`` begins. Raises ``FileChangedError`` when the file is not as we know
        it and ``OSError`` when it could not be written; in both cases it holds no part of ``data``
        that would count.
        """
        with self._in_use():
            change = self.look()
            if change != "unchanged":
                raise FileChangedError(change)
            start = self.size + self.torn
            if self.torn:
                data = b"\n" + data
            self._unsynced = True
            try:
                write_all(self.fd, data)
            except OSError:
                self._take_back(data)
                raise
            self.size += len(data)
            self.line_start, self.torn = self.size, False
            self._tail = (self._tail + data[-_TAIL_BYTES:])[-_TAIL_BYTES:]
            if os.fstat(self.fd).st_size != self.size:
                self.disturbed = True
            return start

    def _take_back(self, data: bytes) -> None:
        """Remove what was written of ``data``, unless somebody else wrote behind our back.

        What stays is found as growth the next time.
        """
        with contextlib.suppress(OSError):
            written = os.fstat(self.fd).st_size - self.size
            os.lseek(self.fd, self.size, os.SEEK_SET)
            if 0 < written <= len(data) and os.read(self.fd, written) == data[:written]:
                os.ftruncate(self.fd, self.size)

    def sync(self) -> None:
        """Flush to the disk itself, for a new file its directory entry too."""
        with self._in_use():
            if not self._unsynced:
                return
            fsync_file(self.fd)
            if self._new and os.name == "posix":
                fsync_file(self.path.parent)
            self._new = self._unsynced = False

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        with self._busy:
            try:
                yield
            finally:
                if self._closing:
                    os.close(self.fd)

    def close(self) -> None:
        """Close the descriptor; when a call was given up on and still runs, at its end."""
        with self._reading:
            if self._read_fd is not None:
                os.close(self._read_fd)
                self._read_fd = None
        if self._busy.acquire(blocking=False):
            os.close(self.fd)
            self._busy.release()
        else:
            self._closing = True
