"""One client of the Agent Client Protocol: its state and the dispatch of what it asks.

Owns the lifecycle, the order in which requests of one session start, and what a failure is in this
protocol's codes. What a method does is in ``pi_rpc.acp.features``, what a client hears in
``pi_rpc.acp.stream``; framing, ids and cancellation are ``pi_rpc.jsonrpc``'s.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import Raw, Struct

from pi_rpc.acp.editor import ClientEditor
from pi_rpc.acp.elicitation import ClientAsker
from pi_rpc.acp.handshake import ClientCapabilities, InitializeParams, greeted
from pi_rpc.acp.permissions import ClientPermissions
from pi_rpc.acp.shapes import CancelParams
from pi_rpc.acp.stream import SessionStream
from pi_rpc.acp.terminal import ClientShell
from pi_rpc.acp.turns import Turns
from pi_rpc.harness.errors import HarnessError
from pi_rpc.host.host import Host, HostedSession, SessionOptions
from pi_rpc.host.outlet import Ticker
from pi_rpc.host.services import Services
from pi_rpc.host.storage import storage_failure
from pi_rpc.jsonrpc.asking import Asking
from pi_rpc.jsonrpc.errors import RpcError, error_of, invalid_request, method_not_found
from pi_rpc.jsonrpc.peer import BARRIER, Peer, Request
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.errors import ERRORS, ProtocolError
from pi_rpc.session.storage import SessionError

__all__ = ["Connection", "Feature"]

_log = logging.getLogger("pi_rpc.acp")

_AUTH_REQUIRED = -32000
_NOT_FOUND = -32002
_CODES = {
    "authRequired": _AUTH_REQUIRED,
    "modelRequired": _AUTH_REQUIRED,
    "sessionNotFound": _NOT_FOUND,
    "entryNotFound": _NOT_FOUND,
}
"""Where this protocol has a code of its own; the others are the native protocol's."""

_SETTLE_S = 1.0
"""How long runs may take to say how they ended, once the client has gone."""

Feature: TypeAlias = Callable[["Connection", Request], Awaitable[Any]]
"""What serves a method; decodes its own params, raises what ``Connection.error`` maps."""


class _Named(Struct, rename="camel"):
    session_id: Any = None


_named = msgspec.json.Decoder(_Named)


