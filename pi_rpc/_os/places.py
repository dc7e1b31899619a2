"""Places: where a file really is, held so that nothing can be put in between.

Owns the way to a file that follows no symbolic link, from the root directory downward, each
directory held by a descriptor while the next is opened. Between a look at a path and its use
anybody may put a link where a directory was; what is reached here is at the path that was given, or
it is an error. Does not own what may be reached. All calls block.

Where the system holds no directories (Windows) the path is compared with its resolved form just
before it is used.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

__all__ = ["Place", "held_directory", "held_place", "open_at", "stat_at"]

_HOLDS = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
# A directory that may be passed through need not be one that may be listed.
_PASS = getattr(os, "O_PATH", os.O_RDONLY)
for _flag in ("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC"):
    _PASS |= getattr(os, _flag, 0)
_LIST = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


class Place(NamedTuple):
    """A name in a directory that is held: the arguments of the system's ``*at`` calls."""

    directory: int | None
    """Its descriptor; None where the system holds none."""
    name: str
    """The name in it, or without a descriptor the whole path."""


@contextmanager
def held_place(path: Path, *, create: bool = False) -> Iterator[Place]:
    """The place of ``path``, which is absolute and real; the file itself need not exist.

    With ``create``, directories that are missing are made. Raises ``OSError``: with ``ELOOP`` where
    one of the directories is a symbolic link.
    """
    if not _HOLDS:
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
        if os.path.realpath(path.parent) != str(path.parent):
            raise _link(path)
        yield Place(None, str(path))
        return
    _refuse_too_long(path)
    directory = _reach(path.parent, create=create)
    try:
        yield Place(directory, path.name or ".")
    finally:
        os.close(directory)


@contextmanager
def held_directory(path: Path) -> Iterator[int]:
    """The descriptor, open for listing, of the directory at ``path``, which is absolute and real.

    Not on Windows. Raises ``OSError`` as ``held_place`` does.
    """
    through = _reach(path, create=False)
    try:
        directory = os.open(".", _LIST, dir_fd=through)
    finally:
        os.close(through)
    try:
        yield directory
    finally:
        os.close(directory)


def stat_at(place: Place) -> os.stat_result:
    """What is at a place; ``ELOOP`` for a symbolic link."""
    found = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        raise _link(Path(place.name))
    return found


def open_at(place: Place, flags: int) -> int:
    """Open what is at a place; ``ELOOP`` for a symbolic link."""
    flags |= getattr(os, "O_NOFOLLOW", 0)
    return os.open(place.name, flags, dir_fd=place.directory)


def _reach(path: Path, *, create: bool) -> int:
    """The descriptor of a directory, good for passing through only."""
    here = os.open(path.anchor, _PASS)
    try:
        for name in path.parts[1:]:
            there = _step(here, name, path, create=create)
            os.close(here)
            here = there
    except BaseException:
        os.close(here)
        raise
    return here


def _step(here: int, name: str, path: Path, *, create: bool) -> int:
    try:
        return os.open(name, _PASS, dir_fd=here)
    except FileNotFoundError:
        if not create:
            raise
    except OSError as error:
        if error.errno in {errno.ENOTDIR, errno.ELOOP} and _is_link(here, name):
            raise _link(path) from None
        raise
    with contextlib.suppress(FileExistsError):  # what it is shows when it is opened
        os.mkdir(name, dir_fd=here)
    return _step(here, name, path, create=False)


def _refuse_too_long(path: Path) -> None:
    """Step by step any path could be made, and then nobody could name it."""
    try:
        path.lstat()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise


def _is_link(here: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode)
    except OSError:  # gone by now
        return True


def _link(path: Path) -> OSError:
    return OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
