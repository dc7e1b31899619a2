"""The reading half of a byte stream: a daemon thread that cuts what it reads into frames.

Owns the descriptor it reads, the thread and the bounded queue between thread and event loop. Does
not look into frames. Nothing asynchronous is imported before ``receive`` is first awaited.
"""

import contextlib
import os
import select
import threading
from typing import TYPE_CHECKING

from pi_rpc.jsonrpc._ready import wait_until_ready
from pi_rpc.jsonrpc.framing import Frame, FrameDecoder

if TYPE_CHECKING:
    import asyncio

__all__ = ["Reader"]

_READ_BYTES = 64 * 1024
_QUEUE_BYTES = 1024 * 1024


class Reader:
    """Frames from a descriptor: blocking ones first, if wanted, then from a thread.

    The descriptor is closed at the end of input or after ``stop``.
    """

    def __init__(
        self,
        fd: int,
        decoder: FrameDecoder,
        at_end: "Callable[[asyncio.AbstractEventLoop], None] | None" = None,
    ) -> None:
        """``at_end`` is called in the thread when the input has ended."""
        self._fd = fd
        self._at_end = at_end
        self._decoder = decoder
        self._condition = threading.Condition()
        # Guarded by the condition.
        self._frames: list[Frame] = []
        self._queued_bytes = 0
        self._ended = False
        self._stopped = False
        # Of the event loop's thread.
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._wake_fds: tuple[int, int] | None = None

    def read_frame(self) -> Frame | None:
        """The next frame, waiting for it in this thread; None at the end of input.

        Only before ``receive`` has been called.
        """
        while not self._frames and not self._ended:
            self._queued_bytes = 0  # All were taken; nobody else would say so.
            self._take_in(self._read())
        return self._frames.pop(0) if self._frames else None

    def unread(self, frame: Frame) -> None:
        """Gives a frame back: it will be the next one."""
        with self._condition:
            self._frames.insert(0, frame)

    async def receive(self) -> list[Frame] | None:
        """The frames that have come, waiting for at least one; None at the end of input."""
        if self._loop is None:
            self._start()
        assert self._loop is not None
        if self._frames or self._ended:
            # Whoever floods us does not keep the others from running.
            import asyncio

            await asyncio.sleep(0)
        while not self._frames and not self._ended:
            self._waiter = self._loop.create_future()
            try:
                # Looked at again: the thread may have been quicker than the waiter.
                if not self._frames and not self._ended:
                    await self._waiter
            finally:
                self._waiter = None
        with self._condition:
            frames, self._frames = self._frames, []
            self._queued_bytes = 0
            self._condition.notify()
        return frames or None

    def stop(self) -> None:
        """Ends the input: ``receive`` gives what has been read, then None."""
        with self._condition:
            if self._stopped:
                return
            self._stopped = self._ended = True
            self._condition.notify()
            if self._wake_fds is not None:
                os.write(self._wake_fds[1], b"x")
        if self._thread is None:
            self._close()
        self._wake()

    def _start(self) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        if self._ended:
            return
        if hasattr(select, "poll"):
            self._wake_fds = os.pipe()
        self._thread = threading.Thread(target=self._run, name="pi-rpc reader", daemon=True)
        self._thread.start()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _run(self) -> None:
        try:
            wait = self._readiness()
            while wait():
                data = self._read(blocking=False)
                if data is not None and not self._take_in(data):
                    break
        finally:
            with self._condition:
                self._ended = True
            self._close()
            # The loop may be gone by now; then nobody waits.
            with contextlib.suppress(RuntimeError):
                assert self._loop is not None
                self._loop.call_soon_threadsafe(self._wake)
        if self._at_end is not None and self._loop is not None:
            self._at_end(self._loop)

    def _readiness(self) -> "_Wait":
        """To call before each read: waits for input; false when there is no more to do."""
        if self._wake_fds is None:
            return lambda: not self._stopped
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._wake_fds[0], select.POLLIN)

        def wait() -> bool:
            poll.poll()
            return not self._stopped

        return wait

    def _read(self, *, blocking: bool = True) -> bytes | None:
        """Some bytes; none at the end of input; None when a non-blocking one has nothing now."""
        while True:
            try:
                return os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                if not blocking:
                    return None
                wait_until_ready(self._fd, for_writing=False)
            except OSError:
                # A terminal that hung up, a connection that was reset: nothing more will come.
                return b""

    def _take_in(self, data: bytes | None) -> bool:
        """Puts the frames of these bytes into the queue. False: that was the end."""
        frames = self._decoder.feed(data) if data else self._decoder.eof()
        size = sum([len(frame) for frame in frames if isinstance(frame, bytes)])
        with self._condition:
            while self._queued_bytes > _QUEUE_BYTES and not self._stopped:
                self._condition.wait()
            if self._stopped:
                return False
            was_empty = not self._frames
            self._frames += frames
            self._queued_bytes += size
            self._ended = not data
        if self._loop is not None and frames and was_empty:
            try:
                self._loop.call_soon_threadsafe(self._wake)
            except RuntimeError:
                return False
        return bool(data)

    def _close(self) -> None:
        with self._condition:
            for fd in (self._fd, *(self._wake_fds or ())):
                with contextlib.suppress(OSError):
                    os.close(fd)
            self._wake_fds = None


if TYPE_CHECKING:
    from collections.abc import Callable

    _Wait = Callable[[], bool]
