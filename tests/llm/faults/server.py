"""A scripted server of model providers: one listener for every dialect and every fault.

Owns the connections: it reads a request, finds the case that its address (or, at a proxy, its
credential) names, and hands the connection to the case's script. Knows no dialect.
"""

import socket
import ssl
import struct
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

import anyio
import anyio.abc
from anyio.streams.tls import TLSStream

from pi_rpc.llm.http import aclose_clients

GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, ssl.SSLError)


@dataclass
class Request:
    """A request as the server saw it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Connection:
    """A connection in the hands of a script."""

    def __init__(self, stream: anyio.abc.ByteStream, request: Request, tls: ssl.SSLContext) -> None:
        self.stream = stream
        self.request = request
        self._tls = tls

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            await self.stream.send(piece)

    async def head(self, status: int, kind: str, *lines: str) -> None:
        """The head of an answer after which the connection is not used again."""
        head = [f"HTTP/1.1 {status} -", f"content-type: {kind}", "connection: close", *lines]
        await self.send("\r\n".join([*head, "", ""]).encode())

    async def end(self) -> None:
        """Send nothing more; whether the client closes its side is seen then."""
        await self.stream.send_eof()

    async def reset(self) -> None:
        """Cut the connection hard."""
        raw = self.stream.extra(anyio.abc.SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await self.stream.aclose()

    async def become_tls(self) -> Request:
        """Go on with TLS, as the far end of a proxy's tunnel; gives the request that comes then."""
        self.stream = await TLSStream.wrap(
            self.stream, server_side=True, ssl_context=self._tls, standard_compatible=False
        )
        return await read_request(self.stream)


Script = Callable[[Connection], Awaitable[None]]


@dataclass
class Case:
    """One script and what was asked of it."""

    name: str
    script: Script
    asked: list[Request] = field(default_factory=list)
    arrived: anyio.Event = field(default_factory=anyio.Event)
    """The first request was read."""
    _open: int = 0
    _closed: anyio.Event = field(default_factory=anyio.Event)

    async def all_closed(self) -> None:
        """Return when the client has closed every connection to this case."""
        while self._open:
            self._closed = anyio.Event()
            await self._closed.wait()

    async def serve(self, connection: Connection) -> None:
        self.asked.append(connection.request)
        self.arrived.set()
        self._open += 1
        try:
            await self.script(connection)
            while True:
                await connection.stream.receive()
        except GONE:
            pass
        finally:
            self._open -= 1
            self._closed.set()


class NoHttp(Exception):
    """Somebody speaks TLS where plain HTTP is spoken."""


async def read_request(stream: anyio.abc.ByteReceiveStream) -> Request:
    read = b""
    while b"\r\n\r\n" not in read:
        read += await stream.receive()
        if read.startswith(b"\x16\x03"):
            raise NoHttp
    head, _, body = read.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    while len(body) < int(headers.get("content-length", "0")):
        body += await stream.receive()
    method, target, _ = first.split()
    return Request(method, target, headers, body)


class FaultServer:
    """The listeners, with and without TLS, and the cases they serve."""

    def __init__(self, port: int, tls_port: int, tls: ssl.SSLContext) -> None:
        self.port = port
        self.tls_port = tls_port
        self._tls = tls
        self._cases: dict[str, Case] = {}
        self._numbers = count(1)

    def add(self, script: Script) -> Case:
        """A case that is reached at addresses whose path begins with its name."""
        case = Case(f"case{next(self._numbers)}", script)
        self._cases[case.name] = case
        return case

    async def serve(self, stream: anyio.abc.ByteStream) -> None:
        async with stream:
            try:
                request = await read_request(stream)
            except GONE:
                return
            except NoHttp:
                await stream.send(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")
                return
            await self._case_of(request).serve(Connection(stream, request, self._tls))

    async def serve_tls(self, stream: anyio.abc.ByteStream) -> None:
        try:
            secure = await TLSStream.wrap(
                stream, server_side=True, ssl_context=self._tls, standard_compatible=False
            )
        except GONE:
            # Whoever does not trust our certificate leaves.
            await anyio.aclose_forcefully(stream)
            return
        await self.serve(secure)

    def _case_of(self, request: Request) -> Case:
        credential = request.headers.get("proxy-authorization", "").removeprefix("Basic ")
        if credential:
            return self._cases[b64decode(credential).decode().partition(":")[0]]
        path = request.target
        if "://" in path:
            path = path.partition("://")[2].partition("/")[2]
        return self._cases[path.strip("/").split("/")[0]]


@asynccontextmanager
async def fault_server(tls: ssl.SSLContext) -> AsyncIterator[FaultServer]:
    """A server on this machine, until the block is left."""
    plain = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    secure = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = plain.extra(anyio.abc.SocketAttribute.local_port)
    tls_port = secure.extra(anyio.abc.SocketAttribute.local_port)
    server = FaultServer(port, tls_port, tls)
    async with plain, secure, anyio.create_task_group() as tasks:
        tasks.start_soon(plain.serve, server.serve)
        tasks.start_soon(secure.serve, server.serve_tls)
        try:
            yield server
        finally:
            await aclose_clients()
            tasks.cancel_scope.cancel()
