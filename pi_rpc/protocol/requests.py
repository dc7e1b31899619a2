"""Params and results of what a client asks.

Owns one pair of structs per method; ``pi_rpc.protocol.methods`` says which belongs to what. Does
not own ``initialize`` (``handshake``) and ``session/new`` (``base``)."""

from typing import Literal, TypeAlias

from msgspec import UNSET, UnsetType

from pi_rpc.agent.events import Queue, QueueItem, RunStopReason
from pi_rpc.agent.tool import Location, ToolKind
from pi_rpc.llm.messages import ImageBlock, ThinkingLevel, Usage, UserContent, Wire
from pi_rpc.llm.models import ModelCost
from pi_rpc.protocol.attachments import Attachment
from pi_rpc.protocol.base import (
    Count,
    Limits,
    ModelName,
    PermissionMode,
    Phase,
    QueueMode,
    SessionParams,
)
from pi_rpc.protocol.messages import AnyEntry, AnyMessage
from pi_rpc.protocol.state import ModelState

__all__ = [
    "AbortParams",
    "AbortResult",
    "CallDescription",
    "ContinueParams",
    "Disposition",
    "ModelEntry",
    "ModelListParams",
    "ModelListResult",
    "PromptParams",
    "PromptResult",
    "QueueMessageParams",
    "QueueMessageResult",
    "QueueRemoveParams",
    "SessionCloseParams",
    "SessionConfigureParams",
    "SessionEntriesParams",
    "SessionEntriesResult",
    "SessionEntryParams",
    "SessionEntryResult",
    "SessionListParams",
    "SessionListResult",
    "SessionMessagesParams",
    "SessionMessagesResult",
    "SessionOpenParams",
    "SessionStateParams",
    "SessionSummary",
    "ToolEntry",
    "ToolListResult",
]

Disposition: TypeAlias = Literal["completed", "started", "queued", "handled"]
WaitFor: TypeAlias = Literal["settled", "accepted"]


# --- the verbs ----------------------------------------------------------------------------------


class PromptParams(SessionParams, frozen=True, kw_only=True):
    """Say something to the model and start a run."""

    message: str | list[UserContent]
    """What to say: at most 4,194,304 characters."""
    images: list[ImageBlock] | UnsetType = UNSET
    """Images to go with it: at most 32 MiB of base64 in all."""
    attachments: list[Attachment] | UnsetType = UNSET
    """What the editor knows: files, selections, diagnostics, texts."""
    streaming_behavior: Literal["steer", "followUp"] | UnsetType = UNSET
    """While a run is going on: queue the message as this. Absent: answer `sessionBusy`."""
    wait: WaitFor = "settled"
    """When to answer: once the run has settled, or at once."""
    client_message_id: str | UnsetType = UNSET
    """The client's own id of the message; comes back in events and queues."""


class ContinueParams(SessionParams, frozen=True, kw_only=True):
    """Go on where the conversation stands."""

    wait: WaitFor = "settled"
    """When to answer: once the run has settled, or at once."""


class PromptResult(Wire, frozen=True, kw_only=True):
    """What became of a prompt. A failure of the provider is told here, not as an error response."""

    disposition: Disposition
    """`completed`: a run settled. `started`: it goes on (`wait: "accepted"`). `queued`: the message
    joined a queue. `handled`: nothing had to be run."""
    session_id: str
    """The session."""
    run_id: str | UnsetType = UNSET
    """The run."""
    stop_reason: RunStopReason | UnsetType = UNSET
    """Why it ended: that of the last assistant message, or `limit`."""
    error_message: str | UnsetType = UNSET
    """What went wrong (`stopReason` `error`), or which limit was reached (`limit`)."""
    text: str | UnsetType = UNSET
    """The text of the last assistant message."""
    usage: Usage | UnsetType = UNSET
    """Tokens of the whole run."""
    cost: float | UnsetType = UNSET
    """US dollars of the whole run."""


class QueueMessageParams(SessionParams, frozen=True, kw_only=True):
    """Say something while a run goes on."""

    message: str | list[UserContent]
    """What to say: at most 4,194,304 characters."""
    images: list[ImageBlock] | UnsetType = UNSET
    """Images to go with it: at most 32 MiB of base64 in all."""
    attachments: list[Attachment] | UnsetType = UNSET
    """What the editor knows: files, selections, diagnostics, texts."""
    client_message_id: str | UnsetType = UNSET
    """The client's own id of the message; comes back in events and queues."""


