"""Event outlets: one receiver's view of one session's events.

Owns opting out, merging of deltas and of the updates of running tools and commands, and numbering.
A number is given when an event is handed on, after merging, so a gap means that something was lost.
Lifecycle events are never merged, dropped or reordered. Does not own how updates of a tool become
one (``pi_rpc.agent.waiting_updates``), encoding, nor the timer (``Ticker``'s owner runs it).
"""

import math
import time
from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

import anyio
from msgspec import UNSET, Struct, UnsetType

from pi_rpc.agent.events import (
    AgentEvent,
    BashOutput,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionUpdate,
)
from pi_rpc.agent.waiting_updates import WaitingUpdates
from pi_rpc.llm.events import TextDelta, ThinkingDelta, ToolCallDelta

__all__ = ["Deliver", "EventOutlet", "EventPreferences", "Numbered", "Ticker"]

Numbered: TypeAlias = tuple[int, AgentEvent]
Deliver: TypeAlias = Callable[[Sequence[Numbered]], None]

_CROWDED_TICK_S = 0.016
_MOST_PIECES = 1024
"""Of text that waits; small ones cost many times what is in them."""
_DELTAS = (TextDelta, ThinkingDelta, ToolCallDelta)


class EventPreferences(Struct, frozen=True):
    """What a receiver wants to hear."""

    min_interval_ms: float = 16.0
    """Deltas of one block, and updates of one call, that come faster are merged; 0 sends each."""
    opt_out: frozenset[str] = frozenset()
    """Event types not to send."""


class _Merging(Struct):
    """A delta that waits, and what was added to it."""

    first: MessageUpdate
    pieces: list[str]
    size: int
    """In characters."""

    def takes(self, update: MessageUpdate) -> bool:
        """Take ``update`` in if it is a delta of the same block; whether it is one."""
        mine, new = self.first.assistant_message_event, update.assistant_message_event
        if (
            type(new) is not type(mine)
            or new.content_index != mine.content_index
            or update.message_id != self.first.message_id
        ):
            return False
        delta: str = new.delta  # type: ignore[union-attr] # it is of the type of a delta
        if len(self.pieces) >= _MOST_PIECES:
            self.pieces = ["".join(self.pieces)]
        self.pieces.append(delta)
        self.size += len(delta)
        return True

    def merged(self) -> MessageUpdate:
        event = self.first.assistant_message_event
        if len(self.pieces) == 1:
            return self.first
        return MessageUpdate(
            assistant_message_event=type(event)(  # type: ignore[call-arg]
                content_index=event.content_index, delta="".join(self.pieces)
            ),
            stream=self.first.stream,
            message_id=self.first.message_id,
        )


