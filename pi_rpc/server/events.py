"""What a client hears: events of every session, merged, numbered, encoded.

Owns the step from in-process events to ``agent/event`` frames for one client, the repetition of
events that it missed, and the pressure that holds a session's run while that client is slow and
the session has filled its share of what waits.
Merging and numbering are ``pi_rpc.host.outlet``'s, what is kept for repetition
``pi_rpc.host.history``'s, wire forms ``pi_rpc.protocol``'s.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Raw
from msgspec.structs import replace

from pi_rpc.agent.events import AgentEvent, MessageUpdate
from pi_rpc.harness.harness import Listener
from pi_rpc.host.history import EventHistory, Kept
from pi_rpc.host.host import HostedSession
from pi_rpc.host.outlet import EventOutlet, EventPreferences, Numbered, Ticker
from pi_rpc.jsonrpc.backlog import Backlog, is_crowded, share_of
from pi_rpc.jsonrpc.peer import Peer
from pi_rpc.llm.events import TextDelta, ThinkingDelta, ToolCallDelta
from pi_rpc.protocol.convert import EntryIds, to_wire
from pi_rpc.protocol.encode import encode, encode_event, encode_update
from pi_rpc.protocol.events import MessageUpdate as MessageUpdateOnWire
from pi_rpc.protocol.handshake import EventPreferences as WantedEvents
from pi_rpc.protocol.history import RepeatedEvent, SessionEventsResult
from pi_rpc.server.statistics import SessionCounters, Statistics

__all__ = ["EventStream"]

_MOST_PATIENCE_S = 0.008
_DELTAS = (TextDelta, ThinkingDelta, ToolCallDelta)
_EVENT = b',"event":'


class EventStream:
    """All sessions' events on their way to one client."""

    def __init__(self, peer: Peer, wanted: WantedEvents, statistics: Statistics) -> None:
        self._peer = peer
        self._statistics = statistics
        self._wanted = wanted
        self._ticker = Ticker()
        self._outlets: dict[HostedSession, EventOutlet] = {}
        self._histories: dict[HostedSession, EventHistory] = {}
        self._preferences = EventPreferences(
            min_interval_ms=wanted.min_interval_ms, opt_out=frozenset(wanted.opt_out)
        )

    def follow(self, hosted: HostedSession) -> None:
        """Send ``hosted``'s events from now on."""
        encoder = _SessionEncoder(hosted.id, self._wanted)
        history = EventHistory()
        counters = self._statistics.session(hosted.id)
        backlog = Backlog(self._peer)

        def deliver(numbered: Sequence[Numbered]) -> None:
            frames = encoder.frames(numbered)
            history.add(numbered, frames)
            self._peer.send_frames(frames)
            size = sum(map(len, frames))
            backlog.sent(size)
            counters.events += len(frames)
            counters.bytes += size

        async def pressure() -> None:
            # Sessions that say little go on, as long as their own share lasts.
            filled = outlet.waiting_size + backlog.size
            if self._crowded() and filled > share_of(len(self._outlets)):
                await self._peer.drained()

        outlet = EventOutlet(deliver, self._preferences, self._ticker, self._crowded)
        self._outlets[hosted] = outlet
        self._histories[hosted] = history
        hosted.pressure = pressure
        hosted.harness.file_changes.watches_commands = "files_changed" not in self._wanted.opt_out
        # The client waits that long for the next delta anyway; half of it is not noticed.
        patience_s = min(self._wanted.min_interval_ms / 2000, _MOST_PATIENCE_S)
        hosted.harness.subscribe(encoder.observing(outlet), in_process=False, patience_s=patience_s)

    def forget(self, hosted: HostedSession) -> None:
        """``hosted`` is closed."""
        if (outlet := self._outlets.pop(hosted, None)) is not None:
            self._statistics.session(hosted.id).deltas_merged += outlet.merged
        self._histories.pop(hosted, None)

    def counters(self, session_id: str) -> SessionCounters:
        """The counters of a session; those of one that is loaded are as of now."""
        counters = replace(self._statistics.session(session_id))
        for hosted, outlet in self._outlets.items():
            if hosted.id == session_id:
                counters.deltas_merged += outlet.merged
        return counters

    def flush(self, hosted: HostedSession) -> None:
        """Send what waits to be merged: what is sent next comes after it."""
        if (outlet := self._outlets.get(hosted)) is not None:
            outlet.flush()

    def since(self, hosted: HostedSession, seq: int, limit: int | None) -> SessionEventsResult:
        """The events after number ``seq`` as they were sent, deltas merged by block."""
        last_seq = self.last_seq(hosted)
        kept, complete = self._histories[hosted].since(seq)
        page = kept if limit is None else kept[:limit]
        return SessionEventsResult(
            events=[self._repeated(each) for each in page],
            complete=complete,
            epoch=hosted.epoch,
            last_seq=last_seq,
            has_more=len(page) < len(kept),
        )

    def _repeated(self, kept: Kept) -> RepeatedEvent:
        seq, what = kept
        event: Any
        if isinstance(what, bytes):
            event = _event_in(what)
        else:
            first = what.update
            news = first.assistant_message_event
            event = MessageUpdateOnWire(
                message_id=str(first.message_id),
                assistant_message_event=type(news)(  # type: ignore[call-arg]
                    content_index=news.content_index, delta=what.delta
                ),
                message=first.message if self._wanted.message_update == "snapshot" else UNSET,
            )
        return RepeatedEvent(seq=seq, event=event)

    def last_seq(self, hosted: HostedSession) -> int:
        """The number of the last event sent, after sending what waits to be merged."""
        outlet = self._outlets[hosted]
        outlet.flush()
        return outlet.seq

    async def run(self) -> None:
        """Send merged deltas when they are due; serves until cancelled."""
        await self._ticker.run()

    def _crowded(self) -> bool:
        return is_crowded(self._peer)


