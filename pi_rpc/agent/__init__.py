"""The loop, tools and queues. Touches no files and no wire.

What applications use is exported here; a name is imported when it is first asked for, so that the
protocol, which needs only the shapes of events, does not pay for the rest."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pi_rpc.agent.agent import Agent, AgentBusyError
    from pi_rpc.agent.config import (
        AfterToolCallContext,
        AfterToolCallResult,
        AgentContext,
        AgentLoopConfig,
        BeforeToolCallContext,
        BeforeToolCallResult,
        LoopTurnUpdate,
        TurnContext,
    )
    from pi_rpc.agent.events import AgentEvent, LoopEvent
    from pi_rpc.agent.loop import (
        AgentEventStream,
        NothingToContinueError,
        agent_loop,
        agent_loop_continue,
        run_agent_loop,
        run_agent_loop_continue,
    )
    from pi_rpc.agent.messages import (
        AgentMessage,
        MessageRoles,
        OpaqueMessage,
        convert_to_llm,
        decode_message,
        default_roles,
        encode_message,
    )
    from pi_rpc.agent.ports import Asker, FileSystem, Shell, ToolContext
    from pi_rpc.agent.queue import PendingMessageQueue
    from pi_rpc.agent.state import AgentState, InitialState
    from pi_rpc.agent.tool import AgentTool, ToolFailure, ToolResult

_HOME = {
    "agent": ("Agent", "AgentBusyError"),
    "config": (
        "AfterToolCallContext",
        "AfterToolCallResult",
        "AgentContext",
        "AgentLoopConfig",
        "BeforeToolCallContext",
        "BeforeToolCallResult",
        "LoopTurnUpdate",
        "TurnContext",
    ),
    "events": ("AgentEvent", "LoopEvent"),
    "loop": (
        "AgentEventStream",
        "NothingToContinueError",
        "agent_loop",
        "agent_loop_continue",
        "run_agent_loop",
        "run_agent_loop_continue",
    ),
    "messages": (
        "AgentMessage",
        "MessageRoles",
        "OpaqueMessage",
        "convert_to_llm",
        "decode_message",
        "default_roles",
        "encode_message",
    ),
    "ports": ("Asker", "FileSystem", "Shell", "ToolContext"),
    "queue": ("PendingMessageQueue",),
    "state": ("AgentState", "InitialState"),
    "tool": ("AgentTool", "ToolFailure", "ToolResult"),
}
_MODULES = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "AfterToolCallContext",
    "AfterToolCallResult",
    "Agent",
    "AgentBusyError",
    "AgentContext",
    "AgentEvent",
    "AgentEventStream",
    "AgentLoopConfig",
    "AgentMessage",
    "AgentState",
    "AgentTool",
    "Asker",
    "BeforeToolCallContext",
    "BeforeToolCallResult",
    "FileSystem",
    "InitialState",
    "LoopEvent",
    "LoopTurnUpdate",
    "MessageRoles",
    "NothingToContinueError",
    "OpaqueMessage",
    "PendingMessageQueue",
    "Shell",
    "ToolContext",
    "ToolFailure",
    "ToolResult",
    "TurnContext",
    "agent_loop",
    "agent_loop_continue",
    "convert_to_llm",
    "decode_message",
    "default_roles",
    "encode_message",
    "run_agent_loop",
    "run_agent_loop_continue",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
