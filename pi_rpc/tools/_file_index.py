"""The files and directories below a directory, and which of them a few characters could mean.

Owns the index, the candidates and their order. Does not own how files are listed or for how long
a list is good (``pi_rpc.tools.file_search``). Nothing here waits: ``add`` takes well under a
millisecond per thousand names, ``search`` is for a thread.

Names are kept in blocks of text, so that a look at 200,000 of them is a hundred calls into the
regular expression engine instead of 200,000 steps of Python, and the interpreter's lock is let go
of between blocks.
"""

import re
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["Block", "FileIndex", "FileMatch", "Kind", "search"]

Kind: TypeAlias = Literal["file", "directory"]

_BLOCK = 2048
"""Names in a block."""
_MOST_CANDIDATES = 500
_ENOUGH = 300
"""So many that contain the query itself that it is not looked for with gaps."""
_MOST_QUERY = 200
_PATIENCE_S = 0.05
"""How much of a processor's time is spent on finding candidates, the deepest last: whoever types
should not wait, however many names there are."""
_END = "\x00"
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_WORD_START = re.compile(r"(?<=[^a-z0-9])[a-z0-9]|(?<=[a-z])[0-9]|(?<=[0-9])[a-z]")
_CAPITAL = re.compile(r"(?<=[a-z0-9])[A-Z]|(?<=[A-Z])[A-Z](?=[a-z])")


class FileMatch(Struct, frozen=True):
    """A file or directory that a query could mean."""

    path: str
    """Relative to the directory of the index; names that are not Unicode have surrogates."""
    kind: Kind


_Candidate: TypeAlias = tuple[FileMatch, str]
"""A path, and the same in lower case."""


class Block(Struct, frozen=True):
    """Names of one kind, each behind a NUL and a slash: ``\\0/a.py\\0/src/b.py\\0``."""

    kind: Kind
    text: str
    folded: str
    """The same in lower case, character for character."""


class FileIndex:
    """Every name that was added, the least deep first."""

    def __init__(self) -> None:
        self.count = 0
        """Files."""
        self._open: dict[tuple[int, Kind], list[str]] = {}
        self._blocks: dict[tuple[int, Kind], list[Block]] = {}
        self._folders: set[str] = set()
        self._last_folder = ""

    def add(self, paths: Sequence[str]) -> None:
        """Take paths of files, relative and with slashes; directories are seen from them."""
        self.count += len(paths)
        for path in paths:
            folder = path[: path.rfind("/") + 1]
            if folder != self._last_folder:
                self._last_folder = folder
                self._add_folders(folder[:-1])
            self._add(path, "file")

    def _add_folders(self, folder: str) -> None:
        while folder and folder not in self._folders:
            self._folders.add(folder)
            self._add(folder, "directory")
            folder = folder[: max(folder.rfind("/"), 0)]

    def _add(self, path: str, kind: Kind) -> None:
        key = (path.count("/"), kind)
        names = self._open.setdefault(key, [])
        names.append(path)
        if len(names) == _BLOCK:
            self._blocks.setdefault(key, []).append(_block(kind, names))
            self._open[key] = []

    def blocks(self) -> list[Block]:
        """What there is so far, the least deep first; for ``search``, in any thread."""
        keys = sorted(self._open)
        return [
            block
            for key in keys
            for block in (
                *self._blocks.get(key, ()),
                *((_block(key[1], self._open[key]),) if self._open[key] else ()),
            )
        ]


def search(blocks: Sequence[Block], query: str, limit: int) -> tuple[list[FileMatch], bool]:
    """The best matches, and whether there are more of them.

    The query's words, set apart by spaces, must all be in a path, each in one piece or letter by
    letter in this order. Case does not count. What is in the name counts more than what is in its
    directories, one piece more than several, the beginning of a name or a word more than its
    middle; then the shorter path is first. Without a query the least deep files come.
    """
    terms = _fold(query).split()
    if len(query) > _MOST_QUERY or _END in query:
        return [], False
    terms = [rest for term in terms if (rest := term.removeprefix("./").lstrip("/"))]
    if not terms:
        names = islice(_all(blocks), limit + 1)
        found = [FileMatch(name, kind) for name, kind in names]
        return found[:limit], len(found) > limit
    look = _Look(blocks, terms, max(limit, _MOST_CANDIDATES))
    ranked = [
        (rank, match)
        for match, folded in look.candidates()
        if (rank := _rank(match.path, folded, terms)) is not None
    ]
    ranked.sort(key=lambda each: each[0])
    return [match for _, match in ranked[:limit]], len(ranked) > limit or look.incomplete


