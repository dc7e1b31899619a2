"""One client of the native protocol: its state, its default session, and dispatch.

Owns the lifecycle rules (nothing before ``initialize``, nothing after ``shutdown``), the default
session and the mapping of what sessions refuse to error responses. What a method does is in
``pi_rpc.server.features``, what a client hears in ``pi_rpc.server.events``; framing, ids and
cancellation are ``pi_rpc.jsonrpc``'s.
"""

import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import Raw, Struct, UnsetType

from pi_rpc.harness.errors import HarnessError
from pi_rpc.host.host import Host, HostedSession, SessionOptions
from pi_rpc.host.services import Services
from pi_rpc.host.storage import storage_failure
from pi_rpc.jsonrpc.errors import (
    RpcError,
    error_of,
    invalid_request,
    method_not_found,
    server_not_initialized,
)
from pi_rpc.jsonrpc.peer import BARRIER, Peer, Request
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.errors import ERRORS, ProtocolError
from pi_rpc.protocol.handshake import (
    EditorFeatures,
    InitializeParams,
    InitializeResult,
    PositionEncoding,
    client_features,
    default_session_params,
    position_encoding,
    shows_messages,
    working_directory,
)
from pi_rpc.server.asker import ClientAsker
from pi_rpc.server.convert import session_options
from pi_rpc.server.editor import ClientEditor, EditorState
from pi_rpc.server.events import EventStream
from pi_rpc.server.greeting import Greeting, greet
from pi_rpc.server.permissions import ClientPermissions
from pi_rpc.server.questions import Questions
from pi_rpc.server.statistics import Statistics
from pi_rpc.session.storage import SessionError

if TYPE_CHECKING:
    from pi_rpc.server.masking import Masks
    from pi_rpc.server.reporting import ClientTrace
    from pi_rpc.tools.file_search import FileSearch

__all__ = ["Connection", "Feature"]

_log = logging.getLogger("pi_rpc.server")

_SETTLE_S = 1.0
"""How long runs may take to say how they ended, once the client has gone."""

Feature: TypeAlias = Callable[["Connection", Request], Awaitable[Any]]
"""What serves a method; decodes its own params, raises what ``Connection.error`` maps."""


class _Named(Struct, rename="camel"):
    session_id: Any = None


class _Value(Struct):
    value: Any = None


_named = msgspec.json.Decoder(_Named)
_value = msgspec.json.Decoder(_Value)


