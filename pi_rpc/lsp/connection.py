"""One editor that speaks the Language Server Protocol: its state, and the dispatch of what it says.

Owns the lifecycle rules, the session that commands are for, and what a failure is in LSP's codes.
Requests are answered by ``pi_rpc.jsonrpc``, exactly once, whatever pygls would have made of them;
pygls keeps the documents (``pi_rpc.lsp.documents``).
"""

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import Raw
from msgspec.structs import replace

from pi_rpc.harness.errors import HarnessError
from pi_rpc.host.host import Host, HostedSession, SessionOptions
from pi_rpc.host.outlet import Ticker
from pi_rpc.host.services import Services
from pi_rpc.host.storage import storage_failure
from pi_rpc.jsonrpc.asking import Asking
from pi_rpc.jsonrpc.errors import (
    RpcError,
    error_of,
    invalid_request,
    method_not_found,
    server_not_initialized,
)
from pi_rpc.jsonrpc.peer import BARRIER, Peer, Request
from pi_rpc.lsp import shapes as s
from pi_rpc.lsp.documents import Documents
from pi_rpc.lsp.editor import ClientEditor
from pi_rpc.lsp.handshake import EditorAbilities, Greeting, greet
from pi_rpc.lsp.questions import ClientAsker, ClientPermissions
from pi_rpc.lsp.stream import SessionStream
from pi_rpc.lsp.telling import Telling
from pi_rpc.lsp.works import Works
from pi_rpc.protocol.base import SessionNewParams
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.errors import ERRORS, ProtocolError
from pi_rpc.protocol.handshake import default_session_params, working_directory
from pi_rpc.session.storage import SessionError

__all__ = ["Connection", "Feature"]

_log = logging.getLogger("pi_rpc.lsp")

_FAILED = -32803
"""LSP's code for what was asked rightly and could not be done."""
_SETTLE_S = 1.0
"""How long runs may take to say how they ended, once the editor has gone."""

Feature: TypeAlias = Callable[["Connection", Request], Awaitable[Any]]
"""What serves a method; decodes its own params, raises what ``Connection.error`` maps."""


