"""Finding many passages in one text, in time that grows with the text and not with their number.

Owns the search. A few hundred passages are looked for as they are; of more, a word inside of each
is, all words in one go, and then only the places where it stands are compared. Pure.
"""

import re
from collections.abc import Sequence

__all__ = ["Passages"]

_FEW = 300
"""Up to so many passages each is looked for by itself: looking at all words takes as long."""
_MOST_PLACES = 1000
"""Of one passage that are looked for."""
_COMMON = 5000
"""Places of a word from where on it is no help."""
_WORD = re.compile(r"\w+")
_INNER_WORD = re.compile(r"(?<=\W)\w+(?=\W)")


class Passages:
    """A text and the passages that will be looked for in it."""

    def __init__(self, text: str, wanted: Sequence[str]) -> None:
        self._text = text
        self._words: dict[str, list[int]] = {}
        if len(wanted) > _FEW:
            for passage in wanted:
                self._words |= {word: [] for word in _INNER_WORD.findall(passage)}
            for match in _WORD.finditer(text) if self._words else ():
                if (places := self._words.get(match[0])) is not None and len(places) <= _COMMON:
                    places.append(match.start())

    def places(self, passage: str) -> list[int]:
        """Where it begins, overlapping places included; the first thousand."""
        known = [
            (len(self._words[match[0]]), match.start(), match[0])
            for match in _INNER_WORD.finditer(passage)
            if match[0] in self._words
        ]
        if not known or min(known)[0] > _COMMON:
            return self._searched(passage)
        _, offset, word = min(known)
        starts = (place - offset for place in self._words[word] if place >= offset)
        return [at for at in starts if self._text.startswith(passage, at)][:_MOST_PLACES]

    def _searched(self, passage: str) -> list[int]:
        found: list[int] = []
        at = self._text.find(passage)
        while at >= 0 and len(found) < _MOST_PLACES:
            found.append(at)
            at = self._text.find(passage, at + 1)
        return found
