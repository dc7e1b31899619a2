"""Sessions as a collection: made, found, listed, forked and thrown away.

Owns ``SessionRepo`` and its two implementations. Does not own what is inside a session
(``pi_rpc.session.storage``). Users of the library can bring a repo, and storages, of their own.
"""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.messages import MessageRoles
from pi_rpc.llm.messages import ImageBlock
from pi_rpc.session._forking import ForkPosition, forked_lines, forked_path
from pi_rpc.session._locking import lock_session
from pi_rpc.session.entries import iso_now, ms_of_iso
from pi_rpc.session.listing import (
    TRASH,
    SessionPage,
    StoredSession,
    SummaryCache,
    find_session,
    list_sessions,
    page_of,
)
from pi_rpc.session.memory import MemorySession
from pi_rpc.session.naming import session_directory
from pi_rpc.session.storage import (
    SessionNotFoundError,
    SessionStorage,
    SessionStorageError,
)
from pi_rpc.session.store import JsonlSession
from pi_rpc.session.stored import StoredEntry
from pi_rpc.session.tree import preview_of, user_images_of, user_text_of

__all__ = ["Fork", "ForkPosition", "JsonlSessionRepo", "MemorySessionRepo", "SessionRepo"]

_MOST_OF_A_NAME = 10_000


class Fork(Struct, frozen=True):
    """A new session that begins as another one did."""

    session: SessionStorage
    text: str | None = None
    """What the user had said where it forks, to be said otherwise; None after ``at``."""
    images: list[ImageBlock] = field(default_factory=list)
    """The images beside it."""


