"""Messages that wait for the model: steering, follow-ups, and what goes with the next prompt.

Owns the queues of one session and what clients see of them. Pure: it decides, the run delivers. The
order, the modes and when a message counts as delivered are ``pi_rpc.agent.queue``'s: until its
``message_end`` a message that was taken can be put back, so an abort loses nothing.
"""

import itertools
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import anyio
from msgspec import UNSET, Struct

from pi_rpc.agent.events import Queue, QueueItem
from pi_rpc.agent.queue import PendingMessageQueue, QueueMode
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.llm.messages import UserMessage

if TYPE_CHECKING:
    from pi_rpc.harness.runs import Run, RunOutcome

__all__ = ["Aside", "MessageQueue", "QueueKind", "QueueMode", "QueuedMessage", "queue_of"]

QueueKind: TypeAlias = Literal["steer", "followUp"]


class QueuedMessage(Struct, eq=False):
    """A message that waits, and who wants to know what became of it."""

    item: QueueItem
    prompt: PromptInput
    message: UserMessage
    resolved: anyio.Event
    """Set when the message was taken by a run that settled, or was removed."""
    run: "Run | None" = None
    """The run that took it."""
    removed: bool = False
    withdrawn: bool = False
    """Nobody wants it any more; where it was taken already, it does not come back."""

    async def wait(self) -> "RunOutcome | None":
        """The outcome of the run that took it; None when it was removed instead."""
        await self.resolved.wait()
        return await self.run.wait() if self.run is not None else None

    def __await__(self) -> Generator[Any, Any, "RunOutcome | None"]:
        return self.wait().__await__()


class Aside(Struct, frozen=True, eq=False):
    """A message that goes before the next prompt."""

    message: Any
    """Of the user or a custom role."""
    prompt: PromptInput | None = None
    """What it was made of."""


class MessageQueue:
    """A line for each kind of message, and the asides."""

    def __init__(self) -> None:
        self.lines: dict[QueueKind, PendingMessageQueue[QueuedMessage]] = {
            "steer": PendingMessageQueue(),
            "followUp": PendingMessageQueue(),
        }
        self.modes: dict[QueueKind, QueueMode] = dict.fromkeys(self.lines, "one-at-a-time")
        self.asides: PendingMessageQueue[Aside] = PendingMessageQueue("all")
        """Not part of what waits for a run that goes on: ``clear`` and ``len`` leave them out."""
        self._numbers = itertools.count(1)

    def __len__(self) -> int:
        return sum(len(line) for line in self.lines.values())

    def add(self, kind: QueueKind, prompt: PromptInput) -> QueuedMessage:
        """Put a message at the end of its line."""
        item = QueueItem(
            id=f"q{next(self._numbers)}",
            kind=kind,
            text=prompt.text,
            images=prompt.all_images or UNSET,
            attachments=list(prompt.attachments) or UNSET,
            client_message_id=prompt.client_message_id or UNSET,
        )
        queued = QueuedMessage(item, prompt, prompt.message(), anyio.Event())
        self.lines[kind].push(queued)
        return queued

    def take(self, kind: QueueKind) -> list[QueuedMessage]:
        """The messages to deliver now: the oldest, or all, by the line's mode."""
        line = self.lines[kind]
        line.mode = self.modes[kind]
        return line.take()

    def take_next(self) -> list[UserMessage]:
        """What a run begins with when it has no prompt: steering, else what follows up."""
        return [each.message for each in self.take("steer") or self.take("followUp")]

    def started(self, message: object) -> QueuedMessage | None:
        """The queued message behind ``message``, if it came from here."""
        flying = (queued for line in self.lines.values() for queued in line.in_flight)
        return next((queued for queued in flying if queued.message is message), None)

    def delivered(self, message: object) -> QueuedMessage | None:
        """``message`` is on disk: it can no longer be put back."""
        for aside in self.asides.in_flight:
            if aside.message is message:
                self.asides.delivered(aside)
        queued = self.started(message)
        if queued is not None:
            self.lines[queued.item.kind].delivered(queued)
        return queued

    def put_back(self) -> bool:
        """Return what was taken but not delivered to the head of its line, but for what was
        withdrawn meanwhile; whether any was that clients see."""
        self.asides.restore()
        restored = [line.restore() for line in self.lines.values()]
        for line in self.lines.values():
            gone = [queued for queued in line.waiting if queued.withdrawn]
            for queued in gone:
                line.remove(queued)
            _resolve(gone)
        return any(restored)

    def clear(self) -> list[QueuedMessage]:
        """Remove everything that waits, steering first."""
        removed = [queued for line in self.lines.values() for queued in line.clear()]
        _resolve(removed)
        return removed

    def remove(self, item_id: str) -> QueuedMessage | None:
        """Remove one message that waits; None when it does not wait (any more)."""
        for line in self.lines.values():
            for queued in line.waiting:
                if queued.item.id == item_id:
                    line.remove(queued)
                    _resolve([queued])
                    return queued
        return None

    def snapshot(self, *, without: QueuedMessage | None = None) -> Queue:
        """What waits, as clients see it; ``without`` leaves out one that is being delivered."""
        waiting = [
            queued for line in self.lines.values() for queued in [*line.in_flight, *line.waiting]
        ]
        return queue_of([queued for queued in waiting if queued is not without])


def queue_of(messages: list[QueuedMessage]) -> Queue:
    """The wire's picture of ``messages``, steering first."""
    items = sorted((queued.item for queued in messages), key=lambda item: item.kind != "steer")
    return Queue(
        steering=[item.text for item in items if item.kind == "steer"],
        follow_up=[item.text for item in items if item.kind == "followUp"],
        items=items,
    )


def _resolve(removed: list[QueuedMessage]) -> None:
    for queued in removed:
        queued.removed = True
        queued.resolved.set()
