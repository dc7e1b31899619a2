"""Plain commands: a scanner that knows only what every shell reads the same way.

Owns which characters and quotes are beyond doubt, and what the words are then. It knows no grammar
(``pi_rpc.harness.permissions.commands`` has it from tree-sitter); the two check each other, since
either could be wrong about bash.
"""

import re
from typing import NamedTuple

__all__ = ["NEXT", "PlainText", "scan_plain"]

NEXT = -1

_BARE = rb"A-Za-z0-9_./:@%+,^\-"
_QUOTED = rb"""
      ' [^']* '
    | " (?: [^"\\$`!] | !(?=["\ =]) | \\[^\n] )* "
    | \\[!-~\ ]
"""
_TOKEN = re.compile(
    rb"""
    [ \t]*+
    (?: (?P<bare> [%b] [%b=]*+ (?= [ \t\n;|&] | \Z ) )
      | (?P<word> (?: [%b] | %b ) (?: [%b=\#]++ | (?<![=:])~ | %b )*+ (?= [ \t\n;|&] | \Z ) )
      | (?P<operator> && | \|\|(?!&) | \|(?![|&]) | ;(?!;) | \n | \Z )
      | (?P<redirection> (?: (?:[12]|&)?>>?[ \t]*/dev/null | [12]?>&[12] | </dev/null )
            (?= [ \t\n;|] | && | \Z ) )
    )
    """
    % (_BARE, _BARE, _BARE, _QUOTED, _BARE, _QUOTED),
    re.VERBOSE,
)
_BARE_WORD, _ANY_WORD, _OPERATOR = 1, 2, 3
"""The numbers of its groups."""
_PIECE = re.compile(
    rb"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|\\(?P<escaped>.)""",
    re.DOTALL,
)
_IN_DOUBLE = re.compile(rb'\\([$`"\\])')
_UP_TO_OBSTACLE = re.compile(
    rb"[ \t]*+(?: (?: [%b=\#]++ | (?<=[^=: \t])~ | %b )*+ )" % (_BARE, _QUOTED), re.VERBOSE
)
_RESERVED = frozenset(
    b"! case coproc do done elif else esac fi for function if in select then time until while { }"
    b" [ [[ ]] declare export local readonly typeset unset let".split()
)
_OBSTACLES = {
    b"$": "a variable or substitution",
    b"`": "a command substitution",
    b"*": "a wildcard",
    b"?": "a wildcard",
    b"[": "a wildcard",
    b"]": "a wildcard",
    b"{": "a brace expansion or a group",
    b"}": "a brace expansion or a group",
    b"~": "a home directory written as ~",
    b"!": "a negation, or a reference to the history",
    b"#": "a comment",
    b"=": "a word that begins with =, which some shells replace",
    b"&": "a command in the background",
    b"|": "a pipe of more than the output",
    b";": "two semicolons",
    b"<": "a redirection",
    b">": "a redirection",
    b"(": "a group or a function",
    b")": "a group or a function",
    b"\\": "a line that goes on in the next",
    b"'": "a quote that does not end",
    b'"': "a quote that does not end, or with a variable or substitution in it",
}


class PlainText(NamedTuple):
    """A text that is plain."""

    commands: list[tuple[str, ...]]
    """The words of each."""
    spans: list[int]
    """Where the words start and end, in bytes, with ``NEXT`` before each command."""


class _NotPlain(Exception):
    """The text is not plain, and why."""


def scan_plain(text: bytes) -> tuple[PlainText, str]:
    """What ``text`` is where it is plain, or else why it is not."""
    try:
        return _scan(text), ""
    except _NotPlain as obstacle:
        return PlainText([], []), str(obstacle)


def _scan(text: bytes) -> PlainText:
    """All commands, separated by ``;``, newlines, pipes and and/or."""
    commands: list[tuple[str, ...]] = []
    spans: list[int] = []
    words: list[str] = []
    pending = False  # an operator before needs a command after it
    at = 0
    for token in _TOKEN.finditer(text):
        start, end = token.span()
        if start != at:
            break
        at, kind = end, token.lastindex or 0
        if kind <= _ANY_WORD:
            raw = token[kind]
            word = raw.decode() if kind == _BARE_WORD else _value(raw)
            if not words:
                _check_program(word, raw)
                spans.append(NEXT)
            words.append(word)
            spans += token.span(kind)
        elif kind == _OPERATOR:
            sign = token[kind]
            if words:
                commands.append(tuple(words))
                words.clear()
                pending = sign not in {b";", b"\n", b""}
            elif sign not in {b"\n", b""}:
                raise _NotPlain("an operator without a command before it")
            if not sign:
                if pending or not commands:
                    raise _NotPlain("an operator without a command" if pending else "no command")
                return PlainText(commands, spans)
        elif not words:
            raise _NotPlain("a redirection before the command")
    raise _NotPlain(_obstacle(text, at))


def _check_program(word: str, raw: bytes) -> None:
    if "=" in word:
        raise _NotPlain("an assignment before a command")
    if not word:
        raise _NotPlain("a program without a name")
    if raw in _RESERVED or not word.isascii():
        raise _NotPlain(f"`{word}` in place of a program")


def _obstacle(text: bytes, at: int) -> str:
    """Why what stands at ``at`` is no token."""
    at += len(text[at:]) - len(text[at:].lstrip(b" \t"))
    char = text[at : at + 1]
    if char not in {b"#", b"="}:
        reached = _UP_TO_OBSTACLE.match(text, at)
        end = reached.end() if reached else at
        char = text[end : end + 1]
    if char >= b"\x80":
        return "letters beyond ASCII outside of quotes"
    return _OBSTACLES.get(char, "a character that does not belong there")


def _value(raw: bytes) -> str:
    """A word without its quotes and backslashes."""
    if raw[:1] == b"'" and raw.find(b"'", 1) == len(raw) - 1:
        return raw[1:-1].decode()
    return _PIECE.sub(_unquoted, raw).decode()


def _unquoted(piece: re.Match[bytes]) -> bytes:
    if piece.lastgroup == "double":
        return _IN_DOUBLE.sub(rb"\1", piece["double"])
    return piece[piece.lastgroup or 0]
