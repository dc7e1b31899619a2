"""What the parts of a harness share: the session, its choices, and how listeners are told.

Owns telling (events, totals, state changes) and the step from what the loop says to what is stored
and heard. Does not own what runs when (``pi_rpc.harness.harness``) nor what a run does
(``pi_rpc.harness.driving``).
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import Any, Literal, TypeAlias

from pi_rpc.agent.events import (
    Abort,
    AgentEnd,
    AgentEvent,
    AgentStart,
    Diagnostic,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    QueueUpdate,
    SessionChanged,
    TurnEnd,
)
from pi_rpc.harness.configuration import SessionConfiguration
from pi_rpc.harness.live import Live
from pi_rpc.harness.loop_setup import LoopSetup
from pi_rpc.harness.persistence import Recorder
from pi_rpc.harness.queue import MessageQueue
from pi_rpc.harness.runs import Run
from pi_rpc.harness.usage import Totals, branch_tokens
from pi_rpc.session.context import transcript
from pi_rpc.session.storage import SessionStorage

__all__ = ["Listener", "Phase", "SessionCore"]

Phase: TypeAlias = Literal["idle", "turn", "compaction", "branch_summary", "retry"]
Listener: TypeAlias = Callable[[Sequence[AgentEvent]], None]

_log = logging.getLogger("pi_rpc.harness")


class SessionCore:
    """One session's parts, wired to each other."""

    def __init__(
        self,
        session: SessionStorage,
        configuration: SessionConfiguration,
        loop: LoopSetup,
        queue: MessageQueue,
        pressure: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self.session = session
        self.configuration = configuration
        self.loop = loop
        self.queue = queue
        self.totals = Totals()
        self.totals.recount(session)
        self.live = Live()
        self.phase: Phase = "idle"
        self.recorder = Recorder(session, queue, self.totals, self.notify)
        self.pressure = pressure
        """Returns when listeners can take more."""
        self._listeners: list[tuple[Listener, float]] = []
        """With how long each would have deltas wait."""
        self._untold: deque[Sequence[AgentEvent]] = deque()
        self._telling = False

    def subscribe(
        self, listener: Listener, *, in_process: bool = True, patience_s: float = 0.0
    ) -> Callable[[], None]:
        """Hear every event, in batches; returns the end of the subscription.

        Without ``in_process`` those are left out that the wire does not know (``Abort``). With
        ``patience_s`` deltas may come that much later, together: from the next request to a model,
        as long as every listener has the patience.
        """
        heard = listener if in_process else _for_the_wire(listener), patience_s
        self._listeners.append(heard)
        self._note_patience()

        def end() -> None:
            self._listeners.remove(heard)
            self._note_patience()

        return end

    def _note_patience(self) -> None:
        self.loop.patience_s = min((patience for _, patience in self._listeners), default=0.0)

    def notify(self, events: Sequence[AgentEvent]) -> None:
        """Tell every listener; one that raises misses the events, the others do not.

        What a listener causes is told when the others have heard what it heard: all of them hear
        everything in one order.
        """
        if events:
            self._untold.append(events)
        if self._telling:
            return
        self._telling = True
        try:
            while self._untold:
                self._tell(self._untold.popleft())
        finally:
            self._telling = False

    def _tell(self, events: Sequence[AgentEvent]) -> None:
        self.live.follow(events)
        for listener, _ in list(self._listeners):
            try:
                listener(events)
            except Exception:  # noqa: BLE001 - one listener must not take events from the others
                _log.exception("a listener raised; it missed an event")

    def changed(self, **changes: Any) -> None:
        """Tell that fields of the session's state changed; None means that one was cleared.

        Names are the wire's. ``leafId`` is the one field that can be null without being cleared.
        """
        removed = [name for name, value in changes.items() if value is None and name != "leafId"]
        kept = {name: value for name, value in changes.items() if name not in removed}
        event = SessionChanged(changes=kept)
        self.notify([SessionChanged(changes=kept, removed=removed) if removed else event])

    def enter(self, phase: Phase) -> None:
        """Another phase of the same activity begins."""
        if phase != self.phase:
            self.phase = phase
            self.changed(phase=phase)

    def report(self, diagnostic: Diagnostic) -> None:
        """Tell something that ends nothing."""
        self.notify([diagnostic])

    def announce_queue(self) -> None:
        """Tell what waits now."""
        now = self.queue.snapshot()
        self.notify([QueueUpdate(steering=now.steering, follow_up=now.follow_up, items=now.items)])

    def announce_usage(self) -> None:
        """Tell totals, how full the context is, and where the session stands."""
        self.changed(**self.usage_fields(), **self.place())

    def place(self) -> dict[str, Any]:
        """``messageCount`` and ``leafId`` as the session's state has them."""
        return {"messageCount": self.message_count, "leafId": self.session.leaf_id}

    @property
    def message_count(self) -> int:
        """Messages on the active branch, system messages left out."""
        return len(transcript(self.session.branch()))

    def context_tokens(self) -> int:
        """About how many tokens the next request takes up."""
        return branch_tokens(self.session.branch(), self.loop.overhead())

    def context_usage(self) -> tuple[int, int] | None:
        """Tokens in the model's window and its size; None without a model."""
        model = self.configuration.model
        return None if model is None else (self.context_tokens(), model.context_window)

    def usage_fields(self) -> dict[str, Any]:
        """``contextUsage``, ``tokens`` and ``cost`` as the session's state has them."""
        usage = self.totals.usage
        tokens = {
            "input": usage.input,
            "output": usage.output,
            "cacheRead": usage.cache_read,
            "cacheWrite": usage.cache_write,
            "total": usage.total_tokens,
        }
        if usage.cache_write_1h:
            tokens["cacheWrite1h"] = usage.cache_write_1h
        if usage.reasoning:
            tokens["reasoning"] = usage.reasoning
        fields: dict[str, Any] = {"tokens": tokens, "cost": usage.cost.total}
        if (context := self.context_usage()) is not None:
            held, window = context
            fields["contextUsage"] = {
                "tokens": held,
                "contextWindow": window,
                "percent": round(100 * held / window, 2) if window else None,
            }
        return fields

    async def take_in(self, run: Run, events: Sequence[AgentEvent]) -> None:
        """What the loop says: store it, fill in ids, tell listeners; wait if they are full."""
        for kind, alike in groupby(events, type):
            if kind is MessageUpdate:
                self.notify(self.recorder.updates(alike))  # type: ignore[arg-type]
            else:
                for event in alike:
                    await self._take_in_one(run, event)
        signal = run.controller.signal
        if self.pressure is not None and not signal.aborted:
            # A receiver that has stopped reading must not keep a run from being stopped.
            with signal.cancel_scope():
                await self.pressure()

    async def _take_in_one(self, run: Run, event: AgentEvent) -> None:
        match event:
            case MessageStart():
                self.notify(self.recorder.start(event))
            case MessageEnd():
                self.notify(await self.recorder.end(event, run))
            case AgentStart():
                run.attempt_open = True
                run.attempts += 1
                self.notify([AgentStart(run_id=run.id)])
            case AgentEnd():
                await self.recorder.flush()
                run.attempt_open = False
                retry = run.retry is not None
                self.notify([AgentEnd(messages=event.messages, run_id=run.id, will_retry=retry)])
            case TurnEnd():
                self.notify([event])
                self.notify([await self.recorder.save_point()])
                self.announce_usage()
            case _:
                self.notify([event])


def _for_the_wire(listener: Listener) -> Listener:
    def listen(events: Sequence[AgentEvent]) -> None:
        known = [event for event in events if not isinstance(event, Abort)]
        if known:
            listener(known)

    return listen
