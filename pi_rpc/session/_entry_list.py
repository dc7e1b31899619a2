"""Entries of a tree as a sequence that holds none of them.

Owns looking at a branch, or at everything, by position: what an entry is comes from the index, its
content is read when somebody asks. Does not own the index (``pi_rpc.session._tree``).
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias, overload

from pi_rpc.session.stored import StoredEntry

if TYPE_CHECKING:
    from pi_rpc.session._tree import EntryTree

__all__ = ["EntryList", "Positions", "earlier", "newest", "place_of", "places"]

Positions: TypeAlias = "array[int] | range"


class EntryList(Sequence[StoredEntry]):
    """Entries of one tree by their positions in it; later ones do not show."""

    __slots__ = ("_positions", "_tree")

    def __init__(self, tree: "EntryTree", positions: Positions) -> None:
        self._tree = tree
        self._positions = positions

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, index: int) -> StoredEntry: ...
    @overload
    def __getitem__(self, index: slice) -> "EntryList": ...
    def __getitem__(self, index: int | slice) -> "StoredEntry | EntryList":
        if isinstance(index, slice):
            return EntryList(self._tree, self._positions[index])
        return self._tree.at(self._positions[index])

    def __iter__(self) -> Iterator[StoredEntry]:
        return map(self._tree.at, self._positions)

    def __reversed__(self) -> Iterator[StoredEntry]:
        return map(self._tree.at, reversed(self._positions))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, EntryList):
            return self._tree is other._tree and list(self._positions) == list(other._positions)
        return list(self) == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as a list

    def __repr__(self) -> str:
        return f"EntryList of {len(self)}"

    def position(self, entry_id: str) -> int | None:
        """Where an entry is in the whole tree."""
        return self._tree.position(entry_id)

    def place_of(self, entry_id: str, stop: int) -> int | None:
        """Where in the first ``stop`` entries one is."""
        position = self._tree.position(entry_id)
        if position is None:
            return None
        try:
            place = self._positions.index(position)
        except ValueError:
            return None
        return place if place < stop else None

    def newest(self, types: tuple[str, ...]) -> Iterator[tuple[int, StoredEntry]]:
        """Entries of these types and their places, the last first."""
        tree, positions = self._tree, self._positions
        if "message" in types or not tree.ordered:
            wanted = tree.kinds_of(lambda kind, role: kind in types)
            kinds = tree.kinds
            for place in range(len(positions) - 1, -1, -1):
                if kinds[positions[place]] in wanted:
                    yield place, tree.at(positions[place])
            return
        for position in tree.positions_of(types):
            place = bisect_left(positions, position)
            if place < len(positions) and positions[place] == position:
                yield place, tree.at(position)

    def places(
        self, wanted: Callable[[str, str | None], bool], says: Callable[[StoredEntry], bool]
    ) -> list[int]:
        """Where entries are whose type and role are ``wanted``; of others than messages, those
        that ``says`` agrees to."""
        tree, positions = self._tree, self._positions
        codes = tree.kinds_of(wanted)
        sure = tree.kinds_of(lambda kind, role: kind == "message")
        kinds = tree.kinds
        return [
            place
            for place, each in enumerate(positions)
            if (code := kinds[each]) in codes and (code in sure or says(tree.at(each)))
        ]


def newest(
    branch: Sequence[StoredEntry], types: tuple[str, ...]
) -> Iterator[tuple[int, StoredEntry]]:
    """Entries of these types in any sequence and their places, the last first."""
    if isinstance(branch, EntryList):
        yield from branch.newest(types)
        return
    for place in range(len(branch) - 1, -1, -1):
        if branch[place].type in types:
            yield place, branch[place]


def place_of(branch: Sequence[StoredEntry], entry_id: str, stop: int) -> int | None:
    """Where in the first ``stop`` entries of any sequence one is."""
    if isinstance(branch, EntryList):
        return branch.place_of(entry_id, stop)
    return next((place for place in range(stop) if branch[place].id == entry_id), None)


def places(
    branch: Sequence[StoredEntry],
    wanted: Callable[[str, str | None], bool],
    says: Callable[[StoredEntry], bool],
) -> list[int]:
    """Where entries of any sequence are whose type and role are ``wanted`` and ``says`` agrees."""
    if isinstance(branch, EntryList):
        return branch.places(wanted, says)
    return [
        place for place, each in enumerate(branch) if wanted(each.type, each.role) and says(each)
    ]


def earlier(entries: Sequence[StoredEntry]) -> Callable[[StoredEntry, int], str | None]:
    """A function that gives the parent of an entry at a place, if it stands before that place."""
    at: Callable[[str], int | None]
    if isinstance(entries, EntryList):
        at = entries.position
    else:
        at = {stored.id: place for place, stored in enumerate(entries)}.get

    def parent(stored: StoredEntry, place: int) -> str | None:
        where = None if stored.parent_id is None else at(stored.parent_id)
        return stored.parent_id if where is not None and where < place else None

    return parent
