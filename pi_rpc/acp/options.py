"""What can be chosen in a session, as this protocol offers it: model, thinking, permission mode.

Owns the list of choices and what choosing does. What the choices mean is the harness's.
"""

from typing import Any, cast, get_args

from pi_rpc.acp import shapes as s
from pi_rpc.harness.errors import HarnessError
from pi_rpc.host.hosted import HostedSession
from pi_rpc.host.services import Services
from pi_rpc.llm.models import thinking_levels
from pi_rpc.protocol.base import PermissionMode
from pi_rpc.wire import ThinkingLevel

__all__ = ["CHOSEN", "choose", "config_options", "modes"]

CHOSEN = frozenset({"model", "thinkingLevel", "permissionMode"})
"""The fields of a session's state that are chosen here."""

_MODEL, _THINKING, _MODE = "model", "thought_level", "mode"

_MODES = {
    "ask": ("Ask", "Asks before files are changed and commands are run."),
    "edits": ("Accept edits", "Changes files in the project unasked; asks before commands."),
    "full": ("Full access", "Does everything unasked."),
    "readonly": ("Read only", "Reads files and does nothing else."),
}
_LEVELS = {"off": "Off", "xhigh": "Very high"}


def modes(hosted: HostedSession) -> s.Modes:
    """The permission modes."""
    return s.Modes(
        current_mode_id=hosted.harness.configuration.permission_mode,
        available_modes=[
            s.Mode(id=each, name=name, description=description)
            for each, (name, description) in _MODES.items()
        ],
    )


def config_options(hosted: HostedSession, services: Services) -> list[s.ConfigSelect]:
    """All that can be chosen, as it is now."""
    choices = hosted.harness.configuration
    mode = s.ConfigSelect(
        id=_MODE,
        name="Permissions",
        category="mode",
        current_value=choices.permission_mode,
        options=[
            s.Choice(value=each, name=name, description=description)
            for each, (name, description) in _MODES.items()
        ],
    )
    model = choices.model
    if model is None:
        return [mode]
    offered = {each.ref: each.name for each in services.models.usable()} | {model.ref: model.name}
    options = [
        mode,
        s.ConfigSelect(
            id=_MODEL,
            name="Model",
            category="model",
            current_value=model.ref,
            options=[
                s.Choice(value=ref, name=name, description=ref) for ref, name in offered.items()
            ],
        ),
    ]
    if model.reasoning:
        options.append(
            s.ConfigSelect(
                id=_THINKING,
                name="Thinking",
                category="thought_level",
                current_value=choices.level,
                options=[
                    s.Choice(value=level, name=_LEVELS.get(level, level.capitalize()))
                    for level in thinking_levels(model)
                ],
            )
        )
    return options


async def choose(hosted: HostedSession, services: Services, option: str, value: Any) -> None:
    """Choose ``value``; holds from the next turn on, and is told to whoever listens.

    Raises ``HarnessError`` for what is no choice.
    """
    harness = hosted.harness
    if option == _MODE and value in get_args(PermissionMode):
        harness.configuration.permission_mode = cast("PermissionMode", value)
        harness.changed(permissionMode=value)
    elif option == _MODEL and isinstance(value, str) and value:
        await services.look_for_model(value)
        model, level = services.choose_model(value, None)
        assert model is not None
        await harness.set_model(model)
        harness.changed(model=model)
        if level is not None:
            await harness.set_thinking_level(level)
            harness.changed(thinkingLevel=harness.configuration.level)
    elif option == _THINKING and value in get_args(ThinkingLevel):
        await harness.set_thinking_level(cast("ThinkingLevel", value))
        harness.changed(thinkingLevel=harness.configuration.level)
    else:
        known = {_MODE: "a permission mode", _MODEL: "a model", _THINKING: "a thinking level"}
        if option in known:
            raise HarnessError("invalidParams", f"value: expected {known[option]}", path="value")
        text = f"configId: expected one of {', '.join(known)}"
        raise HarnessError("invalidParams", text, path="configId")
