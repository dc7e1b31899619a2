"""Bringing a file of version 1 or 2 to the current version.

Owns the rewrite as one step, with the old file kept beside it. What changed between the versions is
in ``pi_rpc.session._migrate``. All calls block; the caller holds the lock of the file.

The new file is written under another name, then the old one gets a second name that ends in
``.bak``, then the new one takes its place: a death at any moment leaves the one or the other.
"""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from pi_rpc._os.files import fsync_file
from pi_rpc.session._file import SessionFile, appear, write_all
from pi_rpc.session._loading import CHUNK, Lines, find_header
from pi_rpc.session._migrate import Upgrade
from pi_rpc.session._repair import clean_json, plain_object
from pi_rpc.session.entries import SESSION_VERSION

__all__ = ["rewrite"]

_MOST_BACKUPS = 1000


def rewrite(path: Path) -> Path:
    """Rewrite an older session file as the current version; gives the name the old one has now.

    Raises ``OSError``; then the file is as it was.
    """
    real = path.resolve()
    # One name, not one per process: whoever dies here leaves it to the next to clear away.
    unfinished = real.with_name(f".{real.name}.migrating")
    unfinished.unlink(missing_ok=True)
    try:
        _write_upgraded(real, unfinished)
        backup = _keep(real)
        unfinished.replace(real)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()
    if os.name == "posix":
        fsync_file(real.parent)
    return backup


def _write_upgraded(real: Path, target: Path) -> None:
    old = SessionFile.open(real, read_only=True)
    try:
        mode = stat.S_IMODE(os.fstat(old.fd).st_mode)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        fd = os.open(target, flags | getattr(os, "O_CLOEXEC", 0), mode)
        try:
            for lines in _upgraded(old):
                write_all(fd, lines)
            fsync_file(fd)
        finally:
            os.close(fd)
        if old.look() != "unchanged":
            raise OSError(errno.EBUSY, "Another program writes to the file", str(real))
    finally:
        old.close()


def _upgraded(old: SessionFile) -> Iterator[bytes]:
    """The lines of the file as they are to be, in pieces; ``old.size`` follows."""
    lines = Lines()
    upgrade: Upgrade | None = None
    while True:
        chunk = old.read_at(old.size, CHUNK)
        old.size += len(chunk)
        piece = []
        for line in lines.feed(chunk) if chunk else [lines.rest()]:
            if upgrade is not None:
                piece.append(upgrade.line(line))
                continue
            header = find_header(line)
            if header is not None:
                upgrade = Upgrade(header.version)
                fields = plain_object(line.removeprefix(b"\xef\xbb\xbf")) or {}
                piece.append(clean_json({**fields, "version": SESSION_VERSION}))
            else:
                piece.append(line)
        yield b"".join(line + b"\n" for line in piece if line or chunk)
        if not chunk:
            return


def _keep(real: Path) -> Path:
    """Give the file a second name, of its own."""
    for number in range(_MOST_BACKUPS):
        backup = real.with_name(f"{real.name}.bak" + (f".{number}" if number else ""))
        try:
            os.link(real, backup)
        except FileExistsError:
            if backup.samefile(real):
                return backup  # by somebody who died before the next step
            continue
        except OSError:
            if not _copied(real, backup):
                continue
        return backup
    raise FileExistsError(errno.EEXIST, "There are too many old versions", str(real))


def _copied(real: Path, backup: Path) -> bool:
    """For file systems without hard links."""
    copy = real.with_name(f".{real.name}.copying")
    try:
        shutil.copy2(real, copy)
        appear(copy, backup)
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(OSError):
            copy.unlink()
    return True