class Connection:
    """The ``Handler`` of the native protocol (see ``pi_rpc.jsonrpc.peer``)."""

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
        self._defaults = defaults
        self._task_group = task_group
        self._drain = drain
        self._default_id: str | None = None
        self._in_use: Counter[str | None] = Counter()
        """How many requests are being served, by ordering key."""
        self._trace: ClientTrace | None = None
        self.statistics = Statistics()
        self._creating = anyio.Lock()
        self._options = SessionOptions()
        self._host: Host | None = None
        self._shut_down = False
        self.editor = EditorState()
        self.events: EventStream | None = None
        self.questions: Questions | None = None
        self.peer: Peer | None = None
        self.initialized = anyio.Event()
        self.process_id: int | None = None
        self.client_was_there = False
        """The process of ``process_id`` ran when ``initialize`` was answered."""
        self.exit_code: int | None = None

    # --- what features use -----------------------------------------------------------------------

    @property
    def host(self) -> Host:
        """The sessions; there after ``initialize``."""
        assert self._host is not None
        return self._host

    async def session(self, session_id: str | UnsetType | None) -> HostedSession:
        """The session a request names, or the default one, which is created on first use."""
        if session_id:
            return await self.host.get(session_id)
        async with self._creating:
            if self._default_id is None or not self.host.has(self._default_id):
                created = await self.host.create(self._options)
                self._default_id = created.id
                return created
            return await self.host.get(self._default_id)

    @property
    def usual_model(self) -> str | None:
        """The name of the model of sessions that name none, if it was given."""
        return self._options.model or self._defaults.model

    @cached_property
    def file_search(self) -> "FileSearch":
        """Files by their names; what it knows of a directory is kept for the next question."""
        from pi_rpc.tools.file_search import FileSearch

        return FileSearch(self._task_group)

    @cached_property
    def masks(self) -> "Masks":
        """What must not be told to whoever reads what is recorded."""
        from pi_rpc.server.masking import Masks

        credentials = self.services.credentials
        credentials.learn()
        return Masks(lambda: tuple(credentials.known))

    def last_seq(self, hosted: HostedSession) -> int:
        """The number of the last event of ``hosted`` that was sent; sends what waits first."""
        assert self.events is not None
        return self.events.last_seq(hosted)

    # --- lifecycle -------------------------------------------------------------------------------

    def begin(self, greeting: Greeting) -> None:
        """``initialize`` was answered: from now on there are sessions."""
        assert self.peer is not None
        params = greeting.params
        self.client_was_there = greeting.client_was_there
        cwd = Path(working_directory(params) or _current_directory())
        self._options = session_options(default_session_params(params))
        self._host = Host(self.services, self._defaults, cwd, self._task_group)
        features = client_features(params)
        self.events = EventStream(self.peer, features.events, self.statistics)
        self.questions = Questions(self.peer, features, self.events)
        self._host.on_open(self.events.follow)
        if features.ui:
            self._host.on_open(self._put_in_front)
        if features.editor != EditorFeatures():
            encoding = position_encoding(params)
            self._host.on_open(
                lambda hosted: self._put_editor_in_front(hosted, features.editor, encoding)
            )
        can_show = shows_messages(params)
        if features.permission or can_show:
            self._host.on_open(lambda hosted: self._ask_for_permission(hosted, can_show))
        self._host.on_close(self._leave)
        self._host.keep_while(self._is_needed)
        self._set_trace(params.trace)
        self._task_group.start_soon(self.events.run)
        self._task_group.start_soon(self._host.watch_for_idle)
        self.process_id = params.process_id or None
        self.initialized.set()

    def _put_in_front(self, hosted: HostedSession) -> None:
        """What ``hosted`` asks the person reaches them."""
        assert self.peer is not None
        assert self.events is not None
        assert self.questions is not None
        hosted.asker.door = ClientAsker(hosted, self.questions, self.peer, self.events)

    def _ask_for_permission(self, hosted: HostedSession, can_show: bool) -> None:
        """What ``hosted`` needs permission for the person is asked."""
        assert self.questions is not None
        hosted.harness.permissions.asker = ClientPermissions(
            hosted, self.questions, shows_messages=can_show
        )

    def _put_editor_in_front(
        self, hosted: HostedSession, features: EditorFeatures, encoding: PositionEncoding
    ) -> None:
        """What ``hosted`` reads and writes is what the client's editor shows."""
        assert self.questions is not None
        hosted.files.editor = ClientEditor(
            hosted,
            self.questions,
            self.editor,
            features,
            encoding,
            timeout_s=self.services.settings.editor_timeout_s or None,
        )

    def _leave(self, hosted: HostedSession) -> None:
        """``hosted`` is closed."""
        assert self.events is not None
        assert self.questions is not None
        hosted.asker.close()
        hosted.files.close()
        hosted.harness.permissions.close()
        self.questions.forget(hosted)
        self.events.forget(hosted)
        if not self.host.has(hosted.id):
            self.statistics.forget(hosted.id)

    def _is_needed(self, hosted: HostedSession) -> bool:
        """Somebody waits for something of ``hosted``."""
        assert self.questions is not None
        is_used = self._in_use[self._lane(hosted.id)] > 0
        return is_used or bool(self.questions.open_of(hosted.id))

    def _set_trace(self, wanted: object) -> None:
        """``off``, ``messages`` or ``verbose``; anything else changes nothing."""
        assert self.peer is not None
        if wanted not in ("off", "messages", "verbose"):
            return
        if self._trace is not None:
            self.peer.unwatch(self._trace)
            self._trace = None
        if wanted != "off":
            from pi_rpc.server.reporting import ClientTrace

            self._trace = ClientTrace(self.masks, self.peer, verbose=wanted == "verbose")
            self.peer.watch(self._trace)

    async def _initialize(self, request: Request) -> InitializeResult:
        if self._host is not None:
            raise invalid_request("initialize was sent already")
        params = decode_params(InitializeParams, request.params)
        greeting = greet(params)
        self.begin(greeting)
        return greeting.result

    async def _shutdown(self) -> None:
        self._shut_down = True
        self.host.stop_all()

    # --- the peer's handler ----------------------------------------------------------------------

    def ordering_key(self, method: str, params: Raw) -> str | None:
        """Requests of one session start in order; how it begins and ends holds everything up."""
        if method in {"initialize", "shutdown"}:
            return BARRIER
        if method in _UNORDERED or method not in self._features:
            return None
        try:
            session_id = _named.decode(params).session_id
        except msgspec.MsgspecError:
            return None
        return self._lane(session_id)

    def _lane(self, session_id: object) -> str:
        named = session_id and session_id != self._default_id
        return f"session:{session_id}" if named else "session"

    @contextmanager
    def _using(self, request: Request) -> Iterator[None]:
        """While a request is served, its session is not unloaded."""
        key = self.ordering_key(request.method, request.params)
        self._in_use[key] += 1
        try:
            yield
        finally:
            self._in_use[key] -= 1
            if not self._in_use[key]:
                del self._in_use[key]

    async def request(self, request: Request) -> Any:
        """Serve one request."""
        if self._shut_down:
            raise invalid_request("the daemon is shutting down; send exit")
        if request.method == "initialize":
            return await self._initialize(request)
        if self._host is None:
            raise server_not_initialized()
        if request.method == "shutdown":
            return await self._shutdown()
        feature = self._features.get(request.method)
        if feature is None:
            raise method_not_found(request.method)
        with self._using(request):
            return await feature(self, request)

    def notification(self, method: str, params: Raw) -> None:
        """Take note of one notification; unknown ones are ignored."""
        if method == "exit":
            self.exit_code = 0 if self._shut_down else 1
            self.stop()
        elif method == "editor/didChange" and self._host is not None:
            self.editor.take(params)
        elif method == "$/setTrace" and self._host is not None:
            with suppress(msgspec.MsgspecError):
                self._set_trace(_value.decode(params).value)

    def error(self, exc: BaseException) -> RpcError:
        """What the client is told of a failure."""
        if isinstance(exc, SessionError):
            exc = storage_failure(exc)
        if isinstance(exc, HarnessError):
            return RpcError(ERRORS[exc.kind].code, exc.message, exc.kind, exc.fields or None)
        if isinstance(exc, ProtocolError):
            return RpcError(exc.code, exc.message, exc.kind, exc.data)
        return error_of(exc)

    async def eof(self) -> None:
        """The client has nothing more to say: stop, or with ``drain`` finish first."""
        if self._host is None:
            return
        if self._drain and self.exit_code is None:
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


def _current_directory() -> str:
    """The process's directory; the root when it has been removed."""
    try:
        return os.getcwd()  # noqa: PTH109 - a text is what is wanted
    except OSError:
        return os.sep


_UNORDERED = frozenset(
    {
        *(
            "auth/status",
            "ping",
            "server/stats",
            "session/new",
            "session/list",
            "model/list",
            "trust/get",
        ),
        *("permission/list", "permission/forget"),
    }
)
