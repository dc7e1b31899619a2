"""Unified hunks of two byte strings, in time that hardly depends on what is in them.

Owns the comparison of lines and the form of hunks. Pure, and made of the standard library alone:
large comparisons run this file as a program of its own (``pi_rpc.harness.run_diff``), which reads
``old length, new length, first line, limit`` as four 8-byte numbers and the two contents from its
standard input, and writes one byte (1: cut) and the hunks.

Lines that occur once on either side hold the two together; only short stretches between them are
compared line by line with everything else.
"""

import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TypeAlias

__all__ = ["CONTEXT", "unified_hunks"]

CONTEXT = 3
"""Unchanged lines shown around a change."""

_MAX_COMPARED = 40_000  # pairs of lines, at once
_MAX_IN_ALL = 400_000
_Change: TypeAlias = tuple[int, int, int, int]


def unified_hunks(old: bytes, new: bytes, first_line: int, limit: int) -> tuple[bytes, bool]:
    """The hunks, at most about ``limit`` bytes of them, and whether that cut them short.

    ``old`` and ``new`` are whole lines that begin at line ``first_line`` (from 0) of their files.
    """
    before, after = _lines(old), _lines(new)
    out: list[bytes] = []
    size = 0
    for group in _grouped(_changes(before, after)):
        hunk = _hunk(group, before, after, first_line)
        if size + len(hunk) > limit:
            room = hunk[: limit - size]
            out.append(room[: room.rfind(b"\n") + 1])
            return b"".join(out), True
        out.append(hunk)
        size += len(hunk)
    return b"".join(out), False


def _lines(text: bytes) -> list[bytes]:
    lines = [line + b"\n" for line in text.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _changes(old: Sequence[bytes], new: Sequence[bytes]) -> list[_Change]:
    """What differs, as ``(old start, old end, new start, new end)``, in order."""
    found: list[_Change] = []
    waiting: list[_Change] = [(0, len(old), 0, len(new))]
    left = _MAX_IN_ALL
    while waiting:
        a, b, c, d = waiting.pop()
        while a < b and c < d and old[a] == new[c]:
            a, c = a + 1, c + 1
        while a < b and c < d and old[b - 1] == new[d - 1]:
            b, d = b - 1, d - 1
        if a == b and c == d:
            continue
        if a == b or c == d:
            found.append((a, b, c, d))
        elif anchors := _anchors(old, new, a=a, b=b, c=c, d=d):
            ends = [*anchors, (b, d)]
            starts = [(a, c), *((i + 1, j + 1) for i, j in anchors)]
            waiting += [
                (start[0], end[0], start[1], end[1])
                for start, end in zip(reversed(starts), reversed(ends), strict=True)
            ]
        elif (b - a) * (d - c) > min(_MAX_COMPARED, left):
            found.append((a, b, c, d))
        else:
            from difflib import SequenceMatcher

            left -= (b - a) * (d - c)
            matcher = SequenceMatcher(None, old[a:b], new[c:d], autojunk=False)
            found += [
                (a + i, a + j, c + k, c + m)
                for tag, i, j, k, m in matcher.get_opcodes()
                if tag != "equal"
            ]
    return found


def _anchors(
    old: Sequence[bytes], new: Sequence[bytes], *, a: int, b: int, c: int, d: int
) -> list[tuple[int, int]]:
    """Lines that occur once on either side, as far as they are in the same order on both."""
    where = _once(old, a, b)
    there = _once(new, c, d)
    pairs = [(i, there[line]) for line, i in where.items() if line in there]
    # The longest series of rising positions in the new text.
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for index, (_, j) in enumerate(pairs):
        place = bisect_left(ends, j)
        if place == len(ends):
            ends.append(j)
            last.append(index)
        else:
            ends[place] = j
            last[place] = index
        before.append(last[place - 1] if place else -1)
    chain: list[tuple[int, int]] = []
    at = last[-1] if last else -1
    while at >= 0:
        chain.append(pairs[at])
        at = before[at]
    return chain[::-1]


def _once(lines: Sequence[bytes], start: int, end: int) -> dict[bytes, int]:
    """The lines that occur once, in order, and where."""
    seen: dict[bytes, int] = {}
    for index in range(start, end):
        line = lines[index]
        seen[line] = -1 if line in seen else index
    return {line: index for line, index in seen.items() if index >= 0}


def _grouped(changes: Sequence[_Change]) -> Iterator[list[_Change]]:
    """Changes whose surroundings touch, together."""
    group: list[_Change] = []
    for change in changes:
        if group and change[0] - group[-1][1] > 2 * CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _hunk(
    group: Sequence[_Change], old: Sequence[bytes], new: Sequence[bytes], first_line: int
) -> bytes:
    start = max(0, group[0][0] - CONTEXT)
    end = min(len(old), group[-1][1] + CONTEXT)
    new_start = group[0][2] - (group[0][0] - start)
    new_end = group[-1][3] + (end - group[-1][1])
    marked: list[bytes] = []
    at = start
    for a, b, c, d in group:
        marked += [b" " + line for line in old[at:a]]
        marked += [b"-" + line for line in old[a:b]]
        marked += [b"+" + line for line in new[c:d]]
        at = b
    marked += [b" " + line for line in old[at:end]]
    head = (
        f"@@ -{_range(first_line + start, end - start)}"
        f" +{_range(first_line + new_start, new_end - new_start)} @@\n"
    )
    ended = [
        line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"
        for line in marked
    ]
    return head.encode() + b"".join(ended)


def _range(start: int, count: int) -> str:
    # Of an empty range, the line before it is named.
    return f"{start + 1 if count else start},{count}"


def _main() -> None:
    source = sys.stdin.buffer
    old_size, new_size, first_line, limit = (
        int.from_bytes(source.read(8), "big") for _ in range(4)
    )
    hunks, cut = unified_hunks(source.read(old_size), source.read(new_size), first_line, limit)
    sys.stdout.buffer.write(bytes([cut]) + hunks)


if __name__ == "__main__":
    _main()
