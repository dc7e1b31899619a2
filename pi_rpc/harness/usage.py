"""Running totals of a session: tokens, cost, and how full the model's window is.

Pure arithmetic. Does not own prices (``pi_rpc.llm.models``) nor when totals are announced.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

import msgspec
from msgspec import UNSET, Struct

from pi_rpc.agent.messages import (
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
)
from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
    UsageCost,
)
from pi_rpc.session.context import newest_messages, since_change
from pi_rpc.session.storage import SessionStorage
from pi_rpc.session.stored import StoredEntry

__all__ = [
    "Totals",
    "add_usage",
    "branch_tokens",
    "context_tokens",
    "estimate_tokens",
    "prompt_tokens",
]

_IMAGE_CHARACTERS = 4800


class Totals(Struct):
    """What a session, or one run of it, has used so far."""

    usage: Usage = Usage.ZERO

    def add(self, usage: Usage) -> None:
        """Count one more model call."""
        self.usage = add_usage(self.usage, usage)

    def recount(self, session: SessionStorage) -> None:
        """Start over with what all of ``session`` used, on whatever branch."""
        self.usage = session.usage_totals()

    @property
    def cost(self) -> float:
        """US dollars."""
        return self.usage.cost.total


def add_usage(one: Usage, other: Usage) -> Usage:
    """The sum of two usages, cost included."""
    return Usage(
        input=one.input + other.input,
        output=one.output + other.output,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        total_tokens=one.total_tokens + other.total_tokens,
        cache_write_1h=(one.cache_write_1h or 0) + (other.cache_write_1h or 0) or UNSET,
        reasoning=(one.reasoning or 0) + (other.reasoning or 0) or UNSET,
        cost=UsageCost(
            input=one.cost.input + other.cost.input,
            output=one.cost.output + other.cost.output,
            cache_read=one.cost.cache_read + other.cost.cache_read,
            cache_write=one.cost.cache_write + other.cost.cache_write,
            total=one.cost.total + other.cost.total,
        ),
    )


def branch_tokens(branch: Sequence[StoredEntry], overhead: int = 0) -> int:
    """About how many tokens the next request takes up after ``branch``.

    What the last good reply reported, plus an estimate of what came after it. A reply from before
    the newest compaction or context edit says nothing about the context as it is now; then all of
    it is estimated, with ``overhead`` tokens (see ``prompt_tokens``) for what no entry holds.
    """
    # From the end, so that nothing before that reply has to be read.
    unchanged = reversed(since_change(branch))
    trusted, later = True, 0
    for stored, message in newest_messages(branch):
        trusted = trusted and any(each.id == stored.id for each in unchanged)
        if trusted and _is_good(message):
            return _total(message.usage) + later
        later += estimate_tokens(message)
    return overhead + later


def prompt_tokens(system_prompt: str, tools: Iterable[Any] = ()) -> int:
    """About how many tokens the system prompt and the tools (specs of them) take up."""
    characters = len(system_prompt)
    for tool in tools:
        characters += len(tool.name) + len(tool.description) + _json_length(dict(tool.parameters))
    return -(-characters // 4)


def context_tokens(messages: Sequence[Any], *, trusted_from: int = 0, overhead: int = 0) -> int:
    """About how many tokens the conversation takes up.

    What the last good reply at or after ``trusted_from`` reported, plus a quarter of the characters
    that came after it; without one an estimate of everything, plus ``overhead``.
    """
    for index in range(len(messages) - 1, trusted_from - 1, -1):
        message = messages[index]
        if _is_good(message):
            later = sum(estimate_tokens(each) for each in messages[index + 1 :])
            return _total(message.usage) + later
    return overhead + sum(estimate_tokens(each) for each in messages)


def _is_good(message: Any) -> TypeGuard[AssistantMessage]:
    """A reply that says how full the window was."""
    return (
        isinstance(message, AssistantMessage)
        and message.stop_reason not in {"error", "aborted"}
        and _total(message.usage) > 0
    )


def estimate_tokens(message: Any) -> int:
    """A quarter of a message's characters, rounded up; an image counts as 4,800 characters.

    Nothing for what a model never reads: a command kept from it, a message of an unknown role.
    """
    return -(-_message_characters(message) // 4)


def _message_characters(message: Any) -> int:
    match message:
        case BashExecutionMessage():
            kept_back = message.exclude_from_context is True
            return 0 if kept_back else len(message.command) + len(message.output)
        case BranchSummaryMessage() | CompactionSummaryMessage():
            return len(message.summary)
    content = getattr(message, "content", None)
    if isinstance(content, str):
        characters = len(content)
    else:
        characters = sum(_characters(block) for block in content or ())
    if isinstance(message, SystemMessage):
        characters += sum(len(text or "") for text in (message.sections or {}).values())
        characters += _json_length(message.tools_added) if message.tools_added else 0
    return characters


def _characters(block: object) -> int:
    if isinstance(block, TextBlock):
        return len(block.text)
    if isinstance(block, ThinkingBlock):
        return len(block.thinking)
    if isinstance(block, ToolCall):
        return len(block.name) + _json_length(block.arguments)
    return _IMAGE_CHARACTERS if isinstance(block, ImageBlock) else 0


def _json_length(value: Any) -> int:
    try:
        return len(msgspec.json.encode(value).decode())
    except (TypeError, ValueError, NotImplementedError, RecursionError):
        # Half a surrogate pair, for instance: nothing that needs to be exact.
        return len(str(value))


def _total(usage: Usage) -> int:
    parts = usage.input + usage.output + usage.cache_read + usage.cache_write
    return usage.total_tokens or parts
