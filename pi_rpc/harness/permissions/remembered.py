"""Answers that hold always: rules that a person gave by answering, by project.

Owns ``pi-rpc/permissions.json`` of the agent directory. Several processes may change it at once;
entries that this version cannot read stay in it. Does not own what a rule means
(``pi_rpc.harness.permissions.rules``) nor when it is asked for.
"""

import os
from pathlib import Path
from typing import Any

from msgspec import Struct

from pi_rpc.chance import random_hex
from pi_rpc.harness._rewriting import RewriteError, rewrite_object
from pi_rpc.harness._written import WatchedFile, read_object
from pi_rpc.harness.permissions.rules import Rule, RuleError, parse_rule

__all__ = ["Remembered", "RememberedAnswers", "RewriteError", "new_rule_id"]

_EFFECTS = ("allow", "deny")


class Remembered(Struct, frozen=True):
    """An answer, as a rule."""

    id: str
    """Names it, so that it can be forgotten."""
    rule: Rule


def new_rule_id() -> str:
    """An id that no other rule has."""
    return f"rule_{random_hex(6)}"


class RememberedAnswers:
    """The answers of all projects. Every method reads the file if it has changed; blocking."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is the agent directory."""
        self.path = folder / "pi-rpc" / "permissions.json"
        self._file = WatchedFile(self.path, _load)

    def of(self, project: Path) -> list[Remembered]:
        """Those that hold in the directory ``project``, the oldest first. Never fails."""
        return list(self._file.current()[0].get(_key(project), ()))

    def problems(self) -> list[str]:
        """A line about each thing that is wrong in the file."""
        return list(self._file.current()[1])

    def add(self, project: Path, rule: Rule) -> Remembered:
        """Keep a rule for ``project``; one that is kept already is not kept twice.

        Raises ``RewriteError`` where the file holds no JSON object or is locked, and ``OSError``;
        nothing has changed then.
        """
        added = Remembered(new_rule_id(), rule)

        def changed(content: dict[str, Any]) -> dict[str, Any]:
            nonlocal added
            entries = content.get(_key(project), [])
            if not isinstance(entries, list):
                raise RewriteError(f"{self.path}: {_key(project)}: should be a list")
            for entry in entries:
                known = _read(entry)[0]
                if known is not None and known.rule == rule:
                    added = known
                    return content
            written = {"id": added.id, "effect": rule.effect, "rule": rule.text}
            return {**content, _key(project): [*entries, written]}

        rewrite_object(self.path, changed, private=True)
        return added

    def forget(self, rule_id: str) -> bool:
        """Whether there was a rule ``rule_id`` of any project; there is none now.

        Raises as ``add``.
        """
        if not self.path.exists():
            return False
        found = False

        def changed(content: dict[str, Any]) -> dict[str, Any]:
            nonlocal found
            kept = {}
            for project, entries in content.items():
                kept[project] = entries
                if isinstance(entries, list):
                    others = [each for each in entries if not _is_named(each, rule_id)]
                    found = found or len(others) < len(entries)
                    kept[project] = others
                    if entries and not others:
                        del kept[project]
            return kept

        rewrite_object(self.path, changed, private=True)
        return found


def _load(path: Path) -> tuple[dict[str, list[Remembered]], list[str]]:
    """The answers by project, and a line about each thing that is none."""
    content, problems = read_object(path)
    found: dict[str, list[Remembered]] = {}
    for project, entries in (content or {}).items():
        if not isinstance(entries, list):
            problems.append(f"{path}: {project}: should be a list; ignored")
            continue
        for entry in entries:
            remembered, problem = _read(entry)
            if remembered is not None:
                found.setdefault(os.path.normcase(project), []).append(remembered)
            else:
                problems.append(f"{path}: {project}: {problem}; ignored")
    return found, problems


def _key(project: Path) -> str:
    return os.path.normcase(os.path.realpath(project))


def _is_named(entry: Any, rule_id: str) -> bool:
    return isinstance(entry, dict) and entry.get("id") == rule_id


def _read(entry: Any) -> tuple[Remembered | None, str | None]:
    """The answer that an entry is, or what is wrong with it."""
    if not isinstance(entry, dict):
        return None, "holds something that is no object"
    effect, text, rule_id = entry.get("effect"), entry.get("rule"), entry.get("id")
    if effect not in _EFFECTS or not isinstance(text, str) or not isinstance(rule_id, str):
        return None, "holds an object without a proper id, effect and rule"
    try:
        return Remembered(rule_id, parse_rule(text, effect)), None
    except RuleError as error:
        return None, str(error)
