"""Messages on the wire: which roles a client can meet.

Owns ``AnyMessage``, the type of a field that holds a message of any role. The structs are those of
``pi_rpc.llm.messages`` and ``pi_rpc.agent.messages``; roles that an extension registers, and roles
that only newer programs know, cross the wire as they are."""

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from pi_rpc.agent.messages import (
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
)
from pi_rpc.llm.messages import AssistantMessage, ToolResultMessage, UserMessage

__all__ = ["MESSAGE_TYPES", "AnyMessage"]

MESSAGE_TYPES: tuple[type[Struct], ...] = (
    UserMessage,
    AssistantMessage,
    ToolResultMessage,
    BashExecutionMessage,
    CustomMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
)
"""The messages a client should know; others may come and are to be ignored."""

AnyMessage: TypeAlias = Annotated[
    Any,
    Meta(
        extra_json_schema={
            "title": "Message",
            "anyOf": [{"$ref": f"#/$defs/{each.__name__}"} for each in MESSAGE_TYPES],
        }
    ),
]
"""A message of any role."""
