"""The decision: may this call run, must somebody be asked, or is it refused?

Owns the order of what counts and the words of reasons. Asks nobody and remembers nothing
(``pi_rpc.harness.permissions.gate``). Blocks only as ``Zones`` does.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from pi_rpc.agent.tool import ToolKind
from pi_rpc.harness.configuration import PermissionMode
from pi_rpc.harness.permissions._offers import Offer, path_offers, tool_offer
from pi_rpc.harness.permissions.paths import Access, Zone, Zones
from pi_rpc.harness.permissions.rules import (
    Rule,
    RuleEffect,
    RuleSet,
)

__all__ = ["Call", "Case", "Decision", "Offer", "Verdict", "decide"]

Verdict: TypeAlias = Literal["allow", "ask", "refuse"]


_OTHER_MODE = (
    "It can be allowed with session/configure and another permissionMode, or --permission-mode."
)


class Call(Struct, frozen=True, kw_only=True):
    """A tool call, as far as permission goes."""

    tool_name: str
    kind: ToolKind
    args: Mapping[str, Any] = field(default_factory=dict)
    paths: tuple[Path, ...] = ()
    """What it touches: absolute; they are resolved anew."""
    access: Access = "read"
    """What it does to them."""
    command: str | None = None
    """What it runs in a shell, in the working directory of the zones."""


class Decision(Struct, frozen=True, kw_only=True):
    """What becomes of a call."""

    verdict: Verdict
    reason: str = ""
    """For people and for the model: why it is asked or refused, and how it could be allowed."""
    offers: tuple[Offer, ...] = ()
    """The narrowest first; none where nothing can be remembered sensibly."""


def decide(call: Call, mode: PermissionMode, rules: RuleSet, zones: Zones) -> Decision:
    """What becomes of ``call``; see docs/permissions.md for the order."""
    if call.command is not None:
        from pi_rpc.harness.permissions._command_case import CommandCase

        return CommandCase(call, mode, rules, zones).decision()
    return _PathCase(call, mode, rules, zones).decision()


class Case(ABC):
    """A call and what it is judged by; the order of what counts, for every kind of call."""

    def __init__(self, call: Call, mode: PermissionMode, rules: RuleSet, zones: Zones) -> None:
        self.call = call
        self.mode = mode
        self.zones = zones
        self._rules = rules

    def decision(self) -> Decision:
        """The first that applies."""
        mode, name = self.mode, self.call.tool_name
        if mode != "full" and (secret := self.secret()):
            return _refused(
                f"{secret} holds credentials or what pi-rpc keeps about permissions. Only the"
                " permission mode full allows it."
            )
        for rule in self.rules("deny"):
            if self.touched_by(rule):
                return _refused(_denied(rule))
        if not self.judged() and self.rules("deny"):
            return _refused("The command is too long to be judged by the rules that deny.")
        if mode == "readonly" and self.call.kind != "read":
            return _refused(
                f"The tool {name} was refused: this session is read-only. {_OTHER_MODE}"
            )
        if mode == "full":
            return Decision(verdict="allow")
        for rule in self.rules("ask"):
            if self.touched_by(rule):
                return Decision(verdict="ask", reason=_asked(rule))
        return self.by_rules_and_mode()

    def rules(self, effect: RuleEffect) -> tuple[Rule, ...]:
        """The rules of ``effect`` about this tool."""
        return self._rules.about(effect, self.call.tool_name, self.call.kind)

    @abstractmethod
    def secret(self) -> str:
        """What it names that nobody may see; empty: nothing."""

    def judged(self) -> bool:
        """Whether ``touched_by`` can be believed where it says no."""
        return True

    @abstractmethod
    def touched_by(self, rule: Rule) -> bool:
        """Whether any part of the call is matched by a rule that asks or denies."""

    @abstractmethod
    def by_rules_and_mode(self) -> Decision:
        """Allowed by a rule, or else what the mode says."""


class _PathCase(Case):
    """A call that touches files, or of which nothing is known but its tool."""

    def secret(self) -> str:
        for path in self.call.paths:
            if self.zones.zone(path, self.call.access) == "secret":
                return f"`{path}`"
        return ""

    def touched_by(self, rule: Rule) -> bool:
        if rule.pattern is None:
            return True
        if not self.call.paths:
            # What its pattern is about cannot be told: rather too strict, if it means this tool.
            return rule.tool == self.call.tool_name
        return any(
            rule.matches_path(each, self.zones.cwd)
            for path in self.call.paths
            for each in {path, self.zones.real(path)}
        )

    def by_rules_and_mode(self) -> Decision:
        call = self.call
        if not call.paths:
            free = call.kind == "read" or any(rule.pattern is None for rule in self.rules("allow"))
            if free:
                return Decision(verdict="allow")
            return Decision(
                verdict="ask",
                reason=f"The tool {call.tool_name} needs permission in the mode {self.mode}.",
                offers=(tool_offer(call.tool_name),),
            )
        asked = [(path, reason) for path in call.paths if (reason := self._unfree(path))]
        if not asked:
            return Decision(verdict="allow")
        return Decision(
            verdict="ask",
            reason=asked[0][1],
            offers=self._offers([self.zones.real(path) for path, _ in asked]),
        )

    def _unfree(self, path: Path) -> str:
        """Why ``path`` must be asked about; empty: it need not."""
        call, mode = self.call, self.mode
        zone = self.zones.zone(path, call.access)
        if any(self._allows(rule, path, zone) for rule in self.rules("allow")):
            return ""
        if call.kind == "other":
            return f"The tool {call.tool_name} needs permission in the mode {mode}."
        if zone == "outside":
            return f"`{self.zones.real(path)}` is outside of the working directory."
        if call.access == "read":
            return ""
        if zone == "guarded":
            return f"`{self.zones.real(path)}` can run code or change what is allowed."
        if mode == "edits":
            return ""
        return f"Changing files needs permission in the mode {mode}."

    def _allows(self, rule: Rule, path: Path, zone: Zone) -> bool:
        """Wildcards do not reach what is guarded: a rule has to name it."""
        if zone == "guarded" and self.call.access == "edit":
            named = rule.fixed_front(self.zones.cwd)
            if rule.pattern is None or self.zones.zone(named) != "guarded":
                return False
        return rule.pattern is None or rule.matches_path(self.zones.real(path), self.zones.cwd)

    def _offers(self, paths: Sequence[Path]) -> tuple[Offer, ...]:
        return path_offers(self.call.tool_name, self.call.kind, paths, self.zones)


def _refused(reason: str) -> Decision:
    return Decision(verdict="refuse", reason=reason)


def _denied(rule: Rule) -> str:
    if rule.fault:
        return (
            f"A rule that denies cannot be read ({rule.fault}); until it is corrected it denies"
            f" {rule.words}."
        )
    return f"The rule `{rule.text}` denies it. Only removing that rule allows it."


def _asked(rule: Rule) -> str:
    if rule.fault:
        return (
            f"A rule that asks cannot be read ({rule.fault}); until it is corrected it asks about"
            f" {rule.words}."
        )
    return f"The rule `{rule.text}` asks about it every time."
