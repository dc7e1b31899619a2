"""Params and results of what reshapes a conversation.

Owns the structs only; ``pi_rpc.protocol.methods`` says which method has which."""

from typing import Any

from msgspec import UNSET, UnsetType

from pi_rpc.llm.messages import ImageBlock, Usage, Wire
from pi_rpc.protocol.base import SessionParams
from pi_rpc.protocol.messages import AnyEntry

__all__ = ["BranchParams", "BranchResult", "CompactParams", "CompactResult"]


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


class BranchParams(SessionParams, frozen=True, kw_only=True):
    """Where to go on from, and what to take along."""

    entry_id: str
    """The entry; `"root"`: before the first."""
    summarize: bool = False
    """Have what is left behind summarised, and leave the summary at the new place."""
    custom_instructions: str | UnsetType = UNSET
    """What the summary should pay attention to."""
    replace_instructions: bool = False
    """`customInstructions` take the place of the usual ones instead of being added."""
    label: str | UnsetType = UNSET
    """Label the summary with this or, where none is written, the entry."""


class BranchResult(Wire, frozen=True, kw_only=True):
    """Where the session stands now."""

    cancelled: bool
    """It was stopped, and the session is as it was."""
    leaf_id: str | None
    """The entry at the tip of the active branch; null at the root."""
    editor_text: str | UnsetType = UNSET
    """Text of the user message that was gone back to, to be changed and sent again. The leaf is
    then the entry before that message."""
    images: list[ImageBlock] | UnsetType = UNSET
    """Its images."""
    attachments: list[Any] | UnsetType = UNSET
    """Its attachments, as they were sent."""
    summary_entry: AnyEntry | UnsetType = UNSET
    """The entry that holds the summary."""
