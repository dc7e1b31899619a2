"""Messages and session entries on the wire: which a client can meet.

Owns ``AnyMessage`` and ``AnyEntry``, the types of fields that hold a message of any role or an
entry of any type. The structs are those of
``pi_rpc.llm.messages`` and ``pi_rpc.agent.messages``; roles that an extension registers, and roles
that only newer programs know, cross the wire as they are."""

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Raw, Struct

from pi_rpc.agent.messages import (
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
)
from pi_rpc.llm.messages import AssistantMessage, ToolResultMessage, UserMessage

__all__ = ["MESSAGE_TYPES", "AnyEntry", "AnyMessage"]

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
        # The schema has one definition of it; see ``pi_rpc.protocol.schema``.
        extra_json_schema={"$ref": "#/$defs/Message"}
    ),
]
"""A message of any role."""

AnyEntry: TypeAlias = Annotated[Raw, Meta(extra_json_schema={"$ref": "#/$defs/SessionEntry"})]
"""A session entry of any type, as the bytes that stand in the file."""