class _WaitingOutput:
    """Output of one command of the person's that waits.

    Needs no limit: whoever reads the command's output waits for slow receivers.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._token: str | int | UnsetType = UNSET
        self._omitted: int | UnsetType = UNSET
        self.size = 0
        """In characters."""

    def add(self, output: BashOutput) -> None:
        self._pieces.append(output.delta)
        self.size += len(output.delta)
        self._token = output.token
        if output.omitted_bytes is not UNSET:
            self._omitted = output.omitted_bytes

    def take(self) -> list[BashOutput]:
        delta = "".join(self._pieces)
        return [BashOutput(delta=delta, token=self._token, omitted_bytes=self._omitted)]


class Ticker:
    """Wakes outlets whose merged delta is due. One per receiver; ``run`` is its task."""

    def __init__(self) -> None:
        self._due: dict[EventOutlet, float] = {}
        self._wake = anyio.Event()
        self._sleeps_until = 0.0

    def schedule(self, outlet: "EventOutlet", at: float) -> None:
        """Wake ``outlet`` at a ``time.monotonic()`` moment, or earlier if that was asked."""
        if outlet not in self._due:
            self._due[outlet] = at
            if at < self._sleeps_until:
                self._wake.set()

    def forget(self, outlet: "EventOutlet") -> None:
        """``outlet`` has nothing that waits."""
        self._due.pop(outlet, None)

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            now = time.monotonic()
            for outlet in [each for each, at in self._due.items() if at <= now]:
                del self._due[outlet]
                outlet.tick()
            self._sleeps_until = min(self._due.values(), default=math.inf)
            self._wake = anyio.Event()
            with anyio.move_on_after(self._sleeps_until - time.monotonic()):
                await self._wake.wait()


class EventOutlet:
    """Takes a session's events and delivers them numbered."""

    def __init__(
        self,
        deliver: Deliver,
        preferences: EventPreferences,
        ticker: Ticker,
        crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        """``crowded`` tells that the receiver is slow: deltas then wait and grow."""
        self._deliver = deliver
        self._opt_out = preferences.opt_out
        self._interval = preferences.min_interval_ms / 1000
        self._ticker = ticker
        self._crowded = crowded
        self._merging: _Merging | None = None
        self._last_delta = -math.inf
        self._updates: dict[Hashable, WaitingUpdates | _WaitingOutput] = {}
        """What waits, of each tool call and command in the order of their first; never beside a
        delta that waits."""
        self._lossy: dict[str, WaitingUpdates] = {}
        """Of tool calls that run and of which something was left out."""
        self._last_update = -math.inf
        self.seq = 0
        """The number of the last event handed on."""
        self.merged = 0
        """How many deltas and updates became part of another one."""

    @property
    def waiting_size(self) -> int:
        """How much text waits to be merged with more, in characters."""
        size = 0 if self._merging is None else self._merging.size
        return size + sum(each.size for each in self._updates.values())

    def take(self, events: Sequence[AgentEvent]) -> None:
        """Hand on ``events`` in order, now or merged a little later."""
        if self._opt_out:
            events = [event for event in events if _tag(event) not in self._opt_out]
        if self._interval == 0 and not self._lossy and not self._crowded():
            self.flush()
            self._send(events)
            return
        for event in events:
            if type(event) is MessageUpdate:
                # The hot path: one more delta of the block that waits.
                if self._merging is not None and self._merging.takes(event):
                    self.merged += 1
                else:
                    self._begin_merging(event)
            elif isinstance(event, ToolExecutionUpdate | BashOutput):
                self._merge_update(event)
            else:
                self._send_whole(event)
        if self._merging is not None:
            self._flush_when_due(self._last_delta + self._interval)

    def flush(self) -> None:
        """Hand on what waits to be merged with more."""
        if self._merging is not None:
            update = self._merging.merged()
            self._merging = None
            self._last_delta = time.monotonic()
            self._ticker.forget(self)
            self._send([update])
        elif self._updates:
            self._flush_updates()

    def tick(self) -> None:
        """The moment asked for has come: flush, or wait on while the receiver is slow."""
        if (self._merging is not None or self._updates) and self._crowded():
            self._ticker.schedule(self, time.monotonic() + max(self._interval, _CROWDED_TICK_S))
        else:
            self.flush()

    def _begin_merging(self, update: MessageUpdate) -> None:
        event = update.assistant_message_event
        if isinstance(event, _DELTAS):
            self.flush()
            self._merging = _Merging(update, [event.delta], len(event.delta))
        else:
            self._send_whole(update)

    def _send_whole(self, event: AgentEvent) -> None:
        self.flush()
        if isinstance(event, ToolExecutionEnd):
            self._lossy.pop(event.tool_call_id, None)
        self._send([event])

    def _merge_update(self, event: ToolExecutionUpdate | BashOutput) -> None:
        if self._merging is not None:
            self.flush()
        if isinstance(event, ToolExecutionUpdate):
            call = event.tool_call_id
            self.merged += call in self._updates
            updates = self._updates.get(call) or self._lossy.pop(call, None) or WaitingUpdates()
            assert isinstance(updates, WaitingUpdates)
            updates.add(event)
            self._updates[call] = updates
        else:
            key = (BashOutput, event.token)
            self.merged += key in self._updates
            output = self._updates.setdefault(key, _WaitingOutput())
            assert isinstance(output, _WaitingOutput)
            output.add(event)
        self._flush_when_due(self._last_update + self._interval)

    def _flush_when_due(self, due: float) -> None:
        now = time.monotonic()
        if self._crowded():
            self._ticker.schedule(self, now + max(self._interval, _CROWDED_TICK_S))
        elif now >= due:
            self.flush()
        else:
            self._ticker.schedule(self, due)

    def _flush_updates(self) -> None:
        waiting, self._updates = self._updates, {}
        self._last_update = time.monotonic()
        self._ticker.forget(self)
        for key, updates in waiting.items():
            self._send(updates.take())
            if isinstance(updates, WaitingUpdates) and updates.lossy:
                self._lossy[str(key)] = updates

    def _send(self, events: Sequence[AgentEvent]) -> None:
        if not events:
            return
        first = self.seq + 1
        self.seq += len(events)
        self._deliver(list(enumerate(events, first)))


def _tag(event: AgentEvent) -> str:
    tag = type(event).__struct_config__.tag
    assert isinstance(tag, str)
    return tag
