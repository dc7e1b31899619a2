"""A client of the daemon: one process, one connection.

Owns the connection's life (start, ``initialize``, end) and what is about the daemon rather than one
session. Does not own sessions (``pi_rpc.client.session``), nor the protocol."""

import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack, overload

import anyio
import msgspec
from msgspec import UNSET, UnsetType

from pi_rpc import __version__
from pi_rpc.client import options
from pi_rpc.client._incoming import Handler, Incoming, capabilities
from pi_rpc.client._process import DaemonProcess, daemon_process
from pi_rpc.client.errors import DaemonEnded
from pi_rpc.client.events import with_known_messages
from pi_rpc.client.session import Session
from pi_rpc.jsonrpc.peer import Peer, PeerClosedError, RpcError
from pi_rpc.protocol import auth, commands, requests
from pi_rpc.protocol.base import Empty, SessionNewParams
from pi_rpc.protocol.handshake import (
    ClientInfo,
    EventPreferences,
    InitializeParams,
    InitializeResult,
)
from pi_rpc.protocol.permissions import (
    PermissionForgetParams,
    PermissionListParams,
    PermissionListResult,
)
from pi_rpc.protocol.session_files import SessionDeleteParams
from pi_rpc.protocol.state import SessionState
from pi_rpc.protocol.statistics import ServerStatsResult

__all__ = ["PiRpc"]

R = TypeVar("R")

# Not from the working directory, where somebody else's pi_rpc may be.
_ARGV = (sys.executable, "-P", "-m", "pi_rpc", "--stdio")
_START_S = 30.0
# Shutdown, the exit after it and, if need be, signals: two seconds at most in all.
_SHUTDOWN_S = 0.5
_EXIT_S = 0.7


