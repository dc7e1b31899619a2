"""Finding sessions on the disk and saying what is in them, without opening them.

Owns what a list of sessions shows, its order and its pages. Does not own which folders are looked
into, nor sessions that are open. Whatever cannot be read is left out.
"""

import errno
import heapq
import os
from bisect import insort
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import anyio
from msgspec import Struct

from pi_rpc._os.threads import run_blocking
from pi_rpc.session._locking import writer_of, writers_of
from pi_rpc.session._summary import StoredSession, Summary, read_header
from pi_rpc.session._summary_index import Stamp, SummaryCache, read_indexes, write_indexes
from pi_rpc.session.naming import session_id_in, valid_session_id
from pi_rpc.session.storage import SessionNotFoundError, SessionStorageError

__all__ = [
    "TRASH",
    "SessionPage",
    "StoredSession",
    "SummaryCache",
    "find_session",
    "list_sessions",
    "page_of",
    "writer_of",
    "writers_of",
]

TRASH = ".trash"
"""The folder of deleted sessions, which are not looked at."""

_MOST_FILES = 20_000
"""Older files than so many are not looked at."""
_AT_ONCE = 4

_Key: TypeAlias = tuple[int, str]


class SessionPage(Struct, frozen=True):
    """A page of sessions, the one used last first."""

    sessions: list[StoredSession]
    next_cursor: str | None
    """Names the next page; None on the last."""


class _Candidate(Struct, frozen=True, order=True):
    mtime_ns: int
    path: Path
    stamp: Stamp


async def list_sessions(
    folders: Iterable[Path],
    *,
    cwd: str | Path | None = None,
    query: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    cache: SummaryCache | None = None,
) -> SessionPage:
    """The sessions in ``folders`` and the folders directly inside them.

    ``cwd`` leaves only those of one working directory, ``query`` those with that text in their name
    or first message, in any case. Files are read in the order of their last change until no other
    can belong on the page; what was read is kept in a file in each folder. Raises ``ValueError``
    for a ``cursor`` that is none, ``SessionStorageError`` where no more files can be opened.
    """
    limit = max(1, limit)
    after = None if cursor is None else _parse_cursor(cursor)
    cache = {} if cache is None else cache
    folders = list(folders)
    candidates = await run_blocking(_candidates, folders)
    paths = {candidate.path for candidate in candidates}
    for path in [path for path in cache if path not in paths]:
        del cache[path]
    if unread := paths - cache.keys():
        cache |= await run_blocking(read_indexes, folders, unread)
    before = dict(cache)
    page = await _first_page(candidates, cache, _filter(cwd, query), limit, after)
    if changed := [path for path, known in cache.items() if before.get(path) is not known]:
        await run_blocking(write_indexes, folders, changed, dict(cache))
    return page


async def _first_page(
    candidates: list[_Candidate],
    cache: SummaryCache,
    wanted: Callable[[StoredSession], bool],
    limit: int,
    after: _Key | None,
) -> SessionPage:
    """The first page after a place."""
    found: list[tuple[_Key, StoredSession]] = []
    for start in range(0, len(candidates), _AT_ONCE):
        batch = candidates[start : start + _AT_ONCE]
        # A session was used no later than its file was changed.
        if len(found) > limit and -found[limit][0][0] >= batch[0].mtime_ns // 1_000_000:
            break
        for session in await _summaries(batch, cache):
            key = _key(session)
            if wanted(session) and (after is None or key > after):
                insort(found, (key, session), key=lambda item: item[0])
    return _page([session for _, session in found[: limit + 1]], limit)


def page_of(
    sessions: Iterable[StoredSession],
    *,
    cwd: str | Path | None,
    query: str | None,
    limit: int,
    cursor: str | None,
) -> SessionPage:
    """A page of sessions that are known already; arguments and errors are ``list_sessions``'s."""
    after = None if cursor is None else _parse_cursor(cursor)
    wanted = _filter(cwd, query)
    found = sorted((each for each in sessions if wanted(each)), key=_key)
    return _page([each for each in found if after is None or _key(each) > after], max(1, limit))


