"""Differences for people and programs.

Owns two ways to show what changed in a text: a numbered listing and a unified patch. Both are
bounded. The places that changed are given, not searched for, so a diff costs what changed and not
what the file is long. Pure functions.

Lines end at ``\\n``, as the ``read`` tool counts them; a ``\\r`` before it belongs to the line.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

__all__ = ["CONTEXT", "Diff", "diff_of_splices", "diff_of_texts"]

CONTEXT = 4
"""Unchanged lines shown around a change."""

_MAX_CHARS = 128 * 1024  # of each form
_MAX_LINE = 2000  # characters of a line in the listing
_STRIDE = 16 * 1024  # characters that are passed over at once
_MAX_COMPARED = 1500  # lines on either side that are compared one by one


class Diff(Struct, frozen=True):
    """What changed."""

    listing: str
    """Lines ``+12 new``, ``-12 old``, `` 12 same``, and `` ... `` for what is skipped."""
    patch: str
    """Unified; empty when it would be too large."""
    first_changed_line: int | None
    """In the new text, counted from 1."""
    truncated: bool
    """The listing was cut, or the patch left out."""

    def details(self) -> dict[str, Any]:
        """The JSON object that clients find in a tool result's ``details``."""
        details: dict[str, Any] = {"diff": self.listing, "patch": self.patch}
        if self.first_changed_line is not None:
            details["firstChangedLine"] = self.first_changed_line
        if self.truncated:
            details["diffTruncated"] = True
        return details


class _Change(Struct, frozen=True):
    """Lines that went and lines that came. Starts are numbers of lines before, in old and new."""

    old_start: int
    new_start: int
    old: list[str]
    new: list[str]


class _Hunk(Struct, frozen=True):
    """Changes that are near each other, as marked lines with their context."""

    old_start: int
    new_start: int
    lines: list[tuple[str, str]]
    """Mark (``+``, ``-`` or a space) and text with its line break."""


def diff_of_texts(old: str, new: str, name: str) -> Diff:
    """What changed from one text to another."""
    return diff_of_splices(old, [(0, len(old), new)], name)


def diff_of_splices(old: str, splices: Sequence[tuple[int, int, str]], name: str) -> Diff:
    """What changes in ``old`` when each ``(start, end, text)``, in order, replaces its part."""
    changes: list[_Change] = []
    shift, line, counted = 0, 0, 0
    for start, end, new in _whole_lines(old, splices):
        line += old.count("\n", counted, start)
        counted = start
        gone, come = _split(old[start:end]), _split(new)
        changes += _refined(gone, come, line, line + shift)
        shift += len(come) - len(gone)
    hunks, goes_on = _hunks(old, changes)
    listing, cut = _listing(hunks, goes_on=goes_on)
    patch = _patch(hunks, name)
    first = changes[0].new_start + 1 if changes else None
    return Diff(listing, patch or "", first, cut or patch is None)


