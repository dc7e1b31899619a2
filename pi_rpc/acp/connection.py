"""One client of the Agent Client Protocol: its state and the dispatch of what it asks.

Owns the lifecycle, the order in which requests of one session start, and what a failure is in this
protocol's codes. What a method does is in ``pi_rpc.acp.features``, what a client hears in
``pi_rpc.acp.stream``; framing, ids and cancellation are ``pi_rpc.jsonrpc``'s.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec
from anyio.abc import TaskGroup
from msgspec import Raw, Struct, field

from pi_rpc.acp.editor import ClientEditor
from pi_rpc.acp.elicitation import ClientAsker
from pi_rpc.acp.handshake import ClientCapabilities, InitializeParams, greet
from pi_rpc.acp.permissions import ClientPermissions
from pi_rpc.acp.shapes import CancelParams
from pi_rpc.acp.stream import SessionStream
from pi_rpc.acp.terminal import ClientShell
from pi_rpc.acp.turns import Turns
from pi_rpc.doors.connection import DoorConnection, current_directory
from pi_rpc.harness.errors import HarnessError
from pi_rpc.host.host import HostedSession, SessionOptions
from pi_rpc.host.outlet import Ticker
from pi_rpc.host.services import Services
from pi_rpc.jsonrpc.asking import Asking
from pi_rpc.jsonrpc.errors import invalid_request, method_not_found
from pi_rpc.jsonrpc.peer import BARRIER, Peer, Request
from pi_rpc.protocol.decode import decode_params

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

Feature: TypeAlias = Callable[["Connection", Request], Awaitable[Any]]
"""What serves a method; decodes its own params, raises what ``Connection.error`` maps."""


class _Named(Struct, rename="camel"):
    session_id: Any = None


class _Beside(Struct):
    meta: Any = field(default=None, name="_meta")


_named = msgspec.json.Decoder(_Named)
_beside = msgspec.json.Decoder(_Beside)


class Connection(DoorConnection[InitializeParams]):
    """The ``Handler`` of this protocol. It names no process of the client's and knows no ``exit``:
    its end is the end of input."""

    OWN_ENDS = frozenset({"session/prompt", "_pi/compact", "_pi/branch"})
    ENDS_OTHERS = frozenset({"session/close", "session/delete"})
    TAKES_BACK = ("$/cancel_request", "requestId")

    asking: Asking

    def __init__(
        self,
        features: Mapping[str, Feature],
        services: Services,
        defaults: SessionOptions,
        task_group: TaskGroup,
        *,
        drain: bool = False,
    ) -> None:
        """As ``DoorConnection``."""
        super().__init__(features, services, defaults, task_group, drain=drain)
        self._ticker = Ticker()
        self._streams: dict[HostedSession, SessionStream] = {}
        self.turns = Turns()
        self.client = ClientCapabilities()
        self.logged_out = False
        """The person has said that nothing more is to be asked of a model."""

    def join(self, peer: Peer) -> None:
        """As ``DoorConnection``."""
        super().join(peer)
        peer.watch(self.turns)

    # --- what features use -----------------------------------------------------------------------

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

    def begin(self, greeting: InitializeParams) -> None:
        """As ``DoorConnection``."""
        self.client = greeting.client_capabilities
        self.asking = Asking(self.peer, decode_params)
        self._task_group.start_soon(self._ticker.run)
        self.open_host(current_directory())

    def is_needed(self, hosted: HostedSession) -> bool:
        """As ``DoorConnection``."""
        return self.turns.is_going_on(hosted.id)

    def opened(self, hosted: HostedSession) -> None:
        """As ``DoorConnection``."""
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

    def closed(self, hosted: HostedSession) -> None:
        """As ``DoorConnection``."""
        super().closed(hosted)
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
            greeting, result = greet(request.params)
            self.begin(greeting)
            return result
        feature = self._features.get(request.method)
        if feature is None:
            raise method_not_found(request.method)
        if self._host is None:
            raise invalid_request("send initialize first")
        return _with_meta(await feature(self, request), request.params)

    def notification(self, method: str, params: Raw) -> None:
        """Take note of one notification; unknown ones are ignored."""
        if method == "session/cancel" and self._host is not None:
            try:
                self.cancel(decode_params(CancelParams, params).session_id)
            except msgspec.MsgspecError as error:
                _log.warning("session/cancel was ignored: %s", error)

    def code_of(self, kind: str) -> int:
        """As ``DoorConnection``."""
        return _CODES.get(kind, super().code_of(kind))


def _with_meta(result: Any, params: Raw) -> Any:
    """What the client sent beside a request comes back beside the answer."""
    try:
        theirs = _beside.decode(params).meta
    except (msgspec.MsgspecError, RecursionError):
        return result
    if not theirs or not isinstance(theirs, dict):
        return result
    answer = msgspec.json.decode(msgspec.json.encode(result))
    return {**answer, "_meta": {**theirs, **answer.get("_meta", {})}}
