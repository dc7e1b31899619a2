"""AssistantMessageEvent: what a streaming reply says while it grows.

Owns the event union between a provider's stream and its reader; the wire's
``assistantMessageEvent`` is the same union without ``start``, ``done`` and ``error``. The growing
message itself is not in the events: it is ``AssistantMessageStream.partial``.

A well-formed stream is: at most one ``start``; then blocks, each opened, filled and closed in turn
or interleaved by ``content_index``; then exactly one ``done`` or ``error``, after which nothing
follows. Before an ``error`` blocks may be left open: they stay as far as they came."""

from typing import Literal, TypeAlias

from msgspec import UNSET, UnsetType

from pi_rpc.llm.messages import AssistantMessage, ToolCall, Wire

__all__ = [
    "AssistantMessageEvent",
    "BlockEvent",
    "Done",
    "Failed",
    "Start",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "ThinkingDelta",
    "ThinkingEnd",
    "ThinkingStart",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
]


class Start(Wire, tag_field="type", tag="start", frozen=True, kw_only=True):
    """The provider began to answer."""


class TextStart(Wire, tag_field="type", tag="text_start", frozen=True, kw_only=True):
    """A text block opened."""

    content_index: int
    """Position of the block in the message's content."""


class TextDelta(Wire, tag_field="type", tag="text_delta", frozen=True, kw_only=True, gc=False):
    """A piece of text arrived."""

    content_index: int
    """Position of the block in the message's content."""
    delta: str
    """The new text."""


class TextEnd(Wire, tag_field="type", tag="text_end", frozen=True, kw_only=True):
    """A text block is complete."""

    content_index: int
    """Position of the block in the message's content."""
    content: str
    """The whole text; replaces what the deltas added up to."""


class ThinkingStart(Wire, tag_field="type", tag="thinking_start", frozen=True, kw_only=True):
    """A thinking block opened."""

    content_index: int
    """Position of the block in the message's content."""


class ThinkingDelta(
    Wire, tag_field="type", tag="thinking_delta", frozen=True, kw_only=True, gc=False
):
    """A piece of thinking arrived."""

    content_index: int
    """Position of the block in the message's content."""
    delta: str
    """The new text."""


class ThinkingEnd(Wire, tag_field="type", tag="thinking_end", frozen=True, kw_only=True):
    """A thinking block is complete."""

    content_index: int
    """Position of the block in the message's content."""
    content: str
    """The whole text; replaces what the deltas added up to."""


class ToolCallStart(Wire, tag_field="type", tag="toolcall_start", frozen=True, kw_only=True):
    """A tool call opened."""

    content_index: int
    """Position of the block in the message's content."""
    id: str
    """The call's id."""
    tool_name: str
    """The tool's name."""


class ToolCallDelta(
    Wire, tag_field="type", tag="toolcall_delta", frozen=True, kw_only=True, gc=False
):
    """A piece of a tool call's arguments arrived."""

    content_index: int
    """Position of the block in the message's content."""
    delta: str
    """Raw JSON text of the arguments, as the provider sent it."""


class ToolCallEnd(Wire, tag_field="type", tag="toolcall_end", frozen=True, kw_only=True):
    """A tool call is complete."""

    content_index: int
    """Position of the block in the message's content."""
    tool_call: ToolCall
    """The whole call; replaces what the deltas added up to."""


class Done(Wire, tag_field="type", tag="done", frozen=True, kw_only=True):
    """The reply ended well."""

    reason: Literal["stop", "length", "toolUse", "deferred"]
    """Why it ended."""
    message: AssistantMessage
    """The whole reply."""


class Failed(Wire, tag_field="type", tag="error", frozen=True, kw_only=True):
    """The reply failed or was aborted. What had arrived is kept."""

    reason: Literal["error", "aborted"]
    """Which of the two."""
    error: AssistantMessage
    """The reply so far, with ``errorMessage``."""
    retry_after_ms: int | UnsetType = UNSET
    """How long the provider asked to wait."""


BlockEvent: TypeAlias = (
    TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
)
AssistantMessageEvent: TypeAlias = Start | BlockEvent | Done | Failed
