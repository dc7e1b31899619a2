"""A peer in memory with a client that shares no code with it, and a handler that tests steer."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from msgspec import Raw

from pi_rpc.jsonrpc.errors import RpcError, error_of, method_not_found
from pi_rpc.jsonrpc.framing import Framing
from pi_rpc.jsonrpc.peer import BARRIER, Peer, Request
from pi_rpc.jsonrpc.stdio import MemoryTransport, memory_pair
from tests.deadlines import DEADLINE_S


class Steered:
    """A handler whose methods are functions that tests put into ``methods``.

    Params may hold ``key``, the ordering key.
    """

    def __init__(self) -> None:
        self.methods: dict[str, Callable[[Request], Awaitable[Any]]] = {"ping": self._ping}
        self.begun: list[Any] = []
        self.told: list[tuple[str, Any]] = []
        self.eofs = 0
        self.on_eof: Callable[[], Awaitable[None]] | None = None
        self._changed = anyio.Event()

    def ordering_key(self, method: str, params: Raw) -> str | None:
        if method == "initialize":
            return BARRIER
        key = json.loads(bytes(params)).get("key")
        if key == "raise":
            raise RuntimeError("no key")
        return key

    async def request(self, request: Request) -> Any:
        if request.method not in self.methods:
            raise method_not_found(request.method)
        self.begun.append(request.id)
        self.changed()
        return await self.methods[request.method](request)

    def notification(self, method: str, params: Raw) -> None:
        self.told.append((method, json.loads(bytes(params))))
        self.changed()
        if method == "raise":
            raise RuntimeError("not taken")

    def error(self, exc: BaseException) -> RpcError:
        if isinstance(exc, ZeroDivisionError):
            raise TypeError("no mapping")
        return error_of(exc)

    async def eof(self) -> None:
        self.eofs += 1
        self.changed()
        if self.on_eof is not None:
            await self.on_eof()

    async def _ping(self, request: Request) -> Any:
        return {}

    def changed(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for a condition on what this handler has seen."""
        with anyio.fail_after(DEADLINE_S):
            while not condition():
                await self._changed.wait()


class Client:
    """The other end: JSON in and out."""

    def __init__(self, far: MemoryTransport) -> None:
        self.far = far
        self._buffer = b""
        self.seen: list[dict[str, Any]] = []

    def send(self, *messages: dict[str, Any]) -> None:
        """Sends messages in one piece."""
        self.far.send_bytes(
            b"".join(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in messages)
        )

    def call(self, id: Any, method: str = "ping", **params: Any) -> None:
        """Sends a request."""
        self.send({"id": id, "method": method, "params": params})

    def cancel(self, id: Any) -> None:
        """Asks for a request's cancellation."""
        self.send({"method": "$/cancelRequest", "params": {"id": id}})

    async def next(self) -> dict[str, Any]:
        """The next message that comes."""
        with anyio.fail_after(DEADLINE_S):
            while b"\n" not in self._buffer:
                data = await self.far.receive_bytes()
                assert data, "the peer has ended"
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        self.seen.append(message)
        return message

    async def answer_to(self, id: Any) -> dict[str, Any]:
        """The answer to a request, whatever comes before it."""
        for message in self.seen:
            if "method" not in message and message["id"] == id:
                return message
        while True:
            message = await self.next()
            if "method" not in message and message["id"] == id:
                return message

    async def rest(self) -> list[dict[str, Any]]:
        """Everything up to the end."""
        with anyio.fail_after(DEADLINE_S):
            while data := await self.far.receive_bytes():
                self._buffer += data
        found: list[dict[str, Any]] = [json.loads(line) for line in self._buffer.splitlines()]
        self._buffer = b""
        self.seen += found
        return found

    def codes(self) -> Counter[tuple[Any, int | None]]:
        """Id and error code (None: a result) of every answer so far."""
        return Counter(
            (message["id"], message.get("error", {}).get("code"))
            for message in self.seen
            if "method" not in message
        )


@asynccontextmanager
async def connected(handler: Steered, **options: Any) -> AsyncIterator[tuple[Client, Peer]]:
    """A client and the peer it talks to. At the end the input ends and ``serve`` has to return."""
    near, far = memory_pair(Framing.LINES, Framing.LINES)
    peer = Peer(near, handler, **options)
    with anyio.fail_after(DEADLINE_S * 2):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.serve)
            client = Client(far)
            yield client, peer
            far.end_output()
            await client.rest()


def error_code(message: dict[str, Any]) -> int:
    """The code of an error answer."""
    code: int = message["error"]["code"]
    return code
