"""What a client hears: events of every session, merged, numbered, encoded.

Owns the step from in-process events to ``agent/event`` frames for one client, and the pressure that
holds a session's run while that client is slow. Merging and numbering are ``pi_rpc.host.outlet``'s,
wire forms ``pi_rpc.protocol``'s.
"""

from collections.abc import Sequence

from pi_rpc.agent.events import AgentEvent, MessageUpdate
from pi_rpc.harness.harness import Listener
from pi_rpc.host.host import HostedSession
from pi_rpc.host.outlet import EventOutlet, EventPreferences, Numbered, Ticker
from pi_rpc.jsonrpc.peer import Peer
from pi_rpc.llm.events import TextDelta, ThinkingDelta, ToolCallDelta
from pi_rpc.protocol.convert import EntryIds, to_wire
from pi_rpc.protocol.encode import encode, encode_event, encode_update
from pi_rpc.protocol.handshake import EventPreferences as WantedEvents

__all__ = ["EventStream"]

_PRESSURE_BYTES = 1024 * 1024
_DELTAS = (TextDelta, ThinkingDelta, ToolCallDelta)


class EventStream:
    """All sessions' events on their way to one client."""

    def __init__(self, peer: Peer, wanted: WantedEvents) -> None:
        self._peer = peer
        self._wanted = wanted
        self._ticker = Ticker()
        self._outlets: dict[HostedSession, EventOutlet] = {}
        self._preferences = EventPreferences(
            min_interval_ms=wanted.min_interval_ms, opt_out=frozenset(wanted.opt_out)
        )

    def follow(self, hosted: HostedSession) -> None:
        """Send ``hosted``'s events from now on."""
        encoder = _SessionEncoder(hosted.id, self._wanted)
        outlet = EventOutlet(
            lambda numbered: self._peer.send_frames(encoder.frames(numbered)),
            self._preferences,
            self._ticker,
            self._crowded,
        )
        self._outlets[hosted] = outlet
        hosted.pressure = self._pressure
        hosted.harness.subscribe(encoder.observing(outlet))

    def forget(self, hosted: HostedSession) -> None:
        """``hosted`` is closed."""
        self._outlets.pop(hosted, None)

    def last_seq(self, hosted: HostedSession) -> int:
        """The number of the last event sent, after sending what waits to be merged."""
        outlet = self._outlets[hosted]
        outlet.flush()
        return outlet.seq

    async def run(self) -> None:
        """Send merged deltas when they are due; serves until cancelled."""
        await self._ticker.run()

    def _crowded(self) -> bool:
        return self._peer.waiting_bytes > _PRESSURE_BYTES

    async def _pressure(self) -> None:
        if self._crowded():
            await self._peer.drained()


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
