"""That a run ends: signals, the time limit, and a reader that goes away.

Owns why a run has to end before it is done, and that it then does end, whatever hangs. Does not own
how a run is stopped: it is told by ``stops_with``. Children end with this process however it ends
(``pi_rpc._os.processes``).
"""

import os
import signal
import stat
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

import anyio
from anyio.abc import TaskStatus

from pi_rpc.headless.exit_codes import ExitCode

__all__ = ["Ending"]

_GRACE_S = 5.0
"""For stopping a run in good order: its file, its commands, its connection."""
_SIGNALS: Mapping[str, ExitCode] = {
    "SIGINT": ExitCode.INTERRUPTED,
    "SIGTERM": ExitCode.TERMINATED,
    "SIGHUP": ExitCode.HANGUP,
}


class Ending:
    """Why the process is to end, as soon as there is a reason."""

    def __init__(self) -> None:
        self.code: ExitCode | None = None
        """None: nothing ends it before it is done."""
        self.reason = ""
        """For people; empty where they know."""
        self._stop: Callable[[], None] = lambda: None
        self._guards: list[threading.Timer] = []

    def stops_with(self, stop: Callable[[], None]) -> None:
        """From now on ``stop`` stops what goes on; called at once where the end has come."""
        self._stop = stop
        if self.code is not None:
            stop()

    def end(self, code: ExitCode, reason: str = "") -> None:
        """End; the first reason counts."""
        if self.code is None:
            self.code, self.reason = code, reason
            self._exit_after(_GRACE_S, code)
            self._stop()

    async def watch_signals(self, *, task_status: TaskStatus[None]) -> None:
        """End with the first signal in good order, with the second at once; until cancelled."""
        numbers = {
            signal.Signals[name]: code for name, code in _SIGNALS.items() if hasattr(signal, name)
        }
        with anyio.open_signal_receiver(*numbers) as received:
            task_status.started()
            async for number in received:
                if self.code is not None:
                    os._exit(numbers[number])
                self.end(numbers[number])

    async def watch_time(self, seconds: float) -> None:
        """End when so many seconds have passed, even if nothing else gets its turn any more."""
        self._exit_after(seconds + _GRACE_S, ExitCode.TIMEOUT)
        await anyio.sleep(seconds)
        self.end(ExitCode.TIMEOUT, f"the time limit of {seconds:g} s was reached")

    async def watch_reader(self, descriptor: int) -> None:
        """End when the reader of a pipe goes away; until cancelled."""
        with suppress(OSError, ValueError):  # what cannot be watched is noticed when it is written
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                await anyio.wait_readable(descriptor)
                self.end(ExitCode.UNREAD)

    def close(self) -> None:
        """It has ended in good order."""
        for guard in self._guards:
            guard.cancel()

    def _exit_after(self, seconds: float, code: ExitCode) -> None:
        guard = threading.Timer(seconds, os._exit, (code,))
        guard.daemon = True
        guard.start()
        self._guards.append(guard)
