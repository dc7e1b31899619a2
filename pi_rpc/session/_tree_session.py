"""What every session of ours is: a header and a tree of entries in memory.

Owns the part of ``SessionStorage`` that needs no disk. Does not own where entries go
(``pi_rpc.session.store``, ``pi_rpc.session.memory``).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from pi_rpc.llm.messages import Usage
from pi_rpc.session._tree import EntryTree
from pi_rpc.session.entries import Entry, LeafEntry, SessionHeader, iso_now
from pi_rpc.session.storage import Label
from pi_rpc.session.stored import StoredEntry


class TreeSession(ABC):
    """A session whose entries are indexed in memory. See ``SessionStorage``."""

    def __init__(self, header: SessionHeader, tree: EntryTree) -> None:
        self._header = header
        self._tree = tree
        self._closed = False

    @property
    def header(self) -> SessionHeader:
        """The header."""
        return self._header

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._header.id

    @property
    def cwd(self) -> str:
        """The working directory the header names."""
        return self._header.cwd

    @property
    def name(self) -> str | None:
        """The name a person gave it."""
        return self._tree.name

    @property
    def leaf_id(self) -> str | None:
        """The entry that the next one follows; None at the root."""
        return self._tree.leaf_id

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

    @abstractmethod
    async def append_many(
        self, entries: Iterable[Entry], *, strict: bool = True
    ) -> list[StoredEntry]:
        """``append`` for several entries: all of them or none."""

    async def set_leaf_id(self, target_id: str | None) -> StoredEntry | None:
        """Make an entry the leaf, or go back to the root. See ``SessionStorage``."""
        if target_id == self.leaf_id:
            return None
        return await self.append(
            LeafEntry(
                id=self.new_id(), parent_id=target_id, timestamp=iso_now(), target_id=target_id
            )
        )
