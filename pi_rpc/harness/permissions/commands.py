"""Shell text, taken apart: which simple commands it runs, and what in it cannot be judged.

Owns the reading of a command with a real grammar of bash (tree-sitter-bash, imported when the first
command comes), checked against a scanner of our own. It only reads: nothing is expanded or run.
Does not own which programs are risky (``pi_rpc.harness.permissions._risky``).
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from pi_rpc.harness.permissions._loose import loose_commands, loose_words, nested_texts
from pi_rpc.harness.permissions._plain import PlainCommand, scan_plain
from pi_rpc.harness.permissions._risky import SHELLS, program_name, risk

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = ["LONGEST", "Parsed", "SimpleCommand", "parse_command"]

LONGEST = 64 * 1024
"""Characters; what is longer is not looked at."""
_MOST_WORDS = 200
"""Of a program that runs another: how far that is looked for."""
_DEEPEST = 4
"""How far commands in words of commands are followed."""

_UNSEEN = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
_PLAIN_NODES = frozenset(
    {
        "program", "list", "pipeline", "redirected_statement", "command", "file_redirect",
        "&&", "||", "|", ";", "\n",
    }
)  # fmt: skip
_WORD_NODES = frozenset(
    {
        "ansi_c_string", "arithmetic_expansion", "brace_expression", "command_substitution",
        "concatenation", "expansion", "extglob_pattern", "number", "process_substitution",
        "raw_string", "regex", "simple_expansion", "string", "translated_string", "word",
    }
)  # fmt: skip
_REDIRECTS = frozenset({">", ">>", "<", ">&", "<&", "&>", "&>>", ">|"})
_REASONS = {
    "&": "a command in the background",
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


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A program and its arguments."""

    words: tuple[str, ...]
    """As the program is given them; the first is the program. Never empty."""
    text: str
    """As written, without redirections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What is known of a command."""

    text: str
    simple: tuple[SimpleCommand, ...] = ()
    """What is run, in order; empty with ``problems``, except those of the programs themselves."""
    problems: tuple[str, ...] = ()
    """Why no rule can allow it, for people: what it has that is not a plain word or operator."""
    found: tuple[tuple[str, ...], ...] = ()
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
    tree = _Tree(source)
    plain, obstacle = scan_plain(source)
    problems = _unseen(text)
    if tree.plain and not obstacle and tree.agrees(plain):
        simple = tuple(_simple(command, source) for command in plain)
        words = list(dict.fromkeys(command.words for command in simple))
        named = {word for command in words for word in command}
    else:
        simple = ()
        words, named = tree.guesses(text)
        reasons = tree.reasons() or [obstacle or "words that shells could read in different ways"]
        problems += reasons
    problems = [reason for command in words if (reason := risk(command))] + problems
    found = dict.fromkeys(_nested(words, text, named, 0))
    return Parsed(
        text=text,
        simple=simple,
        problems=tuple(dict.fromkeys(problems)),
        found=tuple(found),
        named=tuple(named),
        unsure=any(len(command) > _MOST_WORDS and risk(command) for command in found),
    )


def _simple(command: PlainCommand, source: bytes) -> SimpleCommand:
    start, end = command.spans[0][0], command.spans[-1][1]
    return SimpleCommand(tuple(command.words), source[start:end].decode())


def _unseen(text: str) -> list[str]:
    """What of ``text`` would mislead somebody who reads it."""
    problems = []
    if found := _UNSEEN.search(text):
        name = unicodedata.name(found[0], f"U+{ord(found[0]):04X}").lower()
        problems.append(f"a character that is not seen ({name})")
    return problems


def _nested(
    words: Sequence[tuple[str, ...]], text: str, named: set[str], depth: int
) -> Iterator[tuple[str, ...]]:
    """``words``, and the commands in them: behind other programs, and in words that are scripts."""
    for command in words:
        yield command
        bare = (program_name(command[0]), *command[1:])
        if bare != command:
            yield bare
        if not risk(command):
            continue
        for start in range(1, min(len(command), _MOST_WORDS)):
            yield command[start:]
            yield program_name(command[start]), *command[start + 1 :]
    if depth == _DEEPEST:
        return
    fed = any(program_name(command[0]) in SHELLS for command in words)
    for inner in dict.fromkeys(nested_texts(words, text, fed=fed)):
        if len(inner) < len(text):
            deeper, more = _Tree(inner.encode("utf-8", "replace")).guesses(inner)
            named |= more
            yield from _nested(deeper, inner, named, depth + 1)


@lru_cache(maxsize=1)
def _parser() -> "Parser":
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class _Tree:
    """What the grammar makes of a text."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        root = _parser().parse(source).root_node
        self._types: set[str] = set()
        self._commands: list[list[Node]] = []
        self._words: list[Node] = []
        self._walk(root)
        if root.has_error:
            self._types.add("ERROR")
        self.plain = self._types <= _PLAIN_NODES

    def agrees(self, plain: Sequence[PlainCommand]) -> bool:
        """Whether the words stand exactly where the scanner saw them."""
        return [command.spans for command in plain] == [
            [(node.start_byte, node.end_byte) for node in command]
            for command in sorted(self._commands, key=lambda nodes: nodes[0].start_byte)
        ]

    def reasons(self) -> list[str]:
        """What in it is not plain, for people."""
        return [reason for kind, reason in _REASONS.items() if kind in self._types]

    def guesses(self, text: str) -> tuple[list[tuple[str, ...]], set[str]]:
        """The words of each command, in each way they could be meant, and all words anywhere."""
        found = dict.fromkeys(
            words
            for command in self._commands
            for words in loose_words([self._text(node) for node in command])
        )
        if "ERROR" in self._types:
            found |= dict.fromkeys(loose_commands(text))
        named = {word for words in found for word in words}
        for node in self._words:
            for words in loose_words([self._text(node)]):
                named.update(words)
        return list(found), named

    def _text(self, node: "Node") -> str:
        return self._source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _walk(self, root: "Node") -> None:
        waiting = [(root, False)]
        while waiting:
            node, in_word = waiting.pop()
            kind = node.type
            if kind in {"command", "declaration_command", "unset_command", "test_command"}:
                self._command(node)
            if kind in _WORD_NODES:
                if not in_word:
                    self._words.append(node)
                if kind in {"word", "number", "raw_string", "regex"}:
                    continue
                in_word = kind in {"concatenation", "string", "translated_string"}
                if kind == "string" and all(
                    child.type == "string_content" for child in node.named_children
                ):
                    continue
                if kind not in {"concatenation", "string"}:
                    self._types.add(kind)
            elif kind == "command_name":
                pass
            elif kind not in {"string_content", "file_descriptor"} and not in_word:
                self._types.add(kind if kind not in _REDIRECTS else "file_redirect")
            waiting += [(child, in_word) for child in node.children]

    def _command(self, node: "Node") -> None:
        words = [
            child
            for child in node.children
            if child.type == "command_name" or child.type in _WORD_NODES or not child.is_named
        ]
        if words:
            self._commands.append(words)
