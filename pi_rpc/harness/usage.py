"""Running totals of a session: tokens, cost, and how full the model's window is.

Pure arithmetic. Does not own prices (``pi_rpc.llm.models``) nor when totals are announced.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
    UsageCost,
)
from pi_rpc.session.entries import MessageEntry
from pi_rpc.session.storage import SessionStorage

__all__ = ["Totals", "add_usage", "context_tokens", "estimate_tokens"]

_IMAGE_CHARACTERS = 4800


@dataclass(slots=True)
class Totals:
    """What a session, or one run of it, has used so far."""

    usage: Usage = Usage.ZERO

    def add(self, usage: Usage) -> None:
        """Count one more model call."""
        self.usage = add_usage(self.usage, usage)

    def recount(self, session: SessionStorage) -> None:
        """Start over with every reply of ``session``, on whatever branch."""
        self.usage = Usage.ZERO
        for stored in session.entries():
            if stored.role == "assistant" and isinstance(stored.entry, MessageEntry):
                message = stored.entry.agent_message()
                if isinstance(message, AssistantMessage):
                    self.add(message.usage)

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
        cost=UsageCost(
            input=one.cost.input + other.cost.input,
            output=one.cost.output + other.cost.output,
            cache_read=one.cost.cache_read + other.cost.cache_read,
            cache_write=one.cost.cache_write + other.cost.cache_write,
            total=one.cost.total + other.cost.total,
        ),
    )


def context_tokens(messages: Sequence[Any]) -> int:
    """About how many tokens the conversation takes up.

    What the last good reply reported, plus a quarter of the characters that came after it.
    """
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if (
            isinstance(message, AssistantMessage)
            and message.stop_reason not in {"error", "aborted"}
            and _total(message.usage)
        ):
            later = sum(estimate_tokens(each) for each in messages[index + 1 :])
            return _total(message.usage) + later
    return sum(estimate_tokens(each) for each in messages)


def estimate_tokens(message: Any) -> int:
    """A quarter of a message's characters, rounded up; an image counts as 4,800 characters."""
    content = getattr(message, "content", None)
    if content is None:
        text = f"{getattr(message, 'summary', '')}{getattr(message, 'command', '')}"
        return -(-len(f"{text}{getattr(message, 'output', '')}") // 4)
    if isinstance(content, str):
        return -(-len(content) // 4)
    return -(-sum(_characters(block) for block in content) // 4)


def _characters(block: object) -> int:
    if isinstance(block, TextBlock):
        return len(block.text)
    if isinstance(block, ThinkingBlock):
        return len(block.thinking)
    if isinstance(block, ToolCall):
        return len(block.name) + len(json.dumps(block.arguments))
    return _IMAGE_CHARACTERS if isinstance(block, ImageBlock) else 0


def _total(usage: Usage) -> int:
    parts = usage.input + usage.output + usage.cache_read + usage.cache_write
    return usage.total_tokens or parts
