"""What an editor hears of one session while it works.

Owns what is said of a run in a line, for its progress, and ``agent/event`` for plugins that ask for
it: the events of the native protocol, in its shapes. Holds the session's run while the editor is
slow to read.
"""

import logging
from collections.abc import Callable, Sequence

import anyio

from pi_rpc.agent import events as e
from pi_rpc.host.hosted import HostedSession
from pi_rpc.host.outlet import EventOutlet, EventPreferences, Numbered, Ticker
from pi_rpc.jsonrpc.backlog import Backlog, is_crowded, share_of
from pi_rpc.jsonrpc.peer import Peer
from pi_rpc.llm.events import TextDelta, ThinkingDelta
from pi_rpc.lsp import shapes as s
from pi_rpc.lsp.telling import Telling
from pi_rpc.lsp.works import Works
from pi_rpc.protocol.convert import EntryIds, to_wire
from pi_rpc.protocol.encode import encode, encode_event
from pi_rpc.tools._paths import display_text

__all__ = ["SessionStream"]

_log = logging.getLogger("pi_rpc.lsp")

_LEVELS = {"error": s.ERROR, "warning": s.WARNING, "info": s.LOG}


class SessionStream:
    """One session on its way to the editor."""

    def __init__(
        self,
        hosted: HostedSession,
        peer: Peer,
        works: Works,
        telling: Telling,
        *,
        ticker: Ticker,
        sources: Callable[[], int],
        sends_events: bool,
    ) -> None:
        """``sources`` says how many sessions share the editor."""
        self._hosted = hosted
        self._peer = peer
        self._works = works
        self._telling = telling
        self._sources = sources
        self._backlog = Backlog(peer)
        self._session_json = encode(hosted.id)
        self._entry_ids = EntryIds()
        self.turn = anyio.Lock()
        """Held by what was asked of the session and goes on; the next waits."""
        self._outlet: EventOutlet | None = None
        if sends_events:
            self._outlet = EventOutlet(
                self._deliver, EventPreferences(), ticker, lambda: is_crowded(peer)
            )
        hosted.pressure = self._pressure
        hosted.harness.file_changes.watches_commands = sends_events
        self._end = hosted.harness.subscribe(self._take, in_process=False)

    def close(self) -> None:
        """The session is closed."""
        if self._outlet is not None:
            self._outlet.flush()
        self._end()

    def flush(self) -> None:
        """Send what waits to be merged: what is sent next comes after it."""
        if self._outlet is not None:
            self._outlet.flush()

    def _take(self, events: Sequence[e.AgentEvent]) -> None:
        for event in events:
            if isinstance(event, e.Diagnostic):
                _log.info("%s: %s", event.severity, event.message)
                self._telling.message(_LEVELS[event.severity], event.message)
            elif (doing := _doing(event)) is not None:
                self._works.report(self._hosted.id, doing)
        if self._outlet is not None:
            self._outlet.take(events)

    def _deliver(self, numbered: Sequence[Numbered]) -> None:
        frames = []
        for seq, event in numbered:
            wire = to_wire(event, entry_ids=list(self._entry_ids.observe(event)))
            frames.append(encode_event(self._session_json, seq, wire))
        self._peer.send_frames(frames)
        self._backlog.sent(sum(map(len, frames)))

    async def _pressure(self) -> None:
        waiting = 0 if self._outlet is None else self._outlet.waiting_size
        filled = waiting + self._backlog.size
        if is_crowded(self._peer) and filled > share_of(self._sources()):
            await self._peer.drained()


def _doing(event: e.AgentEvent) -> str | None:
    """What is being done, in a line; None where nothing new is."""
    match event:
        case e.MessageUpdate(assistant_message_event=news):
            if isinstance(news, TextDelta):
                return "answering"
            return "thinking" if isinstance(news, ThinkingDelta) else None
        case e.TurnStart():
            return "asking the model"
        case e.ToolExecutionStart():
            return display_text(event.title)
        case e.CompactionStart():
            return "shortening the conversation"
        case e.AutoRetryStart():
            text = display_text(event.error_message)
            return f"attempt {event.attempt} of {event.max_attempts}: {text}"
        case _:
            return None
