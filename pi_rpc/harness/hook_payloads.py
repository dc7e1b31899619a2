"""What hooks are given and what they may answer, one pair of shapes per hook.

Owns the shapes and the table of hooks. Does not own how hooks are called (``pi_rpc.harness.hooks``)
nor when (``loop_setup``, ``driving``, ``compacting``, ``branching``).

Every payload is a picture of its own: changing what it holds changes nothing. ``signal`` fires when
the person stops what the hook is a part of.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, overload

from msgspec import UNSET, Struct, UnsetType, field

from pi_rpc.agent.messages import AgentMessage
from pi_rpc.harness.branch_summary import BranchSummaryResult
from pi_rpc.harness.compaction import CompactionPlan, CompactionResult
from pi_rpc.harness.resources import Resources
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.llm.messages import ImageBlock, UserContent
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import CacheRetention, StreamOptions
from pi_rpc.session.stored import StoredEntry

__all__ = [
    "RESULTS",
    "AfterProviderResponse",
    "BeforeAgentStart",
    "BeforeAgentStartResult",
    "BeforeProviderPayload",
    "BeforeProviderPayloadResult",
    "BeforeProviderRequest",
    "BeforeProviderRequestResult",
    "ContextHook",
    "ContextHookResult",
    "HookType",
    "On",
    "SessionBeforeCompact",
    "SessionBeforeCompactResult",
    "SessionBeforeTree",
    "SessionBeforeTreeResult",
    "SessionCompact",
    "SessionTree",
    "ToolCallHook",
    "ToolCallHookResult",
    "ToolResultHook",
    "ToolResultHookResult",
]

HookType: TypeAlias = Literal[
    "before_agent_start",
    "context",
    "tool_call",
    "tool_result",
    "session_before_compact",
    "session_compact",
    "session_before_tree",
    "session_tree",
    "before_provider_request",
    "before_provider_payload",
    "after_provider_response",
]


class BeforeAgentStart(Struct, frozen=True, kw_only=True):
    """A run is about to begin. Once per run, however often its replies are retried."""

    prompt: str
    """The text the run begins with; empty when it goes on from what there is."""
    images: Sequence[ImageBlock]
    system_prompt: str
    resources: Resources
    signal: AbortSignal


class BeforeAgentStartResult(Struct, frozen=True, kw_only=True):
    """What to add."""

    messages: Sequence[AgentMessage] = ()
    """Stored and sent after the prompt."""
    system_prompt: str | None = None
    """Used instead for this run."""


class ContextHook(Struct, frozen=True, kw_only=True):
    """The messages of one request, before they are converted for the model."""

    messages: Sequence[AgentMessage]
    signal: AbortSignal


class ContextHookResult(Struct, frozen=True, kw_only=True):
    """What this one request sends; the session keeps what it has."""

    messages: Sequence[AgentMessage]


class ToolCallHook(Struct, frozen=True, kw_only=True):
    """A tool is about to run: its arguments are valid. Whether it may is decided afterwards."""

    tool_call_id: str
    tool_name: str
    input: dict[str, Any]
    signal: AbortSignal


class ToolCallHookResult(Struct, frozen=True, kw_only=True):
    """The decision. No result lets the call run."""

    block: bool = False
    reason: str | None = None
    """What the model reads of a blocked call."""
    input: dict[str, Any] | None = None
    """Arguments to run with instead; they are not checked again. Later handlers see them, and it is
    they that permission is needed for."""
    decision: Literal["allow", "ask"] | None = None
    """``allow``: the person need not be asked; what is refused stays refused. ``ask``: they are
    asked, in every mode. None: rules and mode decide. ``ask`` of any handler counts; an ``allow``
    lapses when a later handler changes the arguments."""


class ToolResultHook(Struct, frozen=True, kw_only=True):
    """A tool has run."""

    tool_call_id: str
    tool_name: str
    input: dict[str, Any]
    content: Sequence[UserContent]
    details: Any
    is_error: bool
    signal: AbortSignal


class ToolResultHookResult(Struct, frozen=True, kw_only=True):
    """What to replace; ``UNSET`` keeps what the tool gave."""

    content: list[UserContent] | UnsetType = UNSET
    details: Any | UnsetType = UNSET
    is_error: bool | UnsetType = UNSET
    terminate: bool | UnsetType = UNSET
    """True ends the run after the batch if every result of it says so."""


class SessionBeforeCompact(Struct, frozen=True, kw_only=True):
    """The conversation is about to be summarised."""

    preparation: CompactionPlan
    branch_entries: Sequence[StoredEntry]
    custom_instructions: str | None
    signal: AbortSignal


class SessionBeforeCompactResult(Struct, frozen=True, kw_only=True):
    """``cancel`` leaves the session as it is; a ``compaction`` saves asking a model."""

    cancel: bool = False
    compaction: CompactionResult | None = None


class SessionCompact(Struct, frozen=True, kw_only=True):
    """A compaction is in effect."""

    compaction_entry: StoredEntry
    from_hook: bool
    signal: AbortSignal


class SessionBeforeTree(Struct, frozen=True, kw_only=True):
    """The session is about to go on from another place of its tree."""

    target_id: str | None
    """The entry that was asked for; None for the root."""
    new_leaf_id: str | None
    """Below which entry the session will go on."""
    old_leaf_id: str | None
    entries: Sequence[StoredEntry]
    """What is left behind, oldest first."""
    summarize: bool
    """A summary of it was asked for."""
    custom_instructions: str | None
    label: str | None
    signal: AbortSignal


class SessionBeforeTreeResult(Struct, frozen=True, kw_only=True):
    """``cancel`` stays; other fields take the place of what was asked for. None leaves it."""

    cancel: bool = False
    summary: BranchSummaryResult | None = None
    """Recorded whether a summary was asked for or not; no model is asked."""
    custom_instructions: str | None = None
    replace_instructions: bool | None = None
    label: str | None = None


class SessionTree(Struct, frozen=True, kw_only=True):
    """The session stands at another place."""

    new_leaf_id: str | None
    old_leaf_id: str | None
    summary_entry: StoredEntry | None
    from_hook: bool
    """A hook wrote the summary."""
    signal: AbortSignal


class BeforeProviderRequest(Struct, frozen=True, kw_only=True):
    """A model is about to be asked, for a reply or a summary. The options hold no credential."""

    model: Model
    session_id: str | None
    stream_options: StreamOptions
    signal: AbortSignal


class BeforeProviderRequestResult(Struct, frozen=True, kw_only=True):
    """What to change of the options; None leaves a value, and takes a header away."""

    headers: Mapping[str, str | None] = field(default_factory=dict)
    max_tokens: int | None = None
    temperature: float | None = None
    cache_retention: CacheRetention | None = None
    idle_timeout_s: float | None = None


class BeforeProviderPayload(Struct, frozen=True, kw_only=True):
    """The body of a request, in the dialect of the model's provider."""

    model: Model
    payload: dict[str, Any]
    signal: AbortSignal


