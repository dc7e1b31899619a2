"""AgentEvent: everything a run, and the session around it, says.

Owns the event union in process. The loop emits the first group; the harness adds the second, and
fills in the fields that only it knows (run, message and entry ids), which are ``UNSET`` for users
of the bare loop. Most structs are the wire's as well; where the wire form differs
(``message_update``, ``turn_end``, ``agent_end``, ``tool_execution_update``) ``pi_rpc.protocol``
owns the difference."""

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from pi_rpc.agent.tool import Location, ToolKind, ToolResult
from pi_rpc.llm.events import BlockEvent
from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    StopReason,
    ToolResultMessage,
    Usage,
    Wire,
)
from pi_rpc.llm.stream import AssistantMessageStream

__all__ = [
    "Abort",
    "AgentEnd",
    "AgentEvent",
    "AgentSettled",
    "AgentStart",
    "AutoRetryEnd",
    "AutoRetryStart",
    "BashOutput",
    "ChangedFile",
    "CommandsChanged",
    "CompactionEnd",
    "CompactionReason",
    "CompactionStart",
    "CompactionSummary",
    "Diagnostic",
    "EntryAppended",
    "FilesChanged",
    "LoopEvent",
    "MessageEnd",
    "MessageStart",
    "MessageUpdate",
    "Queue",
    "QueueItem",
    "QueueUpdate",
    "RunStopReason",
    "SavePoint",
    "SessionChanged",
    "SessionEvent",
    "ToolExecutionEnd",
    "ToolExecutionStart",
    "ToolExecutionUpdate",
    "TurnEnd",
    "TurnStart",
]

RunStopReason: TypeAlias = StopReason | Literal["limit"]
"""Why a run ended: that of its last assistant message, or a turn, cost or time limit."""


# --- what the loop says -------------------------------------------------------------------------


class AgentStart(Wire, tag_field="type", tag="agent_start", frozen=True, kw_only=True):
    """A run, or the next attempt of one, begins."""

    run_id: str | UnsetType = UNSET
    """The run; set by the harness."""


class AgentEnd(Wire, tag_field="type", tag="agent_end", frozen=True, kw_only=True):
    """An attempt ended. More may follow (retry, compaction, queue): wait for ``agent_settled``."""

    messages: list[Any]
    """What the attempt added to the conversation, its prompts included."""
    run_id: str | UnsetType = UNSET
    """The run; set by the harness."""
    will_retry: bool | UnsetType = UNSET
    """A retry follows; set by the harness."""


class TurnStart(Wire, tag_field="type", tag="turn_start", frozen=True, kw_only=True):
    """A turn begins: one assistant message and its tool results."""


class TurnEnd(Wire, tag_field="type", tag="turn_end", frozen=True, kw_only=True):
    """A turn ended."""

    message: AssistantMessage
    """The reply."""
    tool_results: list[ToolResultMessage]
    """The results of its tool calls."""


class MessageStart(Wire, tag_field="type", tag="message_start", frozen=True, kw_only=True):
    """A message begins; an assistant message is still empty."""

    message: Any
    """The message: of the user, assistant, toolResult or a custom role."""
    message_id: str | UnsetType = UNSET
    """Names the message until and after it is stored; set by the harness."""
    client_message_id: str | UnsetType = UNSET
    """The id its sender gave it."""


class MessageUpdate(
    Struct, kw_only=True, frozen=True, tag_field="type", tag="message_update", gc=False
):
    """An assistant message grew. In-process only; see ``pi_rpc.protocol.events`` for the wire
    form."""

    assistant_message_event: BlockEvent
    """What is new."""
    stream: AssistantMessageStream
    """The stream it came from."""
    message_id: str | UnsetType = UNSET
    """The message; set by the harness."""

    @property
    def message(self) -> AssistantMessage:
        """The message as it stands at the moment of looking. Costs time linear in its length."""
        return self.stream.partial


class MessageEnd(Wire, tag_field="type", tag="message_end", frozen=True, kw_only=True):
    """A message is complete; from a harness: and it is on disk."""

    message: Any
    """The whole message; replaces what was drawn of it."""
    message_id: str | UnsetType = UNSET
    """The message; set by the harness."""
    client_message_id: str | UnsetType = UNSET
    """The id its sender gave it."""
    entry_id: str | UnsetType = UNSET
    """The session entry that holds it; set by the harness."""
    parent_id: str | UnsetType | None = UNSET
    """The entry before it on the branch, null at the root; set by the harness."""


