"""From in-process events to the wire's.

Owns ``to_wire`` and the entry ids that ``turn_end`` and ``agent_end`` carry. All of it is pure.
Does not own merging, nor when events are sent (``pi_rpc.host.outlet``)."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from msgspec import UNSET

from pi_rpc.agent import events as agent
from pi_rpc.agent.messages import role_of
from pi_rpc.llm.events import TextEnd, ThinkingEnd, ToolCallEnd
from pi_rpc.protocol import events as wire

__all__ = ["EntryIds", "to_wire"]

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
