"""How a run that broke is brought to its end.

Pure: says which events close what is open. A run breaks when a hook or a listener raises; a model
or tool that fails does not break it."""

from collections.abc import Sequence

from msgspec import structs

from pi_rpc.agent.events import (
    AgentEnd,
    LoopEvent,
    MessageEnd,
    MessageStart,
    ToolExecutionEnd,
    TurnEnd,
    TurnStart,
)
from pi_rpc.agent.messages import AgentMessage
from pi_rpc.agent.state import Conversation, streaming_reply
from pi_rpc.agent.tool import ToolResult
from pi_rpc.agent.tool_calls import ABORTED_TEXT
from pi_rpc.llm.messages import (
    AssistantMessage,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    now_ms,
)

_NOT_FINISHED_TEXT = "This call was not finished: the run failed."


def closing_batches(
    conversation: Conversation, new_messages: Sequence[AgentMessage], text: str, *, aborted: bool
) -> list[list[LoopEvent]]:
    """The events that end the run: every open call answered, a failed message, the ends."""
    batches: list[list[LoopEvent]] = [] if conversation.in_turn else [[TurnStart()]]
    results: list[AgentMessage] = []
    for call in _unanswered(new_messages):
        result = ToolResult.of_text(ABORTED_TEXT if aborted else _NOT_FINISHED_TEXT)
        if call.id in conversation.pending_tool_calls:
            batches.append([_end(call, result)])
        results.append(_answer(call, result))
        batches.append([MessageStart(message=results[-1]), MessageEnd(message=results[-1])])
    started = streaming_reply(conversation)
    failed = structs.replace(
        started or _empty_reply(conversation),
        stop_reason="aborted" if aborted else "error",
        error_message=text,
        thinking_level=conversation.thinking_level,
    )
    start: list[LoopEvent] = [] if started is not None else [MessageStart(message=failed)]
    batches.append([*start, MessageEnd(message=failed)])
    batches.append([TurnEnd(message=failed, tool_results=[])])
    batches.append([AgentEnd(messages=[*new_messages, *results, failed])])
    return batches


def _unanswered(messages: Sequence[AgentMessage]) -> list[ToolCall]:
    """Calls of the last reply that have no result; a reply that failed has none to answer."""
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolResultMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AssistantMessage):
            if message.stop_reason in {"error", "aborted"}:
                return []
            calls = [block for block in message.content if isinstance(block, ToolCall)]
            return [call for call in calls if call.id not in answered]
    return []


def _end(call: ToolCall, result: ToolResult) -> ToolExecutionEnd:
    return ToolExecutionEnd(tool_call_id=call.id, tool_name=call.name, result=result, is_error=True)


def _answer(call: ToolCall, result: ToolResult) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=result.content,
        is_error=True,
        timestamp=now_ms(),
        details=result.details,
    )


def _empty_reply(conversation: Conversation) -> AssistantMessage:
    model = conversation.model
    return AssistantMessage(
        content=[TextBlock(text="")],
        api=model.api,
        provider=model.provider,
        model=model.id,
        usage=Usage.ZERO,
        stop_reason="error",
        timestamp=now_ms(),
    )