class ToolExecutionStart(
    Wire, tag_field="type", tag="tool_execution_start", frozen=True, kw_only=True
):
    """A tool call is about to be checked and run."""

    tool_call_id: str
    """The call."""
    tool_name: str
    """The tool."""
    args: dict[str, Any]
    """The arguments as the model gave them."""
    kind: ToolKind
    """What the tool does."""
    title: str
    """The call in one line, for people."""
    locations: list[Location]
    """The places it is about."""


class ToolExecutionUpdate(
    Wire, tag_field="type", tag="tool_execution_update", frozen=True, kw_only=True
):
    """A running tool reports."""

    tool_call_id: str
    """The call."""
    tool_name: str
    """The tool."""
    args: dict[str, Any]
    """The arguments as the model gave them."""
    partial_result: ToolResult
    """What it has; with ``delta`` only what is new, otherwise a replacement."""


class ToolExecutionEnd(Wire, tag_field="type", tag="tool_execution_end", frozen=True, kw_only=True):
    """A tool call ended, or was not run."""

    tool_call_id: str
    """The call."""
    tool_name: str
    """The tool."""
    result: ToolResult
    """The result; replaces what was drawn of it."""
    is_error: bool
    """It failed or was not run."""
    duration_ms: float | UnsetType = UNSET
    """How long it ran; unset when it did not run."""


LoopEvent: TypeAlias = (
    AgentStart
    | AgentEnd
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
)


# --- what the harness adds ----------------------------------------------------------------------


class AgentSettled(Wire, tag_field="type", tag="agent_settled", frozen=True, kw_only=True):
    """The run is over and the session idle. Exactly one per run."""

    run_id: str
    """The run."""
    stop_reason: RunStopReason
    """Why it ended."""
    aborted: bool
    """Somebody stopped it."""
    error_message: str | UnsetType = UNSET
    """What went wrong (``error``), or which limit was reached (``limit``)."""
    usage: Usage | UnsetType = UNSET
    """Tokens of the whole run."""
    cost: float | UnsetType = UNSET
    """US dollars of the whole run."""
    diff: str | UnsetType = UNSET
    """One unified diff of what the run changed with tools that write files, of up to 64 KiB;
    absent when it changed nothing that way. `checkpoint/diff` has more of it."""
    diff_truncated: bool | UnsetType = UNSET
    """True: part of the diff is missing, and it says where."""
    checkpoint_id: str | UnsetType = UNSET
    """The checkpoint that takes the run's changes back, as far as they can be; absent when it
    changed nothing."""


class QueueItem(Wire, frozen=True, kw_only=True):
    """A message that waits."""

    id: str
    """Names it within its session, for `queue/remove`."""
    kind: Literal["steer", "followUp"]
    """When it is delivered."""
    text: str
    """Its text."""
    images: list[ImageBlock] | UnsetType = UNSET
    """Its images."""
    attachments: list[Any] | UnsetType = UNSET
    """Its attachments, as they were sent."""
    client_message_id: str | UnsetType = UNSET
    """The id its sender gave it."""


class Queue(Wire, frozen=True, kw_only=True):
    """What waits to be delivered to the model."""

    steering: list[str]
    """Texts that go in before the next request, oldest first."""
    follow_up: list[str]
    """Texts that go in when the run would end, oldest first."""
    items: list[QueueItem]
    """Both, whole, steering first."""


class QueueUpdate(Wire, tag_field="type", tag="queue_update", frozen=True, kw_only=True):
    """The queue changed; this is all of it."""

    steering: list[str]
    """Texts that go in before the next request, oldest first."""
    follow_up: list[str]
    """Texts that go in when the run would end, oldest first."""
    items: list[QueueItem]
    """Both, whole, steering first."""


class Abort(Struct, kw_only=True, frozen=True, tag_field="type", tag="abort"):
    """Somebody stopped the session, which is idle now. In-process only: whoever asks over the wire
    is answered."""

    cleared_steer: list[QueueItem]
    """Steering that was taken out of the queue, oldest first."""
    cleared_follow_up: list[QueueItem]
    """Follow-ups that were taken out of the queue, oldest first."""


class SavePoint(Wire, tag_field="type", tag="save_point", frozen=True, kw_only=True):
    """Everything up to here is on disk."""

    had_pending_mutations: bool
    """Changes that had waited for the end of the turn were written."""


