"""Whether what an extension adds can be used at all.

Owns the check of tools and commands when they are added: one that is wrong would otherwise break
every request of its session, far from whoever wrote it. Does not own adding them
(``pi_rpc.harness.extensions``).
"""

import re
from typing import Any, get_args

from msgspec.structs import asdict

from pi_rpc.agent.messages import encode_json
from pi_rpc.agent.tool import AgentTool, ExecutionMode, ToolKind

__all__ = ["check_command", "check_tool"]

_COMMAND_NAME = re.compile(r"[^\s/]+")
_TEXTS = ("name", "label", "description", "snippet")
_CHOICES = {"kind": get_args(ToolKind), "execution_mode": (None, *get_args(ExecutionMode))}
_FUNCTIONS = ("execute", "prepare_arguments", "describe")


def check_tool(tool: Any) -> None:
    """Raises ``TypeError`` or ``ValueError`` for what is no tool that a model could be offered."""
    if not isinstance(tool, AgentTool):
        raise TypeError(f"a tool is an AgentTool, not {type(tool).__name__}")
    values: dict[str, Any] = asdict(tool)
    for name in _TEXTS:
        _check_text(f"a tool's {name}", values[name])
    for name in _FUNCTIONS:
        if values[name] is not None and not callable(values[name]):
            raise TypeError(f"the tool {tool.name!r}: its {name} is no function")
    for name, choices in _CHOICES.items():
        if values[name] not in choices:
            raise ValueError(f"the tool {tool.name!r}: there is no {name} {values[name]!r}")
    if not tool.name.strip():
        raise ValueError("a tool needs a name")
    if not isinstance(values["guidelines"], list | tuple):
        raise TypeError(f"the tool {tool.name!r}: its guidelines are no list of texts")
    for line in tool.guidelines:
        _check_text(f"the tool {tool.name!r}: a guideline", line)
    try:
        encode_json(dict(tool.parameters))
    except (TypeError, ValueError, NotImplementedError, RecursionError) as error:
        raise ValueError(f"the tool {tool.name!r}: its parameters are no JSON: {error}") from None
    if tool.parameters.get("type", "object") != "object":
        raise ValueError(f"the tool {tool.name!r}: its parameters describe no object")


def check_command(name: Any, description: Any, handler: Any) -> None:
    """Raises ``TypeError`` or ``ValueError`` for what is no command."""
    _check_text("a command's name", name)
    if not _COMMAND_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a command: no spaces, no slashes")
    _check_text(f"the command {name!r}: its description", description)
    if not callable(handler):
        raise TypeError(f"the command {name!r}: its handler is no function but {handler!r}")


def _check_text(what: str, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{what} is no text but {value!r}")
