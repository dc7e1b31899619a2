"""Events of tools that run together, on their way to the one task that announces them.

Tools report from their own tasks and never wait for a listener. Nobody may take the events in for
minutes: what waits then is a few updates of each call as they came, and the rest of them made one.
"""

import anyio

from pi_rpc.agent.events import LoopEvent, ToolExecutionEnd, ToolExecutionUpdate
from pi_rpc.agent.messages import encode_json
from pi_rpc.agent.waiting_updates import WaitingUpdates

_APART = 16
"""How many updates of one call may wait as they came."""
_APART_BYTES = 128 * 1024
"""How large the updates of one call that wait as they came may be, but for the first."""


class Outbox:
    """What ``size`` running calls have to say."""

    def __init__(self, size: int) -> None:
        self._running = size
        self._events: list[LoopEvent | WaitingUpdates] = []
        self._calls: dict[str, _Call] = {}
        self._news = anyio.Event()

    def put_update(self, event: ToolExecutionUpdate) -> None:
        """A call reports."""
        call = self._calls.get(event.tool_call_id)
        if call is None:
            call = self._calls[event.tool_call_id] = _Call()
        if not call.takes_another(event):
            call.updates.add(event)
            if call.merging:
                return
            call.merging = True
            self._put(call.updates)
        else:
            self._put(event)

    def finish(self, event: ToolExecutionEnd) -> None:
        """A call has ended."""
        self._running -= 1
        self._put(event)

    async def take(self) -> list[LoopEvent]:
        """What has come since the last time, at least one event; empty when all calls ended."""
        while not self._events:
            if not self._running:
                return []
            self._news = anyio.Event()
            await self._news.wait()
        waiting, self._events = self._events, []
        taken: list[LoopEvent] = []
        for each in waiting:
            taken += each.take() if isinstance(each, WaitingUpdates) else [each]
        for call in self._calls.values():
            call.all_taken()
        return taken

    def _put(self, event: LoopEvent | WaitingUpdates) -> None:
        self._events.append(event)
        self._news.set()


class _Call:
    """What of one call waits."""

    def __init__(self) -> None:
        self.updates = WaitingUpdates()
        self.merging = False
        """``updates`` is among what waits."""
        self._apart = 0
        self._apart_bytes = 0

    def takes_another(self, event: ToolExecutionUpdate) -> bool:
        """The update may wait as it came; it is counted then."""
        if self.merging or self.updates.lossy or self._apart >= _APART:
            return False
        if self._apart:  # Somebody is slow: only now is the size worth finding out.
            self._apart_bytes += len(encode_json(event.partial_result))
            if self._apart_bytes > _APART_BYTES:
                return False
        self._apart += 1
        return True

    def all_taken(self) -> None:
        self.merging = False
        self._apart = self._apart_bytes = 0
