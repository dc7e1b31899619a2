"""Params of notifications, both ways.

Owns their structs. ``agent/event`` on the hot path is written by ``pi_rpc.protocol.encode``."""

from typing import Literal

from msgspec import UNSET, UnsetType

from pi_rpc.llm.messages import Wire
from pi_rpc.protocol.events import WireEvent

__all__ = [
    "AgentEventParams",
    "CancelParams",
    "CancelRequestParams",
    "LogTraceParams",
    "SetTraceParams",
]


class AgentEventParams(Wire, frozen=True, kw_only=True):
    """An event of a session."""

    session_id: str
    """The session."""
    seq: int
    """1, 2, 3, … within a session and epoch. A gap means that something was missed."""
    event: WireEvent
    """The event. Ignore types you do not know."""


class CancelParams(Wire, frozen=True, kw_only=True):
    """Which request to cancel, as LSP has it."""

    id: int | str
    """The request's JSON-RPC id."""


class CancelRequestParams(Wire, frozen=True, kw_only=True):
    """Which request to cancel, as the Agent Client Protocol has it."""

    request_id: int | str
    """The request's JSON-RPC id."""


class SetTraceParams(Wire, frozen=True, kw_only=True):
    """LSP's trace setting."""

    value: Literal["off", "messages", "verbose"]
    """`messages` has the daemon tell of what passes, `verbose` also what it held."""


class LogTraceParams(Wire, frozen=True, kw_only=True):
    """What passed, as LSP has it."""

    message: str
    """One line."""
    verbose: str | UnsetType = UNSET
    """Params or result, as JSON; up to 16 KiB of it. Only with `verbose`."""
