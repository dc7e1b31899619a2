"""What was said in a session, as updates: the history that ``session/load`` gives.

Owns the step from stored messages, and from what is going on at the moment, to ``session/update``.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import UNSET

from pi_rpc.acp import shapes as s
from pi_rpc.acp.tool_calls import fenced, kind_of, locations_of, planned, result_content
from pi_rpc.acp.updates import chunks, user_chunks
from pi_rpc.agent.messages import (
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
)
from pi_rpc.agent.tool import ToolKind
from pi_rpc.harness.inputs import ATTACHMENTS_TYPE, own_text
from pi_rpc.host.hosted import HostedSession
from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from pi_rpc.session.context import transcript
from pi_rpc.session.entries import CustomEntry

__all__ = ["history"]


def history(hosted: HostedSession, ended: Mapping[str, s.ToolCallUpdate]) -> Iterator[s.Update]:
    """Everything on the active branch, oldest first; what is going on comes last. ``ended``: the
    ends of calls whose results may not be stored yet.

    What is to be told is settled by the first step; messages are read as they are asked for.
    """
    live = hosted.harness.live
    partial, running, ended = live.message, set(live.tools), dict(ended)
    goes_on = hosted.harness.is_streaming
    replay = _Replay(hosted, running)
    for item in transcript(hosted.harness.session.branch()):
        yield from replay.of(item.message, item.entry_id)
    if partial is not None:
        yield from replay.of(partial, None)
    for call_id in replay.unanswered():
        if call_id in ended:
            yield ended[call_id]
        elif not goes_on:
            yield s.ToolCallUpdate(tool_call_id=call_id, status="failed")


class _Replay:
    """One history."""

    def __init__(self, hosted: HostedSession, running: set[str]) -> None:
        self._hosted = hosted
        self._running = running
        self._calls: dict[str, tuple[ToolKind, str | None]] = {}
        self._attached = _attachments(hosted)

    def of(self, message: Any, entry_id: str | None) -> Iterator[s.Update]:
        """A message; ``entry_id``: None while it is being streamed."""
        message_id = UNSET if entry_id is None else entry_id
        match message:
            case UserMessage():
                yield from self._said(message, entry_id)
            case AssistantMessage():
                for block in message.content:
                    match block:
                        case TextBlock() if block.text:
                            yield s.AgentChunk(
                                content=s.TextBlock(text=block.text), message_id=message_id
                            )
                        case ThinkingBlock() if block.thinking:
                            yield s.ThoughtChunk(
                                content=s.TextBlock(text=block.thinking), message_id=message_id
                            )
                        case ToolCall():
                            yield self._called(block)
            case ToolResultMessage():
                yield self._answered(message)
            case BashExecutionMessage():
                yield _command(message, entry_id or "")
            case CustomMessage() if message.display:
                yield from chunks(s.AgentChunk, message.content, message_id)
            case BranchSummaryMessage() | CompactionSummaryMessage():
                summary = s.TextBlock(text=message.summary)
                yield s.ThoughtChunk(content=summary, message_id=message_id)

    def unanswered(self) -> list[str]:
        """The calls without a result."""
        return list(self._calls)

    def _said(self, message: UserMessage, entry_id: str | None) -> Iterator[s.Update]:
        attachments = self._attached.get(entry_id or "", [])
        content = [] if isinstance(message.content, str) else message.content
        images = [block for block in content if isinstance(block, ImageBlock)]
        text = TextBlock(text=own_text(message.content, attachments))
        yield from user_chunks([text, *images], entry_id or UNSET)

    def _called(self, call: ToolCall) -> s.NewToolCall:
        kind, description = self._hosted.described(call)
        places = locations_of(description.locations)
        path = places[0].path if places else None
        self._calls[call.id] = kind, path
        return s.NewToolCall(
            tool_call_id=call.id,
            title=description.title,
            kind=kind_of(call.name, kind),
            status="in_progress" if call.id in self._running else "pending",
            content=planned(call.name, call.arguments, path),
            locations=places,
            raw_input=call.arguments,
        )

    def _answered(self, message: ToolResultMessage) -> s.ToolCallUpdate:
        kind, path = self._calls.pop(message.tool_call_id, ("other", None))
        details = None if message.details is UNSET else message.details
        return s.ToolCallUpdate(
            tool_call_id=message.tool_call_id,
            status="failed" if message.is_error else "completed",
            content=result_content(message.content, details, kind, path, is_error=message.is_error),
        )


def _attachments(hosted: HostedSession) -> dict[str, list[Any]]:
    """What was sent along with messages, by the entries of these."""
    found: dict[str, list[Any]] = {}
    for stored in hosted.harness.session.entries():
        entry = stored.entry if stored.type == "custom" and stored.parent_id else None
        if not isinstance(entry, CustomEntry) or entry.custom_type != ATTACHMENTS_TYPE:
            continue
        if isinstance(entry.data, list):
            found[stored.parent_id or ""] = entry.data
    return found


def _command(message: BashExecutionMessage, entry_id: str) -> s.NewToolCall:
    """A command that the person ran."""
    failed = message.cancelled or bool(message.exit_code)
    return s.NewToolCall(
        tool_call_id=f"bash-{entry_id}",
        title=f"$ {message.command}",
        kind="execute",
        status="failed" if failed else "completed",
        content=[s.Content(content=s.TextBlock(text=fenced(message.output)))],
    )
