"""Sessions that are never written.

Owns ``SessionStorage`` in memory, for ephemeral sessions and for users of the library.
"""

from collections.abc import Iterable
from pathlib import Path

from msgspec import UNSET

from pi_rpc.agent.messages import MessageRoles
from pi_rpc.session._tree import EntryTree
from pi_rpc.session._tree_session import TreeSession
from pi_rpc.session.entries import SESSION_VERSION, Entry, SessionHeader, iso_now
from pi_rpc.session.naming import check_session_id, new_session_id
from pi_rpc.session.storage import Change, SessionReadOnlyError
from pi_rpc.session.stored import EntryReader, StoredEntry

__all__ = ["MemorySession"]


class MemorySession(TreeSession):
    """A session that ends with the process. See ``SessionStorage``."""

    def __init__(
        self,
        cwd: str | Path,
        *,
        session_id: str | None = None,
        parent_session: str | None = None,
        roles: MessageRoles | None = None,
    ) -> None:
        """Raises ``ValueError`` for a ``session_id`` that is none."""
        header = SessionHeader(
            version=SESSION_VERSION,
            id=new_session_id() if session_id is None else check_session_id(session_id),
            timestamp=iso_now(),
            cwd=str(cwd),
            parent_session=UNSET if parent_session is None else parent_session,
        )
        super().__init__(header, EntryTree(EntryReader(roles)))

    @property
    def path(self) -> None:
        """There is no file."""
        return

    @property
    def read_only(self) -> bool:
        """Always False."""
        return False

    @property
    def notes(self) -> list[str]:
        """Always empty."""
        return []

    async def append_many(
        self, entries: Iterable[Entry], *, strict: bool = True
    ) -> list[StoredEntry]:
        """``append`` for several entries: all of them or none."""
        del strict
        if self._closed:
            raise SessionReadOnlyError("the session is closed")
        staged = self._tree.stage(entries)
        for stored in staged:
            self._tree.add(stored)
        return staged

    def restore(self, lines: Iterable[bytes]) -> None:
        """Take in entries in JSON, as they are, after those that are there."""
        for line in lines:
            stored = self._tree.reader.line(line)
            if stored is not None:
                self._tree.add(stored)

    def reopen(self) -> None:
        """Take entries again after ``aclose``."""
        self._closed = False

    async def sync(self) -> None:
        """Nothing to do."""

    async def refresh(self) -> Change:
        """Always ``unchanged``."""
        return "unchanged"

    async def aclose(self) -> None:
        """What was appended stays readable; may be called twice."""
        self._closed = True
