"""The files of the shadow store: where each lies, and how one is written.

Owns places and names, their privacy (0700 and 0600), and that what was written stays after a power
cut. Does not own what is in them (``pi_rpc.harness.checkpoint_store``). All calls block.
"""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from pi_rpc._os.files import fsync_file

__all__ = [
    "all_journals",
    "append",
    "content_path",
    "create",
    "digest_of",
    "is_digest",
    "is_journal_name",
    "journal_path",
    "journals_in",
    "listed",
    "private_folder",
    "session_folder",
    "sync_folder",
]

_DIGEST = re.compile(r"[0-9a-f]{64}").fullmatch
_JOURNAL = re.compile(r"cp_[0-9a-f]{17}").fullmatch
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}").fullmatch
_CLOSED_FOR_CHILDREN = getattr(os, "O_CLOEXEC", 0)


def digest_of(data: bytes) -> str:
    """The name of a content."""
    import hashlib

    return hashlib.sha256(data).hexdigest()


def is_digest(name: str) -> bool:
    """It can be the name of a content."""
    return _DIGEST(name) is not None


def is_journal_name(name: str) -> bool:
    """It can be the id of a checkpoint."""
    return _JOURNAL(name) is not None


def content_path(store: Path, digest: str) -> Path:
    """Where a content lies."""
    return store / "objects" / digest[:2] / digest


def session_folder(store: Path, session_id: str) -> Path:
    """Where the journals of a session lie. Its id may be any text; a folder's name may not."""
    name = session_id
    if not _PLAIN_NAME(session_id):
        name = "_" + digest_of(session_id.encode("utf-8", "surrogatepass"))
    return store / "sessions" / name


def journal_path(store: Path, session_id: str, checkpoint_id: str) -> Path:
    """Where the journal of a checkpoint lies."""
    return session_folder(store, session_id) / f"{checkpoint_id}.jsonl"


def journals_in(folder: Path) -> list[Path]:
    """The journals in the folder of a session, oldest first."""
    found = sorted(listed(folder))
    return [path for path in found if path.suffix == ".jsonl" and is_journal_name(path.stem)]


def all_journals(store: Path) -> Iterator[Path]:
    """The journals of all sessions."""
    for session in listed(store / "sessions"):
        yield from journals_in(session)


def listed(folder: Path) -> list[Path]:
    """What is in a folder; nothing where there is none."""
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def private_folder(folder: Path, *, durable: bool) -> None:
    """Make a folder and those above it that are missing, for nobody else to look into."""
    if folder.is_dir():
        return
    missing = [folder]
    while not missing[-1].parent.is_dir():
        missing.append(missing[-1].parent)
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        if durable:
            sync_folder(each.parent)


def create(path: Path, *pieces: bytes, durable: bool) -> None:
    """Make a file of ``pieces``; ``durable``: it has reached the disk, though perhaps not its
    name. Raises ``OSError``, and then there may be part of it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    fd = os.open(path, flags | _CLOSED_FOR_CHILDREN, 0o600)
    try:
        for piece in pieces:
            _write_all(fd, piece)
        if durable:
            fsync_file(fd)
    finally:
        os.close(fd)


def append(path: Path, text: bytes) -> None:
    """Add to a file, which the first call makes. Raises ``OSError``."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    fd = os.open(path, flags | _CLOSED_FOR_CHILDREN, 0o600)
    try:
        _write_all(fd, text)
    finally:
        os.close(fd)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, where the system can do that."""
    if os.name != "posix":
        return
    try:
        fsync_file(folder)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
