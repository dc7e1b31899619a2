"""Plain commands: a scanner that knows only what every shell reads the same way.

Owns which characters and quotes are beyond doubt, and what the words are then. It knows no grammar
(``pi_rpc.harness.permissions.commands`` has it from tree-sitter); the two check each other, since
either could be wrong about bash.
"""

import re
from typing import NamedTuple

__all__ = ["PlainCommand", "scan_plain"]

_BARE = rb"A-Za-z0-9_./:@%+,^\-"
_QUOTED = rb"""
      ' [^']* '
    | " (?: [^"\\$`!] | !(?=["\ =]) | \\[^\n] )* "
    | \\[!-~\ ]
"""
_TOKEN = re.compile(
    rb"""
    [ \t]*+
    (?: (?P<word> (?: [%b] | %b ) (?: [%b=\#]++ | (?<![=:])~ | %b )*+ (?= [ \t\n;|&] | \Z ) )
      | (?P<redirection> (?: (?:[12]|&)?>>?[ \t]*/dev/null | [12]?>&[12] | </dev/null )
            (?= [ \t\n;|] | && | \Z ) )
      | (?P<operator> && | \|\|(?!&) | \|(?![|&]) | ;(?!;) | \n )
      | (?P<end> \Z )
    )
    """
    % (_BARE, _QUOTED, _BARE, _QUOTED),
    re.VERBOSE,
)
_PIECE = re.compile(
    rb"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|\\(?P<escaped>.)""",
    re.DOTALL,
)
_QUOTES = re.compile(rb"['\"\\]")
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


class PlainCommand(NamedTuple):
    """A simple command."""

    words: list[str]
    spans: list[tuple[int, int]]
    """Where each word stands, in bytes."""


class _NotPlain(Exception):
    """The text is not plain, and why."""


def scan_plain(text: bytes) -> tuple[list[PlainCommand], str]:
    """The commands of ``text`` where it is plain, or else why it is not."""
    try:
        return _commands(text), ""
    except _NotPlain as obstacle:
        return [], str(obstacle)


def _commands(text: bytes) -> list[PlainCommand]:
    """All of them, separated by ``;``, newlines, pipes and and/or."""
    found: list[PlainCommand] = []
    current: PlainCommand | None = None
    pending = False  # an operator before needs a command after it
    at, match = 0, _TOKEN.match
    while token := match(text, at):
        kind, at = token.lastgroup, token.end()
        if kind == "word":
            raw = token["word"]
            word = (_PIECE.sub(_unquoted, raw) if _QUOTES.search(raw) else raw).decode()
            if current is None:
                _check_program(word, raw)
                current, pending = PlainCommand([], []), False
                found.append(current)
            current.words.append(word)
            current.spans.append(token.span("word"))
        elif kind == "operator":
            sign = token["operator"]
            if current is not None:
                pending = sign not in {b";", b"\n"}
            elif sign != b"\n":
                raise _NotPlain("an operator without a command before it")
            current = None
        elif kind == "redirection":
            if current is None:
                raise _NotPlain("a redirection before the command")
        elif pending or not found:
            raise _NotPlain("an operator without a command" if found else "no command")
        else:
            return found
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


def _unquoted(piece: re.Match[bytes]) -> bytes:
    if piece.lastgroup == "double":
        return _IN_DOUBLE.sub(rb"\1", piece["double"])
    return piece[piece.lastgroup or 0]