class PiRpc:
    """A connected client. Make one with ``PiRpc.spawn``.

    Requests raise ``RpcError`` for an error response (``kind`` tells which), ``DaemonEnded`` when
    the daemon ends before it answers, and ``msgspec.ValidationError`` for an answer that has not
    the shape this version expects. Cancelling the task that waits for an answer cancels the
    request: of ``prompt`` the run, too. What is not given is not sent: see the params struct of the
    method in ``pi_rpc.protocol`` for what that means."""

    def __init__(self, process: DaemonProcess, handlers: Mapping[str, Handler]) -> None:
        self.process = process
        """The daemon's process: its ``pid``, ``exit_code`` and the end of its ``stderr``."""
        self.incoming = Incoming(handlers)
        self._peer = Peer(process.transport, self.incoming, grace_s=0, flush_s=0.2)
        self._closed = False
        self._server: InitializeResult | None = None

    @classmethod
    @asynccontextmanager
    async def spawn(
        cls,
        argv: Sequence[str] | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        handlers: Mapping[str, Handler] | None = None,
        session: SessionNewParams | None = None,
        events: EventPreferences | None = None,
        start_timeout_s: float = _START_S,
        **initialize: Any,
    ) -> AsyncIterator[Self]:
        """Start a daemon and initialize it; at the end it is closed.

        ``argv``: the program and its arguments; absent: ``pi-rpc --stdio`` of this Python. ``cwd``:
        where it works; absent: here. ``env``: its whole environment; absent: ours. ``handlers``:
        what answers requests of the daemon and hears its notifications, by method; what they can do
        is declared by itself. ``session``: how the default session begins. ``events``: which events
        are wanted, and how. ``initialize``: further fields of ``InitializeParams``.

        Raises ``OSError`` when the program cannot be started, ``TimeoutError`` when it does not
        answer within ``start_timeout_s``, ``ValueError`` for a handler of what is never sent, and
        what a request raises."""
        handlers, here = handlers or {}, _absolute(cwd)
        params = InitializeParams(
            **{
                "process_id": os.getpid(),
                "client_info": ClientInfo(name="pi_rpc.client", version=__version__),
                "cwd": str(here),
                "capabilities": capabilities(handlers, events or EventPreferences()),
                "initialization_options": UNSET if session is None else {"session": session},
                **initialize,
            }
        )
        failure = None
        async with daemon_process(argv or _ARGV, here, env or os.environ) as process:
            client = cls(process, handlers)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(process.watch)
                tasks.start_soon(client._serve)
                try:
                    with anyio.fail_after(start_timeout_s):
                        client._server = await client._begin(params)
                    yield client
                except Exception as error:  # noqa: BLE001 - raised below, out of the task group
                    failure = error
                finally:
                    await client.close()
        if failure is not None:
            raise failure

    @property
    def server(self) -> InitializeResult:
        """What the daemon said of itself."""
        assert self._server is not None
        return self._server

    async def close(self) -> None:
        """End the daemon and all it started, within two seconds. May be called again."""
        first, self._closed = not self._closed, True
        with anyio.CancelScope(shield=True):
            if first:
                with anyio.move_on_after(_SHUTDOWN_S), suppress(PeerClosedError, RpcError):
                    await self._peer.request("shutdown", None)
                self._peer.notify("exit", None)
            await self.process.end(_EXIT_S)

    @overload
    async def request(self, method: str, params: Any = None) -> Any: ...

    @overload
    async def request(self, method: str, params: Any, result: type[R]) -> R: ...

    async def request(self, method: str, params: Any = None, result: Any = Any) -> Any:
        """Ask the daemon anything. ``params``: a struct or plain JSON. ``result``: the type of the
        answer; absent: plain JSON."""
        try:
            raw = await self._peer.request(method, params)
        except PeerClosedError:
            raise await self._end_of_daemon(f"before it had answered `{method}`") from None
        return with_known_messages(msgspec.json.decode(raw, type=result))

    def notify(self, method: str, params: Any = None) -> None:
        """Tell the daemon something, such as ``editor/didChange``. Nothing once it has ended."""
        self._peer.notify(method, params)

    async def _begin(self, params: InitializeParams) -> InitializeResult:
        return await self.request("initialize", params, InitializeResult)

    async def _serve(self) -> None:
        try:
            await self._peer.serve()
        finally:
            with anyio.CancelScope(shield=True):
                failure = await self._end_of_daemon("while events were awaited")
                self.incoming.end(None if self._closed else failure)

    async def _end_of_daemon(self, when: str) -> DaemonEnded:
        """What to tell those who wait: its output has ended."""
        closed = self._closed
        if not closed:
            # It ends by itself, or does nothing any more that anybody could hear of.
            await self.process.end(_EXIT_S)
        return DaemonEnded(when, None if closed else self.process.exit_code, self.process.stderr)

    # Sessions.

    def session(self, session_id: str) -> Session:
        """A session whose id is known, open or not."""
        return Session(self, session_id)

    async def default_session(self) -> Session:
        """The connection's default session, begun with its first use."""
        return self._session(await self.request("session/state", None, SessionState))

    async def new_session(self, **more: Unpack[options.NewSessionOptions]) -> Session:
        """Begin a session."""
        params = SessionNewParams(**more)
        return self._session(await self.request("session/new", params, SessionState))

    async def open_session(self, **which: Unpack[options.OpenSessionOptions]) -> Session:
        """Open a stored session, by its ``session_id`` or its file, ``path``."""
        params = requests.SessionOpenParams(**which)
        return self._session(await self.request("session/open", params, SessionState))

    async def list_sessions(
        self, **page: Unpack[options.SessionListOptions]
    ) -> requests.SessionListResult:
        """Stored sessions, the last used first, a page at a time."""
        params = requests.SessionListParams(**page)
        return await self.request("session/list", params, requests.SessionListResult)

    async def delete_session(self, session_id: str) -> None:
        """Move the file of a session to the trash."""
        params = SessionDeleteParams(session_id=session_id)
        await self.request("session/delete", params, Empty)
        self.incoming.end_session(session_id)

    def _session(self, state: SessionState) -> Session:
        return Session(self, state.session_id)

    # The daemon.

    async def list_models(
        self, **page: Unpack[options.ModelListOptions]
    ) -> requests.ModelListResult:
        """The models that are known."""
        params = requests.ModelListParams(**page)
        return await self.request("model/list", params, requests.ModelListResult)

    async def trust(self, cwd: str | UnsetType = UNSET) -> commands.TrustResult:
        """Whether a project's own settings, skills, prompts and extensions are loaded."""
        params = commands.TrustParams(cwd=cwd)
        return await self.request("trust/get", params, commands.TrustResult)

    async def set_trust(
        self, trusted: bool | UnsetType = UNSET, *, cwd: str | UnsetType = UNSET
    ) -> commands.TrustResult:
        """Decide about a project."""
        params = commands.TrustSetParams(trusted=trusted, cwd=cwd)
        return await self.request("trust/set", params, commands.TrustResult)

    async def auth_status(self, provider: str | UnsetType = UNSET) -> auth.AuthStatusResult:
        """Where the keys of providers come from, and whether they can be used."""
        params = auth.AuthStatusParams(provider=provider)
        return await self.request("auth/status", params, auth.AuthStatusResult)

    async def set_auth(
        self, provider: str, **key: Unpack[options.AuthOptions]
    ) -> auth.AuthSetResult:
        """Store a provider's key, or where to find it."""
        params = auth.AuthSetParams(provider=provider, **key)
        return await self.request("auth/set", params, auth.AuthSetResult)

    async def remove_auth(self, provider: str) -> auth.AuthRemoveResult:
        """Forget a provider's stored key or login."""
        params = auth.AuthRemoveParams(provider=provider)
        return await self.request("auth/remove", params, auth.AuthRemoveResult)

    async def list_permissions(self, cwd: str | UnsetType = UNSET) -> PermissionListResult:
        """What may be done without asking: rules and remembered answers."""
        params = PermissionListParams(cwd=cwd)
        return await self.request("permission/list", params, PermissionListResult)

    async def forget_permission(self, id: str, *, cwd: str | UnsetType = UNSET) -> None:
        """Forget an answer that was remembered."""
        params = PermissionForgetParams(id=id, cwd=cwd)
        await self.request("permission/forget", params, Empty)

    async def stats(self) -> ServerStatsResult:
        """What the daemon has done so far, and what it takes up."""
        return await self.request("server/stats", None, ServerStatsResult)

    async def ping(self) -> None:
        """See that the daemon answers."""
        await self.request("ping", None, Empty)


def _absolute(path: str | os.PathLike[str] | None) -> Path:
    return Path(path or "").absolute()
