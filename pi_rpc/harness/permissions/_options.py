"""What a person can answer, and how the model reads it.

Owns the options of a question, what each would have remembered, and the texts of refusals. Asks
nobody and remembers nothing (``pi_rpc.harness.permissions.gate``).
"""

from collections.abc import Sequence

from msgspec.structs import replace

from pi_rpc.agent.permission import PermissionOption
from pi_rpc.harness.permissions.decision import Offer
from pi_rpc.harness.permissions.rules import Rule

__all__ = ["MOST_FEEDBACK", "REJECTS", "nobody_text", "options_for", "rejection"]

REJECTS = frozenset({"reject_once", "reject_always"})
MOST_FEEDBACK = 10_000
"""Characters of a person's words that the model reads."""

_HOW = (
    "Nobody can be asked here. It can be allowed with `--permission-mode` (`edits`, `full`), with"
    " `permissionMode` in session/new or session/configure, or with a rule in the setting"
    " piRpc.permissions.allow"
)


def options_for(
    offers: Sequence[Offer],
) -> tuple[list[PermissionOption], dict[str, tuple[Rule, ...]]]:
    """What can be answered, and by option the rules that it has remembered."""
    options = [PermissionOption(id="allow", name="Allow", kind="allow_once")]
    rules: dict[str, tuple[Rule, ...]] = {}
    for number, offer in enumerate(offers, 1):
        session, always = f"allow_session_{number}", f"allow_always_{number}"
        options += [
            PermissionOption(
                id=session, name="Allow in this session", kind="allow_session", rule=offer.words
            ),
            PermissionOption(
                id=always,
                name="Always allow in this project",
                kind="allow_always",
                rule=offer.words,
            ),
        ]
        rules[session] = rules[always] = offer.rules
    options.append(PermissionOption(id="reject", name="Reject", kind="reject_once"))
    if offers:
        options.append(
            PermissionOption(
                id="reject_always",
                name="Always reject in this project",
                kind="reject_always",
                rule=offers[0].words,
            )
        )
        rules["reject_always"] = tuple(replace(rule, effect="deny") for rule in offers[0].rules)
    return options, rules


def nobody_text(reason: str, offers: Sequence[Offer]) -> str:
    """Why a call is refused that would need to be asked about, and how to allow it."""
    such = [f"`{rule.text}`" for rule in offers[0].rules] if offers else []
    example = f", such as {' and '.join(such)}." if such else "."
    return f"This call was refused. {reason} {_HOW}{example}".replace("  ", " ")


def rejection(feedback: str) -> str:
    """What the model reads of a rejection, with the person's own words."""
    said = feedback.strip()
    if not said:
        return "The person rejected this call. Do not try the same in another way; ask them."
    if len(said) > MOST_FEEDBACK:
        said = said[:MOST_FEEDBACK] + " [… the rest was left out]"
    return f"The person rejected this call and said:\n{said}"
