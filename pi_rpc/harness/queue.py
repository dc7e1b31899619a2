"""Messages that wait for the model: steering and follow-ups.

Owns the queue of one session. Pure: it decides, the run delivers. A message is out of the queue's
picture when its ``message_start`` goes out, and counts as delivered at its ``message_end``; until
then ``put_back`` returns it to the head, so an abort loses nothing.
"""

import itertools
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import anyio
from msgspec import UNSET

from pi_rpc.agent.events import Queue, QueueItem
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.llm.messages import UserMessage

__all__ = ["MessageQueue", "QueueKind", "QueueMode", "QueuedMessage"]

QueueKind: TypeAlias = Literal["steer", "followUp"]
QueueMode: TypeAlias = Literal["one-at-a-time", "all"]


@dataclass(eq=False, slots=True)
class QueuedMessage:
    """A message that waits, and who wants to know what became of it."""

    item: QueueItem
    prompt: PromptInput
    message: UserMessage
    resolved: anyio.Event
    """Set when the message was taken by a run that settled, or was removed."""
    run: Any = None
    """The run that took it."""
    removed: bool = False


class MessageQueue:
    """Two first-in-first-out lines and what was taken from them but not delivered yet."""

    def __init__(self) -> None:
        self._waiting: dict[QueueKind, deque[QueuedMessage]] = {
            "steer": deque(),
            "followUp": deque(),
        }
        self._taken: dict[int, QueuedMessage] = {}
        self._numbers = itertools.count(1)
        self.modes: dict[QueueKind, QueueMode] = {
            "steer": "one-at-a-time",
            "followUp": "one-at-a-time",
        }

    def __len__(self) -> int:
        return sum(len(line) for line in self._waiting.values()) + len(self._taken)

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
        self._waiting[kind].append(queued)
        return queued

    def take(self, kind: QueueKind) -> list[QueuedMessage]:
        """The messages to deliver now: the oldest, or all, by the line's mode."""
        line = self._waiting[kind]
        count = len(line) if self.modes[kind] == "all" else min(1, len(line))
        taken = [line.popleft() for _ in range(count)]
        self._taken.update((id(queued.message), queued) for queued in taken)
        return taken

    def started(self, message: object) -> QueuedMessage | None:
        """The queued message behind ``message``, if it came from here."""
        return self._taken.get(id(message))

    def delivered(self, message: object) -> QueuedMessage | None:
        """``message`` is on disk: it can no longer be put back."""
        return self._taken.pop(id(message), None)

    def put_back(self) -> bool:
        """Return what was taken but not delivered to the head of its line; whether any was."""
        taken = list(self._taken.values())
        self._taken.clear()
        for queued in reversed(taken):
            self._waiting[queued.item.kind].appendleft(queued)
        return bool(taken)

    def clear(self) -> list[QueuedMessage]:
        """Remove everything that waits, steering first."""
        removed = [*self._waiting["steer"], *self._waiting["followUp"]]
        for line in self._waiting.values():
            line.clear()
        _resolve(removed)
        return removed

    def remove(self, item_id: str) -> QueuedMessage | None:
        """Remove one message that waits; None when it does not wait (any more)."""
        for line in self._waiting.values():
            for queued in line:
                if queued.item.id == item_id:
                    line.remove(queued)
                    _resolve([queued])
                    return queued
        return None

    def snapshot(self, *, without: QueuedMessage | None = None) -> Queue:
        """What waits, as clients see it; ``without`` leaves out one that is being delivered."""
        taken = [queued for queued in self._taken.values() if queued is not without]
        waiting = [*self._waiting["steer"], *self._waiting["followUp"]]
        return queue_of([*taken, *waiting])


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
