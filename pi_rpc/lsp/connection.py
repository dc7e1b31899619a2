"""One editor that speaks the Language Server Protocol: its state, and the dispatch of what it says.

Owns the lifecycle rules, the session that commands are for, and what a failure is in LSP's codes.
Requests are answered by ``pi_rpc.jsonrpc``, exactly once, whatever pygls would have made of them;
pygls keeps the documents (``pi_rpc.lsp.documents``).
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import Raw
from msgspec.structs import replace

from pi_rpc.doors.connection import DoorConnection, current_directory
from pi_rpc.host.host import HostedSession, SessionOptions
from pi_rpc.host.outlet import Ticker
from pi_rpc.host.services import Services
from pi_rpc.jsonrpc.asking import Asking
from pi_rpc.jsonrpc.errors import invalid_request, method_not_found, server_not_initialized
from pi_rpc.jsonrpc.peer import BARRIER, Request
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
from pi_rpc.protocol.handshake import default_session_params, working_directory

__all__ = ["Connection", "Feature"]

_log = logging.getLogger("pi_rpc.lsp")

_FAILED = -32803
"""LSP's code for what was asked rightly and could not be done."""
Feature: TypeAlias = Callable[["Connection", Request], Awaitable[Any]]
"""What serves a method; decodes its own params, raises what ``Connection.error`` maps."""


class Connection(DoorConnection[Greeting]):
    """The ``Handler`` of this protocol."""

    ENDS_OTHERS = frozenset({"shutdown"})

    documents: Documents
    asking: Asking
    telling: Telling
    works: Works
    editor: EditorAbilities
    greeting: Greeting

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
        self._options = SessionOptions()
        self._current: str | None = None
        self._creating = anyio.Lock()
        self._ticker = Ticker()
        self._streams: dict[HostedSession, SessionStream] = {}
        self._shut_down = False
        self.asks: dict[str, s.PlaceArguments] = {}
        """Documents of ours in which the person writes a question, by URI: what it is about."""

    # --- what features use -----------------------------------------------------------------------

    @property
    def has_session(self) -> bool:
        """A session was needed before."""
        return self._current is not None

    async def session(self) -> HostedSession:
        """The session that commands are for; created when it is needed first."""
        async with self._creating:
            if self._current is None or not self.host.has(self._current):
                return await self._create()
            return await self.host.get(self._current)

    async def new_session(self) -> HostedSession:
        """From now on commands are for another session; what goes on goes on."""
        async with self._creating:
            return await self._create()

    async def _create(self) -> HostedSession:
        folders = await self.documents.folders()
        beside = tuple(each for each in folders if each != str(self.host.cwd))
        options = replace(self._options, additional_directories=beside)
        created = await self.host.create(options)
        self._current = created.id
        return created

    async def abort_all(self) -> None:
        """Stop what goes on in any session, also what was asked of one that has been replaced."""
        async with anyio.create_task_group() as aborting:
            for hosted in self._streams:
                if not hosted.harness.is_quiet:
                    aborting.start_soon(hosted.harness.abort)

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
        """As ``DoorConnection``."""
        params = greeting.params
        self.greeting, self.editor = greeting, greeting.editor
        self._options = _session_options(default_session_params(params))
        self.documents = Documents(greeting.encoding, params.workspace_folders or [])
        self.asking = Asking(self.peer, decode_params)
        shows_documents = self.editor.show_document
        self.telling = Telling(self.peer, self.asking, shows_documents=shows_documents)
        self.works = Works(self.peer, self.asking, shows_progress=self.editor.progress)
        self.client_process = (params.process_id or None, greeting.client_was_there)
        self.trace(params.trace)
        self._task_group.start_soon(self._ticker.run)
        cwd = working_directory(params)
        self.open_host(Path(cwd) if cwd else current_directory())

    def is_needed(self, hosted: HostedSession) -> bool:
        """As ``DoorConnection``."""
        return self.works.is_going_on(hosted.id)

    def opened(self, hosted: HostedSession) -> None:
        """As ``DoorConnection``."""
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

    def closed(self, hosted: HostedSession) -> None:
        """As ``DoorConnection``."""
        super().closed(hosted)
        self._streams.pop(hosted).close()

    async def answered(self) -> None:
        """As ``DoorConnection``; and what commands began has come to its end."""
        await super().answered()
        await self.works.ended()

    async def aclose(self) -> None:
        """As ``DoorConnection``."""
        await super().aclose()
        if self._host is not None:
            with anyio.CancelScope(shield=True):
                await self.telling.aclose()

    async def _shutdown(self) -> None:
        self._shut_down = True
        self.host.stop_all()

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
            case "$/setTrace":
                self.trace(decode_params(s.TraceParams, params).value)
            case "window/workDoneProgress/cancel":
                self.works.cancel(decode_params(s.ProgressNamed, params).token)

    def code_of(self, kind: str) -> int:
        """As ``DoorConnection``. Codes of ours mean something else in LSP."""
        code = super().code_of(kind)
        return code if code < 0 else _FAILED


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
