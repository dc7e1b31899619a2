"""What was read of session files for lists, kept in a file so that another process need not.

Owns that file: one per folder of sessions, for what is in it and in the folders inside. It is only
ever a copy: whatever is wrong with it, it is done without. All calls block.
"""

import contextlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from pi_rpc.session._summary import StoredSession

__all__ = ["INDEX", "Stamp", "SummaryCache", "read_indexes", "write_indexes"]

INDEX = ".pi-rpc-index.json"
_VERSION = 2
_MOST_BYTES = 64 << 20

Stamp: TypeAlias = tuple[int, int, int]
"""Inode, size and time of the last change in nanoseconds."""

SummaryCache: TypeAlias = dict[Path, tuple[Stamp, StoredSession | None]]
"""What was read of files, so that only changed ones are read again. Start with an empty one."""


class _Summary(Struct, frozen=True, array_like=True):
    session_id: str
    cwd: str
    name: str | None
    created: str
    modified_ms: int
    message_count: int
    first_message: str
    parent_session: str | None


class _Row(Struct, frozen=True, array_like=True):
    path: str
    """Below the folder of the index."""
    stamp: Stamp
    summary: _Summary | None


class _Index(Struct, frozen=True):
    version: int
    files: list[_Row]


_decode = msgspec.json.Decoder(_Index).decode


def read_indexes(folders: Collection[Path], wanted: Collection[Path]) -> SummaryCache:
    """What the indexes of ``folders`` know of the files that are wanted."""
    known: SummaryCache = {}
    for folder in folders:
        for row in _read(folder / INDEX):
            path = folder / row.path
            if path in wanted:
                known[path] = (row.stamp, _session(path, row.summary))
    return known


def _read(path: Path) -> list[_Row]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            return []
        index = _decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    return index.files if index.version == _VERSION else []


def write_indexes(
    folders: Collection[Path], changed: Collection[Path], cache: Mapping[Path, object]
) -> None:
    """Write the indexes of those folders that files with new summaries are in."""
    for folder in folders:
        if any(folder in (path.parent, path.parent.parent) for path in changed):
            with contextlib.suppress(OSError, UnicodeEncodeError):
                _write(folder, cache)


def _write(folder: Path, cache: Mapping[Path, object]) -> None:
    rows = []
    for path, known in cache.items():
        if folder in (path.parent, path.parent.parent) and isinstance(known, tuple):
            stamp, session = known
            with contextlib.suppress(UnicodeEncodeError):
                name = str(path.relative_to(folder))
                name.encode()  # a name that is not UTF-8 has no place in JSON
                rows.append(_Row(name, stamp, _summary(session)))
    data = msgspec.json.encode(_Index(_VERSION, rows))
    unfinished = folder / f"{INDEX}.{os.getpid()}.{os.urandom(4).hex()}"
    # It quotes what people said, which is nobody else's business.
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        unfinished.replace(folder / INDEX)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _summary(session: StoredSession | None) -> _Summary | None:
    if session is None:
        return None
    return _Summary(
        session_id=session.session_id,
        cwd=session.cwd,
        name=session.name,
        created=session.created,
        modified_ms=session.modified_ms,
        message_count=session.message_count,
        first_message=session.first_message,
        parent_session=session.parent_session,
    )


def _session(path: Path, summary: _Summary | None) -> StoredSession | None:
    if summary is None:
        return None
    return StoredSession(
        session_id=summary.session_id,
        path=path,
        cwd=summary.cwd,
        name=summary.name,
        created=summary.created,
        modified_ms=summary.modified_ms,
        message_count=summary.message_count,
        first_message=summary.first_message,
        parent_session=summary.parent_session,
    )
