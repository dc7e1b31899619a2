"""The daemon's process, as its client sees it.

Owns starting it, the end of its standard error, and its end: whatever becomes of this process, the
daemon and all it started end with it (``pi_rpc._os.processes``). Does not own what is said."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from pi_rpc._os.pipes import OutputPipe
from pi_rpc._os.processes import Child, spawn
from pi_rpc.jsonrpc.framing import Framing
from pi_rpc.jsonrpc.stdio import StdioTransport

__all__ = ["DaemonProcess", "daemon_process"]

_STDERR_BYTES = 8 * 1024
_LAST_WORDS_S = 0.5


class DaemonProcess:
    """One that runs, or ran."""

    def __init__(self, child: Child, transport: StdioTransport, stderr: OutputPipe) -> None:
        self.transport = transport
        """What is said to it and by it."""
        self._ended = anyio.Event()
        self._child = child
        self._pipe = stderr
        self._tail = b""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code, 128 + n when signal n ended it; None while it runs."""
        return self._child.exit_code

    @property
    def stderr(self) -> str:
        """The end of what it has written to its standard error."""
        return self._tail.decode("utf-8", "replace")

    async def watch(self) -> None:
        """Collect what it says on its standard error, until it ends; then end what it left."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listen)
                await self._child.wait()
                # A pipe that some child of its keeps open would keep us waiting for more.
                await self._child.end_tree(0)
                tasks.cancel_scope.deadline = anyio.current_time() + _LAST_WORDS_S
        finally:
            self._ended.set()

    async def end(self, grace_s: float) -> None:
        """Wait so long for it to end by itself, then end it and all it started, and wait for its
        last words."""
        with anyio.move_on_after(grace_s):
            await self._child.wait()
        await self._child.end_tree()
        with anyio.move_on_after(_LAST_WORDS_S):
            await self._ended.wait()

    async def _listen(self) -> None:
        while text := await self._pipe.read():
            self._tail = (self._tail + text)[-_STDERR_BYTES:]


@asynccontextmanager
async def daemon_process(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str]
) -> AsyncIterator[DaemonProcess]:
    """Start it; nothing of it is left at the end. Raises ``OSError`` when it cannot be started."""
    stdin, to_daemon = os.pipe()
    from_daemon, stdout = os.pipe()
    transport = StdioTransport(from_daemon, to_daemon, framing=Framing.HEADERS)
    try:
        with OutputPipe() as stderr:
            try:
                child = await spawn(
                    argv, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr.write_fd
                )
            finally:
                os.close(stdin)
                os.close(stdout)
                stderr.close_write()
            async with child:
                yield DaemonProcess(child, transport, stderr)
    finally:
        transport.close()
