"""Streaming requests to providers.

Owns the HTTP clients (one for http and one for https per event loop and set of certificates, made
when first needed), time limits, proxies from the environment, and the reading of answers that are
no streams. Does not own dialects: what the events say is a provider's; nor the words for what goes
wrong (``_http_failures``, ``failures``).

No error text names a credential: errors say which provider and which origin, never a header, a
query or a user name in an address.
"""

import logging
import math
import re
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio.lowlevel import RunVar
from msgspec import Struct, field

from pi_rpc import __version__
from pi_rpc._os.threads import run_blocking
from pi_rpc.llm._http_failures import (
    CONNECT_TIMEOUT_S,
    host_of,
    network_failure,
    not_a_stream,
    only_signs_of_life,
    origin_of,
)
from pi_rpc.llm.errors import AuthError, BadRequestError, MalformedStreamError, ProviderError
from pi_rpc.llm.failures import failure_of_response, scrubbed
from pi_rpc.llm.sse import SseDecoder, SseEvent

if TYPE_CHECKING:
    import httpx

__all__ = [
    "EventDecoder",
    "EventRequest",
    "EventResponse",
    "aclose_clients",
    "host_of",
    "open_events",
    "preload",
    "prepare",
]

_log = logging.getLogger(__name__)

_WRITE_TIMEOUT_S = 60.0
_KEEPALIVE_S = 30.0
_CLOSE_TIMEOUT_S = 1.0
_ERROR_BODY_BYTES = 64 * 1024
_ERROR_BODY_TIMEOUT_S = 10.0
_LAST_READS_S = 3.0
"""How long to wait for usage and the closing marker once the reply itself is complete."""
_DRAIN_S = 0.1
"""How long to wait for the end of the body after the closing marker, to keep the connection."""
_LIFELESS_IDLES = 4
_PING = "ping"
"""An event by which Anthropic's servers say that they live."""
_NO_ANSWER = "Server disconnected without sending a response."
"""What the library says when a connection ended where an answer should have begun."""

_HEADER_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_FRAMING = {"content-length", "transfer-encoding"}
"""Headers that follow from the body."""

_SCHEMES = {"http", "https"}
_LOOPBACK = ("all://localhost", "all://127.0.0.1", "all://[::1]")


class EventDecoder(Protocol):
    """Turns the bytes of an answer into events; both methods raise ``MalformedStreamError``."""

    def feed(self, read: bytes, /) -> list[SseEvent]:
        """The events that ``read`` completes."""
        ...

    def eof(self) -> list[SseEvent]:
        """What is left when the stream ends."""
        ...


class EventRequest(Struct, frozen=True):
    """A POST that is answered with an event stream."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    provider: str
    """Who is asked, for error texts."""
    idle_timeout_s: float
    """Longest wait for the next bytes, the first included; 0 for none. Four times that is the
    longest wait for the next event: comments and pings only say that a server lives."""
    secrets: tuple[str, ...] = ()
    """What must not appear in an error text."""
    read_pause_s: float = 0.0
    """How long events that follow each other quickly may wait to be read together."""
    ca_file: str | None = None
    """A PEM file of authorities that are trusted as well."""
    on_response: Callable[[int, Mapping[str, str]], Awaitable[None]] | None = None
    make_decoder: Callable[[], EventDecoder] = SseDecoder
    """How the events are framed."""

    @property
    def lifeless_s(self) -> float:
        """Longest wait for the head of the answer, and for the next event."""
        return self.idle_timeout_s * _LIFELESS_IDLES or math.inf

    def failure_below(self, error: Exception) -> ProviderError:
        """What an error of the HTTP library means."""
        return network_failure(
            error,
            provider=self.provider,
            url=self.url,
            idle_timeout_s=self.idle_timeout_s,
            secrets=self.secrets,
        )


class _Clients(Struct):
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    by_kind: dict[tuple[str, str | None], "httpx.AsyncClient"] = field(default_factory=dict)
    """By scheme and file of certificates."""


_clients: RunVar[_Clients] = RunVar("pi_rpc_http_clients")


async def prepare(scheme: str, ca_file: str | None = None) -> None:
    """Make what requests to addresses of ``scheme`` need, ahead of the first one.

    What stands in the way, certificates that cannot be read for instance, the request will tell.
    """
    if scheme in _SCHEMES:
        with suppress(ProviderError):
            await _client_of(scheme, ca_file)


def preload() -> None:
    """Import the library. Blocks: call it in a thread."""
    if "httpx" in sys.modules:
        return
    # Where rich and click are installed httpx loads them for a command line that nobody uses.
    sys.modules["httpx._main"] = None  # type: ignore[assignment] # what makes an import fail
    try:
        import httpx
    finally:
        sys.modules.pop("httpx._main", None)
    _log.debug("httpx %s is loaded", httpx.__version__)


async def aclose_clients() -> None:
    """Close this event loop's clients and their idle connections; later requests make new ones."""
    clients = _clients.get(None)
    if clients is None:
        return
    open_ones = list(clients.by_kind.values())
    clients.by_kind.clear()
    with anyio.move_on_after(_CLOSE_TIMEOUT_S, shield=True):
        for client in open_ones:
            await client.aclose()


