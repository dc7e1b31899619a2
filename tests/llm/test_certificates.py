"""Providers whose certificate a private authority has signed."""

import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import anyio.abc
import pytest
import trustme
from anyio.streams.tls import TLSListener

from pi_rpc.llm.http import aclose_clients
from pi_rpc.llm.messages import AssistantMessage, UserMessage
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, stream_simple
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def pem(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


@pytest.fixture
async def url(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """The address of a server with a certificate of the authority; nobody trusts it yet."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"):
        monkeypatch.delenv(name, raising=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    async def answer(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(ANSWER)

    tcp = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = tcp.extra(anyio.abc.SocketAttribute.local_port)
    listener = TLSListener(tcp, context, standard_compatible=False)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        yield f"https://127.0.0.1:{port}"
        await aclose_clients()
        tasks.cancel_scope.cancel()


@pytest.fixture
def model(url: str, make_model: Callable[..., Model]) -> Model:
    return make_model(base_url=url)


async def ask(model: Model, ca_file: str | None = None) -> AssistantMessage:
    context = Context(messages=[UserMessage(content="hello", timestamp=1)])
    with anyio.fail_after(DEADLINE_S):
        return await stream_simple(model, context, StreamOptions(ca_file=ca_file)).result()


async def test_a_private_authority_is_trusted_only_where_it_is_named(
    model: Model, pem: str
) -> None:
    assert (await ask(model, pem)).stop_reason == "stop"
    refused = await ask(model)
    assert refused.stop_reason == "error"
    assert "piRpc.caFile" in (refused.error_message or "")


@pytest.mark.parametrize("way", ["NODE_EXTRA_CA_CERTS", "beside another file"])
async def test_what_is_named_is_trusted_in_addition(
    way: str, model: Model, pem: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    if way == "NODE_EXTRA_CA_CERTS":
        monkeypatch.setenv(way, pem)
        message = await ask(model, str(other))
    else:
        monkeypatch.setenv("SSL_CERT_FILE", str(other))
        message = await ask(model, pem)
    assert message.stop_reason == "stop", message.error_message


@pytest.mark.parametrize("content", [None, "not a certificate"])
async def test_a_file_that_cannot_be_used_is_named_with_its_setting(
    content: str | None, make_model: Callable[..., Model], tmp_path: Path
) -> None:
    path = tmp_path / "broken.pem"
    if content is not None:
        path.write_text(content)
    message = await ask(make_model(base_url="https://127.0.0.1:1"), str(path))
    assert message.stop_reason == "error"
    assert "piRpc.caFile" in (message.error_message or "")
    assert str(path) in (message.error_message or "")


async def test_a_broken_file_that_pi_only_warns_of_is_only_warned_of(
    model: Model, pem: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", "/nowhere/ca.pem")
    assert (await ask(model, pem)).stop_reason == "stop"
    assert "NODE_EXTRA_CA_CERTS is ignored: /nowhere/ca.pem" in caplog.text
