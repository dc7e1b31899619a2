"""Shapes of what this door asks its client, and of the answers.

Owns the questions of the protocol's stable version 1. Sending and waiting is
``pi_rpc.jsonrpc.asking``'s.
"""

from typing import Any, Literal

from pi_rpc.acp import shapes as s
from pi_rpc.wire import Wire

__all__ = [
    "CreateTerminalParams",
    "CreateTerminalResult",
    "ElicitationParams",
    "ElicitationResult",
    "EnvVariable",
    "Nothing",
    "PermissionOption",
    "PermissionOutcome",
    "PermissionParams",
    "PermissionResult",
    "ReadFileParams",
    "ReadFileResult",
    "TerminalExit",
    "TerminalOutput",
    "TerminalParams",
    "WriteFileParams",
]


class PermissionOption(Wire, frozen=True, kw_only=True):
    """An answer that can be given."""

    option_id: str
    name: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class PermissionParams(Wire, frozen=True, kw_only=True):
    """``session/request_permission``."""

    session_id: str
    tool_call: s.ToolCallFields
    options: list[PermissionOption]


class PermissionOutcome(Wire, frozen=True, kw_only=True):
    """What the person chose, if anything."""

    outcome: str
    option_id: str = ""


class PermissionResult(Wire, frozen=True, kw_only=True):
    """The result of ``session/request_permission``."""

    outcome: PermissionOutcome


class ReadFileParams(Wire, frozen=True, kw_only=True):
    """``fs/read_text_file``."""

    session_id: str
    path: str


class ReadFileResult(Wire, frozen=True, kw_only=True):
    """Its result."""

    content: str


class WriteFileParams(Wire, frozen=True, kw_only=True):
    """``fs/write_text_file``."""

    session_id: str
    path: str
    content: str


class EnvVariable(Wire, frozen=True, kw_only=True):
    """A variable for a command."""

    name: str
    value: str


class CreateTerminalParams(Wire, frozen=True, kw_only=True):
    """``terminal/create``."""

    session_id: str
    command: str
    args: list[str]
    env: list[EnvVariable]
    cwd: str
    output_byte_limit: int


class CreateTerminalResult(Wire, frozen=True, kw_only=True):
    """Its result."""

    terminal_id: str


class TerminalParams(Wire, frozen=True, kw_only=True):
    """Names a terminal."""

    session_id: str
    terminal_id: str


class TerminalExit(Wire, frozen=True, kw_only=True):
    """The result of ``terminal/wait_for_exit``."""

    exit_code: int | None = None
    signal: str | None = None


class TerminalOutput(Wire, frozen=True, kw_only=True):
    """The result of ``terminal/output``."""

    output: str
    truncated: bool = False


class ElicitationParams(Wire, frozen=True, kw_only=True):
    """``elicitation/create`` of a form."""

    session_id: str
    message: str
    requested_schema: dict[str, Any]
    mode: str = "form"


class ElicitationResult(Wire, frozen=True, kw_only=True):
    """Its result."""

    action: str
    content: dict[str, Any] | None = None


class Nothing(Wire, frozen=True, kw_only=True):
    """An answer in which nothing is said."""
