"""What the agent tests share: short names for events, messages and tools."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import anyio

from pi_rpc.agent import (
    AgentContext,
    AgentLoopConfig,
    AgentTool,
    LoopEvent,
    ToolResult,
    agent_loop,
)
from pi_rpc.agent.messages import role_of
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.llm.messages import AssistantMessage, ToolResultMessage, UserMessage, text_of
from pi_rpc.llm.scripted import ScriptedReply, scripted_model, scripted_stream_fn
from tests.deadlines import DEADLINE_S

ANY_OBJECT: dict[str, Any] = {"type": "object", "properties": {}}


def user(text: str) -> UserMessage:
    """A user message."""
    return UserMessage(content=text, timestamp=1)


def said(message: Any) -> str:
    """The text of any message."""
    return text_of(message.content)


def name_message(message: Any) -> str:
    if isinstance(message, ToolResultMessage):
        return f"result {message.tool_call_id}"
    if isinstance(message, AssistantMessage):
        return "assistant"
    return f"{role_of(message)} {said(message)}"


def name(event: LoopEvent) -> str:
    """An event in a few words."""
    kind = str(event.__struct_config__.tag)
    match kind:
        case "message_start" | "message_end":
            return f"{kind} {name_message(event.message)}"  # type: ignore[union-attr]
        case "message_update":
            return "message_update"
        case "tool_execution_end":
            failed = " error" if event.is_error else ""  # type: ignore[union-attr]
            return f"tool end {event.tool_call_id}{failed}"  # type: ignore[union-attr]
        case "tool_execution_start" | "tool_execution_update":
            return f"tool {kind[15:]} {event.tool_call_id}"  # type: ignore[union-attr]
        case _:
            return kind


def names(events: Iterable[LoopEvent]) -> list[str]:
    """Events in a few words each; a row of updates of one message is one ``message_update``."""
    short: list[str] = []
    for event in events:
        each = name(event)
        if not (each == "message_update" and short and short[-1] == each):
            short.append(each)
    return short


def script(text: str) -> list[str]:
    """Lines of an expected sequence, comments and blank lines left out."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


Execute = Callable[[str, dict[str, Any], AbortSignal, Callable[[ToolResult], None]], Any]


def tool(name: str, execute: Execute | None = None, **fields: Any) -> AgentTool:
    """A tool; without ``execute`` it says ``<name> done``."""

    async def say_done(*_arguments: Any) -> ToolResult:
        return ToolResult.of_text(f"{name} done")

    fields.setdefault("parameters", ANY_OBJECT)
    return AgentTool(
        name=name, label=name.title(), description=name, execute=execute or say_done, **fields
    )


def config(replies: Sequence[ScriptedReply], **fields: Any) -> AgentLoopConfig:
    """A configuration that plays ``replies``."""
    fields.setdefault("model", scripted_model())
    return AgentLoopConfig(stream_fn=scripted_stream_fn(replies), **fields)


async def play(
    replies: Sequence[ScriptedReply],
    *,
    prompts: Sequence[Any] = (),
    tools: Sequence[AgentTool] = (),
    messages: Sequence[Any] = (),
    signal: AbortSignal | None = None,
    **fields: Any,
) -> list[LoopEvent]:
    """The events of one run of the bare loop."""
    context = AgentContext("be brief", messages, tools)
    stream = agent_loop(prompts or [user("hi")], context, config(replies, **fields), signal)
    return [event async for event in stream]


def results(events: Iterable[LoopEvent]) -> dict[str, ToolResultMessage]:
    """The result messages by call."""
    ends = [event.message for event in events if event.__struct_config__.tag == "message_end"]  # type: ignore[union-attr]
    return {each.tool_call_id: each for each in ends if isinstance(each, ToolResultMessage)}


def waits_for(event: anyio.Event, started: anyio.Event | None = None) -> Execute:
    """A tool body that says it has started and then waits for ``event``."""

    async def execute(
        _id: str, _params: dict[str, Any], _signal: AbortSignal, _update: Any
    ) -> ToolResult:
        if started is not None:
            started.set()
        with anyio.fail_after(DEADLINE_S):
            await event.wait()
        return ToolResult.of_text("waited")

    return execute