class EventResponse:
    """An event stream being read: one list of events per network read."""

    def __init__(self, request: EventRequest, chunks: AsyncIterator[bytes]) -> None:
        self._request = request
        self._chunks = chunks
        self._decoder = request.make_decoder()
        self._begun = False
        self._ended = False
        self._give_up_at: float | None = None
        self._event_at = time.monotonic()
        """When the last event came that is part of an answer."""
        self.complete = False
        """Set by the reader once the reply itself is whole. What still comes is then waited for
        only briefly, and losing the connection is no failure any more."""

    async def read(self) -> list[SseEvent] | None:
        """The events of the next read, possibly none; None after the end."""
        if self._ended:
            return None
        if not self.complete:
            chunk = await self._next_chunk()
            if not self._begun and chunk:
                await self._check_start(chunk)
            events = self._decode(chunk)
            if chunk is not None:
                self._check_life(events)
            return events
        if self._give_up_at is None:
            self._give_up_at = anyio.current_time() + _LAST_READS_S
        try:
            with anyio.CancelScope(deadline=self._give_up_at):
                return self._decode(await self._next_chunk())
        except ProviderError as error:
            _log.debug("after the reply was complete: %s", error.message)
        self._ended = True
        return None

    def _check_life(self, events: list[SseEvent]) -> None:
        if any(name != _PING for name, _ in events):
            self._event_at = time.monotonic()
        elif time.monotonic() - self._event_at > (limit_s := self._request.lifeless_s):
            raise only_signs_of_life(self._request.provider, self._request.url, limit_s)

    async def _check_start(self, chunk: bytes) -> None:
        """Refuse a document that is sent as if it were events; no event begins like one."""
        start = chunk.lstrip()
        self._begun = bool(start)
        if start[:1] not in {b"{", b"[", b"<"}:
            return
        body = scrubbed(await _body_text(self._chunks, chunk), self._request.secrets)
        kind = "a page" if start.startswith(b"<") else "JSON"
        raise not_a_stream(kind, body, provider=self._request.provider, url=self._request.url)

    async def drain(self) -> None:
        """Read a body that is as good as over to its end, so that its connection can be reused."""
        self.complete = True
        with anyio.move_on_after(_DRAIN_S):
            while await self.read() is not None:
                pass

    def _decode(self, chunk: bytes | None) -> list[SseEvent]:
        if chunk is None:
            self._ended = True
            return self._decoder.eof()
        return self._decoder.feed(chunk)

    async def _next_chunk(self) -> bytes | None:
        import httpx

        try:
            return await anext(self._chunks, None)
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise self._request.failure_below(error) from error


