"""PendingMessageQueue: messages that wait to be delivered, and when they count as delivered.

Owns the order and the modes of one queue. Pure: it decides, the loop delivers. Does not own who
asks it when (``pi_rpc.agent.loop``).

A message is *waiting*, then *in flight* once it was taken, then gone: when its ``message_end`` has
been announced (``delivered``). ``restore`` puts what is in flight back to the head, in its order,
so a run that ends in between loses nothing.
"""

from typing import Generic, Literal, TypeAlias, TypeVar

__all__ = ["PendingMessageQueue", "QueueMode"]

QueueMode: TypeAlias = Literal["one-at-a-time", "all"]
"""How much ``take`` takes: the oldest message, or every one."""

T = TypeVar("T")


class PendingMessageQueue(Generic[T]):
    """First in, first out, of messages or of what stands for them.

    They are told apart by identity, so equal ones may wait together.
    """

    def __init__(self, mode: QueueMode = "one-at-a-time") -> None:
        self.mode: QueueMode = mode
        self._waiting: list[T] = []
        self._in_flight: list[T] = []

    def __len__(self) -> int:
        return len(self._in_flight) + len(self._waiting)

    @property
    def waiting(self) -> list[T]:
        """What was not taken yet, oldest first; a copy."""
        return list(self._waiting)

    @property
    def in_flight(self) -> list[T]:
        """What was taken and not delivered yet, oldest first; a copy."""
        return list(self._in_flight)

    def push(self, message: T) -> None:
        """Put a message at the end."""
        self._waiting.append(message)

    def peek(self) -> list[T]:
        """What ``take`` would take."""
        return self._waiting[: self._batch_size]

    def take(self) -> list[T]:
        """Take what is due by the mode; it is in flight from now on."""
        taken = self.peek()
        del self._waiting[: len(taken)]
        self._in_flight += taken
        return taken

    def delivered(self, message: T) -> bool:
        """``message`` can no longer come back; False if it was not in flight."""
        return _discard(self._in_flight, message)

    def restore(self) -> bool:
        """Put what is in flight back to the head; True if there was anything."""
        restored = bool(self._in_flight)
        self._waiting[:0] = self._in_flight
        self._in_flight.clear()
        return restored

    def remove(self, message: T) -> bool:
        """Drop one message that waits; False if it does not wait (any more)."""
        return _discard(self._waiting, message)

    def clear(self) -> list[T]:
        """Drop what waits and give it back. What is in flight stays in flight."""
        dropped = self.waiting
        self._waiting.clear()
        return dropped

    @property
    def _batch_size(self) -> int:
        return 1 if self.mode == "one-at-a-time" else len(self._waiting)


def _discard(messages: list[T], message: T) -> bool:
    for index, each in enumerate(messages):
        if each is message:
            del messages[index]
            return True
    return False
