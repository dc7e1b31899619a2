"""Replacing passages of a text: which places the edits mean, and the text that results.

Owns the rules of matching and the texts that tell a model what did not fit. Pure functions on
strings, no files. All edits are matched against the original, so their order does not matter.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from pi_rpc.tools._fuzzy import FuzzyText, forgiving_forms
from pi_rpc.tools._passages import Passages

__all__ = ["Edit", "EditError", "EditedText", "Splice", "apply_edits"]

_BOM = "\ufeff"
_MOST_PLACES = 1000  # of one passage: more are not counted
_MOST_PROBLEMS = 20  # that are told of; finding out about each costs a look at the whole text


class EditError(Exception):
    """The edits do not fit the text; the message is for the model."""


class Edit(Struct, frozen=True):
    """Replace ``old`` by ``new``."""

    old: str
    new: str


class Splice(Struct, frozen=True):
    """``text`` takes the place of ``original[start:end]``."""

    start: int
    end: int
    text: str


class EditedText(Struct, frozen=True):
    """The outcome of edits."""

    text: str
    splices: tuple[Splice, ...]
    """What was replaced in the original, in its order; these do not overlap."""
    fuzzy: bool
    """Some edit matched only in the forgiving comparison."""


class _Match(Struct, frozen=True):
    """Where an edit goes in the text with plain line endings, and what comes there."""

    edit: int
    start: int
    end: int
    new: str


def apply_edits(original: str, edits: Sequence[Edit], shown: str) -> EditedText:
    """Apply all edits; ``shown`` is the file's name for messages. Raises ``EditError``.

    Line endings of the edits do not matter. Text that no edit replaces stays as it is, a byte order
    mark and every line's own ending included; new line breaks get the ending of the line in which
    the replaced passage begins.
    """
    plain = _PlainText(original)
    wanted = [
        Edit(_plain(edit.old.removeprefix(_BOM)), _plain(edit.new.removeprefix(_BOM)))
        for edit in edits
    ]
    for index, edit in enumerate(wanted):
        if not edit.old:
            raise EditError(
                f"{_name(index, wanted)} is empty, so there is nothing to replace in {shown}. "
                "Give a passage of the file; to write a whole file use the write tool."
            )
    matches, fuzzy = _find(plain.text, wanted, shown)
    matches.sort(key=lambda match: (match.start, match.end))
    for one, other in pairwise(matches):
        if other.start < one.end:
            first, second = sorted((one.edit, other.edit))
            raise EditError(
                f"edits[{first}] and edits[{second}] overlap in {shown}. "
                "Make one edit of them, or choose passages that are apart."
            )
    splices = tuple(plain.splice(match) for match in matches)
    pieces: list[str] = []
    position = 0
    for splice in splices:
        pieces += [original[position : splice.start], splice.text]
        position = splice.end
    text = "".join([*pieces, original[position:]])
    if text == original:
        raise EditError(
            f"Nothing would change in {shown}: "
            + (
                "newText is what the file already has in place of oldText."
                if len(wanted) == 1
                else "every newText is what the file already has in place of its oldText."
            )
        )
    return EditedText(text=text, splices=splices, fuzzy=fuzzy)


class _PlainText:
    """A text without byte order mark and with ``\\n`` as the only line ending, and the way back."""

    def __init__(self, original: str) -> None:
        self._original = original
        self._bom = 1 if original.startswith(_BOM) else 0
        self._has_returns = "\r" in original
        body = original[self._bom :]
        # Where in the plain text a line ended in two characters.
        self._wide = [match.start() - n for n, match in enumerate(re.finditer("\r\n", body))]
        self.text = _plain(body)

    def splice(self, match: _Match) -> Splice:
        """The match in the original; lines at its edges that do not change are left out of it."""
        old = self.text[match.start : match.end]
        head, tail = _unchanged_lines(old, match.new)
        new = match.new[head : len(match.new) - tail]
        ending = self._ending_at(self._back(match.start))
        return Splice(
            self._back(match.start + head),
            self._back(match.end - tail),
            new.replace("\n", ending) if ending != "\n" else new,
        )

    def _back(self, position: int) -> int:
        return position + bisect_left(self._wide, position) + self._bom

    def _ending_at(self, position: int) -> str:
        """The ending of the line at ``position``, of the line before where it has none."""
        text = self._original
        if not self._has_returns:
            return "\n"
        # Up to the line feed only: the next return may be megabytes away.
        feed = text.find("\n", position)
        at = text.find("\r", position, len(text) if feed < 0 else feed)
        if at < 0:
            at = feed if feed >= 0 else max(text.rfind("\r"), text.rfind("\n"))
        if text[at] == "\r":
            return "\r\n" if text[at + 1 : at + 2] == "\n" else "\r"
        return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def _find(text: str, edits: Sequence[Edit], shown: str) -> tuple[list[_Match], bool]:
    """Where all edits go in the plain text, and whether one of them only fits forgivingly.

    Raises ``EditError`` with everything that is wrong.
    """
    forgiving = FuzzyText(text)
    is_normal = forgiving.normal == text
    forms = [forgiving_forms(edit.old) for edit in edits]
    exactly = Passages(text, [edit.old for edit in edits])
    alike_in = (
        exactly
        if is_normal and forms == [[edit.old] for edit in edits]
        else Passages(forgiving.normal, [form for each in forms for form in each])
    )
    matches: list[_Match] = []
    problems: list[str] = []
    fuzzy = False
    for index, edit in enumerate(edits):
        name = _name(index, edits)
        exact = exactly.places(edit.old)
        # An exact match must be the only one in the forgiving comparison too: what looks the same
        # to a model may well be what it meant.
        if is_normal and forms[index][:1] == [edit.old] and exact:
            form, alike = edit.old, exact
        else:
            form, alike = _closest(alike_in, forms[index])
        if len(exact) > 1:
            problems.append(_ambiguous(name, text, exact, shown, exactly=True))
        elif len(alike) > 1:
            problems.append(_ambiguous(name, forgiving.normal, alike, shown, exactly=False))
        elif exact:
            matches.append(_Match(index, exact[0], exact[0] + len(edit.old), edit.new))
        elif alike:
            fuzzy = True
            start, end, before, after = forgiving.original_span(alike[0], alike[0] + len(form))
            matches.append(_Match(index, start, end, before + edit.new + after))
        else:
            problems.append(_not_found(name, text, edit.old, shown))
        if len(problems) > _MOST_PROBLEMS:
            problems[-1] = "There may be more that does not fit: the edits after it were not tried."
            break
    if problems:
        raise EditError("\n".join(problems))
    return matches, fuzzy


def _closest(text: Passages, forms: Sequence[str]) -> tuple[str, list[int]]:
    """The first of the forms that occurs in the normal form, and where."""
    for form in forms:
        if found := text.places(form):
            return form, found
    return "", []


def _unchanged_lines(old: str, new: str) -> tuple[int, int]:
    """How many characters of whole lines both texts begin and end with."""
    shortest = min(len(old), len(new))
    head = _common(old, new, shortest)
    head = old.rfind("\n", 0, head) + 1
    most = shortest - head
    tail = _common(old[::-1], new[::-1], most)
    # A tail begins with a line break: the break belongs to it, the text before it has changed.
    start = old.find("\n", len(old) - tail)
    return head, len(old) - start if tail and start >= 0 else 0


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


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _name(index: int, edits: Sequence[Edit]) -> str:
    return "oldText" if len(edits) == 1 else f"edits[{index}].oldText"


def _not_found(name: str, text: str, old: str, shown: str) -> str:
    message = (
        f"{name} was not found in {shown}. It must be a passage of the file as it is now, "
        "indentation and line breaks included."
    )
    first = next((line.strip() for line in old.split("\n") if line.strip()), "")
    at = text.find(first) if first else -1
    if at >= 0 and first != old.strip():
        line = text.count("\n", 0, at) + 1
        message += f" Its first line is at line {line}; what follows or precedes it differs."
    return message + " Read that part of the file again and copy it."


def _ambiguous(name: str, text: str, places: list[int], shown: str, *, exactly: bool) -> str:
    lines = sorted({text.count("\n", 0, at) + 1 for at in places[:8]})
    where = ", ".join(map(str, lines)) + (", …" if len(places) > 8 else "")
    times = f"{len(places)} or more" if len(places) >= _MOST_PLACES else f"{len(places)}"
    message = (
        f"{name} occurs {times} times in {shown}, at line{'s' if len(lines) > 1 else ''} {where}"
    )
    if not exactly:
        message += (
            " (kinds of quotes, dashes and spaces, and white space at line ends, do not count)"
        )
    return message + ". Add neighbouring lines to it until it is unique."
