"""Files: read without waiting for anybody, written so that nobody ever sees half of one.

Owns reading a regular file within a limit, the replacement of a file as one step, flushing to the
disk and private temporary files. All calls block for as long as the disk takes; what may take long
is run with ``pi_rpc._os.threads.run_blocking``. Does not own which files may be read or written.
"""

import contextlib
import errno
import os
import stat
import sys
from pathlib import Path

from pi_rpc._os.places import Place, held_place, stat_at

__all__ = [
    "atomic_replace",
    "fsync_file",
    "private_temp_file",
    "read_regular",
    "replace_at",
    "write_at",
]


def atomic_replace(
    path: Path, data: bytes, *, fsync: bool = False, mode: int | None = None
) -> None:
    """Make ``data`` the content of ``path`` as one step; its directory must exist.

    A symlink is followed and its target replaced, wherever somebody makes it lead meanwhile: see
    ``replace_at`` for what is kept and what is raised.
    """
    with held_place(Path(os.path.realpath(path))) as place:
        replace_at(place, data, fsync=fsync, mode=mode)


def replace_at(place: Place, data: bytes, *, fsync: bool = False, mode: int | None = None) -> None:
    """Make ``data`` the content of the file at ``place`` as one step.

    An existing file keeps its mode, its extended attributes and, as far as we are allowed to set
    it, its ownership; ``mode`` replaces its mode, and the content is never to be read under
    another. With ``fsync`` the new content has reached the disk on return.

    Raises ``OSError``: among others for a file we may not write, for a full disk, with ``EINVAL``
    for anything but a regular file and with ``ELOOP`` for a symlink. The old content stays and no
    temporary file does, on Linux also if this process is killed meanwhile.
    """
    directory, name = place
    try:
        before = stat_at(place)
    except FileNotFoundError:
        before = None
    if before is not None:
        if stat.S_ISDIR(before.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, "Not a regular file", name)
        if not os.access(name, os.W_OK, dir_fd=directory):
            # A rename would succeed, but write protection is meant to stop exactly this.
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    temp = Place(directory, str(Path(name).with_name(f".pi-rpc-{os.urandom(8).hex()}.tmp")))
    # A new file gets what the umask leaves; a replacement stays private until it is complete.
    fresh = 0o666 if mode is None else mode
    try:
        fd = _write_new(temp, data, fresh if before is None else 0o600)
        try:
            if before is not None:
                _keep_attributes(fd, place, before, mode)
            if fsync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temp.name, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temp.name, dir_fd=directory)
        raise
    if fsync:
        _fsync_directory(place)


_DESCRIPTORS = "/proc/self/fd"


def _write_new(place: Place, data: bytes, mode: int) -> int:
    """Make a file with ``data`` in it; its descriptor. After a failure there may be one.

    Where the system can do it, it has no name until it is written: whoever kills us meanwhile
    leaves nothing.
    """
    flags = os.O_WRONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    if sys.platform == "linux":
        fd = -1
        with contextlib.suppress(OSError):  # not every file system has it; others say why below
            fd = os.open(".", flags | os.O_TMPFILE, mode, dir_fd=place.directory)
        if fd >= 0 and _fill(fd, data, place):
            return fd
    fd = os.open(place.name, flags | os.O_CREAT | os.O_EXCL, mode, dir_fd=place.directory)
    _fill(fd, data, None)
    return fd


def _fill(fd: int, data: bytes, place: Place | None) -> bool:
    """Write, and give the file a name; False where that cannot be done. Closes it on failure."""
    try:
        _write_all(fd, data)
        if place is not None:
            directory, name = place
            source = f"{_DESCRIPTORS}/{fd}"
            os.link(source, name, dst_dir_fd=directory, follow_symlinks=True)
    except BaseException as error:
        os.close(fd)
        if place is not None and isinstance(error, OSError) and error.filename is not None:
            return False  # it was the name
        raise
    return True


def fsync_file(file: int | Path) -> None:
    """Flush a file, open as a descriptor or named by its path, to the disk."""
    if isinstance(file, int):
        os.fsync(file)
        return
    # Windows flushes only what is open for writing.
    fd = os.open(file, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_regular(path: Path, limit: int) -> tuple[bytes, int]:
    """The first ``limit`` bytes of a file, and how many bytes were left out.

    Raises ``OSError``: with ``EINVAL`` for anything but a regular file, such as a folder, a device
    or a named pipe, whose reader would wait for somebody to write.
    """
    # Opening alone may have an effect, on a device or on who writes into a pipe.
    _require_regular(path.stat(), path)
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    with open(os.open(path, flags), "rb") as file:  # noqa: PTH123 - a descriptor
        _require_regular(os.fstat(file.fileno()), path)
        # Some files of the kernel's that look regular have nothing to give at the moment: None.
        found = file.read(limit + 1) or b""
        left_out = max(1, file.seek(0, os.SEEK_END) - limit) if len(found) > limit else 0
    return found[:limit], left_out


def _require_regular(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def private_temp_file(prefix: str, suffix: str = "") -> tuple[int, Path]:
    """A new, empty file in the system's temporary directory that only this user can read.

    Returns its descriptor, open for reading and writing, and its path. The caller closes the one
    and, unless somebody is meant to read it later, removes the other.
    """
    import tempfile

    fd, name = tempfile.mkstemp(prefix=prefix, suffix=suffix)
    return fd, Path(name)


def write_at(fd: int, data: bytes, offset: int) -> None:
    """Write all of ``data`` at ``offset`` of an open file.

    Several threads may do so at once, except on Windows.
    """
    if sys.platform == "win32":
        os.lseek(fd, offset, os.SEEK_SET)
        _write_all(fd, data)
        return
    rest = memoryview(data)
    while rest:
        written = os.pwrite(fd, rest, offset)
        rest, offset = rest[written:], offset + written


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _keep_attributes(
    fd: int, place: Place, before: os.stat_result, chosen_mode: int | None
) -> None:
    if sys.platform == "win32":
        return
    mode = stat.S_IMODE(before.st_mode) if chosen_mode is None else chosen_mode
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(fd, before.st_uid, before.st_gid)
        except PermissionError:
            mode &= ~(stat.S_ISUID | stat.S_ISGID)  # not for an owner they were not set for
            with contextlib.suppress(PermissionError):
                os.fchown(fd, -1, before.st_gid)
    os.fchmod(fd, mode)  # after fchown, which clears set-user-id and set-group-id
    if sys.platform == "linux":
        source = f"{_DESCRIPTORS}/{place.directory}/{place.name}"
        with contextlib.suppress(OSError):  # not every file system has extended attributes
            for name in os.listxattr(source, follow_symlinks=False):
                # An access list would say again who may read it.
                if chosen_mode is None or not name.startswith("system.posix_acl"):
                    os.setxattr(fd, name, os.getxattr(source, name, follow_symlinks=False))


def _fsync_directory(place: Place) -> None:
    if place.directory is None:
        return
    fd = os.open(".", os.O_RDONLY | getattr(os, "O_DIRECTORY", 0), dir_fd=place.directory)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