class Connection:
    """The ``Handler`` of this protocol (see ``pi_rpc.jsonrpc.peer``)."""

    documents: Documents
    asking: Asking
    telling: Telling
    works: Works
    editor: EditorAbilities

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
        self._options = SessionOptions()
        self._current: str | None = None
        self._creating = anyio.Lock()
        self._ticker = Ticker()
        self._streams: dict[HostedSession, SessionStream] = {}
        self._shut_down = False
        self.asks: dict[str, s.PlaceArguments] = {}
        """Documents of ours in which the person writes a question, by URI: what it is about."""
        self.peer: Peer | None = None
        self.greeting: Greeting | None = None
        self.initialized = anyio.Event()
        self.exit_code: int | None = None

    # --- what features use -----------------------------------------------------------------------

    @property
    def has_session(self) -> bool:
        """A session was needed before."""
        return self._current is not None

    async def session(self) -> HostedSession:
        """The session that commands are for; created when it is needed first."""
        assert self._host is not None
        async with self._creating:
            if self._current is None or not self._host.has(self._current):
                return await self._create()
            return await self._host.get(self._current)

    async def new_session(self) -> HostedSession:
        """From now on commands are for another session; what goes on goes on."""
        async with self._creating:
            return await self._create()

    async def _create(self) -> HostedSession:
        assert self._host is not None
        beside = tuple(each for each in self.documents.folders if each != str(self._host.cwd))
        options = replace(self._options, additional_directories=beside)
        created = await self._host.create(options)
        self._current = created.id
        return created

    def stream(self, hosted: HostedSession) -> SessionStream:
        """What the editor hears of an open session."""
        return self._streams[hosted]

    def turn(self, hosted: HostedSession) -> anyio.Lock:
        """Held by what was asked of a session and goes on."""
        return self._streams[hosted].turn

    def start_soon(self, function: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        """Have something go on beside requests."""

        async def guarded() -> None:
            try:
                await function(*arguments)
            except Exception:  # noqa: BLE001 - it must not end everything else; it is logged
                _log.exception("something beside the requests failed")

        self._task_group.start_soon(guarded)

    # --- lifecycle -------------------------------------------------------------------------------

    def begin(self, greeting: Greeting) -> None:
        """``initialize`` was answered: from now on there are documents and sessions."""
        assert self.peer is not None
        params = greeting.params
        self.greeting, self.editor = greeting, greeting.editor
        self._options = _session_options(default_session_params(params))
        self.documents = Documents(greeting.encoding, params.workspace_folders or [])
        self.asking = Asking(self.peer, decode_params)
        shows_documents = self.editor.show_document
        self.telling = Telling(self.peer, self.asking, shows_documents=shows_documents)
        self.works = Works(self.peer, self.asking, shows_progress=self.editor.progress)
        cwd = Path(working_directory(params) or _current_directory())
        self._host = Host(self.services, self.defaults, cwd, self._task_group)
        self._host.on_open(self._open)
        self._host.on_close(self._leave)
        self._host.keep_while(lambda hosted: self.works.is_going_on(hosted.id))
        self._task_group.start_soon(self._ticker.run)
        self._task_group.start_soon(self._host.watch_for_idle)
        self.initialized.set()

    def _open(self, hosted: HostedSession) -> None:
        assert self.peer is not None
        assert self.greeting is not None
        self._streams[hosted] = SessionStream(
            hosted,
            self.peer,
            self.works,
            self.telling,
            ticker=self._ticker,
            sources=lambda: len(self._streams),
            sends_events=self.greeting.options.agent_events,
        )
        hosted.harness.permissions.asker = ClientPermissions(self.asking)
        hosted.asker.door = ClientAsker(self.asking, self.telling)
        hosted.files.editor = ClientEditor(
            self.documents,
            self.asking,
            self.editor,
            self.greeting.encoding,
            timeout_s=self.services.settings.editor_timeout_s or None,
        )

    def _leave(self, hosted: HostedSession) -> None:
        hosted.asker.close()
        hosted.files.close()
        hosted.harness.permissions.close()
        self._streams.pop(hosted).close()

    async def _shutdown(self) -> None:
        assert self._host is not None
        self._shut_down = True
        self._host.stop_all()

    # --- the peer's handler ----------------------------------------------------------------------

    def ordering_key(self, method: str, params: Raw) -> str | None:
        """Commands start in order; how it begins and ends holds everything up."""
        del params
        if method in {"initialize", "shutdown"}:
            return BARRIER
        return method if method == "workspace/executeCommand" else None

    async def request(self, request: Request) -> Any:
        """Serve one request."""
        if self._shut_down:
            raise invalid_request("the server is shutting down; send exit")
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
        return await feature(self, request)

    def notification(self, method: str, params: Raw) -> None:
        """Take note of one notification; unknown ones are ignored."""
        if method == "exit":
            self.exit_code = 0 if self._shut_down else 1
            self.stop()
        elif self._host is not None:
            try:
                self._take(method, params)
            except msgspec.MsgspecError as error:
                _log.warning("%s was ignored: %s", method, error)

    def _take(self, method: str, params: Raw) -> None:
        match method:
            case "textDocument/didOpen":
                self.documents.opened(params)
                self.start_soon(self.documents.look)
            case "textDocument/didChange":
                for change in self.documents.changed(params):
                    self.works.moved(change)
            case "textDocument/didSave":
                self.documents.saved(params)
            case "textDocument/didClose":
                self.documents.closed(params)
            case "workspace/didChangeWorkspaceFolders":
                self.documents.folders_changed(params)
            case "window/workDoneProgress/cancel":
                self.works.cancel(decode_params(s.ProgressNamed, params).token)

    def error(self, exc: BaseException) -> RpcError:
        """What the editor is told of a failure. Codes of ours mean something else in LSP."""
        if isinstance(exc, SessionError):
            exc = storage_failure(exc)
        if isinstance(exc, HarnessError):
            code = ERRORS[exc.kind].code
            standard = code if code < 0 else _FAILED
            return RpcError(standard, exc.message, exc.kind, exc.fields or None)
        if isinstance(exc, ProtocolError):
            return RpcError(exc.code, exc.message, exc.kind, exc.data)
        return error_of(exc)

    async def eof(self) -> None:
        """The editor has nothing more to say: stop, or with ``drain`` finish first."""
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
        assert self._host is not None
        await self.peer.answered()
        await self.works.ended()
        while self._host.is_running:
            await self._host.settled()
            await self.peer.answered()
            await self.works.ended()

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
            with anyio.CancelScope(shield=True):
                await self.telling.aclose()


def _session_options(params: SessionNewParams) -> SessionOptions:
    model = params.model or None
    if model is not None and not isinstance(model, str):
        model = f"{model.provider}/{model.id}"
    return SessionOptions(
        model=model,
        thinking_level=params.thinking_level or None,
        permission_mode=params.permission_mode or None,
        tools=tuple(params.tools) if isinstance(params.tools, list) else None,
        append_system_prompt=params.append_system_prompt or "",
        ephemeral=params.ephemeral,
    )


def _current_directory() -> str:
    """The process's directory; the root when it has been removed."""
    try:
        return os.getcwd()  # noqa: PTH109 - a text is what is wanted
    except OSError:
        return os.sep
