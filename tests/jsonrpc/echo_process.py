"""A process that knows ``ping`` and ``initialize``: the least that the hazards need."""

import sys
from pathlib import Path
from typing import Any

import anyio
from msgspec import Raw

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pi_rpc.jsonrpc.errors import RpcError, error_of, method_not_found
from pi_rpc.jsonrpc.peer import BARRIER, Peer, Request
from pi_rpc.jsonrpc.stdio import StdioTransport, claim_stdio


class Echo:
    """A handler: ``ping`` answers ``{}``, ``initialize`` is a barrier, ``exit`` ends."""

    peer: Peer

    def ordering_key(self, method: str, params: Raw) -> str | None:
        return BARRIER if method == "initialize" else None

    async def request(self, request: Request) -> Any:
        if request.method == "ping":
            return {}
        if request.method == "initialize":
            return {"protocolVersion": 1, "serverInfo": {"name": "echo"}, "capabilities": {}}
        if request.method == "shutdown":
            return None
        raise method_not_found(request.method)

    def notification(self, method: str, params: Raw) -> None:
        if method == "exit":
            self.peer.close()

    def error(self, exc: BaseException) -> RpcError:
        return error_of(exc)

    async def eof(self) -> None:
        """Nothing to stop."""


async def main() -> None:
    handler = Echo()
    handler.peer = Peer(StdioTransport(*claim_stdio()), handler)
    print("anything printed goes to standard error")
    await handler.peer.serve()


if __name__ == "__main__":
    anyio.run(main)
