"""What goes into a new session that continues an old one from some entry.

Owns the choice and the lines: entries keep their ids, labels are made anew at the end. Pure: does
not own where the new session is kept (``pi_rpc.session.repo``).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from pi_rpc.session._repair import clean_json, plain_object
from pi_rpc.session.entries import LabelEntry, encode_entry
from pi_rpc.session.storage import ForkTargetError, Label, SessionStorage
from pi_rpc.session.stored import StoredEntry
from pi_rpc.session.tree import user_text_of

__all__ = ["ForkPosition", "forked_lines", "forked_path"]

ForkPosition: TypeAlias = Literal["before", "at"]
"""``before`` a user's message, to say something else; ``at`` an entry, which is kept."""


def forked_path(
    source: SessionStorage, entry_id: str | None, position: ForkPosition
) -> Sequence[StoredEntry]:
    """The entries that are kept, from the root on; ``entry_id`` None is the leaf.

    Raises ``EntryNotFoundError``, and ``ForkTargetError`` for ``before`` anything but a message
    of, or in place of, a user.
    """
    path = source.branch(entry_id)
    if position == "at":
        return path
    if not path or user_text_of(path[-1].entry) is None:
        raise ForkTargetError(f"the entry {entry_id} is no user's message to fork before")
    return path[:-1]


def forked_lines(
    path: Sequence[StoredEntry], labels: Mapping[str, Label], new_id: Callable[[], str]
) -> Iterator[bytes]:
    """The lines of a file that holds ``path``, but for its header; without line ends."""
    parent: str | None = None
    kept: set[str] = set()
    dropped: dict[str, str] = {}
    pending: list[str] = []
    for stored in path:
        if stored.type == "label":
            pending.append(stored.id)
            continue
        dropped |= dict.fromkeys(pending, stored.id)
        pending.clear()
        yield _line(stored, parent, dropped)
        kept.add(stored.id)
        parent = stored.id
    for label in _labels(labels, kept, new_id, parent):
        yield encode_entry(label)


def _line(stored: StoredEntry, parent: str | None, dropped: Mapping[str, str]) -> bytes:
    """The line of an entry below another one than before, if need be."""
    if stored.parent_id == parent and not (stored.type == "compaction" and dropped):
        return stored.raw
    fields: dict[str, Any] = plain_object(stored.raw) or {}
    fields["parentId"] = parent
    kept_from = fields.get("firstKeptEntryId")
    if stored.type == "compaction" and isinstance(kept_from, str):
        fields["firstKeptEntryId"] = dropped.get(kept_from, kept_from)
    return clean_json(fields)


def _labels(
    labels: Mapping[str, Label], kept: set[str], new_id: Callable[[], str], parent: str | None
) -> Iterator[LabelEntry]:
    for target, label in labels.items():
        if target in kept:
            entry = LabelEntry(
                id=new_id(),
                parent_id=parent,
                timestamp=label.timestamp,
                target_id=target,
                label=label.text,
            )
            parent = entry.id
            yield entry
