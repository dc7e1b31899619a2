"""The latest events of a session as one receiver was sent them, for when it missed some.

Owns what is kept, what takes the place of what, and how far back it reaches. Frames are kept as
the bytes that were sent and never looked into; deltas are kept as text, merged by block. Does not
own numbering (``outlet``) nor what an answer looks like (the front door's).

A finished block takes the place of its deltas, a finished message those of blocks that never
finished, a finished tool call its updates, and an update that replaces the output of a call the
ones before it.
"""

from array import array
from collections import OrderedDict, defaultdict
from collections.abc import Hashable, Sequence
from itertools import accumulate
from typing import TypeAlias

from msgspec import UNSET, Struct

from pi_rpc.agent.events import (
    AgentEvent,
    MessageEnd,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionUpdate,
)
from pi_rpc.host.outlet import Numbered
from pi_rpc.llm.events import (
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
)

__all__ = ["MAX_BYTES", "MAX_EVENTS", "EventHistory", "Kept", "MergedDelta"]

MAX_EVENTS = 4096
MAX_BYTES = 256 * 1024

_DELTAS = (TextDelta, ThinkingDelta, ToolCallDelta)
_ENDS = (TextEnd, ThinkingEnd, ToolCallEnd)
_DELTA_BYTES = 8
"""What it costs to know where a delta ends."""
_PIECE_BYTES = 8 * 1024
"""Deltas of a block are joined when this much has come together."""


class MergedDelta(Struct, frozen=True):
    """Deltas of one block that came one after the other."""

    update: MessageUpdate
    """The first of them."""
    delta: str
    """What they add up to."""

    def goes_on(self, later: "MergedDelta") -> bool:
        """``later`` is of the same block."""
        mine, theirs = self.update, later.update
        this, that = mine.assistant_message_event, theirs.assistant_message_event
        return (
            type(this) is type(that)
            and this.content_index == that.content_index
            and mine.message_id == theirs.message_id
        )


Kept: TypeAlias = tuple[int, bytes | MergedDelta]
"""The number of an event, and its frame; of merged deltas the number of the last."""


class _Frame:
    """An event as it was sent."""

    __slots__ = ("block", "frame", "last", "size")

    def __init__(self, seq: int, frame: bytes, block: Hashable = None) -> None:
        self.last = seq
        self.frame = frame
        self.size = len(frame)
        self.block = block


class _Joined:
    """Deltas of one block, without a gap between them."""

    __slots__ = ("block", "ends", "first", "last", "size", "text", "update")

    def __init__(self, run: "_Growing") -> None:
        self.update = run.update
        self.block = (run.message, run.index)
        self.first = run.first
        self.last = run.first + len(run.pieces) - 1
        self.text = "".join(run.pieces)
        self.ends = array("Q", accumulate(map(len, run.pieces)))
        self.size = len(self.text.encode("utf-8", "replace")) + _DELTA_BYTES * len(self.ends)

    def after(self, seq: int) -> str:
        """What came after a number."""
        known = seq - self.first + 1
        return self.text[self.ends[known - 1] :] if known > 0 else self.text


class _Growing:
    """Deltas of one block that are still coming."""

    __slots__ = ("first", "index", "kind", "message", "pieces", "size", "update")

    def __init__(
        self, seq: int, update: MessageUpdate, news: TextDelta | ThinkingDelta | ToolCallDelta
    ) -> None:
        self.update = update
        self.first = seq
        self.kind = type(news)
        self.index = news.content_index
        self.message = update.message_id
        self.pieces = [news.delta]
        self.size = len(news.delta) + _DELTA_BYTES


class EventHistory:
    """What one receiver was sent of one session, as far back as the limits allow."""

    def __init__(self, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._kept: OrderedDict[int, _Frame | _Joined] = OrderedDict()
        """By the number of the first event of each; in order."""
        self._replaceable: defaultdict[Hashable, list[int]] = defaultdict(list)
        """What of a block or tool call something later takes the place of: keys of ``_kept``."""
        self._growing: _Growing | None = None
        self._size = 0
        self._lost = 0
        """The last event that was given up for want of room."""
        self._last = 0

    def add(self, numbered: Sequence[Numbered], frames: Sequence[bytes]) -> None:
        """These events were sent, each in the frame at its place."""
        growing = self._growing
        for place, (seq, event) in enumerate(numbered):
            if type(event) is MessageUpdate:
                news = event.assistant_message_event
                # The hot path: a delta more of the block that grows, compared by identity.
                if (
                    growing is not None
                    and type(news) is growing.kind
                    and event.message_id is growing.message
                    and news.content_index == growing.index
                    and growing.size < _PIECE_BYTES
                ):
                    delta: str = news.delta
                    growing.pieces.append(delta)
                    growing.size += len(delta) + _DELTA_BYTES
                    continue
                if isinstance(news, _DELTAS):
                    self._join()
                    growing = self._growing = _Growing(seq, event, news)
                    continue
            self._join()
            growing = None
            self._put(seq, event, frames[place])
        if numbered:
            self._last = numbered[-1][0]

    def since(self, seq: int) -> tuple[list[Kept], bool]:
        """The events after number ``seq``; and whether they are all that it takes to catch up.

        They are not when some have been given up, or when ``seq`` is ahead of what was sent.
        """
        self._join()
        found: list[Kept] = []
        for kept in self._kept.values():
            if kept.last <= seq:
                continue
            if isinstance(kept, _Frame):
                found.append((kept.last, kept.frame))
                continue
            delta = MergedDelta(kept.update, kept.after(seq))
            before_seq, before = found[-1] if found else (0, b"")
            # A gap in the numbers hides something that stood between them and was replaced.
            adjacent = before_seq == kept.first - 1
            if adjacent and isinstance(before, MergedDelta) and before.goes_on(delta):
                delta = MergedDelta(before.update, before.delta + delta.delta)
                found.pop()
            found.append((kept.last, delta))
        return found, self._lost <= seq <= self._last

    def _put(self, seq: int, event: AgentEvent, frame: bytes) -> None:
        block: Hashable = None
        match event:
            case MessageUpdate(message_id=message, assistant_message_event=news):
                if isinstance(news, _ENDS):
                    self._replace((message, news.content_index))
            case MessageEnd(message_id=message):
                for each in [key for key in self._replaceable if _is_of(key, message)]:
                    self._replace(each)
            case ToolExecutionUpdate(tool_call_id=call, partial_result=partial):
                block = call
                if partial.delta is UNSET:
                    self._replace(call)
            case ToolExecutionEnd(tool_call_id=call):
                self._replace(call)
            case _:
                pass
        self._keep(seq, _Frame(seq, frame, block))

    def _join(self) -> None:
        growing = self._growing
        if growing is not None:
            self._growing = None
            self._keep(growing.first, _Joined(growing))

    def _keep(self, key: int, kept: _Frame | _Joined) -> None:
        self._kept[key] = kept
        self._size += kept.size
        if kept.block is not None:
            self._replaceable[kept.block].append(key)
        while self._size > self._max_bytes or len(self._kept) > self._max_events:
            _, oldest = self._kept.popitem(last=False)
            self._size -= oldest.size
            self._lost = oldest.last
            if oldest.block is not None:
                keys = self._replaceable[oldest.block]
                del keys[0]
                if not keys:
                    del self._replaceable[oldest.block]

    def _replace(self, block: Hashable) -> None:
        for key in self._replaceable.pop(block, ()):
            self._size -= self._kept.pop(key).size


def _is_of(block: Hashable, message: object) -> bool:
    return isinstance(block, tuple) and block[0] == message
