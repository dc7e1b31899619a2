"""Requests of ours that wait for an answer.

Owns their ids, which share no table with the other end's. Does not send.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from msgspec import Raw

from pi_rpc.jsonrpc.errors import PeerClosedError, RpcError

__all__ = ["Outbound", "Pending"]


_ID_LENGTH = 16
"""More than any id of ours has."""


class Pending:
    """One request of ours."""

    __slots__ = ("_error", "_event", "_result", "id")

    def __init__(self, id: str) -> None:
        self.id = id
        self._event = anyio.Event()
        self._result: Raw | None = None
        self._error: Exception | None = None

    @property
    def settled(self) -> bool:
        """It has been answered, or never will be."""
        return self._event.is_set()

    @property
    def result(self) -> bytes:
        """What it was answered with; nothing where there is no result."""
        return b"" if self._result is None else bytes(self._result)

    @property
    def error(self) -> RpcError | None:
        """The error it was answered with."""
        return self._error if isinstance(self._error, RpcError) else None

    def succeed(self, result: Raw) -> None:
        """It was answered with a result. Only the first outcome counts."""
        if not self.settled:
            self._result = result
            self._event.set()

    def fail(self, error: Exception) -> None:
        """It was answered with an error, or cannot be answered. Only the first outcome counts."""
        if not self.settled:
            self._error = error
            self._event.set()

    async def wait(self) -> Raw:
        """The result; raises what it failed with."""
        await self._event.wait()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result


class Outbound:
    """The table of them."""

    def __init__(self) -> None:
        self._pending: dict[str, Pending] = {}
        self._last = 0
        self._closed = False

    @contextmanager
    def open(self) -> Iterator[Pending]:
        """A new one, forgotten at the end. Raises PeerClosedError when nobody can answer."""
        if self._closed:
            raise PeerClosedError("The connection has ended")
        self._last += 1
        # A string, so that a client with one table for both directions is not confused.
        pending = Pending(f"d{self._last}")
        self._pending[pending.id] = pending
        try:
            yield pending
        finally:
            del self._pending[pending.id]

    def find(self, id: float | str | None) -> Pending | None:
        """The one with this id, unless it has been forgotten."""
        return self._pending.get(id) if isinstance(id, str) else None

    def settle(self, id: float | str | None, result: Raw, error: RpcError | None) -> bool:
        """An answer came. False: nobody waits for it."""
        pending = self.find(id)
        if pending is None:
            return False
        if error is None:
            pending.succeed(result)
        else:
            pending.fail(error)
        return True

    def was_asked(self, id: float | str | None) -> bool:
        """It is the id of a request of ours, perhaps of one that nobody waits for any more."""
        if not (isinstance(id, str) and id.startswith("d") and id[1:].isdecimal()):
            return False
        return len(id) <= _ID_LENGTH and 1 <= int(id[1:]) <= self._last

    def close(self) -> None:
        """No answer will come any more: wakes everybody."""
        self._closed = True
        for pending in self._pending.values():
            pending.fail(PeerClosedError("The connection ended before the request was answered"))
