"""LocalFiles: the files of this machine.

Owns the ``FileSystem`` port on the disk: what may be opened, how a file is replaced, and how errors
of the operating system read. Knows no editor and no tool. Blocking calls run in the file threads.
"""

import errno
import io
import os
import stat as stat_bits
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio

from pi_rpc._os.files import replace_at
from pi_rpc._os.places import held_place, open_at, stat_at
from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.ports import FileStat, OpenFile, PortError, PortErrorCode, Written
from pi_rpc.tools._paths import display_text
from pi_rpc.tools._truncate import format_size

__all__ = ["PIECE", "LocalFiles", "LocalOpenFile", "port_errors", "read_whole"]

PIECE = 256 * 1024
"""Bytes read at most in one visit of a file thread."""

_OPEN_FLAGS = os.O_RDONLY
for _flag in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"):
    _OPEN_FLAGS |= getattr(os, _flag, 0)

_CODES: dict[int, tuple[PortErrorCode, str]] = {
    errno.ENOENT: ("not_found", "does not exist"),
    errno.EACCES: ("not_permitted", "may not be accessed: permission denied"),
    errno.EPERM: ("not_permitted", "may not be accessed: the system does not permit it"),
    errno.EROFS: ("not_permitted", "cannot be written: the file system is read-only"),
    errno.EISDIR: ("is_directory", "is a directory, not a file"),
    errno.ENOTDIR: ("not_directory", "cannot exist: a part of its path is not a directory"),
    errno.ENOTEMPTY: ("other", "is a directory that is not empty"),
    errno.EEXIST: ("not_directory", "cannot be created: a part of its path is not a directory"),
    errno.ENXIO: ("not_regular", "is not a regular file"),
    errno.EAGAIN: ("not_regular", "does not behave like a regular file: reading it would wait"),
    errno.ENOSPC: ("no_space", "was not written: no space is left on the device"),
    errno.EDQUOT: ("no_space", "was not written: the disk quota is used up"),
    errno.EFBIG: ("too_large", "is too large for this file system"),
    errno.ENAMETOOLONG: ("other", "cannot exist: its name or path is too long"),
    errno.ELOOP: ("other", "cannot be reached: its symbolic links go round in a circle"),
    errno.ETXTBSY: ("not_permitted", "is a program that is running"),
}


class LocalFiles:
    """The ``FileSystem`` port on the local disk.

    Only regular files are opened; devices, FIFOs and sockets are refused without being read or
    waited for. Writes replace the file as one step, so a hard link to it keeps the old content,
    and a directory that may not be written protects its files. A file without write permission is
    refused, although its directory might allow replacing it, and also for root.
    """

    async def stat(self, path: Path, *, exact: bool = False) -> FileStat:
        """Follow symlinks; raises ``not_found`` where nothing is."""
        return await run_blocking(_stat, path, exact)

    async def real_path(self, path: Path) -> Path:
        """The path with symlinks resolved as far as it exists."""
        return await run_blocking(_real_path, path)

    async def may_read(self, path: Path) -> bool:
        """Always: whoever asks here may read what the system lets them."""
        del path
        return True

    @asynccontextmanager
    async def open(self, path: Path, *, exact: bool = False) -> AsyncIterator["LocalOpenFile"]:
        """Open a regular file for reading; anything else is refused with ``PortError``."""
        raw = await run_blocking(_open_regular, path, exact)
        try:
            yield LocalOpenFile(raw, path)
        finally:
            with anyio.CancelScope(shield=True):
                await run_blocking(raw.close)

    async def read(self, path: Path, *, limit: int | None = None, exact: bool = False) -> bytes:
        """The whole file; ``too_large`` when it has more than ``limit`` bytes.

        The size the system reports is not relied on: some files have none, others grow."""
        async with self.open(path, exact=exact) as file:
            return await read_whole(file, path, limit, known_size=await run_blocking(file.size))

    async def write(
        self, path: Path, data: bytes, *, base: bytes | None = None, exact: bool = False
    ) -> Written:
        """Replace the file as one step, creating parents; the old content survives a failure.

        A write that has begun is waited for, also by a cancelled caller. No editor is known here,
        so ``base`` has no effect."""
        del base
        await run_blocking(_write, path, data, exact)
        return Written()

    async def unsaved(self, below: Path | None = None) -> Sequence[Path]:
        """None: what is written is on the disk."""
        del below
        return ()

    async def remove(self, path: Path, *, exact: bool = False) -> None:
        """Take a regular file away, or an empty directory; a symlink's target, not the link."""
        await run_blocking(_remove, path, exact)

    async def set_mode(self, path: Path, mode: int, *, exact: bool = False) -> None:
        """Give a file the permission bits ``mode``."""
        await run_blocking(_set_mode, path, mode, exact)


