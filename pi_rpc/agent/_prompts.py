"""What can be said to an agent, as messages."""

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from pi_rpc.agent.messages import AgentMessage, OpaqueMessage
from pi_rpc.llm.messages import ImageBlock, TextBlock, UserContent, UserMessage, now_ms

AgentPrompt: TypeAlias = str | AgentMessage | Sequence[AgentMessage]
"""Text, a message, or several messages."""


def normalized(prompt: AgentPrompt, images: Sequence[ImageBlock] = ()) -> list[AgentMessage]:
    """A prompt as messages. Raises ``ValueError`` or ``TypeError`` for what is none."""
    if isinstance(prompt, str):
        content: list[UserContent] = [TextBlock(text=prompt), *images]
        return [UserMessage(content=content, timestamp=now_ms())]
    if images:
        raise ValueError("images go with a text, or into the message itself")
    if isinstance(prompt, Struct | OpaqueMessage):
        return [_message(prompt)]
    messages = [_message(each) for each in prompt]
    if not messages:
        raise ValueError("there is no message in the prompt")
    return messages


def _message(value: AgentMessage) -> AgentMessage:
    is_message = isinstance(value, OpaqueMessage) or (
        getattr(getattr(value, "__struct_config__", None), "tag_field", None) == "role"
    )
    if not is_message:
        raise TypeError(f"{type(value).__name__} is no message: it has no role")
    return value
