"""AgentTool: what a tool is, and what it gives back.

Owns the description of a tool and its results. Does not own how calls are checked, scheduled or
reported (``pi_rpc.agent.tool_calls``) nor any particular tool (``pi_rpc.tools``).
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import force_setattr

from pi_rpc.agent.messages import encode_json
from pi_rpc.agent.ports import ToolContext
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.llm.messages import TextBlock, Usage, UserContent, Wire

__all__ = [
    "AgentTool",
    "ExecutionMode",
    "Location",
    "OnUpdate",
    "Position",
    "Range",
    "ToolDescription",
    "ToolFailure",
    "ToolKind",
    "ToolResult",
    "fault_of",
]

ToolKind: TypeAlias = Literal["read", "edit", "execute", "other"]
ExecutionMode: TypeAlias = Literal["sequential", "parallel"]


class Position(Wire, frozen=True, kw_only=True):
    """A position in a text document, as LSP has it."""

    line: int
    """Zero-based."""
    character: int
    """Zero-based, in units of the negotiated position encoding."""


class Range(Wire, frozen=True, kw_only=True):
    """A range in a text document; the end is exclusive."""

    start: Position
    """First position."""
    end: Position
    """Position after the last."""


class Location(Wire, frozen=True, kw_only=True):
    """A place a tool call is about."""

    uri: str
    """A ``file:`` URI."""
    range: Range | UnsetType = UNSET
    """Where in the file, if it is about a part of it."""


class ToolResult(Wire, frozen=True, kw_only=True):
    """What a tool gives back, finished or partial."""

    content: list[UserContent]
    """What the model reads."""
    details: Any = field(default_factory=dict)
    """What clients may draw; any JSON value."""
    structured_content: Any | UnsetType = UNSET
    """The same for programs; never sent to the model."""
    usage: Usage | UnsetType = UNSET
    """Tokens the tool itself spent."""
    is_error: bool | UnsetType = UNSET
    """True marks a failure that keeps its details."""
    terminate: bool | UnsetType = UNSET
    """True asks the run to stop after this batch; it does if every result of the batch asks."""
    delta: str | UnsetType = UNSET
    """In an update: only what is new, in place of ``content`` that repeats the old."""
    omitted_bytes: int | UnsetType = UNSET
    """In an update: how much output was left out so far."""

    @classmethod
    def of_text(cls, text: str, **fields: Any) -> "ToolResult":
        """A result of one text block."""
        return cls(content=[TextBlock(text=text)], **fields)


_decode_result = msgspec.json.Decoder(ToolResult).decode


def fault_of(result: object) -> str | None:
    """Why ``result`` cannot be what a tool gave back, in words; None: it can.

    Python lets tools build results that hold anything; what is not JSON of the right shape could
    be neither stored nor sent."""
    if not isinstance(result, ToolResult):
        return f"{type(result).__name__} instead of a ToolResult"
    try:
        _decode_result(encode_json(result))
    except (TypeError, ValueError, RecursionError, NotImplementedError) as error:
        return f"a ToolResult that cannot be written: {error}"
    return None


class ToolFailure(Exception):
    """Raised by a tool to fail with a text for the model; ``details`` are kept in the result."""

    def __init__(self, message: str, details: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details if details is not None else {}


OnUpdate: TypeAlias = Callable[[ToolResult], None]
"""Reports a partial result. Calls after the tool has returned are ignored."""


class ToolDescription(Struct, frozen=True):
    """How a call is shown to a person before it runs."""

    title: str
    locations: tuple[Location, ...] = ()


class AgentTool(Struct, frozen=True, kw_only=True):
    """A tool that a model can call.

    ``execute(tool_call_id, params, signal, on_update)`` returns a ``ToolResult``; it may take a
    fifth parameter named ``context`` and is then given the ``ToolContext``. It may be a plain
    function (run on the event loop) or a coroutine function. It fails by raising; the text of the
    exception is what the model reads."""

    name: str
    label: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments, an object."""
    execute: Callable[..., Awaitable[ToolResult] | ToolResult]
    execution_mode: ExecutionMode | None = None
    """``sequential`` makes every batch that calls this tool run one call after the other."""
    abort_grace_s: float = 0.0
    """How long the tool may go on after an abort. 0: it is cancelled at once, and may catch that
    to clean up (shielded) and return what it has. More: it watches ``signal`` itself, and is
    cancelled when the time is over."""
    prepare_arguments: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """Rewrites raw arguments (old shapes of the schema) before they are checked."""
    kind: ToolKind = "other"
    describe: Callable[[Mapping[str, Any], ToolContext | None], ToolDescription] | None = None
    """Title and locations of a call, from its arguments; must not touch the disk."""
    snippet: str = ""
    """One line for the system prompt's list of tools."""
    guidelines: tuple[str, ...] = ()
    """Lines for the system prompt's rules while the tool is active."""
    on_request: bool = False
    """Every session knows it, but models are told of it only where somebody names it."""
    guarded: bool = False
    """It reads and writes through ``context.files`` alone, and has ``context.reviewer`` look at
    what it writes, before anything is written: a session can hold it to what was permitted, and
    asks about its edits when they are there to be shown."""
    wants_context: bool = False
    """``execute`` takes the tool context; found out, whatever is given."""

    def __post_init__(self) -> None:
        wants = "context" in inspect.signature(self.execute).parameters
        force_setattr(self, "wants_context", wants)

    async def run(
        self,
        tool_call_id: str,
        params: dict[str, Any],
        signal: AbortSignal,
        on_update: OnUpdate,
        context: ToolContext | None,
    ) -> ToolResult:
        """Call ``execute`` the way it wants to be called."""
        extra = {"context": context} if self.wants_context else {}
        result = self.execute(tool_call_id, params, signal, on_update, **extra)
        if inspect.isawaitable(result):
            return await result
        return result
