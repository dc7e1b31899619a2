"""Shell text, taken apart: which simple commands it runs, and what in it cannot be judged."""

from dataclasses import dataclass

__all__ = ["Parsed", "SimpleCommand", "parse_command"]


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A program and its arguments."""

    words: tuple[str, ...]
    """As the program is given them; the first is the program. Never empty."""
    text: str
    """As written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What is known of a command."""

    text: str
    simple: tuple[SimpleCommand, ...] = ()
    """What is run, in order; complete only without ``problems``."""
    problems: tuple[str, ...] = ()
    """Why it is not a plain list of plain commands, for people; a clause without a full stop."""
    found: tuple[tuple[str, ...], ...] = ()
    """The words of every command that could be found anywhere in it, for rules that deny."""
    named: tuple[str, ...] = ()
    """Every word that could name a file."""
    too_long: bool = False
    """It was not looked at."""


def parse_command(text: str) -> Parsed:
    """What ``text`` runs in bash."""
    return Parsed(text=text, problems=("commands are not taken apart yet",))
