"""Text as a model may have copied it: the comparison that forgives what models get wrong.

Owns the normal form (NFKC, no white space at line ends, plain quotes, dashes and spaces) and the
way back from a place in it to a place in the original. Pure functions.
"""

import unicodedata
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate

__all__ = ["FuzzyText", "forgiving_forms"]

_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u202f\u205f\u3000", " "),
        **dict.fromkeys(map(chr, range(0x2000, 0x200B)), " "),
    }
)

# NFKC sorts runs of combining marks in quadratic time; beyond this length a line goes without.
_NFKC_LINE = 4096


class FuzzyText:
    """A text (lines end in ``\\n``) in the normal form, with the way back."""

    def __init__(self, original: str) -> None:
        self._original = original
        self.normal = "\n".join(self._normal_lines)

    @cached_property
    def _lines(self) -> list[str]:
        return self._original.split("\n")

    @cached_property
    def _normal_lines(self) -> list[str]:
        if self._original.isascii():
            return list(map(str.rstrip, self._lines))
        return [_normal_line(line) for line in self._lines]

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate((len(line) + 1 for line in self._lines), initial=0))

    @cached_property
    def _normal_starts(self) -> list[int]:
        return list(accumulate((len(line) + 1 for line in self._normal_lines), initial=0))

    def original_span(self, start: int, end: int) -> tuple[int, int, str, str]:
        """What ``normal[start:end]`` is in the original: start, end, and text to keep around it.

        Where an end falls inside what one character was normalised to (the ``i`` of a ligature),
        the span grows to the line's edge, and the texts are the normal form of what it grew over.
        White space at the end of a line belongs to what ends there.
        """
        first, column = self._place(start)
        line, normal = self._lines[first], self._normal_lines[first]
        at = 0 if column == 0 else _split(line, normal, column)
        before = "" if at is not None else normal[:column]
        begin = self._starts[first] + (at or 0)
        last, column = self._place(end)
        line, normal = self._lines[last], self._normal_lines[last]
        if column == len(normal) and end > start:
            at = len(line) if column else 0
        else:
            at = 0 if column == 0 else _split(line, normal, column)
        after = "" if at is not None else normal[column:]
        finish = self._starts[last] + (len(line) if at is None else at)
        return begin, finish, before, after

    def _place(self, position: int) -> tuple[int, int]:
        line = bisect_right(self._normal_starts, position) - 1
        return line, position - self._normal_starts[line]


def forgiving_forms(text: str) -> list[str]:
    """What to look for in a normal form in place of ``text``, the closest first.

    The text may stop in the middle of a line, where white space at its end counts; or at a line's
    end, where it does not. Empty when nothing but white space is left to look for.
    """
    stripped = FuzzyText(text).normal
    if not stripped.strip():
        return []
    head, newline, last = text.rpartition("\n")
    exact_end = FuzzyText(head).normal + newline + _normal_chars(last)
    return [exact_end] if exact_end == stripped else [exact_end, stripped]


def _normal_line(line: str) -> str:
    return _normal_chars(line).rstrip()


def _normal_chars(text: str) -> str:
    if text.isascii():
        return text
    if len(text) <= _NFKC_LINE:
        text = unicodedata.normalize("NFKC", text)
    return text.translate(_PLAIN)


def _split(line: str, normal: str, column: int) -> int | None:
    """Where to cut ``line`` so that its parts normalise to both sides of ``column``."""
    low, high = 0, len(line)
    while low < high:
        middle = (low + high) // 2
        if len(_normal_chars(line[:middle])) < column:
            low = middle + 1
        else:
            high = middle
    # A cut may fall before a combining mark that joins what precedes it: look a little further.
    for at in range(low, min(low + 32, len(line)) + 1):
        if _normal_chars(line[:at]) == normal[:column]:
            if _normal_line(line[at:]) == normal[column:]:
                return at
        elif len(_normal_chars(line[:at])) > column:
            return None
    return None
