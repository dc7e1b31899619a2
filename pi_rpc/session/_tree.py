"""The tree of a session in memory.

Owns the order of entries, their ids, the leaf and the walk from it to the root. Pure: does not own
where entries come from nor where they are written.
"""

import secrets
from collections.abc import Iterable

import msgspec

from pi_rpc.session.entries import Entry, LeafEntry, SessionInfoEntry, encode_entry, normal_name
from pi_rpc.session.storage import EntryNotFoundError
from pi_rpc.session.stored import EntryReader, StoredEntry

__all__ = ["EntryTree"]


class EntryTree:
    """Entries by id and in order; append-only."""

    def __init__(self, reader: EntryReader) -> None:
        self.reader = reader
        self.leaf_id: str | None = None
        self.message_count = 0
        self.name: str | None = None
        self.in_order: list[StoredEntry] = []
        self._by_id: dict[str, StoredEntry] = {}
        self._reserved: set[str] = set()
        self._branch: list[StoredEntry] | None = []

    def get(self, entry_id: str) -> StoredEntry | None:
        """The entry of that id."""
        return self._by_id.get(entry_id)

    def new_id(self) -> str:
        """An id that neither an entry nor an earlier caller has."""
        while True:
            entry_id = secrets.token_hex(4)
            if entry_id not in self._by_id and entry_id not in self._reserved:
                self._reserved.add(entry_id)
                return entry_id

    def reserve_from(self, other: "EntryTree") -> None:
        """Keep the ids reserved that ``other`` gave out."""
        self._reserved |= other._reserved - self._by_id.keys()

    def add(self, stored: StoredEntry) -> bool:
        """Take in an entry and move the leaf to it. Of entries with one id only the first counts;
        False for the others."""
        if stored.id in self._by_id:
            return False
        self._reserved.discard(stored.id)
        self._by_id[stored.id] = stored
        self.in_order.append(stored)
        if stored.type == "message" and stored.role != "system":
            self.message_count += 1
        elif stored.type == "session_info" and isinstance(stored.entry, SessionInfoEntry):
            self.name = normal_name(stored.entry.name or "") or None
        self._move_leaf(stored)
        return True

    def _move_leaf(self, stored: StoredEntry) -> None:
        if stored.type == "leaf" and isinstance(stored.entry, LeafEntry):
            target = stored.entry.target_id
            if target is None or target in self._by_id:
                self.leaf_id, self._branch = target, None
                return
        if self._branch is not None and stored.parent_id == self.leaf_id:
            self._branch.append(stored)
        else:
            self._branch = None
        self.leaf_id = stored.id

    def branch(self, entry_id: str | None = None) -> list[StoredEntry]:
        """The path from the root to the leaf or to ``entry_id``."""
        if entry_id is None:
            if self._branch is None:
                self._branch = self._path(self.leaf_id)
            return list(self._branch)
        if entry_id not in self._by_id:
            raise EntryNotFoundError(f"the session has no entry {entry_id}")
        return self._path(entry_id)

    def _path(self, entry_id: str | None) -> list[StoredEntry]:
        """A missing parent ends the walk, and so does an entry that was already seen."""
        path: list[StoredEntry] = []
        seen: set[str] = set()
        while entry_id is not None and entry_id not in seen:
            stored = self._by_id.get(entry_id)
            if stored is None:
                break
            seen.add(entry_id)
            path.append(stored)
            entry_id = stored.parent_id
        path.reverse()
        return path

    def stage(self, entries: Iterable[Entry]) -> list[StoredEntry]:
        """The entries as they would be stored below the leaf. Changes nothing."""
        leaf = self.leaf_id
        staged: dict[str, StoredEntry] = {}
        for entry in entries:
            if not entry.id or entry.id in self._by_id or entry.id in staged:
                raise ValueError(f"the id {entry.id!r} of a new entry is empty or taken")
            parent = leaf
            if isinstance(entry, LeafEntry):
                parent = entry.target_id
                if parent is not None and parent not in self._by_id and parent not in staged:
                    raise EntryNotFoundError(f"the session has no entry {parent}")
            placed = msgspec.structs.replace(entry, parent_id=parent)
            line = self.reader.written(placed, encode_entry(placed))
            staged[entry.id] = line
            leaf = parent if isinstance(entry, LeafEntry) else entry.id
        return list(staged.values())
