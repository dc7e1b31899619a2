"""Params and results of what a person does beside the conversation: commands and trust.

Owns the structs only; ``pi_rpc.protocol.methods`` says which method has which."""

from typing import Literal

from msgspec import UNSET, UnsetType

from pi_rpc.llm.messages import Wire
from pi_rpc.protocol.base import SessionParams

__all__ = [
    "BashParams",
    "BashResult",
    "CommandEntry",
    "CommandListResult",
    "TrustParams",
    "TrustResult",
    "TrustSetParams",
]


class BashParams(SessionParams, frozen=True, kw_only=True):
    """A command to run."""

    command: str
    """The command line."""
    cwd: str | UnsetType = UNSET
    """Where; relative to the session's working directory, which it is by default."""
    exclude_from_context: bool = False
    """The model is never told of it."""
    token: str | int | UnsetType = UNSET
    """Anything; `bash_output` events about the command carry it."""


class BashResult(Wire, frozen=True, kw_only=True):
    """What came of a command."""

    output: str
    """The end of what it printed, at most 2,000 lines or 50 KB, without escape sequences and
    control characters but tab and newline."""
    cancelled: bool
    """It was ended before it had finished."""
    truncated: bool
    """`output` is not all of it."""
    exit_code: int | UnsetType = UNSET
    """Its exit code; absent when it was cancelled."""
    full_output_path: str | UnsetType = UNSET
    """A file with what it printed, up to 100 MB, when `output` is not all of it."""


class CommandEntry(Wire, frozen=True, kw_only=True):
    """Something that `/name arguments` in a prompt calls up."""

    name: str
    """Without the slash; a skill's begins with `skill:`."""
    source: Literal["prompt", "skill", "extension"]
    """A prompt template, a skill, or what an extension runs."""
    description: str | UnsetType = UNSET
    """What it does."""
    argument_hint: str | UnsetType = UNSET
    """What to write behind the name."""


class CommandListResult(Wire, frozen=True, kw_only=True):
    """The commands there are."""

    commands: list[CommandEntry]
    """By name. Each name stands for what a prompt with it would do."""


class TrustParams(Wire, frozen=True, kw_only=True):
    """Which project."""

    cwd: str | UnsetType = UNSET
    """Its directory, absolute; absent: the connection's."""


class TrustSetParams(TrustParams, frozen=True, kw_only=True):
    """What to decide about a project."""

    trusted: bool | UnsetType = UNSET
    """Whether to trust it, and what is below it; absent: forget what was decided for it."""


class TrustResult(Wire, frozen=True, kw_only=True):
    """What holds for a project."""

    trusted: bool
    """Its own settings, skills, prompts and extensions are loaded."""
    needed: list[str]
    """Paths in it that are not loaded because it is not trusted; empty when it is."""
