"""Text for a person at a terminal: in columns, safe to show, in words of the command line.

Owns the layout. Does not own what is in the cells.
"""

import unicodedata
from collections.abc import Sequence

__all__ = ["harmless", "in_a_shell", "in_columns", "printable"]

_COMMANDS = {
    "model/list": "`pi-rpc models`",
    "auth/status": "`pi-rpc auth status --all`",
    "session/configure and another permissionMode, or --permission-mode": "--permission-mode",
    "with `permissionMode` in session/new or session/configure, or with a rule": (
        "with `--allow`, or with a rule"
    ),
}


def in_columns(rows: Sequence[Sequence[str]], gap: str = "  ") -> list[str]:
    """A line for each row; columns are as wide as their widest cell, the last one as it is."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(_width(cell) for cell in column) for column in zip(*shown, strict=True)]
    return [
        gap.join(
            cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in shown
    ]


def harmless(text: str) -> str:
    """``text`` without what a terminal would obey; lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(char for char in text if char in "\n\t" or unicodedata.category(char) != "Cc")


def printable(text: str) -> str:
    """``text`` on one line, without what a terminal would obey."""
    return "".join(char if char.isprintable() else " " for char in text)


def in_a_shell(text: str) -> str:
    """A message that tells clients which request helps, telling a person which command does."""
    for request, command in _COMMANDS.items():
        text = text.replace(request, command)
    return text


def _width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide
