"""Updates of a running tool that wait for whoever is to hear them, as few as they can be.

Owns how updates of one call become one: new output is added to what waits, within a limit, and a
replacement takes the place of all that was said before. Does not own when updates have to wait
(``pi_rpc.agent._outbox`` in the loop, ``pi_rpc.host.outlet`` for each receiver).
"""

from collections import deque

from msgspec import UNSET, UnsetType, structs

from pi_rpc.agent.events import ToolExecutionUpdate

__all__ = ["WAITING_LIMIT", "WaitingUpdates"]

WAITING_LIMIT = 256 * 1024
"""How much new output of one call, in characters, may wait; of more, the beginning is left out."""


class WaitingUpdates:
    """Updates of one call.

    Keep it for as long as it says ``lossy`` and give it every further update of the call: it knows
    what ``omitted_bytes`` has to count in addition to what the tool itself has left out.
    """

    __slots__ = ("_added", "_last", "_left_out", "_news", "_omitted", "_size", "_whole")

    def __init__(self) -> None:
        self._whole: ToolExecutionUpdate | None = None
        self._added: deque[str] = deque()
        self._size = 0
        self._last: ToolExecutionUpdate | None = None
        self._omitted = 0
        self._left_out = 0
        self._news = False

    @property
    def lossy(self) -> bool:
        """Output was left out here since the last replacement."""
        return self._left_out > 0

    @property
    def size(self) -> int:
        """How many characters of new output wait."""
        return self._size

    def add(self, update: ToolExecutionUpdate) -> None:
        """Take an update in."""
        partial = update.partial_result
        if isinstance(partial.delta, UnsetType):
            self._whole = update
            self._added.clear()
            self._size = self._omitted = self._left_out = 0
            self._last, self._news = None, False
            return
        self._last = update
        self._added.append(partial.delta)
        self._size += len(partial.delta)
        if not isinstance(partial.omitted_bytes, UnsetType):
            self._omitted, self._news = partial.omitted_bytes, True
        while self._size > WAITING_LIMIT:
            self._shorten()

    def take(self) -> list[ToolExecutionUpdate]:
        """What there is to say: a replacement, one update with new output, or both in this order.

        Nothing waits afterwards.
        """
        said = [self._whole] if self._whole is not None else []
        if self._last is not None:
            said.append(self._joined(self._last))
        self._whole = self._last = None
        self._added.clear()
        self._size, self._news = 0, False
        return said

    def _joined(self, last: ToolExecutionUpdate) -> ToolExecutionUpdate:
        if len(self._added) == 1 and not self._left_out:
            return last
        partial = structs.replace(
            last.partial_result,
            delta="".join(self._added),
            omitted_bytes=self._omitted + self._left_out if self._news else UNSET,
        )
        return structs.replace(last, partial_result=partial)

    def _shorten(self) -> None:
        """Leave out the first of what waits, or of that the part that is too much."""
        first = self._added.popleft()
        cut = min(len(first), self._size - WAITING_LIMIT)
        if cut < len(first):
            self._added.appendleft(first[cut:])
        self._size -= cut
        self._left_out += len(first[:cut].encode("utf-8", "surrogatepass"))
        self._news = True
