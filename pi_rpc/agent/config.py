"""What a caller gives the loop: the context, the model, and the hooks.

Owns the shapes that go into hooks and come out of them. Does not own when they are called
(``pi_rpc.agent.loop``, ``pi_rpc.agent.tool_calls``).

Every hook may be a plain function or a coroutine function. A plain one runs on the event loop and
must not block. An abort cuts a coroutine hook short, except ``after_tool_call``, which is given
``AFTER_ABORT_S`` seconds so that it still sees what an aborted tool returned.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, TypeAlias, TypeVar

from msgspec import UNSET, Struct, UnsetType, field

from pi_rpc.agent.messages import AgentMessage, convert_to_llm, default_roles
from pi_rpc.agent.ports import ToolContext
from pi_rpc.agent.tool import AgentTool, ExecutionMode, ToolResult
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.llm.messages import (
    AssistantMessage,
    Message,
    ThinkingLevel,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserContent,
)
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import StreamFn, StreamOptions, stream_simple

__all__ = [
    "AFTER_ABORT_S",
    "AfterToolCallContext",
    "AfterToolCallResult",
    "AgentContext",
    "AgentLoopConfig",
    "BeforeToolCallContext",
    "BeforeToolCallResult",
    "LoopTurnUpdate",
    "MaybeAwaitable",
    "TurnContext",
    "default_convert_to_llm",
]

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]

AFTER_ABORT_S = 3.0


class AgentContext(Struct, frozen=True):
    """What the agent works from. The loop copies the lists and never changes them."""

    system_prompt: str = ""
    messages: Sequence[AgentMessage] = ()
    tools: Sequence[AgentTool] = ()


class TurnContext(Struct, frozen=True):
    """A turn that has ended, for ``should_stop_after_turn`` and ``prepare_next_turn``."""

    message: AssistantMessage
    """The reply."""
    tool_results: Sequence[ToolResultMessage]
    """The results of its calls."""
    context: AgentContext
    """The whole context, the turn included."""
    new_messages: Sequence[AgentMessage]
    """What the run has added so far, its prompts included."""


class LoopTurnUpdate(Struct, frozen=True, kw_only=True):
    """What changes before the next turn; None leaves things as they are."""

    context: AgentContext | None = None
    """Replaces prompt, messages and tools."""
    messages: Sequence[AgentMessage] = ()
    """Announced and added before anything that was queued."""
    model: Model | None = None
    thinking_level: ThinkingLevel | None = None
    stream_options: StreamOptions | None = None
    tool_context: ToolContext | None = None


class BeforeToolCallContext(Struct, frozen=True):
    """A call whose arguments were found valid and that is about to run."""

    assistant_message: AssistantMessage
    tool_call: ToolCall
    """The call as the model made it."""
    args: dict[str, Any]
    """The arguments it will run with. A hook may change them; they are not checked again."""
    context: AgentContext
    tool_context: ToolContext | None = None
    """What the calls of its batch work in and with."""


class BeforeToolCallResult(Struct, frozen=True, kw_only=True):
    """The decision of ``before_tool_call``; None from the hook means go on."""

    block: bool = False
    """Do not run the call; its result is an error."""
    reason: str | None = None
    """What the model reads then."""
    terminate: bool = False
    """A blocked call asks the run to stop after the batch."""
    tool_context: ToolContext | None = None
    """What this one call works in and with; None: what every call does."""


class AfterToolCallContext(Struct, frozen=True):
    """A call that ran."""

    assistant_message: AssistantMessage
    tool_call: ToolCall
    args: dict[str, Any]
    """The arguments it ran with."""
    result: ToolResult
    is_error: bool
    context: AgentContext


class AfterToolCallResult(Struct, frozen=True, kw_only=True):
    """What ``after_tool_call`` replaces, field by field; ``UNSET`` keeps what the tool gave.

    ``content`` without ``structured_content`` drops the latter: it may no longer say the same.
    """

    content: list[UserContent] | UnsetType = UNSET
    details: Any | UnsetType = UNSET
    structured_content: Any | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET
    is_error: bool | UnsetType = UNSET
    terminate: bool | UnsetType = UNSET


_default_roles = cache(default_roles)


def default_convert_to_llm(messages: Sequence[AgentMessage]) -> list[Message]:
    """Each message as its role reads by default; roles of applications are dropped."""
    return convert_to_llm(messages, _default_roles())


class AgentLoopConfig(Struct, frozen=True, kw_only=True):
    """How a run goes. Only ``model`` is required."""

    model: Model
    thinking_level: ThinkingLevel = "off"
    stream_fn: StreamFn = stream_simple
    """Asks the model; never raises."""
    stream_options: StreamOptions = field(default_factory=StreamOptions)
    """Base of each request's options; the loop sets key, signal and thinking level."""
    tool_execution: ExecutionMode = "parallel"
    tool_context: ToolContext | None = None
    """Given to every tool that wants it."""
    convert_to_llm: Callable[[Sequence[AgentMessage]], MaybeAwaitable[list[Message]]] = (
        default_convert_to_llm
    )
    """What the model is sent of the messages."""
    transform_context: (
        Callable[[list[AgentMessage], AbortSignal], MaybeAwaitable[Sequence[AgentMessage]]] | None
    ) = None
    """Rewrites the messages of one request, before ``convert_to_llm``; the transcript stays."""
    get_api_key: Callable[[str], MaybeAwaitable[str | None]] | None = None
    """The key for a provider's id, asked before each request; None: that of ``stream_options``."""
    prepare_request: (
        Callable[[Model, StreamOptions, AbortSignal], MaybeAwaitable[StreamOptions]] | None
    ) = None
    """Changes the options of one request, just before it is made."""
    should_stop_after_turn: Callable[[TurnContext], MaybeAwaitable[bool]] | None = None
    """True ends the run after the turn; queues are not asked."""
    prepare_next_turn: Callable[[TurnContext], MaybeAwaitable[LoopTurnUpdate | None]] | None = None
    """Called when another turn will follow, before its ``turn_start``."""
    before_tool_call: (
        Callable[[BeforeToolCallContext, AbortSignal], MaybeAwaitable[BeforeToolCallResult | None]]
        | None
    ) = None
    """May change arguments or block. Raising blocks."""
    why_missing: Callable[[str], str | None] = lambda tool_name: None
    """What the model reads when it calls a tool it was not told of; None: that there is none."""
    after_tool_call: (
        Callable[[AfterToolCallContext, AbortSignal], MaybeAwaitable[AfterToolCallResult | None]]
        | None
    ) = None
    """May replace the result. Raising makes it an error."""
    get_steering_messages: Callable[[], MaybeAwaitable[Sequence[AgentMessage]]] | None = None
    """Messages to put before the next request."""
    get_follow_up_messages: Callable[[], MaybeAwaitable[Sequence[AgentMessage]]] | None = None
    """Messages to go on with when the run would end."""
