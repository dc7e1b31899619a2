"""One client of the native protocol: its state, its default session, and dispatch.

Owns the lifecycle rules (nothing before ``initialize``, nothing after ``shutdown``), the default
session and which requests start in order. What a method does is in ``pi_rpc.server.features``, what
a client hears in ``pi_rpc.server.events``; what all doors share is ``pi_rpc.doors.connection``'s,
framing, ids and cancellation are ``pi_rpc.jsonrpc``'s.
"""

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

from pi_rpc.doors.connection import DoorConnection, current_directory
from pi_rpc.host.host import HostedSession, SessionOptions
from pi_rpc.host.services import Services
from pi_rpc.jsonrpc.errors import invalid_request, method_not_found, server_not_initialized
from pi_rpc.jsonrpc.peer import BARRIER, Peer, Request
from pi_rpc.protocol.handshake import (
    ClientFeatures,
    EditorFeatures,
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

if TYPE_CHECKING:
    from pi_rpc.tools.file_search import FileSearch

__all__ = ["Connection", "Feature"]

Feature: TypeAlias = Callable[["Connection", Request], Awaitable[Any]]
"""What serves a method; decodes its own params, raises what ``Connection.error`` maps."""


class _Named(Struct, rename="camel"):
    session_id: Any = None


class _Value(Struct):
    value: Any = None


_named = msgspec.json.Decoder(_Named)
_value = msgspec.json.Decoder(_Value)


class Connection(DoorConnection[Greeting]):
    """The ``Handler`` of the native protocol."""

    OWN_ENDS = frozenset({"prompt", "continue", "compact", "branch", "bash"})
    ENDS_OTHERS = frozenset({"abort", "queue/clear", "shutdown"})

    events: EventStream
    questions: Questions

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
        self._default_id: str | None = None
        self._in_use: Counter[str | None] = Counter()
        """How many requests are being served, by ordering key."""
        self.statistics = Statistics()
        self._creating = anyio.Lock()
        self._options = SessionOptions()
        self._client = ClientFeatures()
        self._can_show = False
        self._encoding: PositionEncoding = "utf-16"
        self._shut_down = False
        self.editor = EditorState()

    def join(self, peer: Peer) -> None:
        """As ``DoorConnection``."""
        super().join(peer)
        peer.watch(self.statistics)

    # --- what features use -----------------------------------------------------------------------

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
        return self._options.model or self.defaults.model

    @cached_property
    def file_search(self) -> "FileSearch":
        """Files by their names; what it knows of a directory is kept for the next question."""
        from pi_rpc.tools.file_search import FileSearch

        return FileSearch(self._task_group)

    def last_seq(self, hosted: HostedSession) -> int:
        """The number of the last event of ``hosted`` that was sent; sends what waits first."""
        return self.events.last_seq(hosted)

    # --- lifecycle -------------------------------------------------------------------------------

    def begin(self, greeting: Greeting) -> None:
        """As ``DoorConnection``."""
        params = greeting.params
        self._options = session_options(default_session_params(params))
        self._client = client_features(params)
        self._encoding = position_encoding(params)
        self._can_show = shows_messages(params)
        self.events = EventStream(self.peer, self._client.events, self.statistics)
        self.questions = Questions(self.peer, self._client, self.events)
        self.client_process = (params.process_id or None, greeting.client_was_there)
        self.trace(params.trace)
        self._task_group.start_soon(self.events.run)
        cwd = working_directory(params)
        self.open_host(Path(cwd) if cwd else current_directory())

    def opened(self, hosted: HostedSession) -> None:
        """As ``DoorConnection``."""
        self.events.follow(hosted)
        if self._client.ui:
            hosted.asker.door = ClientAsker(hosted, self.questions, self.peer, self.events)
        if self._client.editor != EditorFeatures():
            hosted.files.editor = ClientEditor(
                hosted,
                self.questions,
                self.editor,
                self._client.editor,
                self._encoding,
                timeout_s=self.services.settings.editor_timeout_s or None,
            )
        if self._client.permission or self._can_show:
            hosted.harness.permissions.asker = ClientPermissions(
                hosted, self.questions, shows_messages=self._can_show
            )

    def closed(self, hosted: HostedSession) -> None:
        """As ``DoorConnection``."""
        super().closed(hosted)
        self.questions.forget(hosted)
        self.events.forget(hosted)
        if not self.host.has(hosted.id):
            self.statistics.forget(hosted.id)

    def is_needed(self, hosted: HostedSession) -> bool:
        """As ``DoorConnection``."""
        is_used = self._in_use[self._lane(hosted.id)] > 0
        return is_used or bool(self.questions.open_of(hosted.id))

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
            if self._host is not None:
                raise invalid_request("initialize was sent already")
            greeting, result = greet(request.params)
            self.begin(greeting)
            return result
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
                self.trace(_value.decode(params).value)


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
