"""The server of the table: one for all its cells, with a certificate of an authority of our own."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from tests.llm.faults.server import FaultServer, fault_server


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the whole table: the server belongs to it."""
    return "asyncio"


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def authority_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The authority's certificate, for ``SSL_CERT_FILE``."""
    path = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


@pytest.fixture(scope="module")
async def fault_host(anyio_backend: str, authority: trustme.CA) -> AsyncIterator[FaultServer]:
    """The server of the table."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "model.test").configure_cert(context)
    async with fault_server(context) as server:
        yield server