async def read_whole(
    file: OpenFile, path: Path, limit: int | None = None, *, known_size: int = 0
) -> bytes:
    """What is left of ``file``; raises ``too_large`` when that is more than ``limit`` bytes.

    ``known_size``, what the system says, saves reading where that is already more."""
    if limit is not None and known_size > limit:
        raise _too_large(path, known_size, limit)
    pieces: list[bytes] = []
    size = 0
    while piece := await file.read(PIECE):
        size += len(piece)
        if limit is not None and size > limit:
            raise _too_large(path, size, limit)
        pieces.append(piece)
    return b"".join(pieces)


class LocalOpenFile:
    """A regular file of the disk, open for reading. ``LocalFiles.open`` makes and closes it."""

    document = None

    def __init__(self, raw: io.FileIO, path: Path) -> None:
        self._raw = raw
        self._path = path

    async def read(self, size: int) -> bytes:
        """The next bytes, at most ``size`` and at most 256 KiB; empty at the end."""
        return await run_blocking(self._read, min(size, PIECE))

    async def seek(self, offset: int) -> None:
        """Go on reading at a byte offset."""
        await run_blocking(self._seek, offset)

    async def tell(self) -> int:
        """The byte offset at which reading goes on, also after a program that was given
        ``fileno`` has read."""
        return await run_blocking(self._tell)

    def fileno(self) -> int:
        """The open descriptor, for a program to read from."""
        return self._raw.fileno()

    def size(self) -> int:
        """Bytes, as the system reports them. Blocks."""
        with port_errors(self._path):
            return os.fstat(self._raw.fileno()).st_size

    def _read(self, size: int) -> bytes:
        with port_errors(self._path):
            data: bytes | None = self._raw.read(size)
            if data is None:  # would block: a special file that calls itself regular
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            return data

    def _tell(self) -> int:
        with port_errors(self._path):
            return os.lseek(self._raw.fileno(), 0, os.SEEK_CUR)

    def _seek(self, offset: int) -> None:
        with port_errors(self._path):
            self._raw.seek(offset)


def _stat(path: Path, exact: bool) -> FileStat:
    with port_errors(path, exact):
        found = path.stat() if not exact else _stat_exactly(path)
    kind = stat_bits.S_IFMT(found.st_mode)
    return FileStat(
        kind="file"
        if kind == stat_bits.S_IFREG
        else "directory"
        if kind == stat_bits.S_IFDIR
        else "other",
        size=found.st_size,
        mtime_ns=found.st_mtime_ns,
        mode=stat_bits.S_IMODE(found.st_mode),
    )


def _stat_exactly(path: Path) -> os.stat_result:
    with held_place(path) as place:
        return stat_at(place)


def _real_path(path: Path) -> Path:
    with port_errors(path):
        real = os.path.realpath(path)
        try:
            is_circle = stat_bits.S_ISLNK(os.lstat(real).st_mode)
        except OSError as error:
            is_circle = error.errno == errno.ELOOP
        if is_circle:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return Path(real)


