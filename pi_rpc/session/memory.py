"""Sessions that are never written.

Owns ``SessionStorage`` in memory, for ephemeral sessions and for users of the library.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import UNSET

from pi_rpc.agent.messages import MessageRoles
from pi_rpc.llm.messages import Usage
from pi_rpc.session._tree import EntryTree, leaf_entry
from pi_rpc.session.entries import SESSION_VERSION, Entry, SessionHeader, iso_now
from pi_rpc.session.naming import check_session_id, new_session_id
from pi_rpc.session.storage import Change, Label, SessionReadOnlyError
from pi_rpc.session.stored import EntryReader, StoredEntry

__all__ = ["MemorySession"]


class MemorySession:
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
        self._header = SessionHeader(
            version=SESSION_VERSION,
            id=new_session_id() if session_id is None else check_session_id(session_id),
            timestamp=iso_now(),
            cwd=str(cwd),
            parent_session=UNSET if parent_session is None else parent_session,
        )
        self._tree = EntryTree(EntryReader(roles))
        self._closed = False

    @property
    def header(self) -> SessionHeader:
        """The header it would have in a file."""
        return self._header

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._header.id

    @property
    def cwd(self) -> str:
        """The working directory."""
        return self._header.cwd

    @property
    def path(self) -> None:
        """There is no file."""
        return

    @property
    def name(self) -> str | None:
        """The name a person gave it."""
        return self._tree.name

    @property
    def leaf_id(self) -> str | None:
        """The entry that the next one follows; None at the root."""
        return self._tree.leaf_id

    @property
    def read_only(self) -> bool:
        """Always False."""
        return False

    @property
    def notes(self) -> list[str]:
        """Always empty."""
        return []

    @property
    def message_count(self) -> int:
        """Messages in the whole tree, system messages left out."""
        return self._tree.message_count

    def new_id(self) -> str:
        """An id for an entry that is still to be appended; no other entry will get it."""
        return self._tree.new_id()

    @property
    def labels(self) -> Mapping[str, Label]:
        """The bookmarks, by the entry they are on."""
        return MappingProxyType(self._tree.labels)

    def usage_totals(self) -> Usage:
        """What all entries of all branches used."""
        return self._tree.usage_totals()

    def branch(self, entry_id: str | None = None) -> Sequence[StoredEntry]:
        """The entries from the root to the leaf, or to ``entry_id``."""
        return self._tree.branch(entry_id)

    def entry(self, entry_id: str) -> StoredEntry | None:
        """The entry of that id."""
        return self._tree.get(entry_id)

    def entries(self) -> Sequence[StoredEntry]:
        """All entries of all branches in the order they were appended."""
        return self._tree.entries()

    async def append(self, entry: Entry, *, strict: bool = True) -> StoredEntry:
        """Add an entry below the leaf and make it the leaf. See ``SessionStorage``."""
        return (await self.append_many([entry], strict=strict))[0]

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

    async def set_leaf_id(self, target_id: str | None) -> StoredEntry | None:
        """Make an entry the leaf, or go back to the root. See ``SessionStorage``."""
        if target_id == self.leaf_id:
            return None
        return await self.append(leaf_entry(self, target_id))

    def restore(self, lines: Iterable[bytes]) -> None:
        """Take in entries in JSON, as they are, after those that are there."""
        for line in lines:
            stored = self._tree.reader.line(line)
            if stored is not None:
                self._tree.add(stored)

    async def sync(self) -> None:
        """Nothing to do."""

    async def refresh(self) -> Change:
        """Always ``unchanged``."""
        return "unchanged"

    async def aclose(self) -> None:
        """What was appended stays readable; may be called twice."""
        self._closed = True
