"""Events on the wire: the union that ``agent/event`` carries.

Owns the structs whose wire form differs from the in-process one of ``pi_rpc.agent.events``, under
the same names, and the union of all. ``pi_rpc.protocol.convert`` makes one of the other."""

from typing import TypeAlias

from msgspec import UNSET, UnsetType

from pi_rpc.agent.events import (
    AgentSettled,
    AutoRetryEnd,
    AutoRetryStart,
    BashOutput,
    CommandsChanged,
    CompactionEnd,
    CompactionStart,
    Diagnostic,
    EntryAppended,
    FilesChanged,
    QueueUpdate,
    SavePoint,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnStart,
)
from pi_rpc.agent.tool import ToolResult
from pi_rpc.llm.events import BlockEvent
from pi_rpc.llm.messages import (
    AssistantMessage,
    ThinkingLevel,
    ToolResultMessage,
    Usage,
    Wire,
)
from pi_rpc.protocol.base import Limits, PermissionMode, Phase, QueueMode
from pi_rpc.protocol.messages import AnyMessage
from pi_rpc.protocol.state import ContextUsage, ModelState, TokenTotals

__all__ = [
    "AgentEnd",
    "AgentSettled",
    "AgentStart",
    "AutoRetryEnd",
    "AutoRetryStart",
    "BashOutput",
    "CommandsChanged",
    "CompactionEnd",
    "CompactionStart",
    "Diagnostic",
    "EntryAppended",
    "FilesChanged",
    "MessageEnd",
    "MessageStart",
    "MessageUpdate",
    "QueueUpdate",
    "SavePoint",
    "SessionChanged",
    "ToolExecutionEnd",
    "ToolExecutionStart",
    "ToolExecutionUpdate",
    "TurnEnd",
    "TurnStart",
    "WireEvent",
]


class AgentStart(Wire, tag_field="type", tag="agent_start", frozen=True, kw_only=True):
    """A run, or the next attempt of one, begins."""

    run_id: str
    """The run."""


class AgentEnd(Wire, tag_field="type", tag="agent_end", frozen=True, kw_only=True):
    """An attempt ended. More may follow (retry, queue): wait for `agent_settled`."""

    run_id: str
    """The run."""
    entry_ids: list[str]
    """The entries that hold what the attempt added, its prompts included."""
    will_retry: bool
    """A retry follows."""
    messages: list[AnyMessage] | UnsetType = UNSET
    """The messages themselves; only with `events.full`."""


class TurnEnd(Wire, tag_field="type", tag="turn_end", frozen=True, kw_only=True):
    """A turn ended."""

    entry_ids: list[str]
    """The entries that hold the reply and its tool results."""
    message: AssistantMessage | UnsetType = UNSET
    """The reply; only with `events.full`."""
    tool_results: list[ToolResultMessage] | UnsetType = UNSET
    """The results of its tool calls; only with `events.full`."""


class MessageStart(Wire, tag_field="type", tag="message_start", frozen=True, kw_only=True):
    """A message begins; an assistant message is still empty."""

    message: AnyMessage
    """The message."""
    message_id: str
    """Names the message until and after it is stored."""
    client_message_id: str | UnsetType = UNSET
    """The id its sender gave it."""


class MessageUpdate(Wire, tag_field="type", tag="message_update", frozen=True, kw_only=True):
    """An assistant message grew."""

    message_id: str
    """The message."""
    assistant_message_event: BlockEvent
    """What is new."""
    usage: Usage | UnsetType = UNSET
    """Tokens known so far; given when a block ends."""
    message: AssistantMessage | UnsetType = UNSET
    """The message so far; only with `events.messageUpdate: "snapshot"`."""


class MessageEnd(Wire, tag_field="type", tag="message_end", frozen=True, kw_only=True):
    """A message is complete, and it is stored."""

    message: AnyMessage
    """The whole message; replaces what was drawn of it."""
    message_id: str
    """The message."""
    entry_id: str
    """The session entry that holds it."""
    parent_id: str | None
    """The entry before it on the branch; null at the root."""
    client_message_id: str | UnsetType = UNSET
    """The id its sender gave it."""


class ToolExecutionUpdate(
    Wire, tag_field="type", tag="tool_execution_update", frozen=True, kw_only=True
):
    """A running tool reports."""

    tool_call_id: str
    """The call."""
    tool_name: str
    """The tool."""
    partial_result: ToolResult
    """With `delta` only the new output, otherwise a replacement of what was drawn."""


class SessionChanged(Wire, tag_field="type", tag="session_changed", frozen=True, kw_only=True):
    """Fields of the session's state changed; those that did are here.

    At the start of a run: `phase` and `isStreaming` (and, in `removed`, `interrupted`). At the end
    of each turn: `messageCount`, `leafId`, `tokens`, `cost` and `contextUsage`. Just before
    `agent_settled`: `phase`, `isStreaming`, `messageCount` and `leafId`. The rest when it is
    changed, by `session/configure` mostly. `epoch`, in the first event of a session that was
    unloaded while it was idle and is loaded again: numbers start over with it. The queue has an
    event of its own, `queue_update`."""

    removed: list[str] | UnsetType = UNSET
    """Names of fields that were cleared."""
    # From here on as in SessionState, whose descriptions they share.
    additional_directories: list[str] | UnsetType = UNSET
    name: str | UnsetType = UNSET
    model: ModelState | UnsetType = UNSET
    thinking_level: ThinkingLevel | UnsetType = UNSET
    phase: Phase | UnsetType = UNSET
    is_streaming: bool | UnsetType = UNSET
    interrupted: bool | UnsetType = UNSET
    steering_mode: QueueMode | UnsetType = UNSET
    follow_up_mode: QueueMode | UnsetType = UNSET
    auto_compaction: bool | UnsetType = UNSET
    auto_retry: bool | UnsetType = UNSET
    permission_mode: PermissionMode | UnsetType = UNSET
    active_tools: list[str] | UnsetType = UNSET
    message_count: int | UnsetType = UNSET
    leaf_id: str | UnsetType | None = UNSET
    context_usage: ContextUsage | UnsetType = UNSET
    tokens: TokenTotals | UnsetType = UNSET
    cost: float | UnsetType = UNSET
    limits: Limits | UnsetType = UNSET
    epoch: str | UnsetType = UNSET


WireEvent: TypeAlias = (
    AgentStart
    | AgentEnd
    | AgentSettled
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | CompactionStart
    | CompactionEnd
    | AutoRetryStart
    | AutoRetryEnd
    | QueueUpdate
    | SavePoint
    | SessionChanged
    | EntryAppended
    | FilesChanged
    | BashOutput
    | CommandsChanged
    | Diagnostic
)
"""What ``agent/event`` carries, in the order of the documentation."""