class Connection:
    """The ``Handler`` of this protocol (see ``pi_rpc.jsonrpc.peer``)."""

    def __init__(
        self,
        features: Mapping[str, Feature],
        services: Services,
        defaults: SessionOptions,
        task_group: TaskGroup,
        *,
        drain: bool = False,
    ) -> None:
        """``drain``: at the end of input finish what was accepted instead of aborting it."""
        self._features = features
        self.services = services
        self.defaults = defaults
        self._task_group = task_group
        self._drain = drain
        self._host: Host | None = None
        self._ticker = Ticker()
        self._streams: dict[HostedSession, SessionStream] = {}
        self.turns = Turns()
        self.peer: Peer | None = None
        self.asking: Asking | None = None
        self.client = ClientCapabilities()
        self.logged_out = False
        """The person has said that nothing more is to be asked of a model."""
        self.exit_code = 0

    # --- what features use -----------------------------------------------------------------------

    @property
    def host(self) -> Host:
        """The sessions; there after ``initialize``."""
        assert self._host is not None
        return self._host

    def stream(self, hosted: HostedSession) -> SessionStream:
        """What the client hears of an open session."""
        return self._streams[hosted]

    async def session(self, session_id: str) -> HostedSession:
        """The open session with this id. Raises ``sessionNotFound``."""
        if not self.host.has(session_id):
            text = f"no session {session_id!r} is open; session/load opens one that is stored"
            raise HarnessError("sessionNotFound", text)
        hosted = await self.host.get(session_id)
        # It may have been unloaded; the client knows it all the same.
        self.stream(hosted).release()
        return hosted

    def cancel(self, session_id: str) -> None:
        """Stop what goes on in a session; returns at once."""
        self.turns.cancel(session_id)
        for hosted in self._streams:
            if hosted.id == session_id:
                if hosted.harness.run is not None:
                    hosted.harness.run.abort()
                hosted.harness.clear_queue()

    def log_out(self) -> None:
        """Stop what goes on everywhere; nothing more is asked of a model."""
        self.logged_out = True
        for hosted in list(self._streams):
            self.cancel(hosted.id)

    # --- lifecycle -------------------------------------------------------------------------------

    def begin(self, params: InitializeParams) -> None:
        """``initialize`` was answered: from now on there are sessions."""
        assert self.peer is not None
        self.client = params.client_capabilities
        self.asking = Asking(self.peer, decode_params)
        self._host = Host(self.services, self.defaults, _current_directory(), self._task_group)
        self._host.on_open(self._open)
        self._host.on_close(self._leave)
        self._host.keep_while(lambda hosted: self.turns.is_going_on(hosted.id))
        self._task_group.start_soon(self._ticker.run)
        self._task_group.start_soon(self._host.watch_for_idle)

    def _open(self, hosted: HostedSession) -> None:
        assert self.peer is not None
        assert self.asking is not None
        stream = SessionStream(
            hosted,
            self.peer,
            self.client,
            ticker=self._ticker,
            sources=lambda: len(self._streams),
            services=self.services,
        )
        self._streams[hosted] = stream
        hosted.harness.permissions.asker = ClientPermissions(hosted, self.asking, stream)
        if self.client.fs.read_text_file:
            hosted.files.editor = ClientEditor(
                hosted,
                self.asking,
                can_edit=self.client.fs.write_text_file,
                timeout_s=self.services.settings.editor_timeout_s or None,
            )
        if self.client.terminal:
            hosted.shell.door = ClientShell(
                hosted, self.asking, stream, hosted.shell.own, self.services
            )
        if self.client.elicitation.form is not None:
            hosted.asker.door = ClientAsker(hosted, self.asking, stream)

    def _leave(self, hosted: HostedSession) -> None:
        hosted.asker.close()
        hosted.files.close()
        hosted.shell.close()
        hosted.harness.permissions.close()
        self._streams.pop(hosted).close()

    # --- the peer's handler ----------------------------------------------------------------------

    def ordering_key(self, method: str, params: Raw) -> str | None:
        """Requests of one session start in order; nothing starts before ``initialize`` is done."""
        if method == "initialize":
            return BARRIER
        if method not in self._features:
            return None
        try:
            session_id = _named.decode(params).session_id
        except (msgspec.MsgspecError, RecursionError):
            return None
        return f"session:{session_id}" if isinstance(session_id, str) else None

    async def request(self, request: Request) -> Any:
        """Serve one request."""
        if request.method == "initialize":
            if self._host is not None:
                raise invalid_request("initialize was sent already")
            params, result = greeted(request.params)
            self.begin(params)
            return result
        feature = self._features.get(request.method)
        if feature is None:
            raise method_not_found(request.method)
        if self._host is None:
            raise invalid_request("send initialize first")
        return await feature(self, request)

    def notification(self, method: str, params: Raw) -> None:
        """Take note of one notification; unknown ones are ignored."""
        if method == "session/cancel" and self._host is not None:
            try:
                self.cancel(decode_params(CancelParams, params).session_id)
            except msgspec.MsgspecError as error:
                _log.warning("session/cancel was ignored: %s", error)

    def error(self, exc: BaseException) -> RpcError:
        """What the client is told of a failure."""
        if isinstance(exc, SessionError):
            exc = storage_failure(exc)
        if isinstance(exc, HarnessError):
            code = _CODES.get(exc.kind, ERRORS[exc.kind].code)
            return RpcError(code, exc.message, exc.kind, exc.fields or None)
        if isinstance(exc, ProtocolError):
            return RpcError(exc.code, exc.message, exc.kind, exc.data)
        return error_of(exc)

    async def eof(self) -> None:
        """The client has nothing more to say: stop, or with ``drain`` finish first."""
        if self._host is None:
            return
        if self._drain and not self.exit_code:
            self._host.finish_all()
            await self._quiet()
            return
        self._host.stop_all()
        with anyio.move_on_after(_SETTLE_S):
            await self._quiet()

    async def _quiet(self) -> None:
        assert self.peer is not None
        await self.peer.answered()
        while self.host.is_running:
            await self.host.settled()
            await self.peer.answered()

    def stop(self) -> None:
        """Stop all work and end the connection; what is under way still says how it ended."""
        if self._host is not None:
            self._host.stop_all()
        if self.peer is not None:
            self.peer.close()

    async def aclose(self) -> None:
        """End every session and every child."""
        if self._host is not None:
            await self._host.aclose()


def _current_directory() -> Path:
    """The process's directory; the root when it has been removed."""
    try:
        return Path.cwd()
    except OSError:
        return Path(os.sep)