class BeforeProviderPayloadResult(Struct, frozen=True, kw_only=True):
    """The body to send instead."""

    payload: dict[str, Any]


class AfterProviderResponse(Struct, frozen=True, kw_only=True):
    """A provider has answered; its stream follows."""

    status: int
    headers: Mapping[str, str]
    signal: AbortSignal


RESULTS: Mapping[HookType, type[Any] | None] = {
    "before_agent_start": BeforeAgentStartResult,
    "context": ContextHookResult,
    "tool_call": ToolCallHookResult,
    "tool_result": ToolResultHookResult,
    "session_before_compact": SessionBeforeCompactResult,
    "session_compact": None,
    "session_before_tree": SessionBeforeTreeResult,
    "session_tree": None,
    "before_provider_request": BeforeProviderRequestResult,
    "before_provider_payload": BeforeProviderPayloadResult,
    "after_provider_response": None,
}
"""Every hook, and what a handler may return beside None; None: nothing."""

_P = TypeVar("_P")
_R = TypeVar("_R")
_Handler: TypeAlias = Callable[[_P], _R | Awaitable[_R | None] | None]
_Listener: TypeAlias = Callable[[_P], Awaitable[None] | None]
_Remove: TypeAlias = Callable[[], None]


class On(Protocol):
    """``on(type, handler)``: have ``handler`` called with the payload that belongs to ``type``.

    ``time_limit_s`` is how long one call may take; None takes the registry's. Returns the end of
    the registration. Raises ``ValueError`` for a hook that does not exist.
    """

    @overload
    def __call__(
        self,
        type: Literal["before_agent_start"],
        handler: _Handler[BeforeAgentStart, BeforeAgentStartResult],
        *,
        time_limit_s: float | None = None,
    ) -> _Remove: ...
    @overload
    def __call__(
        self,
        type: Literal["context"],
        handler: _Handler[ContextHook, ContextHookResult],
        *,
        time_limit_s: float | None = None,
    ) -> _Remove: ...
    @overload
    def __call__(
        self,
        type: Literal["tool_call"],
        handler: _Handler[ToolCallHook, ToolCallHookResult],
        *,
        time_limit_s: float | None = None,
    ) -> _Remove: ...
    @overload
    def __call__(
        self,
        type: Literal["tool_result"],
        handler: _Handler[ToolResultHook, ToolResultHookResult],
        *,
        time_limit_s: float | None = None,
    ) -> _Remove: ...
    @overload
    def __call__(
        self,
        type: Literal["session_before_compact"],
        handler: _Handler[SessionBeforeCompact, SessionBeforeCompactResult],
        *,
        time_limit_s: float | None = None,
    ) -> _Remove: ...
    @overload
    def __call__(
        self,
        type: Literal["session_compact"],
        handler: _Listener[SessionCompact],
        *,
        time_limit_s: float | None = None,
    ) -> _Remove: ...
    @overload
    def __call__(
        self,
        type: Literal["session_before_tree"],
        handler: _Handler[SessionBeforeTree, SessionBeforeTreeResult],
        *,
        time_limit_s: float | None = None,
    ) -> _Remove: ...
    @overload
    def __call__(
        self,
        type: Literal["session_tree"],
        handler: _Listener[SessionTree],
        *,
        time_limit_s: float | None = None,
    ) -> _Remove: ...
    @overload
    def __call__(
        self,
        type: Literal["before_provider_request"],
        handler: _Handler[BeforeProviderRequest, BeforeProviderRequestResult],
        *,
        time_limit_s: float | None = None,
    ) -> _Remove: ...
    @overload
    def __call__(
        self,
        type: Literal["before_provider_payload"],
        handler: _Handler[BeforeProviderPayload, BeforeProviderPayloadResult],
        *,
        time_limit_s: float | None = None,
    ) -> _Remove: ...
    @overload
    def __call__(
        self,
        type: Literal["after_provider_response"],
        handler: _Listener[AfterProviderResponse],
        *,
        time_limit_s: float | None = None,
    ) -> _Remove: ...
