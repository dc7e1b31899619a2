"""SessionState: what a client knows about a session, and its parts.

Owns the shapes only; who fills them in is the host's and the server's business."""

from typing import Any

from msgspec import UNSET, UnsetType, field

from pi_rpc.agent.events import Queue
from pi_rpc.agent.tool import Location, ToolKind
from pi_rpc.llm.messages import AssistantMessage, ThinkingLevel, Wire
from pi_rpc.llm.models import InputKind
from pi_rpc.protocol.base import Limits, PermissionMode, Phase, QueueMode
from pi_rpc.protocol.client_requests import LiveRequest

__all__ = [
    "ContextUsage",
    "LiveState",
    "LiveTool",
    "ModelState",
    "SessionState",
    "TokenTotals",
]


class ModelState(Wire, frozen=True, kw_only=True):
    """The model of a session."""

    provider: str
    """The provider's id."""
    id: str
    """The provider's name for it."""
    name: str
    """A name for people."""
    context_window: int
    """Tokens that fit, input and output together."""
    max_tokens: int
    """Most output tokens of one reply."""
    input: list[InputKind]
    """What it can be shown."""
    thinking_levels: list[ThinkingLevel]
    """The thinking levels it offers, lowest first."""


class ContextUsage(Wire, frozen=True, kw_only=True):
    """How full the model's context is."""

    tokens: int | None
    """Tokens of the conversation as the model is sent it; null when unknown."""
    context_window: int
    """Tokens that fit."""
    percent: float | None
    """`tokens` of `contextWindow` in percent; null when unknown."""


class TokenTotals(Wire, frozen=True, kw_only=True):
    """Tokens of the whole session."""

    input: int
    """Uncached input tokens."""
    output: int
    """Output tokens."""
    cache_read: int
    """Input tokens read from the prompt cache."""
    cache_write: int
    """Input tokens written to the prompt cache."""
    total: int
    """All of them."""
    cache_write_1h: int | UnsetType = field(default=UNSET, name="cacheWrite1h")
    """Those of `cacheWrite` that were written for an hour."""
    reasoning: int | UnsetType = UNSET
    """Those of `output` that were reasoning."""


class LiveTool(Wire, frozen=True, kw_only=True):
    """A tool call that is running."""

    tool_call_id: str
    """The call."""
    tool_name: str
    """The tool."""
    args: dict[str, Any]
    """The arguments as the model gave them."""
    output: str
    """Its output so far; the beginning may be missing."""
    kind: ToolKind | UnsetType = UNSET
    """What the tool does."""
    title: str | UnsetType = UNSET
    """The call in one line, for people."""
    locations: list[Location] | UnsetType = UNSET
    """The places it is about."""


class LiveState(Wire, frozen=True, kw_only=True):
    """What is going on right now: what a client that comes late must draw."""

    tools: list[LiveTool]
    """Tool calls that are running."""
    requests: list[LiveRequest]
    """Questions to the client that wait for an answer."""
    message: AssistantMessage | UnsetType = UNSET
    """The message being streamed, as it stands."""


class SessionState(Wire, frozen=True, kw_only=True):
    """A session as it stands."""

    session_id: str
    """Names the session."""
    cwd: str
    """Working directory."""
    additional_directories: list[str]
    """Further directories that tools may work in."""
    thinking_level: ThinkingLevel
    """How much the model thinks."""
    phase: Phase
    """What it is doing."""
    is_streaming: bool
    """A run is going on."""
    steering_mode: QueueMode
    """How many waiting steers go in at once."""
    follow_up_mode: QueueMode
    """How many waiting follow-ups go in at once."""
    auto_compaction: bool
    """The conversation is shortened when the context is full."""
    auto_retry: bool
    """Failed model calls are tried again where that may help."""
    permission_mode: PermissionMode
    """What tools may do without asking."""
    active_tools: list[str]
    """The tools the model is offered."""
    message_count: int
    """Messages on the active branch, system messages left out."""
    queue: Queue
    """What waits to be delivered."""
    last_seq: int
    """`seq` of the last event sent; 0 when there was none."""
    epoch: str
    """Changes when the numbering of events begins again."""
    tokens: TokenTotals
    """Tokens of the whole session."""
    cost: float
    """US dollars of the whole session."""
    path: str | UnsetType = UNSET
    """The session file; absent when the session is kept in memory only."""
    name: str | UnsetType = UNSET
    """A name for people."""
    model: ModelState | UnsetType = UNSET
    """The model; absent when none is configured."""
    interrupted: bool | UnsetType = UNSET
    """True: the file ends in a run that never settled; `continue` picks it up."""
    leaf_id: str | UnsetType | None = UNSET
    """The entry at the tip of the active branch; null at the root."""
    context_usage: ContextUsage | UnsetType = UNSET
    """How full the model's context is."""
    limits: Limits | UnsetType = UNSET
    """What each run may use."""
    live: LiveState | UnsetType = UNSET
    """What is going on right now; only in the answer to `session/state` that asked for it."""
