"""One client of a front door, as far as all doors agree about it.

Owns the sessions that the client has open, what of them is let go when they close, how a connection
ends, and which error a failure is. What requests mean is each door's own.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import anyio
from anyio.abc import TaskGroup
from msgspec import Raw

from pi_rpc.harness.errors import HarnessError
from pi_rpc.host.host import Host, HostedSession, SessionOptions
from pi_rpc.host.services import Services
from pi_rpc.host.storage import storage_failure
from pi_rpc.jsonrpc.errors import RpcError, error_of
from pi_rpc.jsonrpc.peer import Peer, Request
from pi_rpc.protocol.errors import ERRORS, ProtocolError
from pi_rpc.session.storage import SessionError

if TYPE_CHECKING:
    from pi_rpc.doors.masking import Masks
    from pi_rpc.doors.reporting import ClientTrace

__all__ = ["DoorConnection", "current_directory"]

_SETTLE_S = 1.0
"""How long runs may take to say how they ended, once the client has gone."""

G = TypeVar("G")


class DoorConnection(ABC, Generic[G]):
    """The ``Handler`` of a door (see ``pi_rpc.jsonrpc.peer``). ``G``: what ``initialize`` said."""

    OWN_ENDS: ClassVar[frozenset[str]] = frozenset()
    """Methods that answer their own cancellation with a result."""
    ENDS_OTHERS: ClassVar[frozenset[str]] = frozenset()
    """Methods by which other requests get their answer."""
    TAKES_BACK: ClassVar[tuple[str, str]] = ("$/cancelRequest", "id")
    """The notification that takes a request back, and its field for the request's id."""

    def __init__(
        self,
        features: Mapping[str, Callable[[Any, Request], Awaitable[Any]]],
        services: Services,
        defaults: SessionOptions,
        task_group: TaskGroup,
        *,
        drain: bool = False,
    ) -> None:
        """``features``: what serves each method; they decode their own params and raise what
        ``error`` maps. ``drain``: at the end of input finish what was accepted instead of aborting
        it."""
        self._features = features
        self.services = services
        self.defaults = defaults
        self._task_group = task_group
        self._drain = drain
        self._host: Host | None = None
        self._peer: Peer | None = None
        self._trace: ClientTrace | None = None
        self.initialized = anyio.Event()
        self.client_process: tuple[int | None, bool] = (None, False)
        """The process that the client named, and whether it ran when ``initialize`` was answered.
        The door ends with it."""
        self.exit_code: int | None = None

    def join(self, peer: Peer) -> None:
        """``peer`` serves this connection; before everything else."""
        self._peer = peer

    @property
    def peer(self) -> Peer:
        """The other end."""
        assert self._peer is not None
        return self._peer

    @property
    def host(self) -> Host:
        """The sessions; there after ``initialize``."""
        assert self._host is not None
        return self._host

    @property
    def usual_model(self) -> str | None:
        """The name of the model of sessions that name none, if it was given."""
        return self.defaults.model

    @cached_property
    def masks(self) -> "Masks":
        """What must not be told to whoever reads what is recorded."""
        from pi_rpc.doors.masking import Masks

        credentials = self.services.credentials
        credentials.learn()
        return Masks(lambda: tuple(credentials.known))

    # --- lifecycle -------------------------------------------------------------------------------

    @abstractmethod
    def begin(self, greeting: G) -> None:
        """``initialize`` was answered; calls ``open_host``."""

    @abstractmethod
    def is_needed(self, hosted: HostedSession) -> bool:
        """Somebody waits for something of ``hosted``: it is not unloaded."""

    def opened(self, hosted: HostedSession) -> None:
        """``hosted`` is open: put the client in front of it."""

    def closed(self, hosted: HostedSession) -> None:
        """``hosted`` is closed: the client is asked no more."""
        hosted.asker.close()
        hosted.files.close()
        hosted.shell.close()
        hosted.harness.permissions.close()

    def open_host(self, cwd: Path) -> None:
        """From now on there are sessions."""
        self._host = Host(self.services, self.defaults, cwd, self._task_group)
        self._host.on_open(self.opened)
        self._host.on_close(self.closed)
        self._host.keep_while(self.is_needed)
        self._task_group.start_soon(self._host.watch_for_idle)
        self.initialized.set()

    def trace(self, wanted: object) -> None:
        """Tell the client what passes: ``off``, ``messages`` or ``verbose``; anything else changes
        nothing."""
        if wanted not in ("off", "messages", "verbose"):
            return
        if self._trace is not None:
            self.peer.unwatch(self._trace)
            self._trace = None
        if wanted != "off":
            from pi_rpc.doors.reporting import ClientTrace

            self._trace = ClientTrace(self.masks, self.peer, verbose=wanted == "verbose")
            self.peer.watch(self._trace)

    # --- the peer's handler ----------------------------------------------------------------------

    @abstractmethod
    def ordering_key(self, method: str, params: Raw) -> str | None:
        """As ``Handler``."""

    @abstractmethod
    async def request(self, request: Request) -> Any:
        """As ``Handler``."""

    @abstractmethod
    def notification(self, method: str, params: Raw) -> None:
        """As ``Handler``."""

    def code_of(self, kind: str) -> int:
        """The door's code for a kind of failure (see ``pi_rpc.protocol.errors``)."""
        return ERRORS[kind].code

    def error(self, exc: BaseException) -> RpcError:
        """What the client is told of a failure."""
        if isinstance(exc, SessionError):
            exc = storage_failure(exc)
        if isinstance(exc, HarnessError):
            return RpcError(self.code_of(exc.kind), exc.message, exc.kind, exc.fields or None)
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

    async def answered(self) -> None:
        """Returns when the client has its answers."""
        await self.peer.answered()

    async def _quiet(self) -> None:
        await self.answered()
        while self.host.is_running:
            await self.host.settled()
            await self.answered()

    def stop(self) -> None:
        """Stop all work and end the connection; what is under way still says how it ended."""
        if self._host is not None:
            self._host.stop_all()
        self.peer.close()

    async def aclose(self) -> None:
        """End every session and every child."""
        if self._host is not None:
            await self._host.aclose()


def current_directory() -> Path:
    """The process's directory; the root when it has been removed."""
    try:
        return Path.cwd()
    except OSError:
        return Path(os.sep)
