"""A daemon of our own, as a child process that is spoken to over its pipes.

Owns the process and the connection. Does not own what is said.
"""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import anyio
from anyio.abc import TaskGroup
from msgspec import Raw

from pi_rpc.jsonrpc.errors import RpcError, error_of, method_not_found
from pi_rpc.jsonrpc.framing import Framing
from pi_rpc.jsonrpc.peer import Peer, Request
from pi_rpc.jsonrpc.stdio import StdioTransport

__all__ = ["DaemonProcess"]

_END_S = 5.0


class _Client:
    """Takes notifications; answers no requests."""

    def __init__(self, on_notification: Callable[[str, Raw], None]) -> None:
        self._on_notification = on_notification

    def ordering_key(self, method: str, params: Raw) -> str | None:
        del method, params
        return None

    async def request(self, request: Request) -> Any:
        raise method_not_found(request.method)

    def notification(self, method: str, params: Raw) -> None:
        self._on_notification(method, params)

    def error(self, exc: BaseException) -> RpcError:
        return error_of(exc)

    async def eof(self) -> None:
        pass


class DaemonProcess:
    """``async with DaemonProcess(argv, environ, on_notification) as peer``: a connected daemon."""

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        on_notification: Callable[[str, Raw], None],
    ) -> None:
        self._argv = argv
        self._environ = environ
        self._client = _Client(on_notification)
        self._process: subprocess.Popen[bytes] | None = None
        self._peer: Peer | None = None
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> Peer:
        pipe = subprocess.PIPE
        process = subprocess.Popen(self._argv, stdin=pipe, stdout=pipe, env=dict(self._environ))  # noqa: ASYNC220 - a fork and exec, once
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        # The transport owns its descriptors, so it gets its own.
        in_fd, out_fd = os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno())
        process.stdout.close()
        process.stdin.close()
        transport = StdioTransport(in_fd, out_fd, framing=Framing.HEADERS)
        self._peer = Peer(transport, self._client)
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._peer.serve)
        return self._peer

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        assert self._process is not None
        assert self._peer is not None
        assert self._tasks is not None
        self._peer.close()
        with anyio.move_on_after(_END_S, shield=True):
            await anyio.to_thread.run_sync(self._process.wait, abandon_on_cancel=True)
        if self._process.poll() is None:
            self._process.kill()
        return await self._tasks.__aexit__(kind, error, traceback)
