"""Events of tools that run together, on their way to the one task that announces them.

Tools report from their own tasks and never wait for a listener. When nobody takes the events in for
a while, updates that replace each other are kept once per call, so that they do not pile up."""

import anyio

from pi_rpc.agent.events import LoopEvent, ToolExecutionEnd, ToolExecutionUpdate

_BACKLOG = 64


class Outbox:
    """What ``size`` running calls have to say."""

    def __init__(self, size: int) -> None:
        self._running = size
        self._events: list[LoopEvent] = []
        self._news = anyio.Event()

    def put_update(self, event: ToolExecutionUpdate) -> None:
        """A call reports."""
        if len(self._events) >= _BACKLOG and self._supersede(event):
            return
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
        taken, self._events = self._events, []
        return taken

    def _put(self, event: LoopEvent) -> None:
        self._events.append(event)
        self._news.set()

    def _supersede(self, event: ToolExecutionUpdate) -> bool:
        """Put ``event`` in the place of the call's last update, if both are whole."""
        if event.partial_result.delta:
            return False
        for index in range(len(self._events) - 1, -1, -1):
            waiting = self._events[index]
            if not isinstance(waiting, ToolExecutionUpdate):
                continue
            if waiting.tool_call_id == event.tool_call_id:
                if waiting.partial_result.delta:
                    return False
                self._events[index] = event
                return True
        return False
