"""Shell text, taken apart: which simple commands it runs, and what in it cannot be judged.

Owns the reading of a command with a real grammar of bash (tree-sitter-bash, imported when the first
command comes), checked against a scanner of our own. It only reads: nothing is expanded or run.
Does not own which programs are risky (``pi_rpc.harness.permissions._risky``).
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from pi_rpc.harness.permissions._loose import loose_commands, loose_words, nested_texts
from pi_rpc.harness.permissions._plain import NEXT, scan_plain
from pi_rpc.harness.permissions._risky import SHELLS, program_name, risk

if TYPE_CHECKING:
    from tree_sitter import Language, Node

__all__ = ["LONGEST", "Parsed", "Words", "parse_command"]

Words: TypeAlias = tuple[str, ...]
"""A simple command: the program and its arguments, as the program is given them; never empty."""

LONGEST = 64 * 1024
"""Characters; what is longer is not looked at."""
_MOST_WORDS = 200
"""Of a program that runs another: how far that is looked for."""
_DEEPEST = 4
"""How far commands in words of commands are followed."""

_UNSEEN = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\uffa0\ufe00-\ufe0f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
_PLAIN_NODES = frozenset(
    {
        "program", "list", "pipeline", "redirected_statement", "command", "file_redirect",
        "&&", "||", "|", ";", "\n",
    }
)  # fmt: skip
_PLAIN_WORDS = frozenset(
    {"command_name", "concatenation", "number", "raw_string", "string", "word"}
)
_COMMAND_NODES = frozenset({"command", "declaration_command", "test_command", "unset_command"})
_LEAVES = frozenset({"number", "raw_string", "regex", "word"})
_WORD_NODES = frozenset(
    {
        "ansi_c_string", "arithmetic_expansion", "brace_expression", "command_substitution",
        "concatenation", "expansion", "extglob_pattern", "number", "process_substitution",
        "raw_string", "regex", "simple_expansion", "string", "translated_string", "word",
    }
)  # fmt: skip
_REASONS = {
    "ansi_c_string": "a string with escapes, `$'…'`",
    "arithmetic_expansion": "arithmetic",
    "array": "an assignment",
    "brace_expression": "a brace expansion",
    "c_style_for_statement": "a loop",
    "case_statement": "a case",
    "command_substitution": "a command substitution",
    "comment": "a comment",
    "compound_statement": "a group of commands",
    "declaration_command": "a declaration of variables",
    "ERROR": "something that cannot be parsed",
    "expansion": "a variable",
    "for_statement": "a loop",
    "function_definition": "a function",
    "heredoc_redirect": "a here-document",
    "herestring_redirect": "a here-string",
    "if_statement": "an if",
    "negated_command": "a negation",
    "process_substitution": "a process substitution",
    "simple_expansion": "a variable",
    "subshell": "a subshell",
    "test_command": "a test in brackets",
    "translated_string": "a translated string",
    "unset_command": "an unset of variables",
    "variable_assignment": "an assignment",
    "while_statement": "a loop",
}


class Parsed(Struct, frozen=True, kw_only=True):
    """What is known of a command."""

    text: str
    simple: tuple[Words, ...] = ()
    """What is run, in order; empty where it is not plain."""
    problems: tuple[str, ...] = ()
    """Why no rule can allow it, for people: what it has that is not a plain word or operator."""
    found: tuple[Words, ...] = ()
    """The words of every command that could be found anywhere in it, for rules that deny."""
    named: tuple[str, ...] = ()
    """Every word that could name a file."""
    unsure: bool = False
    """There is more in it than was looked at: ``found`` and ``named`` may miss something."""


def parse_command(text: str) -> Parsed:
    """What ``text`` runs in bash. Never fails: what is not understood is a problem."""
    if len(text) > LONGEST:
        return Parsed(
            text=text,
            problems=(f"it is longer than {LONGEST // 1024} KiB, too long to be judged",),
            unsure=True,
        )
    source = text.encode("utf-8", "replace")
    root = _root(source)
    plain, obstacle = scan_plain(source)
    problems = _unseen(text)
    simple: tuple[Words, ...] = ()
    if not obstacle and _spans(root) == plain.spans:
        simple = tuple(plain.commands)
        words = list(dict.fromkeys(simple))
        named = {word for command in words for word in command}
    else:
        tree = _Tree(root, source)
        words, named = tree.guesses(text)
        problems += tree.reasons() or [obstacle or "words that shells could read differently"]
    problems = [reason for command in words if (reason := risk(command))] + problems
    found = dict.fromkeys(_nested(words, text, named, 0, plain=bool(simple)))
    return Parsed(
        text=text,
        simple=simple,
        problems=tuple(dict.fromkeys(problems)),
        found=tuple(found),
        named=tuple(named),
        unsure=any(len(command) > _MOST_WORDS and risk(command) for command in found),
    )


def _unseen(text: str) -> list[str]:
    """What of ``text`` would mislead somebody who reads it."""
    problems = []
    if found := _UNSEEN.search(text):
        name = unicodedata.name(found[0], f"U+{ord(found[0]):04X}").lower()
        problems.append(f"a character that is not seen ({name})")
    return problems


def _nested(
    words: Sequence[tuple[str, ...]], text: str, named: set[str], depth: int, *, plain: bool = False
) -> Iterator[tuple[str, ...]]:
    """``words``, and the commands in them: behind other programs, and in words that are scripts."""
    for command in words:
        yield command
        if (name := program_name(command[0])) != command[0]:
            yield name, *command[1:]
        if not risk(command):
            continue
        for start in range(1, min(len(command), _MOST_WORDS)):
            yield command[start:]
            yield program_name(command[start]), *command[start + 1 :]
    if depth == _DEEPEST:
        return
    fed = any(program_name(command[0]) in SHELLS for command in words)
    for inner in dict.fromkeys(nested_texts(words, set(named), "" if plain else text, fed=fed)):
        if len(inner) < len(text):
            source = inner.encode("utf-8", "replace")
            deeper, more = _Tree(_root(source), source).guesses(inner)
            named |= more
            yield from _nested(deeper, inner, named, depth + 1)


@lru_cache(maxsize=1)
def _language() -> "Language":
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())


def _root(source: bytes) -> "Node":
    """The root of what the grammar sees. A parser each time: they are no use to two threads."""
    from tree_sitter import Parser

    return Parser(_language()).parse(source).root_node


def _spans(root: "Node") -> list[int] | None:
    """Where the words of each command stand, if the grammar saw nothing but plain commands."""
    if root.has_error:
        return None
    found: list[int] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        kind = node.type
        if kind == "command":
            found.append(NEXT)
            for word in node.children:
                if word.type not in _PLAIN_WORDS:
                    return None
                found += word.byte_range
        elif kind not in _PLAIN_NODES:
            return None
        elif kind != "file_redirect":
            waiting += reversed(node.children)
    return found


class _Tree:
    """What the grammar makes of a text that is not plain."""

    def __init__(self, root: "Node", source: bytes) -> None:
        self._source = source
        self._types: set[str] = set()
        self._commands: list[list[str]] = []
        self._words: list[str] = []
        self._walk(root)
        if root.has_error:
            self._types.add("ERROR")

    def reasons(self) -> list[str]:
        """What in it is not plain, for people."""
        return [reason for kind, reason in _REASONS.items() if kind in self._types]

    def guesses(self, text: str) -> tuple[list[tuple[str, ...]], set[str]]:
        """The words of each command, in each way they could be meant, and all words anywhere."""
        found = dict.fromkeys(words for command in self._commands for words in loose_words(command))
        if "ERROR" in self._types:
            found |= dict.fromkeys(loose_commands(text))
        named = {word for words in found for word in words}
        for word in self._words:
            for words in loose_words((word,)):
                named.update(words)
        return list(found), named

    def _text(self, node: "Node") -> str:
        return self._source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _walk(self, root: "Node") -> None:
        waiting = [(root, False)]
        while waiting:
            node, in_word = waiting.pop()
            kind = node.type
            if kind in _COMMAND_NODES:
                self._types.add(kind)
                words, others = self._words_of(node)
                self._commands.append(words)
                waiting += others
                continue
            if kind in _WORD_NODES:
                if not in_word:
                    self._words.append(self._text(node))
                if kind in _LEAVES:
                    continue
                in_word = kind in {"concatenation", "string", "translated_string"}
                if kind not in {"concatenation", "string"}:
                    self._types.add(kind)
            elif not in_word:
                self._types.add(kind)
            waiting += [(child, in_word) for child in node.named_children]

    def _words_of(self, command: "Node") -> tuple[list[str], list[tuple["Node", bool]]]:
        """The words of a command as they are written, and what is to be looked at further."""
        words: list[str] = []
        others: list[tuple[Node, bool]] = []
        end = -1
        for child in command.children:
            kind = child.type
            in_words = kind == "command_name" or kind in _WORD_NODES
            if kind == "command_name":
                others += [(each, True) for each in child.children]
            elif kind not in _LEAVES:
                others.append((child, in_words))
            if in_words or not child.is_named:
                start, after = child.byte_range
                if start == end:  # the grammar may take one word for two
                    words[-1] += self._text(child)
                else:
                    words.append(self._text(child))
                end = after
        return words, others