class _SessionEncoder:
    """Frames of one session's events."""

    def __init__(self, session_id: str, wanted: WantedEvents) -> None:
        self._session_json = encode(session_id)
        self._full = wanted.full
        self._snapshot = wanted.message_update == "snapshot"
        self._entry_ids = EntryIds()
        self._ids_of: dict[int, Sequence[str]] = {}
        self._message_id: object = None
        self._message_json = b'""'

    def observing(self, outlet: EventOutlet) -> Listener:
        """A listener that learns entry ids from every event, opted out or not."""

        def take(events: Sequence[AgentEvent]) -> None:
            for event in events:
                if type(event) is not MessageUpdate and (ids := self._entry_ids.observe(event)):
                    self._ids_of[id(event)] = list(ids)
            outlet.take(events)
            self._ids_of.clear()

        return take

    def frames(self, numbered: Sequence[Numbered]) -> list[bytes]:
        """One JSON-RPC notification for each event."""
        return [self._frame(seq, event) for seq, event in numbered]

    def _frame(self, seq: int, event: AgentEvent) -> bytes:
        if type(event) is MessageUpdate and not self._snapshot:
            update = event.assistant_message_event
            if isinstance(update, _DELTAS):
                if event.message_id is not self._message_id:
                    self._message_id = event.message_id
                    self._message_json = encode(event.message_id)
                return encode_update(self._session_json, seq, self._message_json, update)
        wire = to_wire(
            event,
            full=self._full,
            snapshot=self._snapshot,
            entry_ids=self._ids_of.get(id(event), ()),
        )
        return encode_event(self._session_json, seq, wire)


def _event_in(frame: bytes) -> Raw:
    """The event of an ``agent/event`` frame."""
    # Nothing before it can hold these bytes: quotes within a text are escaped.
    return Raw(frame[frame.index(_EVENT) + len(_EVENT) : -2])
