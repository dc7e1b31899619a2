"""From what a session says to what this protocol's clients draw.

Owns the step from in-process events to ``session/update``, and that no tool call is left open.
Does not own merging and pressure (``pi_rpc.acp.stream``) nor stored sessions (``replay``).
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from pi_rpc.acp import shapes as s
from pi_rpc.acp.handshake import ClientCapabilities
from pi_rpc.acp.options import CHOSEN
from pi_rpc.acp.tool_calls import (
    fenced,
    kind_of,
    locations_of,
    plan_of,
    planned,
    result_content,
)
from pi_rpc.agent import events as e
from pi_rpc.agent.messages import CustomMessage
from pi_rpc.agent.tool import ToolKind
from pi_rpc.chance import now_ms
from pi_rpc.llm.events import TextDelta, ThinkingDelta, ToolCallStart
from pi_rpc.llm.messages import ImageBlock, TextBlock, UserContent, UserMessage, text_of
from pi_rpc.session.entries import iso_of_ms

__all__ = ["OWN_PROMPT", "Updates", "chunks", "user_chunks"]

OWN_PROMPT = "acp-"
"""What the ids of messages begin with that the client sent, and shows already."""
_OUTPUT_CHARACTERS = 8 * 1024
"""How much of a running tool's output is shown; an update repeats all of it."""

# Of the process, not of a session: one that was unloaded begins anew here, not at the client.
_compaction_ids = (f"compaction-{number}" for number in itertools.count(1))


class _Call:
    """A tool call that has not ended."""

    def __init__(self, kind: ToolKind = "other", path: str | None = None) -> None:
        self.kind: ToolKind = kind
        self.path = path
        self.output = ""
        self.terminal: str | None = None


