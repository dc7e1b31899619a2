"""From in-process events to the wire's, and deltas made one.

Owns ``to_wire``, the entry ids that ``turn_end`` and ``agent_end`` carry, and merging. All of it is
pure; the host decides when to merge and when to send."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from msgspec import UNSET

from pi_rpc.agent import events as agent
from pi_rpc.agent.messages import role_of
from pi_rpc.agent.tool import ToolResult
from pi_rpc.llm.events import (
    AssistantMessageEvent,
    BlockEvent,
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
)
from pi_rpc.protocol import events as wire

__all__ = ["DeltaRun", "EntryIds", "merge", "merge_tool_updates", "to_wire"]

Encodable: TypeAlias = wire.WireEvent | dict[str, Any]
"""An event ready to be encoded. ``session_changed`` is a dict of what changed."""

_ENDS = (TextEnd, ThinkingEnd, ToolCallEnd)


def to_wire(
    event: agent.AgentEvent,
    *,
    full: bool = False,
    snapshot: bool = False,
    entry_ids: Sequence[str] = (),
) -> Encodable:
    """The wire form of an event.

    ``full``: whole messages in ``turn_end`` and ``agent_end`` (``events.full``). ``snapshot``: the
    message so far in ``message_update``; costs time linear in its length. ``entry_ids``: for
    ``turn_end`` and ``agent_end`` the entries of their messages (see ``EntryIds``). Expects the
    ids that a harness fills in; without them the wire form lacks them too."""
    convert = _CONVERTERS.get(type(event))
    if convert is not None:
        return convert(event, full, snapshot, entry_ids)
    return cast("wire.WireEvent", event)


def _message_update(
    event: agent.MessageUpdate, _full: bool, snapshot: bool, _ids: Sequence[str]
) -> Encodable:
    news = event.assistant_message_event
    return wire.MessageUpdate(
        message_id=cast("str", event.message_id),
        assistant_message_event=news,
        # Pricing the usage costs more than the rest of an update: once per block is enough.
        usage=event.stream.usage if isinstance(news, _ENDS) else UNSET,
        message=event.stream.partial if snapshot else UNSET,
    )


def _agent_start(
    event: agent.AgentStart, _full: bool, _snapshot: bool, _ids: Sequence[str]
) -> Encodable:
    return wire.AgentStart(run_id=cast("str", event.run_id))


def _agent_end(event: agent.AgentEnd, full: bool, _snapshot: bool, ids: Sequence[str]) -> Encodable:
    return wire.AgentEnd(
        run_id=cast("str", event.run_id),
        entry_ids=list(ids),
        will_retry=event.will_retry or False,
        messages=event.messages if full else UNSET,
    )


def _turn_end(event: agent.TurnEnd, full: bool, _snapshot: bool, ids: Sequence[str]) -> Encodable:
    return wire.TurnEnd(
        entry_ids=list(ids),
        message=event.message if full else UNSET,
        tool_results=event.tool_results if full else UNSET,
    )


def _message_start(
    event: agent.MessageStart, _full: bool, _snapshot: bool, _ids: Sequence[str]
) -> Encodable:
    return wire.MessageStart(
        message=event.message,
        message_id=cast("str", event.message_id),
        client_message_id=event.client_message_id,
    )


def _message_end(
    event: agent.MessageEnd, _full: bool, _snapshot: bool, _ids: Sequence[str]
) -> Encodable:
    return wire.MessageEnd(
        message=event.message,
        message_id=cast("str", event.message_id),
        client_message_id=event.client_message_id,
        entry_id=cast("str", event.entry_id),
        parent_id=cast("str | None", event.parent_id),
    )


def _tool_update(
    event: agent.ToolExecutionUpdate, _full: bool, _snapshot: bool, _ids: Sequence[str]
) -> Encodable:
    return wire.ToolExecutionUpdate(
        tool_call_id=event.tool_call_id,
        tool_name=event.tool_name,
        partial_result=event.partial_result,
    )


def _session_changed(
    event: agent.SessionChanged, _full: bool, _snapshot: bool, _ids: Sequence[str]
) -> Encodable:
    changed = {"type": "session_changed", **event.changes}
    if event.removed:
        changed["removed"] = event.removed
    return changed


_CONVERTERS: dict[type, Callable[[Any, bool, bool, Sequence[str]], Encodable]] = {
    agent.MessageUpdate: _message_update,
    agent.AgentStart: _agent_start,
    agent.AgentEnd: _agent_end,
    agent.TurnEnd: _turn_end,
    agent.MessageStart: _message_start,
    agent.MessageEnd: _message_end,
    agent.ToolExecutionUpdate: _tool_update,
    agent.SessionChanged: _session_changed,
}


class EntryIds:
    """Remembers which entries a turn and an attempt added. One per session; show it every event.

    ``observe`` answers what to give ``to_wire`` as ``entry_ids``: for ``turn_end`` the entries of
    the reply and its tool results, for ``agent_end`` those of every message since
    ``agent_start``."""

    __slots__ = ("_attempt", "_turn")

    def __init__(self) -> None:
        self._attempt: list[str] = []
        self._turn: list[str] = []

    def observe(self, event: agent.AgentEvent) -> Sequence[str]:
        """Note the event; the entry ids that its wire form carries."""
        match event:
            case agent.MessageEnd(entry_id=str(entry_id), message=message):
                if role_of(message) == "bashExecution":
                    return ()  # A person ran it; the attempt did not.
                self._attempt.append(entry_id)
                if role_of(message) in _TURN_ROLES:
                    self._turn.append(entry_id)
            case agent.TurnEnd():
                return self._turn
            case agent.AgentEnd():
                return self._attempt
            case agent.TurnStart():
                self._turn = []
            case agent.AgentStart():
                self._attempt = []
                self._turn = []
        return ()


_TURN_ROLES = frozenset({"assistant", "toolResult"})

Delta: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta


def merge(
    pending: AssistantMessageEvent, new: AssistantMessageEvent
) -> AssistantMessageEvent | None:
    """Two deltas of one block as one; None when they must stay apart.

    Copies what is pending: for long series use ``DeltaRun``."""
    if (
        isinstance(pending, TextDelta | ThinkingDelta | ToolCallDelta)
        and isinstance(new, TextDelta | ThinkingDelta | ToolCallDelta)
        and type(new) is type(pending)
        and new.content_index == pending.content_index
    ):
        return type(pending)(content_index=new.content_index, delta=pending.delta + new.delta)
    return None


class DeltaRun:
    """Deltas of one block that wait to be sent as one. Linear in their length."""

    __slots__ = ("_first", "_pieces", "size")

    def __init__(self, first: Delta) -> None:
        self._first = first
        self._pieces = [first.delta]
        self.size = len(first.delta)
        """Characters that wait."""

    def add(self, event: BlockEvent) -> bool:
        """Take the event in if it is a delta of the same block; False if it is not."""
        first = self._first
        if type(event) is not type(first) or event.content_index != first.content_index:
            return False
        delta = event.delta
        self._pieces.append(delta)
        self.size += len(delta)
        return True

    def merged(self) -> Delta:
        """All of it as one delta."""
        if len(self._pieces) == 1:
            return self._first
        return type(self._first)(
            content_index=self._first.content_index, delta="".join(self._pieces)
        )


def merge_tool_updates(
    pending: agent.ToolExecutionUpdate, new: agent.ToolExecutionUpdate
) -> agent.ToolExecutionUpdate | None:
    """Two updates of one call as one; None when they must stay apart. New output is added to what
    waits; a replacement takes its place."""
    if pending.tool_call_id != new.tool_call_id:
        return None
    old, fresh = pending.partial_result, new.partial_result
    if fresh.delta is UNSET:
        return new
    if old.delta is UNSET:
        return None
    return agent.ToolExecutionUpdate(
        tool_call_id=new.tool_call_id,
        tool_name=new.tool_name,
        args=new.args,
        partial_result=ToolResult(
            content=fresh.content,
            details=fresh.details,
            delta=old.delta + fresh.delta,
            omitted_bytes=fresh.omitted_bytes,
        ),
    )
