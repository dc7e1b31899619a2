"""The writing half of a byte stream: a reader that stalls never stops the event loop.

Owns the descriptor it writes to, the bytes that wait and the thread that writes what cannot be
written at once. Nothing asynchronous is imported before something is awaited here.
"""

import contextlib
import os
import select
import stat
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pi_rpc.jsonrpc._ready import wait_until_ready

if TYPE_CHECKING:
    import asyncio
    import socket

__all__ = ["LOW_WATER_BYTES", "Writer"]

LOW_WATER_BYTES = 256 * 1024
"""``drained`` returns when no more than this is waiting."""

_PIECE_BYTES = 16 * 1024
_TAKE_BYTES = 256 * 1024
_ATOMIC_BYTES: int = getattr(select, "PIPE_BUF", 512)


class Writer:
    """Bytes to a descriptor, in order. All methods are for the event loop's thread.

    ``on_broken`` is called once, in the event loop, when the other end has gone.
    """

    def __init__(self, fd: int, on_broken: Callable[[], None]) -> None:
        self._fd = fd
        self._on_broken = on_broken
        self._condition = threading.Condition()
        # Guarded by the condition.
        self._queue: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._written_bytes = 0
        self._has_waiters = False
        self._broken = False
        self._closed = False
        # Of the event loop's thread.
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._sent_bytes = 0
        self._gathered: list[bytes] = []
        """What this turn of the event loop brought; at most what a pipe takes in one piece."""
        self._gathered_bytes = 0
        self._in_turn = False
        """Something was written in this turn already."""
        self._connection: socket.socket | None = None
        self._write_at_once = self._quick_way(os.fstat(fd).st_mode)

    @property
    def waiting_bytes(self) -> int:
        """How much the system would not take yet."""
        return self._waiting_bytes

    @property
    def sent_bytes(self) -> int:
        """How much was given to ``write``, what waits included."""
        return self._sent_bytes

    @property
    def closed(self) -> bool:
        """Nothing more will be written: ``close`` was called, or the other end has gone."""
        return self._broken or self._closed

    def write_blocking(self, data: bytes) -> None:
        """Writes in this thread, however long it takes. Only before anything else was written."""
        try:
            self._write_all(data)
        except OSError:
            self._break_off()

    def write(self, data: bytes) -> None:
        """Writes or queues. Never blocks, never raises; after the end it does nothing.

        The first in a turn of the event loop is written at once, small ones that follow it together
        at the turn's end: each write wakes the other end, and there may be a hundred sessions.
        """
        if self._broken or self._closed or not data:
            return
        self._sent_bytes += len(data)
        if self._gathered_bytes + len(data) > _ATOMIC_BYTES:
            self._write_gathered()
        if self._in_turn and not self._waiting_bytes and len(data) <= _ATOMIC_BYTES:
            self._gathered.append(data)
            self._gathered_bytes += len(data)
            return
        if not self._in_turn:
            self._in_turn = True
            self._running_loop().call_soon(self._end_turn)
        self._write_now(data)

    def _end_turn(self) -> None:
        self._in_turn = False
        self._write_gathered()

    def _write_gathered(self) -> None:
        data = b"".join(self._gathered)
        self._gathered.clear()
        self._gathered_bytes = 0
        if data and not self.closed:
            self._write_now(data)

    def _write_now(self, data: bytes) -> None:
        if not self._waiting_bytes and self._write_at_once is not None:
            try:
                written = self._write_at_once(data)
            except OSError:
                self._break_off()
                return
            self._written_bytes += written
            if written == len(data):
                return
            data = data[written:]
        with self._condition:
            self._queue.append(data)
            self._waiting_bytes += len(data)
            self._condition.notify()
        if self._thread is None:
            self._running_loop()
            self._thread = threading.Thread(target=self._run, name="pi-rpc writer", daemon=True)
            self._thread.start()

    async def drained(self) -> None:
        """Returns when little is waiting, or nothing will be written any more."""
        await self._wait_until(LOW_WATER_BYTES)

    async def flush(self, stall_s: float) -> bool:
        """Waits until all is written, for as long as something goes out every ``stall_s`` seconds.

        Whether all has been written.
        """
        import anyio

        self._write_gathered()
        while self._waiting_bytes and not self.closed:
            before = self._written_bytes
            with anyio.move_on_after(stall_s):
                await self._wait_until(0)
            if self._written_bytes == before:
                break
        return not self._waiting_bytes and not self._broken

    def close(self) -> None:
        """Writes nothing more. What is waiting is dropped; ``flush`` first."""
        with self._condition:
            if self._closed:
                return
            self._closed = True
            self._queue.clear()
            self._condition.notify()
        if self._thread is None:
            self._close_fd()
        self._wake()

    # The event loop's side.

    def _running_loop(self) -> "asyncio.AbstractEventLoop":
        if self._loop is None:
            import asyncio

            self._loop = asyncio.get_running_loop()
        return self._loop

    async def _wait_until(self, limit: int) -> None:
        waiter = self._running_loop().create_future()
        with self._condition:
            if self._waiting_bytes <= limit or self.closed:
                return
            self._waiters.append((limit, waiter))
            self._has_waiters = True
        await waiter

    def _wake(self) -> None:
        with self._condition:
            ended = self.closed
            left = []
            for limit, waiter in self._waiters:
                if waiter.done():
                    continue
                if ended or self._waiting_bytes <= limit:
                    waiter.set_result(None)
                else:
                    left.append((limit, waiter))
            self._waiters = left
            self._has_waiters = bool(left)

    def _break_off(self) -> None:
        """The other end has gone. In the event loop's thread."""
        with self._condition:
            self._broken = True
            self._queue.clear()
            self._waiting_bytes = 0
        self._wake()
        self._on_broken()

    # Writing.

    def _quick_way(self, mode: int) -> Callable[[bytes], int] | None:
        """A way to write without waiting, that gives how many bytes went out; None: no way."""
        if stat.S_ISFIFO(mode) and hasattr(select, "poll"):
            poll = select.poll()
            poll.register(self._fd, select.POLLOUT)

            def to_pipe(data: bytes) -> int:
                # A pipe that is writable takes this much in one piece.
                if len(data) > _ATOMIC_BYTES or not poll.poll(0):
                    return 0
                try:
                    return os.write(self._fd, data)
                except BlockingIOError:
                    return 0

            return to_pipe
        if stat.S_ISSOCK(mode):
            return self._to_socket
        return None

    def _to_socket(self, data: bytes) -> int:
        import socket

        # What is shared with others cannot be made non-blocking as a whole, one call can.
        connection = self._connection = socket.socket(fileno=os.dup(self._fd))
        dont_wait = getattr(socket, "MSG_DONTWAIT", None)
        if dont_wait is None:
            self._write_at_once = None
            return 0

        def to_socket(data: bytes) -> int:
            try:
                return connection.send(data, dont_wait)
            except BlockingIOError:
                return 0

        self._write_at_once = to_socket
        return to_socket(data)

    def _run(self) -> None:
        """The thread: writes what waits, until the end."""
        try:
            while True:
                with self._condition:
                    while not self._queue and not self.closed:
                        self._condition.wait()
                    if self.closed:
                        return
                    pieces, size = [], 0
                    while self._queue and size < _TAKE_BYTES:
                        pieces.append(self._queue.popleft())
                        size += len(pieces[-1])
                self._write_all(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        except OSError:
            self._call_loop(self._break_off)
        finally:
            self._close_fd()

    def _write_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and not self._closed:
            try:
                written = os.write(self._fd, rest[:_PIECE_BYTES])
            except BlockingIOError:
                wait_until_ready(self._fd, for_writing=True)
                continue
            rest = rest[written:]
            if self._thread is None:
                continue
            with self._condition:
                self._written_bytes += written
                if not self._broken:
                    self._waiting_bytes -= written
                wake = self._has_waiters
            if wake:
                self._call_loop(self._wake)

    def _call_loop(self, callback: Callable[[], None]) -> None:
        # The loop may have ended; then nobody waits.
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(callback)

    def _close_fd(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._fd)
        if self._connection is not None:
            self._connection.close()