@asynccontextmanager
async def open_events(request: EventRequest) -> AsyncIterator[EventResponse]:
    """Send the request and give its event stream.

    Raises the ``ProviderError`` that fits when the provider cannot be reached, answers with a
    failure, or answers with something else than events. No ``ProviderError`` that leaves the block
    names one of the request's secrets. Leaving the block closes the connection
    unless the stream was read to its end; also when cancelled, within a second.
    """
    try:
        response = await _send(request)
        try:
            if request.on_response is not None:
                await request.on_response(response.status_code, dict(response.headers))
            await _check_head(response, request)
            _pace(response, request)
            chunks: AsyncGenerator[bytes, None] = response.aiter_bytes()  # type: ignore[assignment]
            yield EventResponse(request, chunks)
        finally:
            with anyio.move_on_after(_CLOSE_TIMEOUT_S, shield=True):
                await response.aclose()
    except ProviderError as error:
        # Also what the events said, of which the reader made an error.
        error.message = scrubbed(error.message, request.secrets)
        if request.provider not in error.message:
            error.message = f"{request.provider}: {error.message}"
        error.args = (error.message,)
        raise


async def _send(request: EventRequest) -> "httpx.Response":
    client = await _client(request)
    import httpx

    timeout = httpx.Timeout(
        connect=CONNECT_TIMEOUT_S,
        read=request.idle_timeout_s or None,
        write=_WRITE_TIMEOUT_S,
        pool=None,
    )
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream",
        # A compressor on the way would hold deltas back to fill its window.
        "accept-encoding": "identity",
        "user-agent": f"pi-rpc/{__version__}",
        **{name.lower(): value for name, value in request.headers.items()},
    }
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or name in _FRAMING:
            raise BadRequestError(
                f"{name[:40]!a} cannot be a header of a request to {request.provider}"
            )
        # The library's own complaint would quote the value.
        if not value.isascii() or any(ord(char) < 32 and char != "\t" for char in value):
            raise AuthError(f"the header {name} for {request.provider} has forbidden characters")
    # Each turn that finds its idle connection closed uses it up; the last connects anew.
    while (response := await _post(client, request, headers, timeout)) is None:
        _log.debug("%s had closed an idle connection", request.provider)
    return response


async def _post(
    client: "httpx.AsyncClient",
    request: EventRequest,
    headers: Mapping[str, str],
    timeout: "httpx.Timeout",
) -> "httpx.Response | None":
    """The answer's head; None if an idle connection was used again and ended without any answer.

    Servers close idle connections when they like, perhaps just as we send. Nothing was answered
    then, so it is safe to ask once more.
    """
    import httpx

    is_fresh = False

    async def note(event: str, _: object) -> None:
        nonlocal is_fresh
        is_fresh = is_fresh or ".connect_" in event

    try:
        built = client.build_request(
            "POST",
            request.url,
            headers=headers,
            content=request.body,
            timeout=timeout,
            extensions={"trace": note},
        )
        with anyio.fail_after(request.lifeless_s):
            return await client.send(built, stream=True)
    except TimeoutError as error:
        raise only_signs_of_life(request.provider, request.url, request.lifeless_s) from error
    except httpx.InvalidURL as error:
        raise BadRequestError(f"the address of {request.provider} is not a valid URL") from error
    except httpx.HTTPError as error:
        was_lost = isinstance(error, (httpx.ReadError, httpx.WriteError)) or (
            isinstance(error, httpx.RemoteProtocolError) and str(error) == _NO_ANSWER
        )
        if was_lost and not is_fresh:
            return None
        raise request.failure_below(error) from error


async def _client(request: EventRequest) -> "httpx.AsyncClient":
    scheme = request.url.partition("://")[0].lower()
    if scheme not in _SCHEMES or not host_of(request.url):
        raise BadRequestError(
            f"the base URL of {request.provider} is not an address that begins with http:// or "
            "https://"
        )
    return await _client_of(scheme, request.ca_file)