def _whole_lines(old: str, splices: Sequence[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """The same replacements, grown to whole lines; those that meet in a line become one."""
    grown: list[tuple[int, int, str]] = []
    for start, end, text in splices:
        line_start = old.rfind("\n", 0, start) + 1
        if end > start and old[end - 1] == "\n" and (not text or text.endswith("\n")):
            line_end = end if start == line_start or text else _after_line(old, end)
        else:
            line_end = _after_line(old, end)
        if grown and line_start < grown[-1][1]:
            # The last one already reaches into this line: go on where it stopped.
            before_start, before_end, before = grown.pop()
            tail = before_end - start
            before = before[: len(before) - tail] if tail else before
            line_end = max(line_end, before_end)
            grown.append((before_start, line_end, before + text + old[end:line_end]))
        else:
            grown.append((line_start, line_end, old[line_start:start] + text + old[end:line_end]))
    return grown


def _after_line(text: str, position: int) -> int:
    at = text.find("\n", position)
    return len(text) if at < 0 else at + 1


def _split(text: str) -> list[str]:
    """Lines with their breaks; only ``\\n`` breaks."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _refined(old: list[str], new: list[str], old_start: int, new_start: int) -> list[_Change]:
    """The changes between two runs of lines, as small as is cheap to find."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    old_start, new_start = old_start + head, new_start + head
    if not old and not new:
        return []
    if max(len(old), len(new)) > _MAX_COMPARED:
        return [_Change(old_start, new_start, old, new)]
    # Most runs edit nothing.
    from difflib import SequenceMatcher

    return [
        _Change(old_start + i1, new_start + j1, old[i1:i2], new[j1:j2])
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new).get_opcodes()
        if tag != "equal"
    ]


def _hunks(old: str, changes: Sequence[_Change]) -> tuple[list[_Hunk], bool]:
    """The hunks, and whether the old text goes on after the last of them."""
    hunks: list[_Hunk] = []
    text = _Lines(old)
    reached = 0  # lines of the old text that are in a hunk
    for index, change in enumerate(changes):
        start = max(change.old_start - CONTEXT, reached)
        before = text.between(start, change.old_start)
        marked = [(" ", line) for line in before]
        marked += [("-", line) for line in change.old] + [("+", line) for line in change.new]
        end = change.old_start + len(change.old)
        following = changes[index + 1].old_start if index + 1 < len(changes) else None
        until = end + CONTEXT if following is None else min(end + CONTEXT, following)
        after = text.between(end, until)
        marked += [(" ", line) for line in after]
        if hunks and start == reached:
            hunks[-1].lines.extend(marked)
        else:
            hunks.append(_Hunk(start, change.new_start - len(before), marked))
        reached = end + len(after)
    return hunks, bool(text.between(reached, reached + 1))


class _Lines:
    """Lines of a text by number, asked for in rising order; the text is not split as a whole."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line = 0
        self._at = 0

    def between(self, start: int, end: int) -> list[str]:
        """The lines from number ``start`` up to ``end``, as far as there are any."""
        if start < self._line:
            self._line, self._at = 0, 0
        while (skipped := self._text.count("\n", self._at, self._at + _STRIDE)) and (
            self._line + skipped < start
        ):
            self._at = self._text.rindex("\n", self._at, self._at + _STRIDE) + 1
            self._line += skipped
        while self._line < start and self._at < len(self._text):
            self._at = _after_line(self._text, self._at)
            self._line += 1
        lines, at = [], self._at
        for _ in range(end - start):
            if at >= len(self._text):
                break
            after = _after_line(self._text, at)
            lines.append(self._text[at:after])
            at = after
        return lines


def _listing(hunks: Sequence[_Hunk], *, goes_on: bool) -> tuple[str, bool]:
    """The numbered listing, and whether something was cut from it."""
    highest = max((max(h.old_start, h.new_start) + len(h.lines) for h in hunks), default=1)
    width = len(str(highest))
    out: list[str] = []
    size, cut = 0, False
    gap = f" {'':{width}} ..."
    for index, hunk in enumerate(hunks):
        if index or hunk.old_start or hunk.new_start:
            out.append(gap)
        old, new = hunk.old_start, hunk.new_start
        for mark, text in hunk.lines:
            old += mark != "+"
            new += mark != "-"
            shown = text.removesuffix("\n").removesuffix("\r")
            if len(shown) > _MAX_LINE:
                shown, cut = shown[:_MAX_LINE] + "…", True
            out.append(f"{mark}{new if mark == '+' else old:>{width}} {shown}")
            size += len(out[-1]) + 1
            if size > _MAX_CHARS:
                return "\n".join([*out, gap]), True
    if goes_on and hunks:
        out.append(gap)
    return "\n".join(out), cut


def _patch(hunks: Sequence[_Hunk], name: str) -> str | None:
    """The unified patch; None when it would be too large to keep."""
    if sum(len(text) for hunk in hunks for _, text in hunk.lines) > _MAX_CHARS:
        return None
    out = [f"--- {name}\n+++ {name}\n"]
    for hunk in hunks:
        old = sum(mark != "+" for mark, _ in hunk.lines)
        new = sum(mark != "-" for mark, _ in hunk.lines)
        out.append(f"@@ -{_range(hunk.old_start, old)} +{_range(hunk.new_start, new)} @@\n")
        for mark, text in hunk.lines:
            out.append(mark + text)
            if not text.endswith("\n"):
                out.append("\n\\ No newline at end of file\n")
    return "".join(out) if hunks else ""


def _range(start: int, count: int) -> str:
    # Of an empty range, the line before it is named.
    return f"{start + 1 if count else start},{count}"