class QueueMessageResult(Wire, frozen=True, kw_only=True):
    """The message was accepted."""

    disposition: Disposition
    """`queued`, or `started` when nothing was running."""
    queue: Queue
    """What waits now."""
    run_id: str | UnsetType = UNSET
    """The run that will take it."""


class AbortParams(SessionParams, frozen=True, kw_only=True):
    """Stop what is going on."""

    clear_queue: bool = True
    """Take out what waits, and give it back."""


class AbortResult(Wire, frozen=True, kw_only=True):
    """What was stopped and what had been waiting."""

    aborted: bool
    """Something was going on."""
    steering: list[str]
    """Texts that would have gone in before the next request, oldest first."""
    follow_up: list[str]
    """Texts that would have gone in at the end of the run, oldest first."""
    items: list[QueueItem]
    """Both, whole, steering first."""


class QueueRemoveParams(SessionParams, frozen=True, kw_only=True):
    """Which message to take out."""

    id: str
    """The `id` of the item in the queue."""


# --- sessions -----------------------------------------------------------------------------------


class SessionOpenParams(Wire, frozen=True, kw_only=True):
    """Open a session that exists. One of `sessionId` and `path` is needed."""

    session_id: str | UnsetType = UNSET
    """Its id."""
    path: str | UnsetType = UNSET
    """Its `.jsonl` file; relative to the connection's working directory."""
    cwd: str | UnsetType = UNSET
    """Work here instead of in the directory the session names; absolute."""
    read_only: bool = False
    """Only look: works also while another process writes the session."""


class SessionListParams(Wire, frozen=True, kw_only=True):
    """Which stored sessions to list."""

    cwd: str | UnsetType = UNSET
    """Only those of this directory; absent: of all."""
    query: str | UnsetType = UNSET
    """Only those whose name or first message holds this text, in any case."""
    limit: Count = 50
    """At most so many."""
    cursor: str | UnsetType = UNSET
    """`nextCursor` of the page before."""


class SessionSummary(Wire, frozen=True, kw_only=True):
    """A stored session in brief."""

    session_id: str
    """Its id."""
    path: str
    """Its file."""
    cwd: str
    """Its working directory."""
    created: str
    """When it began, ISO 8601 in UTC."""
    modified: str
    """When its last message was stored, or it began, ISO 8601 in UTC."""
    message_count: int
    """Messages in it."""
    first_message: str
    """The beginning of its first user message; empty when there is none."""
    name: str | UnsetType = UNSET
    """A name for people."""
    open: bool | UnsetType = UNSET
    """True: it is open in this daemon."""
    phase: Phase | UnsetType = UNSET
    """What it is doing, when open here."""
    locked_pid: int | UnsetType = UNSET
    """The other process that writes it."""


class SessionListResult(Wire, frozen=True, kw_only=True):
    """A page of stored sessions, the last used first."""

    sessions: list[SessionSummary]
    """The sessions."""
    next_cursor: str | UnsetType = UNSET
    """Names the next page; absent on the last."""


class SessionStateParams(SessionParams, frozen=True, kw_only=True):
    """Which session, and what to add."""

    include: list[str] | UnsetType = UNSET
    """`["live"]` adds what is being streamed and run. Other words are ignored."""


class SessionConfigureParams(SessionParams, frozen=True, kw_only=True):
    """What to change; what is absent stays."""

    model: ModelName | UnsetType = UNSET
    """The model, as `"provider/id"` or in two fields."""
    thinking_level: ThinkingLevel | UnsetType = UNSET
    """How much the model should think; taken to the nearest level it offers."""
    steering_mode: QueueMode | UnsetType = UNSET
    """How many waiting steers go in at once."""
    follow_up_mode: QueueMode | UnsetType = UNSET
    """How many waiting follow-ups go in at once."""
    auto_compaction: bool | UnsetType = UNSET
    """Shorten the conversation by itself when the context is full."""
    auto_retry: bool | UnsetType = UNSET
    """Try failed model calls again where that may help."""
    permission_mode: PermissionMode | UnsetType = UNSET
    """What tools may do without asking."""
    active_tools: list[str] | UnsetType = UNSET
    """The tools to offer the model, from now on in every permission mode; kept with the session."""
    name: str | UnsetType = UNSET
    """A name for people; empty: none. The only thing that can be changed of a session that is not
    open."""
    additional_directories: list[str] | UnsetType = UNSET
    """Further directories that tools may work in: absolute, and they must exist."""
    limits: Limits | UnsetType = UNSET
    """What each run may use; replaces all limits, `{}` lifts them."""