class SessionChanged(Wire, tag_field="type", tag="session_changed", frozen=True, kw_only=True):
    """Fields of the session's state changed."""

    changes: dict[str, Any]
    """The fields by their wire names. On the wire they stand in the event itself."""
    removed: list[str] | UnsetType = UNSET
    """Fields that were cleared."""


class EntryAppended(Wire, tag_field="type", tag="entry_appended", frozen=True, kw_only=True):
    """An entry that is no message was stored."""

    entry: Any
    """The entry."""


class ChangedFile(Wire, frozen=True, kw_only=True):
    """A file that is not what it was."""

    uri: str
    """A ``file:`` URI."""
    kind: Literal["created", "changed", "deleted"]
    """What became of it."""


class FilesChanged(Wire, tag_field="type", tag="files_changed", frozen=True, kw_only=True):
    """A tool, or a command of the person, has changed files: once for each, before its end."""

    changes: list[ChangedFile]
    """The files."""
    tool_call_id: str | UnsetType = UNSET
    """The call; absent: the person ran a command."""
    truncated: bool | UnsetType = UNSET
    """True: there may be more. What a command changed is only looked for where that takes little
    time; then look at what you show yourself."""


class BashOutput(Wire, tag_field="type", tag="bash_output", frozen=True, kw_only=True):
    """A command that the person runs has printed something."""

    delta: str
    """What is new, without escape sequences and control characters but tab and newline."""
    token: str | int | UnsetType = UNSET
    """The one that its request gave."""
    omitted_bytes: int | UnsetType = UNSET
    """How much was not shown so far, when the command printed more than is shown while it runs."""


class CommandsChanged(Wire, tag_field="type", tag="commands_changed", frozen=True, kw_only=True):
    """`command/list` has another answer now."""


class Diagnostic(Wire, tag_field="type", tag="diagnostic", frozen=True, kw_only=True):
    """Something the person should know that ends nothing."""

    severity: Literal["error", "warning", "info"]
    """How bad."""
    message: str
    """What, and what to do."""
    source: str | UnsetType = UNSET
    """Where it comes from: a file, a hook."""


CompactionReason: TypeAlias = Literal["manual", "threshold", "overflow"]


class CompactionSummary(Wire, frozen=True, kw_only=True):
    """What a compaction came to."""

    summary: str
    """The text that takes the place of what was said before."""
    first_kept_entry_id: str
    """From this entry on everything stays; the compaction's own entry when nothing does."""
    tokens_before: int
    """The context before."""
    estimated_tokens_after: int
    """The context now."""
    usage: Usage | UnsetType = UNSET
    """What the summary cost; absent when no model was asked."""
    details: Any | UnsetType = UNSET
    """Files that were read and changed, or what a hook left."""


class CompactionStart(Wire, tag_field="type", tag="compaction_start", frozen=True, kw_only=True):
    """The conversation is being shortened."""

    reason: CompactionReason
    """A person asked, the window was filling up, or the provider refused it as too long."""


class CompactionEnd(Wire, tag_field="type", tag="compaction_end", frozen=True, kw_only=True):
    """The shortening ended."""

    reason: CompactionReason
    """As at its start."""
    aborted: bool
    """It was stopped; nothing has changed."""
    will_retry: bool
    """The request that was too long is made again."""
    result: CompactionSummary | UnsetType = UNSET
    """What it came to; absent when it failed or was stopped."""
    error_message: str | UnsetType = UNSET
    """Why it failed; the session is as it was."""


class AutoRetryStart(Wire, tag_field="type", tag="auto_retry_start", frozen=True, kw_only=True):
    """A reply failed in a way that may pass; it is asked for again after a wait."""

    attempt: int
    """Which retry this is, from 1."""
    max_attempts: int
    """How many there will be at most."""
    delay_ms: int
    """How long the wait is."""
    error_message: str
    """What failed."""


class AutoRetryEnd(Wire, tag_field="type", tag="auto_retry_end", frozen=True, kw_only=True):
    """Retrying ended."""

    success: bool
    """A reply came."""
    attempt: int
    """Which retry was the last."""
    final_error: str | UnsetType = UNSET
    """What failed in the end, or that it was cancelled."""


SessionEvent: TypeAlias = (
    Abort
    | AutoRetryEnd
    | AutoRetryStart
    | BashOutput
    | CommandsChanged
    | CompactionEnd
    | CompactionStart
    | AgentSettled
    | QueueUpdate
    | SavePoint
    | SessionChanged
    | EntryAppended
    | FilesChanged
    | Diagnostic
)

AgentEvent: TypeAlias = LoopEvent | SessionEvent
