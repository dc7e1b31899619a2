"""What the daemon asks and tells: events to their streams, the rest to handlers.

Owns dispatch and what is declared for it at ``initialize``. Which methods there are and what they
carry is the table's business (``pi_rpc.protocol.methods``)."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from weakref import WeakSet

import msgspec
from msgspec import UNSET, Raw, Struct

from pi_rpc.client.events import Events
from pi_rpc.jsonrpc.errors import error_of, method_not_found
from pi_rpc.jsonrpc.peer import Request, RpcError
from pi_rpc.protocol.handshake import (
    ClientCapabilities,
    EditorFeatures,
    EventPreferences,
    WindowCapabilities,
)
from pi_rpc.protocol.methods import METHODS

__all__ = ["Handler", "Incoming", "capabilities"]

Handler: TypeAlias = Callable[[Any], Any]
"""Takes the params struct of a method; of a request it gives the result, or awaits it."""


class _Carried(Struct, rename="camel"):
    session_id: str
    seq: int
    event: Raw


class Incoming:
    """Serves the daemon, as ``pi_rpc.jsonrpc.peer.Handler`` says."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        for name in handlers:
            row = METHODS.get(name)
            if row is None or row.sender != "daemon" or name == "agent/event":
                raise ValueError(f"the daemon neither asks nor tells {name!r}: nothing to handle")
        self._handlers = dict(handlers)
        self._streams: dict[str, WeakSet[Events]] = {}
        self._ended = False
        self._failure: Exception | None = None

    def subscribe(self, session_id: str, events: Events) -> None:
        """Put events of the session there from now on, for as long as somebody holds it."""
        if self._ended:
            events.end(self._failure)
        else:
            self._streams.setdefault(session_id, WeakSet()).add(events)

    def end_session(self, session_id: str) -> None:
        """There will be no more events of this session."""
        for events in self._streams.pop(session_id, ()):
            events.end()

    def end(self, failure: Exception | None) -> None:
        """There will be no more events at all."""
        self._ended, self._failure = True, failure
        for streams in self._streams.values():
            for events in streams:
                events.end(failure)
        self._streams.clear()

    def ordering_key(self, method: str, params: Raw) -> str | None:
        """Questions are independent of each other."""

    async def request(self, request: Request) -> Any:
        """Have a handler answer."""
        handler = self._handlers.get(request.method)
        if handler is None:
            raise method_not_found(request.method)
        answer = handler(_params(request.method, request.params))
        return await answer if inspect.isawaitable(answer) else answer

    def notification(self, method: str, params: Raw) -> None:
        """Pass on what the daemon tells; what nobody wants is dropped."""
        if method == "agent/event":
            carried = msgspec.json.decode(params, type=_Carried)
            for events in tuple(self._streams.get(carried.session_id, ())):
                events.put(carried.seq, carried.event)
        elif handler := self._handlers.get(method):
            handler(_params(method, params))

    def error(self, exc: BaseException) -> RpcError:
        """What the daemon reads of a handler's exception."""
        return error_of(exc)

    async def eof(self) -> None:
        """The daemon says no more."""


def _params(method: str, params: Raw) -> Any:
    row = METHODS[method]
    return msgspec.json.decode(params, type=row.params or dict)


def capabilities(handlers: Mapping[str, Handler], events: EventPreferences) -> ClientCapabilities:
    """What a client with these handlers can do."""
    return ClientCapabilities(
        permission="permission/request" in handlers,
        ui=any(name.startswith("ui/") for name in handlers),
        editor=EditorFeatures(
            read_document="editor/readDocument" in handlers,
            apply_edit="workspace/applyEdit" in handlers,
            save_document="editor/saveDocument" in handlers,
        ),
        events=events,
        window=WindowCapabilities(show_message={})
        if "window/showMessageRequest" in handlers
        else UNSET,
    )