class SessionMessagesParams(SessionParams, frozen=True, kw_only=True):
    """Which part of the active branch."""

    limit: Count | UnsetType = UNSET
    """At most so many messages, the newest; absent: all."""
    before_entry_id: str | UnsetType = UNSET
    """Only what stands before this entry: the first of `entryIds` gives the page before."""
    max_bytes_per_message: Count | UnsetType = UNSET
    """Cut longer messages to about this many bytes of JSON and mark them `truncated: true`."""


class CallDescription(Wire, frozen=True, kw_only=True):
    """How a tool call of a stored message is shown, as `tool_execution_start` told it."""

    tool_call_id: str
    """The call."""
    kind: ToolKind
    """What the tool does."""
    title: str
    """The call in one line, for people."""
    locations: list[Location]
    """The places it is about."""


class SessionMessagesResult(Wire, frozen=True, kw_only=True):
    """Messages of the active branch, oldest first. Events up to `lastSeq` are contained."""

    messages: list[AnyMessage]
    """The messages; one that was cut has `truncated: true`."""
    entry_ids: list[str]
    """The entries that hold them, one for each message."""
    has_more: bool
    """There are older ones."""
    last_seq: int
    """Events with a greater `seq` are not contained."""
    calls: list[CallDescription] | UnsetType = UNSET
    """The tool calls in `messages`, if there are any, as their tools describe them now."""


class SessionEntryParams(SessionParams, frozen=True, kw_only=True):
    """Which entry."""

    entry_id: str
    """The entry."""


class SessionEntryResult(Wire, frozen=True, kw_only=True):
    """An entry of the session file."""

    entry: AnyEntry
    """The entry as it stands in the file."""


class SessionEntriesParams(SessionParams, frozen=True, kw_only=True):
    """Which entries."""

    since: str | UnsetType = UNSET
    """Only those stored after this entry; absent: from the first."""
    limit: Count | UnsetType = UNSET
    """At most so many."""


class SessionEntriesResult(Wire, frozen=True, kw_only=True):
    """Entries of the session file, all branches, in the order they were stored."""

    entries: list[AnyEntry]
    """The entries as they stand in the file."""
    leaf_id: str | None
    """The entry at the tip of the active branch; null at the root."""
    has_more: bool
    """There are later ones."""


class SessionCloseParams(Wire, frozen=True, kw_only=True):
    """Which session to close."""

    session_id: str
    """The session."""


# --- models and tools ---------------------------------------------------------------------------


class ModelEntry(ModelState, frozen=True, kw_only=True):
    """A model that can be chosen."""

    cost: ModelCost
    """Prices."""
    authenticated: bool
    """There is a credential for its provider, or it needs none."""


class ModelListParams(Wire, frozen=True, kw_only=True):
    """Which models; absent params leave all of them in one answer."""

    query: str | UnsetType = UNSET
    """Only those whose `provider/id` or name holds each of these words, in any case."""
    provider: str | UnsetType = UNSET
    """Only those of this provider."""
    authenticated: bool | UnsetType = UNSET
    """Only those that can be asked, or only the others."""
    limit: Count | UnsetType = UNSET
    """At most so many."""
    cursor: str | UnsetType = UNSET
    """`nextCursor` of the page before."""


class ModelListResult(Wire, frozen=True, kw_only=True):
    """The models."""

    models: list[ModelEntry]
    """The models, those a person would rather mean first."""
    next_cursor: str | UnsetType = UNSET
    """Names the next page; absent on the last."""


class ToolEntry(Wire, frozen=True, kw_only=True):
    """A tool."""

    name: str
    """Its name."""
    label: str
    """Its name for people."""
    description: str
    """What the model is told about it."""
    kind: ToolKind
    """What it does."""
    active: bool
    """The model is offered it."""


class ToolListResult(Wire, frozen=True, kw_only=True):
    """The tools of a session."""

    tools: list[ToolEntry]
    """The tools."""
