"""What could be remembered of an answer, so that the same is not asked again.

Owns which rules are sensible: exactly these commands, well-known beginnings, this file, its folder.
Does not own keeping them (``pi_rpc.harness.permissions.remembered``).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from pi_rpc.harness.permissions.paths import Zones
from pi_rpc.harness.permissions.rules import Rule, command_rule, path_rule

if TYPE_CHECKING:
    from pi_rpc.harness.permissions.commands import Words

__all__ = ["Offer", "command_offers", "path_offers", "tool_offer"]

LONGEST_COMMAND = 500
"""Nobody reads more than this many characters before agreeing to them for good."""

_FAMILIES: dict[str, frozenset[str]] = {
    "cargo": frozenset({"build", "check", "clippy", "doc", "fmt", "test", "tree"}),
    "docker": frozenset({"images", "logs", "ps"}),
    "dotnet": frozenset({"build", "test"}),
    "git": frozenset(
        {
            "add", "blame", "branch", "commit", "describe", "diff", "fetch", "log", "ls-files",
            "rev-parse", "shortlog", "show", "stash", "status", "tag",
        }
    ),
    "go": frozenset({"build", "doc", "fmt", "list", "test", "vet"}),
    "npm": frozenset({"ci", "install", "ls", "outdated", "run", "test", "view"}),
    "pip": frozenset({"freeze", "list", "show"}),
    "pnpm": frozenset({"install", "list", "run", "test"}),
    "ruff": frozenset({"check", "format"}),
    "uv": frozenset({"lock", "sync", "tree"}),
    "yarn": frozenset({"install", "list", "run", "test"}),
}  # fmt: skip
"""Programs whose first word says what they do, and those words that are worth a rule."""
_NAMED_SCRIPTS = frozenset({("npm", "run"), ("pnpm", "run"), ("yarn", "run")})
"""Where it is the word after that which says what is done."""
_WHOLE_PROGRAMS = frozenset({"cat", "eslint", "grep", "head", "ls", "mypy", "pytest", "tail", "wc"})
"""Programs of which any use is much like any other."""


class Offer(Struct, frozen=True, kw_only=True):
    """What could be remembered so that such a call is not asked about again."""

    rules: tuple[Rule, ...]
    """All of them together: a list of commands needs a rule for each. They allow; for the opposite
    use ``msgspec.structs.replace(rule, effect="deny")``."""
    words: str
    """The same for people: ``commands like `git status *```."""


def command_offers(asked: "Sequence[Words]", text: str) -> tuple[Offer, ...]:
    """Exactly the commands ``asked``, and what begins as they do; ``text`` is the whole command."""
    if len(text) > LONGEST_COMMAND:
        return ()
    exact = _offer([command_rule(command) for command in asked])
    wider = _offer([_family(command) for command in asked])
    return (exact,) if exact == wider else (exact, wider)


def path_offers(
    tool_name: str, kind: str, paths: Sequence[Path], zones: Zones
) -> tuple[Offer, ...]:
    """For the real ``paths`` that a tool of ``kind`` may not touch unasked."""
    if kind == "other":
        return (tool_offer(tool_name),)
    cwd = zones.cwd
    files = _offer([path_rule(kind, path, cwd) for path in paths])
    if kind == "edit":
        if all(zones.zone(path) == "inside" and path.is_relative_to(cwd) for path in paths):
            return files, Offer(
                rules=(Rule("allow", "edit", "**"),), words="all files in the project"
            )
        return (files,)
    folders = [path if path.is_dir() else path.parent for path in paths]
    if any(zones.holds_secrets(folder) for folder in folders):
        return (files,)
    return (_offer([path_rule(kind, folder, cwd, below=True) for folder in folders]),)


def tool_offer(tool_name: str) -> Offer:
    """For every call of a tool."""
    return _offer([Rule("allow", tool_name)])


def _offer(rules: Sequence[Rule]) -> Offer:
    unique = tuple(dict.fromkeys(rules))
    return Offer(rules=unique, words=", ".join(rule.words for rule in unique))


def _family(words: "Words") -> Rule:
    if words[0] in _WHOLE_PROGRAMS:
        return command_rule(words[:1], prefix=True)
    if len(words) > 1 and words[1] in _FAMILIES.get(words[0], ()):
        named = 3 if tuple(words[:2]) in _NAMED_SCRIPTS else 2
        if len(words) >= named:
            return command_rule(words[:named], prefix=True)
    return command_rule(words)
