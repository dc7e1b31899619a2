"""Params and results of what looks at a session's tree and labels it.

Owns the structs only; ``pi_rpc.protocol.methods`` says which method has which."""

from msgspec import UNSET, UnsetType

from pi_rpc.llm.messages import Wire
from pi_rpc.protocol.base import Count, SessionParams
from pi_rpc.protocol.state import ContextUsage, TokenTotals

__all__ = [
    "SessionLabelParams",
    "SessionStatsResult",
    "SessionTreeParams",
    "SessionTreeResult",
    "TreeNode",
]


class SessionTreeParams(SessionParams, frozen=True, kw_only=True):
    """Which nodes."""

    query: str | UnsetType = UNSET
    """Only those whose preview or label holds this text, in any case."""
    limit: Count = 500
    """At most so many."""
    cursor: str | UnsetType = UNSET
    """`nextCursor` of the page before."""


class TreeNode(Wire, frozen=True, kw_only=True):
    """An entry in the tree."""

    entry_id: str
    """The entry."""
    type: str
    """Its type."""
    preview: str
    """The beginning of what it says, on one line; empty when it says nothing."""
    timestamp: str
    """When it was stored, ISO 8601 in UTC."""
    parent_id: str | UnsetType = UNSET
    """The entry it hangs below; absent for a root."""
    role: str | UnsetType = UNSET
    """The role, when it is a message."""
    label: str | UnsetType = UNSET
    """The label on it."""


class SessionTreeResult(Wire, frozen=True, kw_only=True):
    """A page of the tree, flat: parents before their children."""

    nodes: list[TreeNode]
    """The nodes."""
    leaf_id: str | None
    """The entry at the tip of the active branch; null at the root."""
    next_cursor: str | UnsetType = UNSET
    """Names the next page; absent on the last."""


class SessionStatsResult(Wire, frozen=True, kw_only=True):
    """What is in all branches of a session, and what it came to."""

    user_messages: int
    """Messages of the user."""
    assistant_messages: int
    """Replies."""
    tool_calls: int
    """Tool calls in them."""
    tool_results: int
    """Results of tool calls."""
    total_messages: int
    """Messages of any role but system."""
    tokens: TokenTotals
    """Tokens of the whole session."""
    cost: float
    """US dollars of the whole session."""
    context_usage: ContextUsage | UnsetType = UNSET
    """How full the model's context is; absent without a model."""


class SessionLabelParams(SessionParams, frozen=True, kw_only=True):
    """Which entry, and its label."""

    entry_id: str
    """The entry."""
    label: str | UnsetType = UNSET
    """The label; absent or empty: take it off."""
