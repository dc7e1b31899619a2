"""The decision about a call that runs commands in a shell.

Owns what of a command counts. Loaded with the first command: its grammar and the lists of programs
are large. Does not own the order of what counts (``pi_rpc.harness.permissions.decision``).
"""

from pi_rpc.harness.configuration import PermissionMode
from pi_rpc.harness.permissions._naming import Named, named_in
from pi_rpc.harness.permissions._offers import command_offers
from pi_rpc.harness.permissions.commands import parse_command
from pi_rpc.harness.permissions.decision import Call, Case, Decision
from pi_rpc.harness.permissions.paths import Zones
from pi_rpc.harness.permissions.rules import Rule, RuleSet, command_text, folded, has_shape

__all__ = ["CommandCase"]


class CommandCase(Case):
    """A call that runs commands in a shell."""

    def __init__(self, call: Call, mode: PermissionMode, rules: RuleSet, zones: Zones) -> None:
        super().__init__(call, mode, rules, zones)
        self._parsed = parse_command(call.command or "")
        self._texts = {words: command_text(words) for words in self._parsed.found}
        self._folded = [folded(text) for text in self._texts.values()]
        self._joined = "\0".join(["", *self._folded])
        self._named = Named() if mode == "full" else named_in(self._parsed, zones)

    def secret(self) -> str:
        return f"`{self._named.secret}`" if self._named.secret else ""

    def judged(self) -> bool:
        return not self._parsed.unsure

    def touched_by(self, rule: Rule) -> bool:
        return any(
            f"\0{shape[0]}" in self._joined  # most commands are about something else altogether
            and any(has_shape(text, [shape]) for text in self._folded)
            for shape in rule.shapes()
        )

    def by_rules_and_mode(self) -> Decision:
        parsed = self._parsed
        problems = list(parsed.problems)
        if self._named.holder:
            problems.append(f"`{self._named.holder}` is a folder with credentials in it")
        needed = f"Commands need permission in the mode {self.mode}."
        if problems:
            return Decision(
                verdict="ask", reason=f"{needed} No rule can allow this one: {problems[0]}."
            )
        shapes = [shape for rule in self.rules("allow") for shape in rule.shapes()]
        asked = [words for words in parsed.simple if not has_shape(self._texts[words], shapes)]
        if not asked:
            return Decision(verdict="allow")
        return Decision(verdict="ask", reason=needed, offers=command_offers(asked, parsed.text))
