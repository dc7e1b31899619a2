"""The tree of a session in memory: an index, not the entries.

Owns the order of entries, their ids, the leaf, the walk from it to the root, and the sums and names
that are known once every entry went by. Of entries in a file it holds a few bytes each, and the
content only of those that were used since the newest compaction, and of a few others. Does not own
the file (``pi_rpc.session._file``).
"""

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec

from pi_rpc.chance import random_hex
from pi_rpc.llm.messages import Usage
from pi_rpc.session._entry_list import EntryList, Positions
from pi_rpc.session._scanning import FoundLines, KnownLine
from pi_rpc.session._usage_sum import UsageSum, usage_in
from pi_rpc.session.entries import (
    CompactionEntry,
    Entry,
    LabelEntry,
    LeafEntry,
    SessionInfoEntry,
    encode_entry,
    normal_name,
)
from pi_rpc.session.storage import (
    EntryNotFoundError,
    Label,
    SessionStorageError,
)
from pi_rpc.session.stored import EntryReader, StoredEntry

__all__ = ["EntryTree"]

_ROOT = -1
_STRAY = -2
_RECENT_BYTES = 4 << 20
"""Of entries that are not in use, so many bytes (as lines) stay decoded."""


class EntryTree:
    """Entries by id and in order; append-only.

    A position is an entry's number in the order of the file. Parents stand before their children,
    but in damaged files: ``ordered`` says so.
    """

    def __init__(self, reader: EntryReader) -> None:
        self.reader = reader
        self.message_count = 0
        self.name: str | None = None
        self.labels: dict[str, Label] = {}
        self.kinds = array("i")
        self.ordered = True
        self._read_at: Callable[[int, int], bytes] | None = None
        self._ids: list[str] = []
        self._by_id: dict[str, int] = {}
        self._parents = array("i")
        self._strays: dict[int, str] = {}
        self._offsets = array("q")
        self._lengths = array("q")
        self._kind_table: list[tuple[str, str | None]] = []
        self._kind_codes: dict[tuple[str, str | None], int] = {}
        self._rare: dict[str, array[int]] = {}
        self._usage = UsageSum()
        self._leaf = _ROOT
        self._branch: array[int] | None = array("i")
        self._reserved: set[str] = set()
        self._held: dict[int, StoredEntry] = {}
        self._held_from: int | None = 0
        self._kept_from: dict[int, int] = {}
        self._recent: OrderedDict[int, StoredEntry] = OrderedDict()
        self._recent_bytes = 0
        self._fresh: StoredEntry | None = None

    def __len__(self) -> int:
        return len(self._ids)

    # --- looking ---------------------------------------------------------------------------------

    @property
    def leaf_id(self) -> str | None:
        """The entry that the next one follows."""
        return None if self._leaf == _ROOT else self._ids[self._leaf]

    def position(self, entry_id: str) -> int | None:
        """The position of an entry."""
        return self._by_id.get(entry_id)

    def get(self, entry_id: str) -> StoredEntry | None:
        """The entry of that id."""
        position = self._by_id.get(entry_id)
        return None if position is None else self.at(position)

    def at(self, position: int) -> StoredEntry:
        """The entry at a position."""
        known = self._held.get(position) or self._recent.get(position)
        if known is not None:
            return known
        kind, role = self._kind_table[self.kinds[position]]
        return StoredEntry(
            None,
            id=self._ids[position],
            parent_id=self._parent_id(position),
            type=kind,
            timestamp=None,
            role=role,
            reader=self.reader,
            source=self,
            position=position,
        )

    def _parent_id(self, position: int) -> str | None:
        parent = self._parents[position]
        if parent == _STRAY:
            return self._strays[position]
        return None if parent == _ROOT else self._ids[parent]

    def entries(self) -> EntryList:
        """All entries in their order."""
        return EntryList(self, range(len(self._ids)))

    def branch(self, entry_id: str | None = None) -> EntryList:
        """The path from the root to the leaf or to ``entry_id``."""
        if entry_id is None:
            if self._branch is None:
                self._branch = self._path(self._leaf)
            return EntryList(self, self._branch[:])
        position = self._by_id.get(entry_id)
        if position is None:
            raise EntryNotFoundError(f"the session has no entry {entry_id}")
        return EntryList(self, self._path(position))

    def _path(self, position: int) -> "array[int]":
        """A missing parent ends the walk, and so does an entry that was already seen."""
        path = array("i")
        parents = self._parents
        seen: set[int] | None = None
        while position != _ROOT:
            path.append(position)
            if seen is not None:
                seen.add(position)
            parent = parents[position]
            if parent == _STRAY:
                parent = self._by_id.get(self._strays[position], _ROOT)
                seen = set(path) if seen is None else seen
            # Only a parent that stands behind its child can close a circle.
            if seen is not None and parent in seen:
                break
            position = parent
        path.reverse()
        return path

    def usage_totals(self) -> Usage:
        """What all entries used."""
        return self._usage.total()

    def kinds_of(self, wanted: Callable[[str, str | None], bool]) -> set[int]:
        """The codes, as in ``kinds``, of the types and roles that are wanted."""
        return {code for code, (kind, role) in enumerate(self._kind_table) if wanted(kind, role)}

    def positions_of(self, types: tuple[str, ...]) -> Positions:
        """Where entries of types other than messages are, the last first."""
        found = [each for kind in types for each in self._rare.get(kind, ())]
        found.sort(reverse=True)
        return array("i", found)

    # --- content, read when asked for -------------------------------------------------------------

    def read_from(self, read_at: Callable[[int, int], bytes]) -> None:
        """``read_at(offset, length)`` reads the file of the entries; until then all are kept."""
        self._read_at = read_at

    def line(self, position: int) -> bytes:
        """The line of an entry; raises ``SessionStorageError``."""
        if self._read_at is None:
            raise RuntimeError("an entry in memory has its line with it")
        try:
            line = self._read_at(self._offsets[position], self._lengths[position])
        except OSError as error:
            raise SessionStorageError(f"the session file cannot be read: {error}") from error
        entry_id = self._ids[position]
        if entry_id.isascii() and entry_id.isalnum() and entry_id.encode() not in line:
            raise SessionStorageError(f"the file changed where the entry {entry_id} was")
        return line

    def decoded(self, position: int, stored: StoredEntry) -> None:
        """``stored`` was decoded: it is kept while it is in use, or for a while."""
        if self._held_from is None:
            self._held_from = self._start_of_use()
        if position >= self._held_from:
            self._held[position] = stored
            return
        if position in self._recent:
            return
        self._recent[position] = stored
        self._recent_bytes += self._lengths[position]
        while self._recent_bytes > _RECENT_BYTES and self._recent:
            dropped, _ = self._recent.popitem(last=False)
            self._recent_bytes -= self._lengths[dropped]

    def _hold_from(self, position: int) -> None:
        """Let go of what stands before ``position``."""
        if self._read_at is None:
            return
        self._held_from = position
        self._held = {
            place: stored
            for place, stored in self._held.items()
            if place >= position or self._offsets[place] < 0
        }

    # --- growing ---------------------------------------------------------------------------------

    def new_id(self) -> str:
        """An id that neither an entry nor an earlier caller has."""
        while True:
            entry_id = random_hex(4)
            if entry_id not in self._by_id and entry_id not in self._reserved:
                self._reserved.add(entry_id)
                return entry_id

    def reserve_from(self, other: "EntryTree") -> None:
        """Keep the ids reserved that ``other`` gave out."""
        self._reserved |= other._reserved - self._by_id.keys()

    def take(self, piece: Iterable[FoundLines | KnownLine]) -> None:
        """Take in the lines of a file."""
        for item in piece:
            if isinstance(item, FoundLines):
                self._take_found(item)
            else:
                self.add(*item)

    def _take_found(self, found: FoundLines) -> None:
        """By the ten thousand, so what can be done for all at once is."""
        ids = b"\n".join(found.ids).decode("utf-8", "replace").split("\n")
        first, count = len(self._ids), len(ids)
        places = dict(zip(ids, range(first, first + count), strict=True))
        if not found.is_chain or len(places) < count or not self._by_id.keys().isdisjoint(places):
            self._take_apart(found, ids)
            return
        if found.usages:
            self._usage.add_json(found.usages)
        self.message_count += count - found.roles.count(b"system")
        codes = {role: self._kind_code("message", str(role, "ascii")) for role in set(found.roles)}
        self.kinds.extend([codes[role] for role in found.roles])
        self._parents.append(self._parent(first, _text(found.parents[0])))
        self._parents.extend(range(first, first + count - 1))
        self._ids += ids
        self._by_id |= places
        self._offsets.extend(found.offsets)
        self._lengths.extend(found.lengths)
        self._advance(first)
        if self._branch is not None:
            self._branch.extend(range(first + 1, first + count))
        self._leaf = first + count - 1

    def _take_apart(self, found: FoundLines, ids: list[str]) -> None:
        """One by one: it is not simply a chain of new entries."""
        usages = iter(found.usages)
        roles = [str(role, "ascii") for role in found.roles]
        for place, entry_id in enumerate(ids):
            usage = next(usages) if roles[place] == "assistant" else None
            if entry_id in self._by_id:
                continue
            if usage is not None:
                self._usage.add_json([usage])
            self.message_count += roles[place] != "system"
            parent = found.parents[place]
            self._place(
                entry_id,
                _text(parent),
                self._kind_code("message", roles[place]),
                (found.offsets[place], found.lengths[place]),
            )
            self._advance(len(self._ids) - 1)

    def add(self, stored: StoredEntry, offset: int = -1, length: int = 0) -> bool:
        """Take in an entry and move the leaf to it. Of entries with one id only the first counts;
        False for the others."""
        if stored.id in self._by_id:
            return False
        self._reserved.discard(stored.id)
        position = len(self._ids)
        code = self._kind_code(stored.type, stored.role)
        self._place(stored.id, stored.parent_id, code, (offset, length))
        if offset < 0:
            self._held[position] = stored
        if stored.type == "message":
            self.message_count += stored.role != "system"
        else:
            self._rare.setdefault(stored.type, array("i")).append(position)
        self._learn(stored)
        self._advance(position, stored)
        return True

    def append(self, stored: StoredEntry, offset: int) -> None:
        """``add`` what was just written at ``offset`` of the file."""
        position = len(self._ids)
        self.add(stored, offset, len(stored.raw))
        if self._fresh is not None:
            self._fresh.forget_line()
        stored.bind(self, position)
        self._fresh = stored
        self._held[position] = stored

    def _place(
        self, entry_id: str, parent_id: str | None, code: int, where: tuple[int, int]
    ) -> None:
        """Put a new entry into the index."""
        position = self._by_id[entry_id] = len(self._ids)
        self._parents.append(self._parent(position, parent_id))
        self._ids.append(entry_id)
        self.kinds.append(code)
        self._offsets.append(where[0])
        self._lengths.append(where[1])

    def _parent(self, position: int, parent_id: str | None) -> int:
        if parent_id is None:
            return _ROOT
        parent = self._by_id.get(parent_id, position)
        if parent < position:
            return parent
        self._strays[position] = parent_id
        self.ordered = False
        return _STRAY

    def _kind_code(self, kind: str, role: str | None) -> int:
        code = self._kind_codes.get((kind, role))
        if code is None:
            code = self._kind_codes[kind, role] = len(self._kind_table)
            self._kind_table.append((kind, role))
        return code

    def _learn(self, stored: StoredEntry) -> None:
        """What an entry says of the session. Decodes only those that may say something."""
        if stored.type == "message" and stored.role not in ("assistant", "toolResult"):
            return
        if stored.type in ("custom", "custom_message"):
            return
        entry = stored.entry
        match entry:
            case SessionInfoEntry():
                self.name = normal_name(entry.name or "") or None
            case LabelEntry():
                text = (entry.label or "").strip()
                self.labels.pop(entry.target_id, None)
                if text:
                    self.labels[entry.target_id] = Label(text, entry.timestamp)
        used = usage_in(entry)
        if used is not None:
            self._usage.add(used)

    def _advance(self, position: int, stored: StoredEntry | None = None) -> None:
        """Move the leaf after an entry was placed."""
        if stored is not None and stored.type == "leaf":
            entry = stored.entry
            if isinstance(entry, LeafEntry):
                target = entry.target_id
                leaf = _ROOT if target is None else self._by_id.get(target)
                if leaf is not None:
                    self._move(leaf)
                    return
        if self._branch is not None and self._parents[position] == self._leaf:
            self._branch.append(position)
        else:
            self._branch = self._held_from = None
        self._leaf = position
        if stored is not None and stored.type == "compaction":
            entry = stored.entry
            if isinstance(entry, CompactionEntry):
                kept = self._by_id.get(entry.first_kept_entry_id, position)
                self._kept_from[position] = kept
                self._hold_from(kept)

    def _move(self, leaf: int) -> None:
        if leaf != self._leaf:
            self._leaf, self._branch = leaf, None
            if self._read_at is not None:
                self._hold_from(len(self._ids))
                self._held_from = None  # found when it matters: a file may have many moves

    def _start_of_use(self) -> int:
        """The first position that the context of the branch needs."""
        for _, stored in self.branch().newest(("compaction",)):
            kept = self._kept_from.get(self._by_id[stored.id])
            if kept is not None:
                return kept
        return 0

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


def _text(value: bytes | None) -> str | None:
    return None if value is None else str(value, "utf-8", "replace")
