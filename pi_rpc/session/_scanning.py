"""Finding what the usual lines of a session file say without reading them whole.

Owns the quick look at a message's line: its head and its tail as pi and we write them, and nothing
in between. A line of any other kind or shape is read by ``pi_rpc.session.stored``. Pure.

A line that passes may be damaged in the middle, but it is whole: one that was cut off does not end
like this.
"""

import re
from typing import TypeAlias

from pi_rpc.session.stored import StoredEntry

__all__ = ["FoundLines", "KnownLine", "scan"]

KnownLine: TypeAlias = tuple[StoredEntry, int, int]
"""An entry that was read, and where; at -1 it is nowhere and has to be kept."""

_HEAD = re.compile(
    rb'\{"type":"message","id":"([^"\\]+)","parentId":(?:"([^"\\]+)"|null),'
    rb'"timestamp":"[^"]*","message":\{"role":"(\w+)"'
).match
_SCALARS = rb'(?:,"\w+":(?:"[^"\\]*"|-?[0-9][0-9.eE+-]*|true|false|null))*'
_USAGE = re.compile(rb'"usage":(\{[^}]*\}[^}]*\})' + _SCALARS + rb"\}\}").match
_TIMES = re.compile(rb',"(?:timestamp|durationMs)":[0-9.]+' + _SCALARS + rb"\}\}").match

_STAMP = b',"timestamp":'
_STAMP_BYTES = len(_STAMP) + 13 + 2
"""Of the end of a line: milliseconds, and what closes message and entry."""
_AFTER_CONTENT = (b'],"isError":false', b'],"isError":true')
_NEAR = 400
"""How far from the end of its line a time is looked for."""
_USAGE_NEAR = 1500


class FoundLines:
    """Messages in lines that follow each other, which need no more reading now."""

    __slots__ = ("ids", "is_chain", "lengths", "offsets", "parents", "roles", "usages")

    def __init__(self) -> None:
        self.ids: list[bytes] = []
        self.parents: list[bytes | None] = []
        self.roles: list[bytes] = []
        self.offsets: list[int] = []
        self.lengths: list[int] = []
        self.usages: list[bytes] = []
        """What replies used, as JSON objects."""
        self.is_chain = True
        """The parent of every message but the first is the one before it."""


def scan(data: bytes, start: int, stop: int, base: int) -> tuple[FoundLines, int]:
    """The messages in the lines from ``start`` to ``stop`` of ``data``, which is at ``base``.

    Ends before the first line that needs to be read, and says where that begins.
    """
    found = FoundLines()
    head_of, line_end, starts, ends = _HEAD, data.index, data.startswith, data.endswith
    ids, parents, roles = found.ids.append, found.parents.append, found.roles.append
    offsets, lengths = found.offsets.append, found.lengths.append
    last_id: bytes | None = None
    while start < stop:
        end = line_end(b"\n", start)
        head = head_of(data, start, end)
        if head is None:
            break
        entry_id, parent_id, role = head.groups()
        if role == b"assistant":
            tail = _USAGE(data, max(start, data.rfind(b'"usage":', end - _USAGE_NEAR, end)), end)
            if tail is None or tail.end() != end:
                break
            found.usages.append(tail[1])
        elif starts(_STAMP, end - _STAMP_BYTES) and ends(b"}}", start, end):
            # All of a result but its content may say that the tool used tokens, which count.
            if (
                role == b"toolResult"
                and not ends(_AFTER_CONTENT, start, end - _STAMP_BYTES)
                and _may_have_used(data, start, end)
            ):
                break
        elif not _is_whole(data, start, end) or _may_have_used(data, start, end):
            break
        if parent_id != last_id and last_id is not None:
            found.is_chain = False
        last_id = entry_id
        ids(entry_id)
        parents(parent_id)
        roles(role)
        offsets(base + start)
        lengths(end - start)
        start = end + 1
    return found, start


def _is_whole(data: bytes, start: int, end: int) -> bool:
    """The line ends as that of a message does."""
    near = max(start, end - _NEAR)
    at = data.rfind(_STAMP, near, end)
    if at < 0:
        at = data.rfind(b',"durationMs":', near, end)
    tail = _TIMES(data, at, end) if at > 0 else None
    return tail is not None and tail.end() == end


def _may_have_used(data: bytes, start: int, end: int) -> bool:
    return data.find(b'"usage":', max(start, end - _USAGE_NEAR), end) >= 0