def _open_regular(path: Path, exact: bool) -> io.FileIO:
    with port_errors(path, exact):
        if not exact:
            return _opened(path, path.stat, lambda: os.open(path, _OPEN_FLAGS))
        with held_place(path) as place:
            return _opened(path, lambda: stat_at(place), lambda: open_at(place, _OPEN_FLAGS))


def _opened(
    path: Path, look: Callable[[], os.stat_result], open_it: Callable[[], int]
) -> io.FileIO:
    # Looked at before it is opened: opening a device can already do something.
    _refuse_irregular(path, look().st_mode)
    fd = open_it()
    try:
        _refuse_irregular(path, os.fstat(fd).st_mode)
        return io.FileIO(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def _write(path: Path, data: bytes, exact: bool) -> None:
    with (
        port_errors(path, exact),
        held_place(_target(path, exact), create=True) as place,
    ):
        try:
            mode = stat_at(place).st_mode
        except FileNotFoundError:
            pass
        else:
            _refuse_irregular(path, mode)
            if not mode & 0o222 or not os.access(place.name, os.W_OK, dir_fd=place.directory):
                raise PortError(
                    "not_permitted", f"{display_text(str(path))} is read-only; it was not changed."
                )
        replace_at(place, data)


def _remove(path: Path, exact: bool) -> None:
    with port_errors(path, exact), held_place(_target(path, exact)) as place:
        mode = stat_at(place).st_mode
        if stat_bits.S_ISDIR(mode):
            os.rmdir(place.name, dir_fd=place.directory)
        else:
            _refuse_irregular(path, mode)
            os.unlink(place.name, dir_fd=place.directory)


def _set_mode(path: Path, mode: int, exact: bool) -> None:
    with port_errors(path, exact):
        if not exact:
            path.chmod(mode)
            return
        with _open_regular(path, exact) as file:
            os.fchmod(file.fileno(), mode)


def _target(path: Path, exact: bool) -> Path:
    return path if exact else Path(os.path.realpath(path))


def _refuse_irregular(path: Path, mode: int) -> None:
    if stat_bits.S_ISREG(mode):
        return
    shown = display_text(str(path))
    if stat_bits.S_ISDIR(mode):
        raise PortError("is_directory", f"{shown} is a directory, not a file.")
    kinds = (
        (stat_bits.S_ISFIFO, "a named pipe"),
        (stat_bits.S_ISSOCK, "a socket"),
        (stat_bits.S_ISCHR, "a device"),
        (stat_bits.S_ISBLK, "a device"),
    )
    kind = next((name for test, name in kinds if test(mode)), "something special")
    raise PortError("not_regular", f"{shown} is {kind}, not a regular file.")


def _too_large(path: Path, size: int, limit: int) -> PortError:
    return PortError(
        "too_large",
        f"{display_text(str(path))} is too large: at least {format_size(size)}, "
        f"and at most {format_size(limit)} can be taken.",
    )


@contextmanager
def port_errors(path: Path, exact: bool = False) -> Iterator[None]:
    """Errors of the operating system about ``path`` become ``PortError``.

    ``exact``: the path is a real one, so a link on the way is news."""
    shown = display_text(str(path))
    try:
        yield
    except OSError as error:
        if exact and error.errno == errno.ELOOP:
            raise PortError(
                "not_permitted",
                f"{shown} was left alone: a symbolic link has taken its place, or that of a "
                "directory above it, since it was looked at.",
            ) from error
        known = _CODES.get(error.errno or 0)
        if known is None:
            reason = error.strerror or type(error).__name__
            raise PortError("other", f"{shown} could not be accessed: {reason}.") from error
        raise PortError(known[0], f"{shown} {known[1]}.") from error
    except ValueError as error:  # NUL, or a lone surrogate
        raise PortError("other", f"{shown} cannot be the name of a file.") from error