class Updates:
    """What is told of one session."""

    def __init__(
        self,
        client: ClientCapabilities,
        config_options: Callable[[], list[s.ConfigSelect]],
        commands: Callable[[], list[s.Command]],
    ) -> None:
        self._client = client
        self._config_options = config_options
        self._commands = commands
        self._calls: dict[str, _Call] = {}
        self.ended: dict[str, s.ToolCallUpdate] = {}
        """The ends of calls whose results may not be stored yet."""
        self._compaction_id = ""

    def of(self, event: e.AgentEvent) -> Iterator[s.Update]:
        """What to tell of an event; often nothing."""
        match event:
            case e.MessageUpdate():
                yield from self._of_reply(event)
            case e.MessageEnd():
                yield from self._of_message(event)
            case e.ToolExecutionStart():
                yield self._begun(event)
            case e.ToolExecutionUpdate():
                yield from self._shown(event)
            case e.ToolExecutionEnd():
                yield from self._ended(event)
            case e.SessionChanged():
                yield from self._of_changes(event)
            case e.TurnEnd():
                self.ended.clear()
            case e.AgentSettled():
                yield from self._settled()
            case e.CommandsChanged():
                yield self.commands()
            case e.CompactionStart() | e.CompactionEnd():
                yield from self._of_compaction(event)
            case e.AutoRetryStart():
                text = f"Attempt {event.attempt} of {event.max_attempts}: {event.error_message}"
                yield self.notice("warning", text)
            case e.Diagnostic():
                yield self.notice(event.severity, event.message, event.source)

    def commands(self) -> s.Commands:
        """The commands there are now."""
        return s.Commands(available_commands=self._commands())

    def notice(
        self, severity: Any, message: str, source: str | UnsetType = UNSET
    ) -> s.Notice | s.SessionInfo:
        """Something that the person should know. Clients that show no notices find it in
        ``_meta.pi.diagnostic``."""
        if self._client.session.notices is not None:
            return s.Notice(severity=severity, title=message or severity)
        diagnostic = {"severity": severity, "message": message}
        if source is not UNSET:
            diagnostic["source"] = source
        return s.SessionInfo(meta={"pi": {"diagnostic": diagnostic}})

    def in_terminal(self, tool_call_id: str, terminal_id: str) -> s.ToolCallUpdate:
        """A command runs in a terminal of the client's, which shows what it prints."""
        self._calls.setdefault(tool_call_id, _Call("execute")).terminal = terminal_id
        content: list[s.ToolContent] = [s.Terminal(terminal_id=terminal_id)]
        return s.ToolCallUpdate(tool_call_id=tool_call_id, content=content)

    # --- messages --------------------------------------------------------------------------------

    def _of_reply(self, event: e.MessageUpdate) -> Iterator[s.Update]:
        news, message_id = event.assistant_message_event, event.message_id
        match news:
            case TextDelta():
                block = s.TextBlock(text=news.delta)
                yield s.AgentChunk(content=block, message_id=message_id)
            case ThinkingDelta():
                block = s.TextBlock(text=news.delta)
                yield s.ThoughtChunk(content=block, message_id=message_id)
            case ToolCallStart() if news.id and news.id not in self._calls:
                # Its arguments may take a while to come.
                self._calls[news.id] = _Call()
                yield s.NewToolCall(tool_call_id=news.id, title=news.tool_name, status="pending")

    def _of_message(self, event: e.MessageEnd) -> Iterator[s.Update]:
        message = event.message
        if isinstance(message, UserMessage):
            own = str(event.client_message_id).startswith(OWN_PROMPT)
            yield from () if own else user_chunks(message.content, event.message_id)
        elif isinstance(message, CustomMessage) and message.display:
            yield from chunks(s.AgentChunk, message.content, event.message_id)

    # --- tools -----------------------------------------------------------------------------------

    def _begun(self, event: e.ToolExecutionStart) -> s.Update:
        locations = locations_of(event.locations)
        path = locations[0].path if locations else None
        make = s.ToolCallUpdate if event.tool_call_id in self._calls else s.NewToolCall
        self._calls[event.tool_call_id] = _Call(event.kind, path)
        return make(
            tool_call_id=event.tool_call_id,
            title=event.title,
            kind=kind_of(event.tool_name, event.kind),
            status="in_progress",
            content=planned(event.tool_name, event.args, path),
            locations=locations,
            raw_input=event.args,
        )

    def _shown(self, event: e.ToolExecutionUpdate) -> Iterator[s.Update]:
        call = self._calls.get(event.tool_call_id)
        if call is None or call.terminal is not None:
            return
        partial = event.partial_result
        if partial.delta is not UNSET:
            call.output = (call.output + partial.delta)[-_OUTPUT_CHARACTERS:]
        else:
            call.output = text_of(list(partial.content))[-_OUTPUT_CHARACTERS:]
        if call.output:
            shown: list[s.ToolContent] = [s.Content(content=s.TextBlock(text=fenced(call.output)))]
            yield s.ToolCallUpdate(tool_call_id=event.tool_call_id, content=shown)

    def _ended(self, event: e.ToolExecutionEnd) -> Iterator[s.Update]:
        call = self._calls.pop(event.tool_call_id, None) or _Call()
        result = event.result
        content: list[s.ToolContent]
        if call.terminal is not None and not event.is_error:
            content = [s.Terminal(terminal_id=call.terminal)]
        else:
            content = result_content(
                result.content, result.details, call.kind, call.path, is_error=event.is_error
            )
            if call.terminal is not None:
                content.insert(0, s.Terminal(terminal_id=call.terminal))
        ended = self.ended[event.tool_call_id] = s.ToolCallUpdate(
            tool_call_id=event.tool_call_id,
            status="failed" if event.is_error else "completed",
            content=content,
            locations=_changed_at(call.path, result.details),
            raw_output=result.structured_content,
        )
        yield ended
        if (plan := plan_of(result.details)) is not None:
            yield plan

    def _settled(self) -> Iterator[s.Update]:
        for call_id in self._calls:
            # The reply that asked for it did not come to its end.
            yield s.ToolCallUpdate(tool_call_id=call_id, status="failed")
        self._calls.clear()
        self.ended.clear()
        yield s.SessionInfo(updated_at=iso_of_ms(now_ms()))

    # --- the session -----------------------------------------------------------------------------

    def _of_changes(self, event: e.SessionChanged) -> Iterator[s.Update]:
        changes = event.changes
        if "name" in changes:
            yield s.SessionInfo(title=changes["name"])
        elif event.removed is not UNSET and "name" in event.removed:
            yield s.SessionInfo(title=None)
        if "permissionMode" in changes:
            yield s.CurrentMode(current_mode_id=changes["permissionMode"])
        if CHOSEN & changes.keys():
            yield s.ConfigUpdate(config_options=self._config_options())
        if (context := changes.get("contextUsage")) is not None:
            cost = changes.get("cost")
            yield s.UsageUpdate(
                used=context["tokens"],
                size=context["contextWindow"],
                cost=UNSET if cost is None else s.Cost(amount=cost),
            )

    def _of_compaction(self, event: e.CompactionStart | e.CompactionEnd) -> Iterator[s.Update]:
        if self._client.session.compaction is None:
            return
        if isinstance(event, e.CompactionStart):
            self._compaction_id = next(_compaction_ids)
        compaction_id = self._compaction_id
        if isinstance(event, e.CompactionStart):
            yield s.Compaction(compaction_id=compaction_id, status="in_progress")
        elif event.result is not UNSET:
            summary = [s.TextBlock(text=event.result.summary)]
            yield s.Compaction(compaction_id=compaction_id, status="completed", summary=summary)
        elif event.aborted:
            yield s.Compaction(compaction_id=compaction_id, status="cancelled")
        else:
            yield s.Compaction(
                compaction_id=compaction_id, status="failed", error=event.error_message
            )


def _changed_at(path: str | None, details: Any) -> list[s.ToolLocation] | UnsetType:
    """Where an edit has changed its file; unset where that is not known."""
    line = details.get("firstChangedLine") if isinstance(details, dict) else None
    if path is None or not isinstance(line, int):
        return UNSET
    return [s.ToolLocation(path=path, line=line)]


def chunks(
    make: Callable[..., s.Update],
    content: str | Sequence[UserContent],
    message_id: str | UnsetType,
) -> Iterator[s.Update]:
    """A message block by block."""
    for block in [TextBlock(text=content)] if isinstance(content, str) else content:
        if isinstance(block, TextBlock) and block.text:
            yield make(content=s.TextBlock(text=block.text), message_id=message_id)
        elif isinstance(block, ImageBlock):
            image = s.ImageBlock(data=block.data, mime_type=block.mime_type)
            yield make(content=image, message_id=message_id)


def user_chunks(
    content: str | Sequence[UserContent], message_id: str | UnsetType
) -> Iterator[s.Update]:
    """What a person said."""
    return chunks(s.UserChunk, content, message_id)
