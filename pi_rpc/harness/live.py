"""What is going on right now, for a client that comes late.

Owns the picture that ``session/state`` with ``live`` gives: the message being streamed and the
tools being run, with the output they have shown so far.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct, field

from pi_rpc.agent.events import (
    AgentEvent,
    MessageEnd,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from pi_rpc.agent.tool import Location, ToolKind
from pi_rpc.llm.messages import AssistantMessage, text_of
from pi_rpc.llm.stream import AssistantMessageStream

__all__ = ["Live", "LiveTool"]

_OUTPUT_CHARACTERS = 64 * 1024


class LiveTool(Struct):
    """A tool call that is running."""

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]
    kind: ToolKind
    title: str
    locations: Sequence[Location]
    output: str = ""
    """The end of what it has shown, at most 64 Ki characters."""


class Live(Struct):
    """The message and the tools in progress."""

    tools: dict[str, LiveTool] = field(default_factory=dict)
    _stream: AssistantMessageStream | None = None

    @property
    def message(self) -> AssistantMessage | None:
        """The reply as it stands, while one is streamed."""
        return self._stream.partial if self._stream is not None else None

    def follow(self, events: Sequence[AgentEvent]) -> None:
        """Take in what happened."""
        last = events[-1]
        if type(last) is MessageUpdate:
            self._stream = last.stream
            return
        for event in events:
            match event:
                case MessageUpdate():
                    self._stream = event.stream
                case MessageEnd():
                    self._stream = None
                case ToolExecutionStart():
                    self.tools[event.tool_call_id] = LiveTool(
                        event.tool_call_id,
                        event.tool_name,
                        event.args,
                        event.kind,
                        event.title,
                        event.locations,
                    )
                case ToolExecutionUpdate() if event.tool_call_id in self.tools:
                    self._show(self.tools[event.tool_call_id], event)
                case ToolExecutionEnd():
                    self.tools.pop(event.tool_call_id, None)
                case _:
                    pass

    def _show(self, tool: LiveTool, event: ToolExecutionUpdate) -> None:
        partial = event.partial_result
        if partial.delta is not UNSET:
            tool.output = (tool.output + partial.delta)[-_OUTPUT_CHARACTERS:]
        else:
            tool.output = text_of(list(partial.content))[-_OUTPUT_CHARACTERS:]
