"""The real embedded model: one server for all tests of a module."""

import os
from collections.abc import AsyncIterator

import pytest

from pi_rpc.llm.http import aclose_clients
from pi_rpc.llm.local import LocalModelServer, installed


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for a whole module: the server belongs to it. No longer, for what is not
    asynchronous may not run beside it."""
    return "asyncio"


@pytest.fixture(scope="module")
async def local_server(anyio_backend: str) -> AsyncIterator[LocalModelServer]:
    """The server, started by the first test that asks it.

    Where the model is not installed tests are skipped, or fail if ``PI_RPC_REQUIRE_MODEL`` is 1.
    """
    if not installed():
        message = "the embedded model is not installed; run `pi-rpc local install`"
        if os.environ.get("PI_RPC_REQUIRE_MODEL") == "1":
            pytest.fail(message)
        pytest.skip(message)
    server = LocalModelServer()
    try:
        yield server
    finally:
        await server.aclose()
        await aclose_clients()
