"""What ``/name`` in a prompt calls up, as this protocol lists it.

Owns the list, and ``/compact``: the protocol has no method for that, and people ask for it. What
commands stand for is the harness's.
"""

from pi_rpc.acp import shapes as s
from pi_rpc.harness.harness import AgentHarness

__all__ = ["available", "compacting"]

_COMPACT = s.Command(
    name="compact",
    description="Shorten the conversation: a summary takes the place of what was said",
    input=s.CommandInput(hint="what the summary should keep"),
)


def available(harness: AgentHarness) -> list[s.Command]:
    """All of them; an extension's goes before anything else of its name."""
    commands = {_COMPACT.name: _COMPACT}
    for each in reversed(harness.configuration.resources.commands()):
        commands[each.name] = _command(each.name, each.description, each.argument_hint or "")
    for command in harness.extensions.commands():
        commands[command.name] = _command(command.name, command.description, "arguments")
    return [commands[name] for name in sorted(commands)]


def compacting(harness: AgentHarness, text: str) -> str | None:
    """The instructions of a prompt that is ``/compact``; None for any other."""
    name, *instructions = text.split(maxsplit=1) or [""]
    if name != f"/{_COMPACT.name}":
        return None
    others = {each.name for each in harness.configuration.resources.commands()}
    return None if _COMPACT.name in others else "".join(instructions).strip()


def _command(name: str, description: str, hint: str) -> s.Command:
    if not hint:
        return s.Command(name=name, description=description)
    return s.Command(name=name, description=description, input=s.CommandInput(hint=hint))