class SessionRepo(Protocol):
    """Where sessions are kept."""

    async def create(
        self,
        cwd: str | Path,
        *,
        session_id: str | None = None,
        parent_session: str | None = None,
    ) -> SessionStorage:
        """A new session. Raises ``ValueError`` for an id that is none."""
        ...

    async def open(
        self, session: str | Path, *, read_only: bool = False, cwd: str | Path | None = None
    ) -> SessionStorage:
        """The session of an id, or in a file. Raises ``SessionNotFoundError`` and what the storage
        raises."""
        ...

    async def list(
        self,
        *,
        cwd: str | Path | None = None,
        query: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> SessionPage:
        """A page of the sessions, the one used last first. See ``list_sessions``."""
        ...

    async def most_recent(self, *, cwd: str | Path | None = None) -> StoredSession | None:
        """The session used last; None when there is none."""
        page = await self.list(cwd=cwd, limit=1)
        return page.sessions[0] if page.sessions else None

    async def fork(
        self,
        source: SessionStorage,
        entry_id: str | None = None,
        *,
        position: ForkPosition = "at",
        cwd: str | Path | None = None,
    ) -> Fork:
        """A new session, open, that holds the path of ``source`` to an entry (default: the leaf).

        ``at`` keeps the entry too, ``before`` ends above it and gives back what the user had said.
        Entries keep their ids, labels are made anew at the end. Raises ``EntryNotFoundError`` and
        ``ForkTargetError``.
        """
        ...

    async def delete(self, session: str | Path) -> None:
        """Throw a session away, by id or file. Raises ``SessionNotFoundError``, and
        ``SessionLockedError`` for one that is open for writing anywhere."""
        ...


class JsonlSessionRepo(SessionRepo):
    """Sessions in files, in the folders of pi. See ``SessionRepo``.

    What is deleted goes to the folder ``.trash`` beside the folders of sessions.
    """

    def __init__(
        self,
        agent_dir: Path,
        *,
        session_dir: Path | None = None,
        roles: MessageRoles | None = None,
    ) -> None:
        """``session_dir`` is a folder that a person chose for all new sessions."""
        self._agent_dir = agent_dir
        self._session_dir = session_dir
        self._roles = roles
        self._cache: SummaryCache = {}

    @property
    def folders(self) -> list[Path]:
        """Where sessions are looked for: here and in the folders inside."""
        own = [] if self._session_dir is None else [self._session_dir]
        return [*own, self._agent_dir / "sessions"]

    def directory(self, cwd: str | Path) -> Path:
        """Where new sessions of a working directory go."""
        return session_directory(self._agent_dir, cwd, session_dir=self._session_dir)

    async def create(
        self,
        cwd: str | Path,
        *,
        session_id: str | None = None,
        parent_session: str | None = None,
    ) -> JsonlSession:
        """A new session; its file appears with the first entry."""
        return await JsonlSession.create(
            self.directory(cwd),
            cwd,
            session_id=session_id,
            parent_session=parent_session,
            roles=self._roles,
        )

    async def open(
        self, session: str | Path, *, read_only: bool = False, cwd: str | Path | None = None
    ) -> JsonlSession:
        """The session of an id (a ``str``) or in a file (a ``Path``)."""
        path = await self._find(session)
        return await JsonlSession.open(path, read_only=read_only, cwd=cwd, roles=self._roles)

    async def _find(self, session: str | Path) -> Path:
        if isinstance(session, Path):
            return session
        return await find_session(self.folders, session)

    async def list(
        self,
        *,
        cwd: str | Path | None = None,
        query: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> SessionPage:
        """A page of the sessions, the one used last first."""
        return await list_sessions(
            self.folders, cwd=cwd, query=query, limit=limit, cursor=cursor, cache=self._cache
        )

    async def fork(
        self,
        source: SessionStorage,
        entry_id: str | None = None,
        *,
        position: ForkPosition = "at",
        cwd: str | Path | None = None,
    ) -> Fork:
        """A new session in a file of its own, which appears whole and names its parent."""
        path = forked_path(source, entry_id, position)
        where = source.cwd if cwd is None else cwd
        parent = None if source.path is None else str(source.path)
        session: JsonlSession
        if path:
            session = await JsonlSession.write(
                self.directory(where),
                where,
                forked_lines(path, dict(source.labels), source.new_id),
                parent_session=parent,
                roles=self._roles,
            )
        else:
            session = await self.create(where, parent_session=parent)
        return _fork(source, session, entry_id, position)

    async def delete(self, session: str | Path) -> None:
        """Move the session's file to the trash."""
        path = await self._find(session)
        try:
            await run_blocking(self._throw_away, path)
        except OSError as error:
            raise SessionStorageError(f"{path} cannot be moved to the trash: {error}") from error

    def _throw_away(self, path: Path) -> None:
        if not path.is_file():
            raise SessionNotFoundError(f"there is no session file {path}")
        lock = lock_session(path)
        try:
            root = next((folder for folder in self.folders if path.is_relative_to(folder)), None)
            # As deep as it was, or pi would list it.
            folder = (path.parent if root is None else root) / TRASH / path.parent.name
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for number in range(_MOST_OF_A_NAME):
                target = folder / (path.name if number == 0 else f"{path.stem}.{number}.jsonl")
                with contextlib.suppress(FileExistsError):
                    _move(path, target)
                    return
            raise FileExistsError(f"{folder} is full of {path.name}")
        finally:
            lock.release()


def _move(path: Path, target: Path) -> None:
    """Rename, but never onto another file."""
    try:
        os.link(path, target)
    except FileExistsError:
        raise
    except OSError:
        if target.exists():
            raise FileExistsError(str(target)) from None
        path.rename(target)
        return
    path.unlink()


def _fork(
    source: SessionStorage, session: SessionStorage, entry_id: str | None, position: ForkPosition
) -> Fork:
    if position == "at":
        return Fork(session)
    entry = source.branch(entry_id)[-1].entry
    return Fork(session, user_text_of(entry), user_images_of(entry))


class MemorySessionRepo(SessionRepo):
    """Sessions that end with the process. See ``SessionRepo``."""

    def __init__(self, *, roles: MessageRoles | None = None) -> None:
        self._roles = roles
        self._sessions: dict[str, MemorySession] = {}

    async def create(
        self,
        cwd: str | Path,
        *,
        session_id: str | None = None,
        parent_session: str | None = None,
    ) -> MemorySession:
        """A new session."""
        session = MemorySession(
            cwd, session_id=session_id, parent_session=parent_session, roles=self._roles
        )
        self._sessions[session.session_id] = session
        return session

    async def open(
        self, session: str | Path, *, read_only: bool = False, cwd: str | Path | None = None
    ) -> MemorySession:
        """The session of an id; it is the same one however often it is opened."""
        del read_only, cwd
        found = self._found(session)
        found.reopen()
        return found

    def _found(self, session: str | Path) -> MemorySession:
        found = self._sessions.get(str(session))
        if found is None:
            raise SessionNotFoundError(f"there is no session {str(session)[:80]}")
        return found

    async def list(
        self,
        *,
        cwd: str | Path | None = None,
        query: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> SessionPage:
        """A page of the sessions, the one used last first."""
        sessions = [_summary(session) for session in self._sessions.values()]
        return page_of(sessions, cwd=cwd, query=query, limit=limit, cursor=cursor)

    async def fork(
        self,
        source: SessionStorage,
        entry_id: str | None = None,
        *,
        position: ForkPosition = "at",
        cwd: str | Path | None = None,
    ) -> Fork:
        """A new session in memory, whatever ``source`` is kept in."""
        path = forked_path(source, entry_id, position)
        parent = None if source.path is None else str(source.path)
        session = await self.create(source.cwd if cwd is None else cwd, parent_session=parent)
        session.restore(forked_lines(path, dict(source.labels), source.new_id))
        return _fork(source, session, entry_id, position)

    async def delete(self, session: str | Path) -> None:
        """Forget a session."""
        del self._sessions[self._found(session).session_id]


def _summary(session: MemorySession) -> StoredSession:
    messages: Sequence[StoredEntry] = [
        each for each in session.entries() if each.type == "message" and each.role != "system"
    ]
    first = next((preview_of(each) for each in messages if each.role == "user"), "")
    began = session.header.timestamp
    used = messages[-1].timestamp if messages else began
    return StoredSession(
        session_id=session.session_id,
        path=Path(session.session_id),
        cwd=session.cwd,
        name=session.name,
        created=began,
        modified_ms=ms_of_iso(used) or ms_of_iso(iso_now()) or 0,
        message_count=session.message_count,
        first_message=first,
        parent_session=session.header.parent_session or None,
    )
