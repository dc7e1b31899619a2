"""Messages, content blocks and usage: the shapes every other layer speaks.

Owns the conversation types of a language model. They are also the wire's and the session file's,
so field names, optional fields and tags here are a promise (see ``protocol.md``). Does not own the
roles that only an application knows (see ``pi_rpc.agent.messages``).

Timestamps are integer Unix milliseconds.
"""

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import UNSET, UnsetType, field

from pi_rpc.chance import now_ms
from pi_rpc.wire import ThinkingLevel, Wire

__all__ = [
    "AssistantContent",
    "AssistantMessage",
    "ImageBlock",
    "Message",
    "StopReason",
    "SystemMessage",
    "TextBlock",
    "ThinkingBlock",
    "ThinkingLevel",
    "ToolCall",
    "ToolResultMessage",
    "Usage",
    "UsageCost",
    "UserContent",
    "UserMessage",
    "Wire",
    "now_ms",
    "text_of",
]

StopReason: TypeAlias = Literal[
    "pending", "stop", "length", "toolUse", "error", "aborted", "deferred"
]
"""Why an assistant message ended. ``pending`` is only seen while it streams and is never stored."""


class TextBlock(Wire, tag_field="type", tag="text", frozen=True, kw_only=True):
    """Text written by a person or a model."""

    text: str
    """The text."""
    text_signature: str | UnsetType = UNSET
    """Opaque replay data of the provider."""


class ThinkingBlock(Wire, tag_field="type", tag="thinking", frozen=True, kw_only=True):
    """A model's visible reasoning."""

    thinking: str
    """The reasoning text; may be empty when redacted."""
    thinking_signature: str | UnsetType = UNSET
    """Opaque replay data of the provider."""
    redacted: bool | UnsetType = UNSET
    """The provider withheld the text; only the signature can be replayed."""


class ImageBlock(Wire, tag_field="type", tag="image", frozen=True, kw_only=True):
    """An image, inline."""

    data: str
    """The image bytes, base64."""
    mime_type: str
    """For instance ``image/png``."""


class ToolCall(Wire, tag_field="type", tag="toolCall", frozen=True, kw_only=True):
    """A model's request to run a tool."""

    id: str
    """Pairs the call with its result."""
    name: str
    """The tool's name."""
    arguments: dict[str, Any]
    """The arguments as the model gave them; ``{}`` when they could not be read."""
    thought_signature: str | UnsetType = UNSET
    """Opaque replay data of the provider."""
    namespace: str | UnsetType = UNSET
    """The provider's name space of the tool, where it has one."""
    arguments_error: str | UnsetType = UNSET
    """Why the finished argument text was not a JSON object."""


UserContent: TypeAlias = TextBlock | ImageBlock
AssistantContent: TypeAlias = TextBlock | ThinkingBlock | ToolCall


class UsageCost(Wire, frozen=True, kw_only=True):
    """Cost in US dollars."""

    input: float
    """Of uncached input tokens."""
    output: float
    """Of output tokens, reasoning included."""
    cache_read: float
    """Of tokens read from the prompt cache."""
    cache_write: float
    """Of tokens written to the prompt cache."""
    total: float
    """The sum."""
    total_from_provider: float | UnsetType = UNSET
    """The total as the provider billed it, where it says so."""

    ZERO: ClassVar["UsageCost"]


UsageCost.ZERO = UsageCost(input=0, output=0, cache_read=0, cache_write=0, total=0)


class Usage(Wire, frozen=True, kw_only=True):
    """Tokens of one model call, and what they cost."""

    input: int
    """Uncached input tokens."""
    output: int
    """Output tokens, reasoning included."""
    cache_read: int
    """Input tokens read from the prompt cache."""
    cache_write: int
    """Input tokens written to the prompt cache."""
    total_tokens: int
    """Input, output and both cache numbers together."""
    cost: UsageCost
    """What the call cost."""
    cache_write_1h: int | UnsetType = field(default=UNSET, name="cacheWrite1h")
    """Part of ``cacheWrite`` that was written for an hour."""
    reasoning: int | UnsetType = UNSET
    """Part of ``output`` that was reasoning."""

    ZERO: ClassVar["Usage"]


Usage.ZERO = Usage(
    input=0, output=0, cache_read=0, cache_write=0, total_tokens=0, cost=UsageCost.ZERO
)


class SystemMessage(Wire, tag_field="role", tag="system", frozen=True, kw_only=True):
    """A system message of a file that pi wrote. We neither create nor send it."""

    content: str | list[TextBlock]
    """The text."""
    timestamp: int
    """Unix milliseconds."""
    sections: dict[str, str | None] | UnsetType = UNSET
    """Named parts of the system prompt; null deletes one."""
    tools_added: list[dict[str, Any]] | UnsetType = UNSET
    """Tools that became available."""
    tools_removed: list[dict[str, Any]] | UnsetType = UNSET
    """Tools that went away."""


class UserMessage(Wire, tag_field="role", tag="user", frozen=True, kw_only=True):
    """What a person, or a program in their place, said."""

    content: str | list[UserContent]
    """Text, or text and image blocks."""
    timestamp: int
    """Unix milliseconds."""


class AssistantMessage(Wire, tag_field="role", tag="assistant", frozen=True, kw_only=True):
    """One reply of a model."""

    content: list[AssistantContent]
    """Text, thinking and tool calls in the order they were produced."""
    api: str
    """The wire dialect that was spoken."""
    provider: str
    """The provider that was asked."""
    model: str
    """The model that was asked."""
    usage: Usage
    """Tokens and cost."""
    stop_reason: StopReason
    """Why the reply ended."""
    timestamp: int
    """Unix milliseconds of its start."""
    response_model: str | UnsetType = UNSET
    """The model that answered, where the provider names another."""
    response_id: str | UnsetType = UNSET
    """The provider's id of the reply."""
    provider_thinking_level: str | UnsetType = UNSET
    """The level as the provider was told it."""
    thinking_level: str | UnsetType = UNSET
    """The level that was asked for."""
    diagnostics: Any | UnsetType = UNSET
    """What the provider layer noticed; free form."""
    deferred: Any | UnsetType = UNSET
    """State of a reply that the provider finishes later; free form."""
    error_message: str | UnsetType = UNSET
    """What went wrong, when ``stopReason`` is ``error`` or ``aborted``."""
    raw_stop_reason: str | UnsetType = UNSET
    """The provider's own word for the stop reason."""
    end_turn: bool | UnsetType = UNSET
    """The provider says that the turn ends here."""
    duration_ms: float | UnsetType = UNSET
    """From request to the end of the reply."""


class ToolResultMessage(Wire, tag_field="role", tag="toolResult", frozen=True, kw_only=True):
    """Our answer to a tool call."""

    tool_call_id: str
    """The id of the call."""
    tool_name: str
    """The tool's name."""
    content: list[UserContent]
    """What the model reads."""
    is_error: bool
    """The tool failed, or was not run."""
    timestamp: int
    """Unix milliseconds."""
    details: Any | UnsetType = UNSET
    """What clients may draw; not for the model."""
    usage: Usage | UnsetType = UNSET
    """Tokens the tool itself spent."""
    nested_calls: Any | UnsetType = UNSET
    """Calls the tool made in turn; free form."""
    duration_ms: float | UnsetType = UNSET
    """How long it ran; unset when it did not run."""


Message: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage
"""What a model can be sent."""


def text_of(content: str | list[Any]) -> str:
    """The text of a message's content: all text blocks, joined without a separator."""
    if isinstance(content, str):
        return content
    return "".join(block.text for block in content if isinstance(block, TextBlock))