def _page(sessions: list[StoredSession], limit: int) -> SessionPage:
    page = sessions[:limit]
    return SessionPage(page, _cursor(page[-1]) if len(sessions) > limit else None)


def _key(session: StoredSession) -> _Key:
    return (-session.modified_ms, str(session.path))


def _cursor(session: StoredSession) -> str:
    return f"{session.modified_ms}|{session.path}"


def _parse_cursor(cursor: str) -> _Key:
    milliseconds, bar, path = cursor.partition("|")
    if not bar or not milliseconds.lstrip("-").isdigit():
        raise ValueError(f"{cursor[:60]!r} is no cursor of a list of sessions")
    return (-int(milliseconds), path)


def _filter(cwd: str | Path | None, query: str | None) -> Callable[[StoredSession], bool]:
    directory = None if cwd is None else os.path.normpath(cwd)
    text = (query or "").casefold()

    def wanted(session: StoredSession) -> bool:
        if directory is not None and os.path.normpath(session.cwd) != directory:
            return False
        return text in (session.name or "").casefold() or text in session.first_message.casefold()

    return wanted


def _candidates(folders: list[Path]) -> list[_Candidate]:
    """Session files, the one changed last first."""
    found: dict[Path, _Candidate] = {}
    for folder in folders:
        for inner in [folder, *_entries(folder, _holds_sessions)]:
            for path in _entries(inner, lambda entry: entry.name.endswith(".jsonl")):
                try:
                    status = path.stat()
                except OSError:
                    continue
                stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
                found[path] = _Candidate(status.st_mtime_ns, path, stamp)
    return heapq.nlargest(_MOST_FILES, found.values())


def _holds_sessions(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir() and entry.name != TRASH


def _entries(folder: Path, wanted: Callable[[os.DirEntry[str]], bool]) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if wanted(entry)]
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            # It says nothing about the folder: an empty list would be wrong.
            message = f"the sessions in {folder} cannot be listed: {error.strerror}"
            raise SessionStorageError(message) from error
        return []


async def _summaries(batch: list[_Candidate], cache: SummaryCache) -> list[StoredSession]:
    async def summarise(candidate: _Candidate) -> None:
        try:
            cache[candidate.path] = (candidate.stamp, await _summary(candidate.path))
        except OSError:
            # The next time it may be readable, though it has not changed.
            cache.pop(candidate.path, None)

    unread = [each for each in batch if cache.get(each.path, (None,))[0] != each.stamp]
    if unread:
        async with anyio.create_task_group() as tasks:
            for candidate in unread:
                tasks.start_soon(summarise, candidate)
    known = [cache.get(candidate.path, (None, None))[1] for candidate in batch]
    return [summary for summary in known if summary is not None]


async def _summary(path: Path) -> StoredSession | None:
    """None: it is no session. Raises ``OSError``."""
    summary = await run_blocking(Summary, path)
    try:
        while await run_blocking(summary.step):
            pass
    finally:
        summary.close()
    return summary.result()


async def find_session(folders: Iterable[Path], session_id: str) -> Path:
    """The file of a session in ``folders`` or the folders directly inside them.

    Of several the one changed last. Raises ``SessionNotFoundError``, and ``SessionStorageError``
    where no more files can be opened.
    """
    if valid_session_id(session_id):
        candidates = await run_blocking(_candidates, list(folders))
        named = [c.path for c in candidates if session_id_in(c.path.name) == session_id]
        others = [c.path for c in candidates if session_id_in(c.path.name) != session_id]
        for path in [*named, *others]:
            header = await run_blocking(read_header, path)
            if header is not None and header.id == session_id:
                return path
    raise SessionNotFoundError(f"there is no session {session_id[:80]}")
