"""``--trace FILE``: every frame in both directions, as lines of JSON.

Owns the file, the thread that writes it, and the ``Transport`` that hands it what passes. Does not
own what must not be told (``pi_rpc.doors.masking``) nor how a trace is shown
(``pi_rpc.headless.trace``). Imported only when a trace is wanted; begins before there is an event
loop.

A line is ``{"time", "direction": "in" | "out", "bytes", "frame"}``, ``bytes`` as the frame was
before masking; ``text`` stands in place of ``frame`` for what is no JSON, ``problem`` for what was
not passed on. Two more kinds: ``{"time", "start": {"version", "pid"}}`` and
``{"time", "dropped": {"frames", "bytes"}}``, where the disk was too slow.
"""

import logging
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Raw

from pi_rpc import __version__
from pi_rpc.doors.masking import Masks
from pi_rpc.jsonrpc.framing import Frame, Framing
from pi_rpc.jsonrpc.stdio import OpeningTransport

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TraceFile", "TracedTransport"]

_log = logging.getLogger("pi_rpc.doors")

_WAITING_BYTES = 16 * 1024 * 1024
_WRITE_BYTES = 1024 * 1024
_CLOSE_S = 1.0

_Direction = Literal["in", "out"]
_Item = tuple[float, _Direction, Frame]


class TraceFile:
    """Takes frames without waiting; a thread writes them."""

    def __init__(self, path: "Path") -> None:
        """Opens or makes the file, for its owner only. Raises ``OSError``."""
        self.masks = Masks()
        """What is taken out; replaced before ``begin`` by whoever knows better."""
        self._path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        # A pipe that nobody reads is an error, not a reason to wait.
        self._fd = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o600)
        os.set_blocking(self._fd, True)
        if stat.S_ISREG(os.fstat(self._fd).st_mode) and hasattr(os, "fchmod"):
            os.fchmod(self._fd, 0o600)
        self._thread: threading.Thread | None = None
        self._condition = threading.Condition()
        # Guarded by the condition.
        self._waiting: deque[_Item] = deque()
        self._waiting_bytes = 0
        self._dropped = [0, 0]
        self._closed = False
        self._start = time.time()

    def record(self, direction: _Direction, frame: Frame) -> None:
        """Take a frame that passes now. Never blocks, never raises."""
        size = _size(frame)
        with self._condition:
            if self._closed:
                return
            if self._waiting_bytes > _WAITING_BYTES:
                self._dropped[0] += 1
                self._dropped[1] += size
                return
            self._waiting.append((time.time(), direction, frame))
            self._waiting_bytes += size
            self._condition.notify()

    def begin(self) -> None:
        """Write what was recorded, and from now on what is."""
        self._thread = threading.Thread(target=self._run, name="pi-rpc trace", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what is left, as far as that takes no time to speak of."""
        if self._thread is None:
            self.begin()
        assert self._thread is not None
        with self._condition:
            self._closed = True
            self._condition.notify()
        self._thread.join(_CLOSE_S)

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            start = {"version": __version__, "pid": os.getpid()}
            self._write(b'{"time":"%b","start":%b}\n' % (_iso(self._start), _json(start)))
            while batch := self._next():
                self._write(b"".join(batch))
        except Exception as error:  # noqa: BLE001 - the session goes on without its trace
            _log.warning("the trace %s ends here: %s", self._path, error)
            with self._condition:
                self._closed = True
                self._waiting.clear()
        finally:
            os.close(self._fd)

    def _next(self) -> list[bytes]:
        """Some lines to write; none at the end."""
        items: list[_Item] = []
        size = 0
        with self._condition:
            while not self._waiting and not self._closed:
                self._condition.wait()
            while self._waiting and size < _WRITE_BYTES:
                items.append(self._waiting.popleft())
                size += _size(items[-1][2])
            self._waiting_bytes -= size
            dropped, self._dropped = self._dropped, [0, 0]
        lines = [self._line(*item) for item in items]
        if dropped[0]:
            gap = {"frames": dropped[0], "bytes": dropped[1]}
            lines.append(b'{"time":"%b","dropped":%b}\n' % (_iso(time.time()), _json(gap)))
        return lines

    def _line(self, moment: float, direction: _Direction, frame: Frame) -> bytes:
        head = b'{"time":"%b","direction":"%b","bytes":%d' % (
            _iso(moment),
            direction.encode(),
            _size(frame),
        )
        if not isinstance(frame, bytes):
            return b'%b,"problem":%b}\n' % (head, _json(self.masks.text(frame.reason)))
        masked = self.masks.came(frame) if direction == "in" else self.masks.sent(frame)
        try:
            msgspec.json.decode(masked, type=Raw)
        except (msgspec.MsgspecError, RecursionError):
            return b'%b,"text":%b}\n' % (head, _json(masked.decode("utf-8", "replace")))
        if b"\n" in masked or b"\r" in masked:
            masked = msgspec.json.format(masked, indent=-1)
        return b'%b,"frame":%b}\n' % (head, masked)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]


class TracedTransport:
    """An ``OpeningTransport`` whose frames are recorded."""

    def __init__(self, transport: OpeningTransport, trace: TraceFile) -> None:
        self._transport = transport
        self._trace = trace
        self._read_again = 0

    @property
    def framing(self) -> Framing | None:
        return self._transport.framing

    @property
    def waiting_bytes(self) -> int:
        return self._transport.waiting_bytes

    @property
    def sent_bytes(self) -> int:
        return self._transport.sent_bytes

    @property
    def closed(self) -> bool:
        return self._transport.closed

    def read_first_frame(self) -> Frame | None:
        frame = self._transport.read_first_frame()
        if frame is not None:
            self._trace.record("in", frame)
        return frame

    def unread(self, frame: Frame) -> None:
        self._read_again += 1
        self._transport.unread(frame)

    def send_blocking(self, payload: bytes) -> None:
        self._trace.record("out", payload)
        self._transport.send_blocking(payload)

    async def receive(self) -> list[Frame] | None:
        frames = await self._transport.receive()
        for frame in (frames or ())[self._read_again :]:
            self._trace.record("in", frame)
        self._read_again = 0
        return frames

    def send(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            self._trace.record("out", payload)
        self._transport.send(payloads)

    async def drained(self) -> None:
        await self._transport.drained()

    async def flush(self, stall_s: float) -> bool:
        return await self._transport.flush(stall_s)

    def stop_reading(self) -> None:
        self._transport.stop_reading()

    def close(self) -> None:
        self._transport.close()


def _size(frame: Frame) -> int:
    return len(frame) if isinstance(frame, bytes) else 0


def _iso(moment: float) -> bytes:
    whole = int(moment)
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
    return f"{text}.{int((moment - whole) * 1_000_000):06d}Z".encode()


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)
