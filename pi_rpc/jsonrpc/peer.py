"""One end of a JSON-RPC connection.

Owns dispatch: every request of the other end gets exactly one answer, in scopes that can be
cancelled; requests of ours get theirs or learn that they will not. Knows no method but the two ways
to cancel. Does not own bytes (``stdio``, ``framing``) nor what an application's errors mean
(``Handler.error``).
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import TaskGroup
from msgspec import Raw

from pi_rpc.jsonrpc._envelope import (
    Id,
    Notification,
    RequestMessage,
    Response,
    Unreadable,
    error_payload,
    notification_payload,
    read,
    request_payload,
    result_payload,
)
from pi_rpc.jsonrpc._inbound import BARRIER, Request, StartOrder
from pi_rpc.jsonrpc._outbound import Outbound
from pi_rpc.jsonrpc.errors import (
    INTERNAL_ERROR,
    PeerClosedError,
    RpcError,
    internal_error,
    invalid_request,
    overloaded,
    request_cancelled,
)
from pi_rpc.jsonrpc.framing import Frame
from pi_rpc.jsonrpc.stdio import Transport
from pi_rpc.jsonrpc.watching import Watcher

__all__ = ["BARRIER", "Handler", "Peer", "PeerClosedError", "Request", "RpcError"]

_RETRY_AFTER_MS = 250
# So many of those that make room are taken though there is none.
_RESERVED = 16
# With this much output waiting, requests are put aside; with this much put aside, reading stops.
_OVERFULL_BYTES = 32 * 1024 * 1024
_ASIDE_BYTES = 32 * 1024 * 1024
# What keeping one takes beside its text: there may be millions of two bytes each.
_EACH_BYTES = 256
# So many frames of one batch are looked at before what they started gets its turn.
_FRAMES_PER_TURN = 64

_log = logging.getLogger("pi_rpc.jsonrpc")

_InTurn: TypeAlias = RequestMessage | Notification | Unreadable
"""What may lead to an answer, and therefore waits while the other end takes none."""


class Handler(Protocol):
    """What a peer does for the other end."""

    def ordering_key(self, method: str, params: Raw) -> str | None:
        """Requests with equal keys start in order of arrival; None: independent; or ``BARRIER``."""

    async def request(self, request: Request) -> Any:
        """Its result, anything msgspec can write; raises what ``error`` knows."""

    def notification(self, method: str, params: Raw) -> None:
        """Takes note. Must not block."""

    def error(self, exc: BaseException) -> RpcError:
        """What an exception of ``request`` is on the wire. Pure."""

    async def eof(self) -> None:
        """The input ended, also by ``Peer.close``: stop or finish work. Called once.

        Afterwards what is still in flight has ``grace_s`` seconds to be answered.
        """


class _CancelParams(msgspec.Struct, gc=False):
    id: int | float | str | None = None
    requestId: int | float | str | None = None  # noqa: N815 - the wire's name


class Peer:
    """Serves a ``Handler`` to the other end of a ``Transport``, and asks it things.

    At most ``max_in_flight`` requests are unanswered at once, then ``overloaded``; of methods for
    which ``makes_room`` is true some more, so that what fills the place can be ended. ``flush_s``
    is how long the other end may take nothing at all before the last output is given up. A request
    of a method for which ``answers_cancel`` is false is answered ``requestCancelled`` at once when
    it is cancelled before it could start; others are started in their turn all the same, because
    they give a result of their own.
    """

    def __init__(
        self,
        transport: Transport,
        handler: Handler,
        *,
        max_in_flight: int = 256,
        grace_s: float = 2.0,
        flush_s: float = 1.0,
        answers_cancel: Callable[[str], bool] = lambda method: True,
        makes_room: Callable[[str], bool] = lambda method: False,
        watchers: Sequence[Watcher] = (),
        takes_back: tuple[str, str] = ("$/cancelRequest", "id"),
    ) -> None:
        self._transport = transport
        self._handler = handler
        self._max_in_flight = max_in_flight
        self._grace_s = grace_s
        self._flush_s = flush_s
        self._answers_cancel = answers_cancel
        self._makes_room = makes_room
        self._watchers = tuple(watchers)
        self._takes_back = takes_back
        self._in_flight: dict[Id, Request] = {}
        self._idle: anyio.Event | None = None
        self._order = StartOrder(self._key_of, self._start, self._deliver)
        # Arrived while the other end took no answers: with their sizes.
        self._aside: deque[tuple[_InTurn, int]] = deque()
        self._aside_bytes = 0
        self._aside_scope: anyio.CancelScope | None = None
        self._outbound = Outbound()
        self._grace: anyio.CancelScope | None = None
        self._flushing: anyio.CancelScope | None = None
        self._tasks: TaskGroup | None = None

    # The application's side.

    @property
    def waiting_bytes(self) -> int:
        """How much output has not left yet."""
        return self._transport.waiting_bytes

    @property
    def sent_bytes(self) -> int:
        """How much output there was in all, what has not left yet included."""
        return self._transport.sent_bytes

    @property
    def in_flight(self) -> int:
        """How many requests of the other end have no answer yet."""
        return len(self._in_flight)

    async def drained(self) -> None:
        """Returns when little output is waiting, or none will leave any more."""
        await self._transport.drained()

    async def answered(self) -> None:
        """Returns when every request of the other end that was read has its answer."""
        while self._in_flight:
            if self._idle is None:
                self._idle = anyio.Event()
            await self._idle.wait()

    def watch(self, watcher: Watcher) -> None:
        """Tells ``watcher`` what passes from now on."""
        self._watchers = (*self._watchers, watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Tells it no more."""
        self._watchers = tuple(each for each in self._watchers if each is not watcher)

    def notify(self, method: str, params: Any) -> None:
        """Sends a notification. Raises only when ``params`` cannot be written as JSON."""
        payload = notification_payload(method, params)
        self._transport.send((payload,))
        for watcher in self._watchers:
            watcher.told(method, payload)

    def send_frames(self, payloads: Sequence[bytes]) -> None:
        """Sends JSON values that are already written, in one go."""
        self._transport.send(payloads)

    async def request(self, method: str, params: Any, *, timeout_s: float | None = None) -> Raw:
        """Asks the other end; the raw result.

        Raises RpcError with the other end's error, PeerClosedError when it went away, TimeoutError
        after ``timeout_s``. When nobody waits any more the other end is told to cancel, and a late
        answer is ignored.
        """
        with self._outbound.open() as pending:
            payload = request_payload(pending.id, method, params)
            self._transport.send((payload,))
            for watcher in self._watchers:
                watcher.asked(pending.id, method, payload)
            began = time.monotonic()
            try:
                with anyio.fail_after(timeout_s):
                    return await pending.wait()
            finally:
                seconds = time.monotonic() - began
                for watcher in self._watchers:
                    watcher.answer_came(pending.id, method, seconds, pending.error, pending.result)
                if not pending.settled:
                    method, field = self._takes_back
                    self.notify(method, {field: pending.id})

    def close(self) -> None:
        """Ends the input; ``serve`` then finishes as at its end."""
        self._transport.stop_reading()

    def hurry(self, *, grace_s: float, flush_s: float) -> None:
        """Gives the end less time than was planned, also when it has begun."""
        self._grace_s = min(self._grace_s, grace_s)
        self._flush_s = min(self._flush_s, flush_s)
        if self._grace is not None:
            until = anyio.current_time() + self._grace_s
            self._grace.deadline = min(self._grace.deadline, until)
        if self._flushing is not None:
            self._flushing.cancel()

    async def serve(self) -> None:
        """Serves until the input ends. On return every request has been answered, output has been
        flushed as far as the other end took it, and everybody who waited has been woken."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                try:
                    await self._read()
                    self._outbound.close()
                    await self._finish()
                finally:
                    # Before the handlers unwind, so that none of those that wait is started.
                    self._outbound.close()
                    self._answer_the_waiting()
        finally:
            with anyio.CancelScope(shield=True):
                await self._flush()
            self._transport.close()

    # Input.

    async def _read(self) -> None:
        while (frames := await self._transport.receive()) is not None:
            for index, frame in enumerate(frames, 1):
                self._take(frame)
                if index % _FRAMES_PER_TURN == 0:
                    await anyio.lowlevel.checkpoint()
            while self._aside_bytes > _ASIDE_BYTES:
                await self._transport.drained()
                await anyio.lowlevel.checkpoint()

    def _take(self, frame: Frame) -> None:
        message = read(frame)
        if isinstance(message, Notification):
            for watcher in self._watchers:
                watcher.notification_came(message)
            if message.method in ("$/cancelRequest", "$/cancel_request"):
                self._cancel(message.params)
            else:
                self._take_in_turn(message, frame)
        elif isinstance(message, Response):
            self._take_answer(message, frame)
        elif isinstance(message, Unreadable) and message.is_response:
            if not self._outbound.settle(message.id, Raw(b"null"), message.error):
                _log.debug("Ignored an unreadable answer: %s", message.error.message)
        else:
            self._take_in_turn(message, frame)

    def _take_in_turn(self, message: _InTurn, frame: Frame) -> None:
        """Takes it, unless the other end reads so little that its answer would have no place."""
        if not self._aside and self._transport.waiting_bytes <= _OVERFULL_BYTES:
            self._admit(message)
            return
        if self._aside_scope is None:
            assert self._tasks is not None
            self._aside_scope = anyio.CancelScope()
            self._tasks.start_soon(self._admit_aside, self._aside_scope)
        size = _EACH_BYTES + (len(frame) if isinstance(frame, bytes) else 0)
        self._aside.append((message, size))
        self._aside_bytes += size

    async def _admit_aside(self, scope: anyio.CancelScope) -> None:
        with scope:
            while self._aside:
                await self._transport.drained()
                for _ in range(min(_FRAMES_PER_TURN, len(self._aside))):
                    message, size = self._aside.popleft()
                    self._aside_bytes -= size
                    self._admit(message)
                await anyio.lowlevel.checkpoint()
        self._aside_scope = None

    def _take_answer(self, message: Response, frame: Frame) -> None:
        known = self._outbound.settle(message.id, message.result, message.error)
        # A late answer to a request that was cancelled, or whose time was over.
        known = known or self._outbound.was_asked(message.id)
        if not known and message.is_bare:
            error = invalid_request("Not a request: it has no method")
            self._take_in_turn(Unreadable(message.id, error), frame)
        elif not known:
            _log.debug("Ignored an answer with the unknown id %r", message.id)

    def _admit(self, message: _InTurn) -> None:
        if isinstance(message, Notification):
            self._order.arrive(message)
        elif isinstance(message, Unreadable):
            self._send_error(message.id, message.error)
        elif message.id in self._in_flight:
            self._send_error(message.id, invalid_request("A request with this id is in flight"))
        elif len(self._in_flight) >= self._most_in_flight(message.method):
            self._send_error(message.id, overloaded(_RETRY_AFTER_MS))
        else:
            request = Request(message.id, message.method, message.params, self._order.started)
            self._in_flight[request.id] = request
            for watcher in self._watchers:
                watcher.request_came(request)
            self._order.arrive(request)

    def _most_in_flight(self, method: str) -> int:
        return self._max_in_flight + (_RESERVED if self._makes_room(method) else 0)

    def _cancel(self, params: Raw) -> None:
        try:
            wanted = msgspec.json.decode(params, type=_CancelParams)
        except (msgspec.DecodeError, RecursionError):
            return
        id = wanted.id if wanted.id is not None else wanted.requestId
        if id is None:
            return
        request = self._in_flight.get(id)
        if request is None:
            self._cancel_aside(id)
        elif not request._cancelled:
            request._cancelled = True
            if request._running:
                request._cancel()
            elif not self._answers_cancel(request.method):
                self._fail(request, request_cancelled())

    def _cancel_aside(self, id: Id) -> None:
        for index, (message, size) in enumerate(self._aside):
            if isinstance(message, RequestMessage) and message.id == id:
                del self._aside[index]
                self._aside_bytes -= size
                self._send_error(id, request_cancelled())
                return

    # Requests of the other end.

    def _key_of(self, request: Request) -> str | None:
        try:
            return self._handler.ordering_key(request.method, request.params)
        except Exception as exc:  # noqa: BLE001 - the border to the application
            self._fail(request, self._error_of(request, exc))
            return None

    def _start(self, request: Request) -> None:
        assert self._tasks is not None
        self._tasks.start_soon(self._run, request)

    def _deliver(self, notification: Notification) -> None:
        try:
            self._handler.notification(notification.method, notification.params)
        except Exception:  # noqa: BLE001 - the border to the application
            _log.exception("The notification %s failed", notification.method)

    async def _run(self, request: Request) -> None:
        request._running = True
        if request._answered:
            self._order.finished(request)
            return
        if request._cancelled:
            assert self._tasks is not None
            self._tasks.start_soon(self._cancel_at_first_wait, request)
        try:
            with request._scope:
                result = await self._handler.request(request)
                self._succeed(request, result)
        except Exception as exc:  # noqa: BLE001 - the border to the application
            self._fail(request, self._error_of(request, exc))
        finally:
            # Cancelled by the other end, by the end of the connection, or from outside.
            own = request._cancelled and request._scope.cancelled_caught
            self._fail(request, request_cancelled() if own else _ended())
            self._order.finished(request)

    async def _cancel_at_first_wait(self, request: Request) -> None:
        """Runs when the handler has come to its first wait, or to its end."""
        if request._on_cancel is None and not request._answered:
            request._scope.cancel()

    def _succeed(self, request: Request, result: Any) -> None:
        if request._answered:
            return
        self._answer(request, result_payload(request.id, result), None)

    def _fail(self, request: Request, error: RpcError) -> None:
        if not request._answered:
            self._answer(request, error_payload(request.id, error), error)

    def _answer(self, request: Request, payload: bytes, error: RpcError | None) -> None:
        request._answered = True
        del self._in_flight[request.id]
        self._transport.send((payload,))
        seconds = time.monotonic() - request._came
        for watcher in self._watchers:
            watcher.answered(request, seconds, error, payload)
        if self._idle is not None and not self._in_flight:
            self._idle.set()
            self._idle = None

    def _send_error(self, id: Id | None, error: RpcError) -> None:
        self._transport.send((error_payload(id, error),))
        for watcher in self._watchers:
            watcher.refused(id, error)

    def _error_of(self, request: Request, exc: Exception) -> RpcError:
        try:
            error = self._handler.error(exc)
        except Exception:  # noqa: BLE001 - the border to the application
            _log.exception("No error could be made of a failure of %s", request.method)
            return internal_error("Internal error")
        if error.code == INTERNAL_ERROR and not isinstance(exc, RpcError):
            _log.error("The request %s failed", request.method, exc_info=exc)
        return error

    # The end.

    async def _finish(self) -> None:
        while self._aside and await self._flush():
            await anyio.lowlevel.checkpoint()
        try:
            await self._handler.eof()
        except Exception:  # noqa: BLE001 - the border to the application
            _log.exception("The end of input was not handled")
        with anyio.move_on_after(self._grace_s) as self._grace:
            await self.answered()
        for request in list(self._in_flight.values()):
            if request._running:
                request._scope.cancel()

    async def _flush(self) -> bool:
        with anyio.CancelScope() as self._flushing:
            return await self._transport.flush(self._flush_s)
        return await self._transport.flush(self._flush_s)

    def _answer_the_waiting(self) -> None:
        """What has not started by now will not."""
        if self._aside_scope is not None:
            self._aside_scope.cancel()
        for message, _ in self._aside:
            if isinstance(message, RequestMessage):
                self._send_error(message.id, _ended())
            elif isinstance(message, Unreadable):
                self._send_error(message.id, message.error)
        self._aside.clear()
        self._order.stop()
        for request in list(self._in_flight.values()):
            if not request._running:
                self._fail(request, _ended())


def _ended() -> RpcError:
    return internal_error("The connection ended before the request was finished")