def _block(kind: Kind, names: Sequence[str]) -> Block:
    text = f"{_END}/{f'{_END}/'.join(names)}{_END}"
    folded = _fold(text)
    return Block(kind, text, text if folded == text else folded)


def _fold(text: str) -> str:
    """Lower case, as far as it has as many characters."""
    folded = text.lower()
    return folded if len(folded) == len(text) else text.translate(_ASCII_LOWER)


def _all(blocks: Sequence[Block]) -> Iterator[tuple[str, Kind]]:
    for block in blocks:
        for name in block.text.split(_END):
            if name:
                yield name[1:], block.kind


class _Look:
    """One look through the blocks."""

    def __init__(self, blocks: Sequence[Block], terms: Sequence[str], most: int) -> None:
        self.incomplete = False
        """There may be more candidates than were given."""
        self._blocks = blocks
        self._most = most
        self._term = max(terms, key=len)
        self._others = [term for term in terms if term is not self._term]
        self._seen: set[tuple[int, int]] = set()
        self._until = time.thread_time() + _PATIENCE_S

    def candidates(self) -> Iterator[_Candidate]:
        """Paths with all terms; those they fit best are among them."""
        text = re.escape(self._term)
        for regex in (
            rf"{text}[^\x00]*+",  # anywhere
            rf"/{text}[^/\x00]*+(?=\x00)",  # at the beginning of the name
            rf"{text}[^/\x00]*+(?=\x00)",  # in the name
        ):
            found = 0
            for found, candidate in enumerate(self._hits(re.compile(regex)), 1):
                yield candidate
                if found == self._most:
                    self.incomplete = True
                    break
            if found < self._most:
                break  # these were all
        if len(self._seen) < _ENOUGH:
            chars = map(re.escape, self._term)
            in_pieces = "".join(rf"[^\x00{char}]*+{char}" for char in chars)
            for found, candidate in enumerate(self._hits(re.compile(rf"\x00{in_pieces}")), 1):
                yield candidate
                if found == self._most:
                    self.incomplete = True
                    break

    def _hits(self, wanted: re.Pattern[str]) -> Iterator[_Candidate]:
        characters = set(self._term)
        for number, block in enumerate(self._blocks):
            if time.thread_time() > self._until:
                self.incomplete = True
                return
            text = block.folded
            if any(char not in text for char in characters):
                continue
            for found in wanted.finditer(text):
                start = text.rfind(_END, 0, found.start() + 1) + 1
                if (number, start) in self._seen:
                    continue
                self._seen.add((number, start))
                end = text.find(_END, start)
                folded = text[start + 1 : end]
                if all(_pieces(folded, other) is not None for other in self._others):
                    yield FileMatch(block.text[start + 1 : end], block.kind), folded


_Rank: TypeAlias = tuple[int, int, int, int, str]


def _rank(path: str, folded: str, terms: Sequence[str]) -> _Rank | None:
    """What to sort by, the best first; None when a term is missing."""
    classes = pieces = 0
    for term in terms:
        fit = _fit(path, folded, term)
        if fit is None:
            return None
        classes += fit[0]
        pieces += fit[1]
    return classes, pieces, path.count("/"), len(path), path


def _fit(path: str, folded: str, term: str) -> tuple[int, int] | None:
    """How well a term fits: its class, the best is 0, and in how many pieces it is there."""
    # The name; of a term with slashes, as many directories before it as the term has.
    name = "/".join(folded.split("/")[-1 - term.count("/") :])
    if name.startswith(term):
        return (0 if term in {name, name.rpartition(".")[0]} else 1), 1
    if (pieces := _pieces(name, term)) is not None:
        starts = _word_starts(path[len(path) - len(name) :], name)
        if term in name:
            at = name.find(term)
            while at >= 0 and at not in starts:
                at = name.find(term, at + 1)
            return (2 if at >= 0 else 4), 1
        initials = "".join(name[index] for index in sorted(starts))
        return (5, pieces) if _pieces(initials, term) is None else (3, len(term))
    if term in folded:
        return (6 if f"/{term}" in f"/{folded}" else 7), 1
    pieces = _pieces(folded, term)
    return None if pieces is None else (8, pieces)


def _word_starts(name: str, folded: str) -> set[int]:
    """Where words begin: after what is no letter, at capitals, where digits begin or end."""
    starts = {found.start() for found in _WORD_START.finditer(folded)}
    starts.update(found.start() for found in _CAPITAL.finditer(name))
    starts.add(0)
    return starts


def _pieces(text: str, term: str) -> int | None:
    """How many pieces of ``text`` make ``term``, each letter as early as can be; None: none do."""
    pieces = 0
    after = -1
    for char in term:
        at = text.find(char, max(after, 0))
        if at < 0:
            return None
        pieces += at != after
        after = at + 1
    return pieces