async def _client_of(scheme: str, ca_file: str | None) -> "httpx.AsyncClient":
    clients = _clients.get(None)
    if clients is None:
        clients = _Clients()
        _clients.set(clients)
    kind = (scheme, ca_file)
    async with clients.lock:
        if kind not in clients.by_kind:
            # Importing the library and reading the certificates takes a tenth of a second.
            made = await run_blocking(partial(_make_client, *kind), abandon_on_cancel=True)
            clients.by_kind[kind] = made
    return clients.by_kind[kind]


def _make_client(scheme: str, ca_file: str | None) -> "httpx.AsyncClient":
    preload()
    import ssl

    import httpx

    from pi_rpc.llm._certificates import trusting_context
    from pi_rpc.llm._joined_reads import join_reads

    # Without https no certificates are read; should TLS be met after all (a proxy), this empty
    # context trusts nobody.
    context = (
        trusting_context(ca_file) if scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    try:
        client = httpx.AsyncClient(
            verify=context,
            limits=httpx.Limits(max_connections=None, keepalive_expiry=_KEEPALIVE_S),
            # A proxy cannot reach this machine's own servers.
            mounts=dict.fromkeys(_LOOPBACK),
        )
    except (ValueError, httpx.InvalidURL) as error:
        raise ProviderError(
            "the proxy settings of the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) "
            "are not valid"
        ) from error
    join_reads(client)
    return client


def _pace(response: "httpx.Response", request: EventRequest) -> None:
    from pi_rpc.llm._joined_reads import pace_reads

    pace_reads(response, request.read_pause_s)


async def _check_head(response: "httpx.Response", request: EventRequest) -> None:
    """Return when an event stream follows; raise what the answer means otherwise."""
    status = response.status_code
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    unreadable = await _unreadable_encoding(response, request)
    is_success = 200 <= status < 300
    if is_success and unreadable:
        raise MalformedStreamError(
            f"{request.provider} sent an answer that was compressed in a way we cannot read "
            f"({unreadable[:40]}), though none was asked for; is there a proxy that does it?",
            status=status,
            retryable=False,
        )
    if is_success and kind not in {"application/json", "text/html"}:
        return
    chunks = response.aiter_bytes()
    body = "" if unreadable else scrubbed(await _body_text(chunks), request.secrets)
    headers = {name.lower(): value for name, value in response.headers.items()}
    if 300 <= status < 400:
        raise BadRequestError(
            f"{request.provider} answered {status}: {origin_of(request.url)} has moved; "
            "set the new base URL",
            status=status,
        )
    if not is_success:
        raise failure_of_response(status, headers, body, request.provider)
    raise not_a_stream(kind, body, provider=request.provider, url=request.url)


async def _unreadable_encoding(response: "httpx.Response", request: EventRequest) -> str:
    """The compression of the body that the library cannot undo, if it has one."""
    readable = (await _client(request)).headers.get("accept-encoding", "")
    known = {"", "identity", *(each.strip() for each in readable.split(","))}
    used = response.headers.get("content-encoding", "").lower().split(",")
    return next((each.strip() for each in used if each.strip() not in known), "")


async def _body_text(chunks: AsyncIterator[bytes], start: bytes = b"") -> str:
    """The first 64 KiB of a body, as far as it comes in ten seconds."""
    import httpx

    pieces = [start]
    size = len(start)
    try:
        with anyio.move_on_after(_ERROR_BODY_TIMEOUT_S):
            async for piece in chunks:
                pieces.append(piece)
                size += len(piece)
                if size >= _ERROR_BODY_BYTES:
                    break
    except httpx.HTTPError as error:
        # The status alone decides then.
        _log.debug("the body of a failure was cut off: %s", type(error).__name__)
    return b"".join(pieces)[:_ERROR_BODY_BYTES].decode(errors="replace")
