"""The page about this door says what there is."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from pi_rpc.lsp.handshake import COMMANDS

ROOT = Path(__file__).parents[2]
METHOD = re.compile(r"(?:textDocument|workspace|window|agent|\$)/\w+(?:/\w+)?")
ELSEWHERE = {
    *("initialize", "initialized", "shutdown", "exit", "$/cancelRequest"),
    *("agent/event", "$/logTrace"),
}
"""Not named in this package, or not by what they are named for."""


def page() -> str:
    text = (ROOT / "docs" / "front-doors.md").read_text(encoding="utf-8")
    return text[text.index("## The Language Server Protocol") :]


def texts() -> Iterator[str]:
    for path in (ROOT / "pi_rpc" / "lsp").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_the_table_has_every_method_that_is_served_or_sent() -> None:
    rows = set(re.findall(r"^\| `([^`]+)` \| (?:editor|server|both) \|", page(), re.MULTILINE))
    used = {each for each in texts() if METHOD.fullmatch(each)}
    assert rows == used | ELSEWHERE


def test_every_command_is_told() -> None:
    told = page()
    for command in COMMANDS:
        # One is sent by a code action that has a name.
        assert f"`{command}`" in told or (command, "Send to pi" in told) == ("pi.send", True)
