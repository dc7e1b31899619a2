"""From one text to another, as the edits that an editor is asked to make.

Owns which passages change and where they are in the editor's units. Pure functions.

Lines end at ``\n`` and ``\r\n``; no position lies between the two characters of the latter.
"""

from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from pi_rpc.agent.tool import Position, Range

__all__ = ["PositionEncoding", "TextEdit", "text_edits"]

PositionEncoding: TypeAlias = Literal["utf-8", "utf-16", "utf-32"]

_MOST_COMPARED = 1500  # lines on either side that are compared one by one


class TextEdit(Struct, frozen=True):
    """``new_text`` takes the place of ``range`` in the text before all edits."""

    range: Range
    new_text: str


def text_edits(old: str, new: str, encoding: PositionEncoding) -> list[TextEdit]:
    """The edits that make ``new`` of ``old``, in the order of the text; they do not touch.

    Only what differs is in them, so that cursors, marks and folds elsewhere stay. Blocks for as
    long as the lines that differ need to be compared.
    """
    old_lines, new_lines = old.splitlines(keepends=True), new.splitlines(keepends=True)
    if any(map(_breaks_elsewhere, (old, new))):
        old_lines, new_lines = _lines(old), _lines(new)
    return [
        edit
        for start, before, after in _changes(old_lines, new_lines)
        if (edit := _edit(start, before, after, encoding)) is not None
    ]


_OTHER_BREAKS = frozenset("\v\f\x1c\x1d\x1e\x85\u2028\u2029")


def _breaks_elsewhere(text: str) -> bool:
    """``str.splitlines`` would break it where editors do not."""
    return text.count("\r") != text.count("\r\n") or any(each in text for each in _OTHER_BREAKS)


def _lines(text: str) -> list[str]:
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _changes(old: list[str], new: list[str]) -> Iterator[tuple[int, str, str]]:
    """Number of the first line, what goes and what comes."""
    head, shortest = 0, min(len(old), len(new))
    while head < shortest and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shortest - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    gone, come = old[head : len(old) - tail], new[head : len(new) - tail]
    if max(len(gone), len(come)) > _MOST_COMPARED:
        yield head, "".join(gone), "".join(come)
        return
    # Most runs edit nothing.
    from difflib import SequenceMatcher

    for tag, i1, i2, j1, j2 in SequenceMatcher(None, gone, come).get_opcodes():
        if tag != "equal":
            yield head + i1, "".join(gone[i1:i2]), "".join(come[j1:j2])


def _edit(line: int, old: str, new: str, encoding: PositionEncoding) -> TextEdit | None:
    """The edit within whole lines, without what both begin and end with."""
    shortest = min(len(old), len(new))
    head = _common(old, new, shortest)
    if head and old[head - 1] == "\r" and "\n" in {old[head : head + 1], new[head : head + 1]}:
        head -= 1
    tail = _common(old[::-1], new[::-1], shortest - head)
    if tail and old[len(old) - tail] == "\n":
        before = {old[len(old) - tail - 1 : len(old) - tail], new[: len(new) - tail][-1:]}
        if "\r" in before:
            tail -= 1
    end = len(old) - tail
    if head == end and head == len(new) - tail:
        return None
    return TextEdit(
        Range(
            start=_position(line, old[:head], encoding),
            end=_position(line, old[:end], encoding),
        ),
        new[head : len(new) - tail],
    )


def _common(one: str, other: str, most: int) -> int:
    """How many leading characters agree, at most ``most``."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _position(line: int, before: str, encoding: PositionEncoding) -> Position:
    """The end of ``before``, which begins with ``line``."""
    start = before.rfind("\n") + 1
    return Position(line=line + before.count("\n"), character=_units(before[start:], encoding))


def _units(text: str, encoding: PositionEncoding) -> int:
    if encoding == "utf-32" or text.isascii():
        return len(text)
    if encoding == "utf-8":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
