"""A real HTTP server that does exactly what a test says, byte by byte, and recorded streams."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec
import pytest

from pi_rpc.llm.events import AssistantMessageEvent
from pi_rpc.llm.http import aclose_clients
from pi_rpc.llm.messages import AssistantMessage, UserMessage
from pi_rpc.llm.models import Model, ModelCost
from pi_rpc.llm.provider import Context, stream_simple
from pi_rpc.llm.stream import AssistantMessageStream

_Answer = tuple[AssistantMessageStream, AssistantMessage, list[AssistantMessageEvent]]

DATA = Path(__file__).parent.parent / "data" / "sse"


@dataclass
class Asked:
    """A request as the server saw it."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class Exchange:
    """One connection in the hands of a handler."""

    stream: anyio.abc.SocketStream
    asked: Asked

    async def send(self, data: bytes) -> None:
        await self.stream.send(data)

    async def head(
        self, status: str = "200 OK", kind: str = "text/event-stream", *lines: str
    ) -> None:
        head = [f"HTTP/1.1 {status}", f"content-type: {kind}", "connection: close", *lines, "", ""]
        await self.send("\r\n".join(head).encode())

    async def events(self, *payloads: Any) -> None:
        for payload in payloads:
            text = payload if isinstance(payload, str) else msgspec.json.encode(payload).decode()
            await self.send(f"data: {text}\n\n".encode())

    async def wait_until_closed(self) -> None:
        """Return when the client closed its end."""
        try:
            while True:
                await self.stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return

    async def reset(self) -> None:
        """Cut the connection hard."""
        import socket
        import struct

        raw = self.stream.extra(anyio.abc.SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await self.stream.aclose()


Handler = Callable[[Exchange], Awaitable[None]]


@dataclass
class RawServer:
    url: str
    asked: list[Asked] = field(default_factory=list)


async def _read_request(stream: anyio.abc.SocketStream) -> Asked:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)
    }
    while len(body) < int(headers.get("content-length", "0")):
        body += await stream.receive()
    return Asked(path=first.split()[1], headers=headers, body=body)


@asynccontextmanager
async def _serve(handler: Handler) -> AsyncIterator[RawServer]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    server = RawServer(url=f"http://127.0.0.1:{port}")

    async def answer(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            try:
                asked = await _read_request(stream)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return
            server.asked.append(asked)
            try:
                await handler(Exchange(stream, asked))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        try:
            yield server
        finally:
            tasks.cancel_scope.cancel()
            await aclose_clients()


@pytest.fixture
def serve() -> Callable[[Handler], AbstractAsyncContextManager[RawServer]]:
    """``async with serve(handler) as server``: each connection is handed to ``handler``."""
    return _serve


@pytest.fixture
def recorded() -> Callable[[str], bytes]:
    """The bytes of a recorded stream."""
    return lambda name: (DATA / f"{name}.txt").read_bytes()


@pytest.fixture
def make_model() -> Callable[..., Model]:
    """A model; keyword arguments change its fields."""

    def make(**changes: Any) -> Model:
        model = Model(
            id="test-model",
            name="Test",
            api="openai-completions",
            provider="acme",
            base_url="http://127.0.0.1:1",
            reasoning=False,
            input=["text", "image"],
            cost=ModelCost(input=1, output=2, cache_read=0.1, cache_write=1.25),
            context_window=128_000,
            max_tokens=16_000,
        )
        return msgspec.structs.replace(model, **changes)

    return make


@pytest.fixture
def hello() -> Context:
    """The smallest conversation."""
    return Context(messages=[UserMessage(content="hello", timestamp=1)])


@pytest.fixture
def ask(serve: Any, make_model: Callable[..., Model], hello: Any) -> Callable[..., Any]:
    """Ask a server that sends these events and closes."""

    async def run(*payloads: Any, **changes: Any) -> _Answer:
        async def answer(exchange: Any) -> None:
            await exchange.head()
            await exchange.events(*payloads)

        async with serve(answer) as server:
            stream = stream_simple(make_model(base_url=server.url, **changes), hello)
            events = [event async for event in stream]
            return stream, await stream.result(), events

    return run


@pytest.fixture
def claude(ask: Callable[..., Any]) -> Callable[..., Any]:
    async def run(*payloads: Any, **changes: Any) -> _Answer:
        answer: _Answer = await ask(*payloads, **{"api": "anthropic-messages", **changes})
        return answer

    return run
