"""Reading shell text loosely: what might be run, for rules that deny and for secret files.

Owns guesses, taken generously: quotes and empty expansions come off, braces are expanded, broken
text is cut at every operator. Nothing is allowed because of a guess.
"""

import codecs
import os
import re
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["loose_commands", "loose_words", "nested_texts"]

_ANSI_C = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_PIECE = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", re.DOTALL)
_SPECIAL = re.compile(r"""['"\\${`]""")
_IFS = re.compile(r"\$\{IFS[^{}]*\}|\$IFS\b")
_HOME = re.compile(r"\$HOME\b|\$\{HOME\}")
_PWD = re.compile(r"\$PWD\b/?|\$\{PWD\}/?")
_EMPTY = re.compile(r"\$\([^()]*\)|`[^`]*`|\$\{[^{}]*\}|\$[A-Za-z_][A-Za-z0-9_]*|\$[@*!#?$0-9-]")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_CUTS = re.compile(r"[;&|\n()`<>]+|\$\(|\{(?=\s)|(?<![^\s;])\}")
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_BROKEN = re.compile(r"[${`]")
_SCRIPT = re.compile(r"[\s;|&$`]")
_CONTINUED = re.compile(r"\\\n")
_REDIRECTED = re.compile(r"\d*(?:&>>?|[<>]+[&|]?)\s*[^\s;&|<>()]+[ \t]+(?=[^\s;&|<>()#])")
"""A redirection with more words after it."""
_IN_SCRIPT = re.compile(r"""["'`(]([^"'`()]+)""")
"""What an interpreter's program may give to a shell, in quotes of whichever language."""
_HERE = re.compile(r"<<-?\s*['\"\\]?(\w+)['\"]?[^\n]*\n(.*?)^\s*\1\s*$", re.DOTALL | re.MULTILINE)


def loose_words(raw: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """What the words ``raw``, as they are written, may become; more than one guess."""
    if not raw:
        return
    joined = " ".join(raw)
    if not _SPECIAL.search(joined):
        yield tuple(raw)
        return
    if not _BROKEN.search(joined):
        yield tuple(map(_unquoted, raw))
        return
    words: list[str] = []
    for word in raw:
        spelled = _ANSI_C.sub(_ansi_c, word)
        if "HOME" in spelled:
            spelled = _HOME.sub(os.path.expanduser("~"), spelled)  # noqa: PTH111
        spelled = _PWD.sub("", spelled)
        for piece in _IFS.sub(" ", spelled).split(" ") if _IFS.search(spelled) else [spelled]:
            words += _braced(piece)
    kept = tuple(word for each in words if (word := _unquoted(each)))
    if kept:
        yield kept
    bare = tuple(word for each in words if (word := _unquoted(_EMPTY.sub("", each))))
    if bare and bare != kept:
        yield bare


def loose_commands(text: str) -> Iterator[tuple[str, ...]]:
    """The commands of a text that no grammar may have understood, cut at every operator."""
    for piece in _CUTS.split(text):
        raw = piece.split()
        while raw and _ASSIGNED.match(raw[0]):
            raw.pop(0)
        yield from loose_words(raw)


def nested_texts(
    commands: Sequence[tuple[str, ...]], named: Iterable[str], text: str, *, fed: bool
) -> Iterator[str]:
    """Words of ``commands`` that could be commands themselves, and other ways to read ``text``.

    ``fed``: a shell is among them, so that all words ``named`` and here-documents count too.
    """
    from pi_rpc.harness.permissions._risky import risk

    for command in commands:
        if fed or risk(command):
            for word in command[1:]:
                for script in {word, word.partition("=")[2], word.partition("!")[2]}:
                    if _SCRIPT.search(script.strip()):
                        yield script
                        yield from (found[1] for found in _IN_SCRIPT.finditer(script))
    for marks in (_CONTINUED, _REDIRECTED):
        if marks.search(text):
            yield marks.sub(" " if marks is _REDIRECTED else "", text)
    if fed:
        yield from (word for word in named if _SCRIPT.search(word.strip()))
        for found in _HERE.finditer(text):
            yield found[2]


def _unquoted(word: str) -> str:
    return _PIECE.sub(lambda found: found[1] or found[2] or found[3] or "", word)


def _ansi_c(found: re.Match[str]) -> str:
    try:
        plain = codecs.decode(found[1].encode("latin-1", "replace"), "unicode_escape")
    except UnicodeDecodeError:
        return found[1]
    return plain.replace("'", "")


def _braced(word: str) -> list[str]:
    found = _BRACES.search(word)
    if found is None or len(word) > 1000:
        return [word]
    return [word[: found.start()] + each + word[found.end() :] for each in found[1].split(",")[:64]]
