"""Params and results of what reshapes a conversation.

Owns the structs only; ``pi_rpc.protocol.methods`` says which method has which."""

from typing import Any

from msgspec import UNSET, UnsetType

from pi_rpc.llm.messages import Usage, Wire
from pi_rpc.protocol.base import SessionParams

__all__ = ["CompactParams", "CompactResult"]


class CompactParams(SessionParams, frozen=True, kw_only=True):
    """Shorten the conversation."""

    custom_instructions: str | UnsetType = UNSET
    """What the summary should pay attention to."""


class CompactResult(Wire, frozen=True, kw_only=True):
    """What a compaction came to: all but `cancelled`, or `cancelled` alone."""

    cancelled: bool | UnsetType = UNSET
    """True: it was stopped, and the session is as it was. Absent otherwise."""
    summary: str | UnsetType = UNSET
    """The text that takes the place of what was said before."""
    first_kept_entry_id: str | UnsetType = UNSET
    """From this entry on everything stays; the compaction's own entry when nothing does."""
    tokens_before: int | UnsetType = UNSET
    """The context before."""
    estimated_tokens_after: int | UnsetType = UNSET
    """The context now."""
    usage: Usage | UnsetType = UNSET
    """What the summary cost."""
    details: Any | UnsetType = UNSET
    """Files that were read and changed."""
