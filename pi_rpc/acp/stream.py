"""What a client hears of one session: updates in order, merged while it is slow.

Owns the step to ``session/update`` frames, that nothing of a session is heard before the client
knows it, and the pressure that holds a session's run while the client is slow. What an update says
is ``pi_rpc.acp.updates``'s, merging ``pi_rpc.host.outlet``'s.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

import anyio
import anyio.lowlevel

from pi_rpc.acp import shapes as s
from pi_rpc.acp.commands import available
from pi_rpc.acp.handshake import ClientCapabilities
from pi_rpc.acp.options import config_options
from pi_rpc.acp.updates import Updates
from pi_rpc.agent.events import AgentEvent, Diagnostic
from pi_rpc.host.hosted import HostedSession
from pi_rpc.host.outlet import EventOutlet, EventPreferences, Numbered, Ticker
from pi_rpc.host.services import Services
from pi_rpc.jsonrpc.backlog import Backlog, is_crowded, share_of
from pi_rpc.jsonrpc.peer import Peer

__all__ = ["SessionStream"]

_log = logging.getLogger("pi_rpc.acp")

_MIN_INTERVAL_MS = 16.0
_UPDATES_PER_TURN = 64
"""So many updates of a history are made before others get their turn."""
_LEVELS = {"error": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO}


class SessionStream:
    """One session on its way to the client."""

    def __init__(
        self,
        hosted: HostedSession,
        peer: Peer,
        client: ClientCapabilities,
        *,
        ticker: Ticker,
        sources: Callable[[], int],
        services: Services,
    ) -> None:
        """``sources`` says how many sessions share the client."""
        self._hosted = hosted
        self._peer = peer
        self._sources = sources
        self._held: list[s.Update] | None = []
        self._released = anyio.Event()
        self._backlog = Backlog(peer)
        self.updates = Updates(
            client, lambda: config_options(hosted, services), lambda: available(hosted.harness)
        )
        self.turn = anyio.Lock()
        """Held by the prompt that is being answered; the next waits."""
        self._outlet = EventOutlet(
            self._deliver,
            EventPreferences(min_interval_ms=_MIN_INTERVAL_MS),
            ticker,
            lambda: is_crowded(peer),
        )
        hosted.pressure = self._pressure
        hosted.harness.file_changes.watches_commands = False
        self._end = hosted.harness.subscribe(
            self._take, in_process=False, patience_s=_MIN_INTERVAL_MS / 2000
        )

    def close(self) -> None:
        """The session is closed."""
        self._outlet.flush()
        self._end()
        self._released.set()

    def hold(self) -> None:
        """Keep what is said from now on until ``release``; what was said before is sent."""
        self._outlet.flush()
        if self._held is None:
            self._held = []
            self._released = anyio.Event()

    def release(self) -> None:
        """The client knows the session: send what was kept, and from now on everything."""
        held, self._held = self._held, None
        self._released.set()
        if held:
            self._send(held)

    def flush(self) -> None:
        """Send what waits to be merged: what is sent next comes after it."""
        self._outlet.flush()

    def tell(self, update: s.Update) -> None:
        """Send an update of our own, after everything that was said before."""
        self._outlet.flush()
        self._pass_on([update])

    async def replay(self, updates: Iterable[s.Update]) -> None:
        """Send what was said long ago, though the session is held."""
        for number, update in enumerate(updates, 1):
            self._send([update])
            if is_crowded(self._peer):
                await self._peer.drained()
            if number % _UPDATES_PER_TURN == 0:
                await anyio.lowlevel.checkpoint()

    # --- inside ----------------------------------------------------------------------------------

    def _take(self, events: Sequence[AgentEvent]) -> None:
        for event in events:
            if isinstance(event, Diagnostic):
                _log.log(_LEVELS[event.severity], "%s", event.message)
        self._outlet.take(events)

    def _deliver(self, numbered: Sequence[Numbered]) -> None:
        self._pass_on([update for _, event in numbered for update in self.updates.of(event)])

    def _pass_on(self, updates: Sequence[s.Update]) -> None:
        if self._held is not None:
            self._held += updates
        else:
            self._send(updates)

    def _send(self, updates: Sequence[s.Update]) -> None:
        before = self._peer.sent_bytes
        for update in updates:
            params = s.SessionUpdate(session_id=self._hosted.id, update=update)
            self._peer.notify("session/update", params)
        self._backlog.sent(self._peer.sent_bytes - before)

    async def _pressure(self) -> None:
        if self._held is not None:
            await self._released.wait()
        filled = self._outlet.waiting_size + self._backlog.size
        if is_crowded(self._peer) and filled > share_of(self._sources()):
            await self._peer.drained()
