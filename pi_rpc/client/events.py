"""Events of a session as a client iterates over them.

Owns decoding them, and what waits for a consumer that is slower than the daemon. Reading from the
daemon never waits for a consumer: what is too much is dropped, the oldest first, and told."""

from collections import deque
from typing import Any, Self, TypeAlias

import anyio
import msgspec
from msgspec import Raw, Struct

from pi_rpc.protocol.events import WireEvent
from pi_rpc.protocol.messages import MESSAGE_TYPES
from pi_rpc.protocol.methods import EVENTS

__all__ = ["Events", "Missed", "SessionEvent", "UnknownEvent", "with_known_messages"]

WAITING_BYTES = 8 * 1024 * 1024
"""How much JSON may wait for a consumer."""


class UnknownEvent(Struct, frozen=True):
    """An event of a type, or of a shape, that this version does not know."""

    type: str
    """Its type."""
    raw: bytes
    """Its JSON text."""


class Missed(Struct, frozen=True):
    """Events were dropped here, because the consumer was too slow.

    ``session.missed_events(after_seq)`` may still give them; ``session.messages()`` and
    ``session.state(include=["live"])`` give the whole picture."""

    after_seq: int
    """The number of the last event before them."""
    up_to_seq: int
    """The number of the last of them."""


SessionEvent: TypeAlias = WireEvent | UnknownEvent | Missed


class _Tagged(Struct):
    type: str = ""


class Events:
    """The events of one session from now on: iterate over it, in one task.

    Ends when the session is closed, deleted or the client is closed, after what was received before
    that; raises ``DaemonEnded`` when the daemon ends by itself. ``close`` it, or use it in a
    ``with``, when no more is wanted; one that is dropped ends by itself. At most ``limit_bytes`` of
    JSON wait: beyond that the oldest are dropped, and a ``Missed`` stands in their place."""

    def __init__(self, limit_bytes: int) -> None:
        self.last_seq = 0
        """The number of the last event that was given out; 0 before the first."""
        self._limit_bytes = limit_bytes
        self._waiting: deque[tuple[int, Raw, int]] = deque()
        self._waiting_bytes = 0
        self._missed: Missed | None = None
        self._ended = False
        self._failure: Exception | None = None
        self._came = anyio.Event()

    def close(self) -> None:
        """Forget what waits; the iteration ends."""
        self._waiting.clear()
        self._missed = None
        self.end()

    def put(self, seq: int, event: Raw) -> None:
        """An event came. Never blocks."""
        if self._ended:
            return
        size = len(memoryview(event))
        self._waiting.append((seq, event, size))
        self._waiting_bytes += size
        while self._waiting_bytes > self._limit_bytes and len(self._waiting) > 1:
            self._drop_oldest()
        self._came.set()

    def end(self, failure: Exception | None = None) -> None:
        """No more will come, or ``failure`` is raised after what waits. The first call counts."""
        if not self._ended:
            self._ended = True
            self._failure = failure
            self._came.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionEvent:
        while not self._waiting:
            if self._ended:
                if self._failure is not None:
                    raise self._failure
                raise StopAsyncIteration
            self._came = anyio.Event()
            await self._came.wait()
        if self._missed is not None:
            missed, self._missed = self._missed, None
            self.last_seq = missed.up_to_seq
            return missed
        self.last_seq, event, size = self._waiting.popleft()
        self._waiting_bytes -= size
        return _decoded(event)

    def _drop_oldest(self) -> None:
        seq, _, size = self._waiting.popleft()
        self._waiting_bytes -= size
        after_seq = self._missed.after_seq if self._missed else self.last_seq or seq - 1
        self._missed = Missed(after_seq, seq)


def _decoded(raw: Raw) -> WireEvent | UnknownEvent:
    kind = msgspec.json.decode(raw, type=_Tagged).type
    if known := EVENTS.get(kind):
        try:
            event: WireEvent = with_known_messages(msgspec.json.decode(raw, type=known.struct))
            return event
        except msgspec.ValidationError:
            # A newer daemon means more by the type than this client knows.
            return UnknownEvent(kind, bytes(raw))
    return UnknownEvent(kind, bytes(raw))


_MESSAGES: dict[str, type[Struct]] = {
    str(struct.__struct_config__.tag): struct for struct in MESSAGE_TYPES
}


def with_known_messages(value: Any) -> Any:
    """An event or result with its ``message`` or ``messages`` as structs of their roles.

    What has an unknown role or shape, or was cut (``truncated``), stays plain JSON."""
    changed: dict[str, Any] = {}
    if isinstance(message := getattr(value, "message", None), dict):
        changed["message"] = _known_message(message)
    if isinstance(messages := getattr(value, "messages", None), list):
        changed["messages"] = [_known_message(each) for each in messages]
    return msgspec.structs.replace(value, **changed) if changed else value


def _known_message(message: Any) -> Any:
    if not isinstance(message, dict) or message.get("truncated"):
        return message
    struct = _MESSAGES.get(str(message.get("role")))
    if struct is None:
        return message
    try:
        return msgspec.convert(message, type=struct)
    except msgspec.ValidationError:
        return message
