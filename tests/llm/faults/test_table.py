"""Every fault in every dialect: the error, its words, the retry, the connection, what is kept."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from pi_rpc.harness.retry import should_retry
from pi_rpc.harness.settings import RetrySettings
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.errors import ContextOverflowError
from pi_rpc.llm.events import TextDelta
from pi_rpc.llm.failures import is_retryable
from pi_rpc.llm.http import aclose_clients
from pi_rpc.llm.messages import AssistantMessage, TextBlock, ToolCall, text_of
from pi_rpc.llm.models import Model
from pi_rpc.llm.overflow import is_overflow
from pi_rpc.llm.provider import _PROVIDERS, Context, StreamOptions, stream_simple
from pi_rpc.llm.stream import AssistantMessageStream
from tests.deadlines import DEADLINE_S
from tests.llm.faults import answered_faults, network_faults, stream_faults
from tests.llm.faults.cells import FAULTS, KEY, Cell, Kept
from tests.llm.faults.dialects import DIALECTS, PIECES, TEXT, TOOL, Dialect
from tests.llm.faults.server import Case, FaultServer

pytestmark = pytest.mark.anyio

ROWS = (answered_faults, network_faults, stream_faults)
LEAST_FAULTS = 25
TABLE = {
    f"{dialect.api}-{name}": (dialect, made(dialect))
    for name, made in FAULTS.items()
    for dialect in DIALECTS
}
CELLS = [
    pytest.param(dialect, cell, id=name)
    for name, (dialect, cell) in TABLE.items()
    if isinstance(cell, Cell)
]
SECRETS = (KEY, "proxy-secret")
PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


def test_every_dialect_has_a_column_and_every_cell_is_filled() -> None:
    assert {dialect.api for dialect in DIALECTS} == _PROVIDERS.keys() - {"scripted"}
    for dialect in DIALECTS:
        cells = [cell for each, cell in TABLE.values() if each is dialect]
        assert len(cells) == len(FAULTS)
        reasons = [cell.reason for cell in cells if not isinstance(cell, Cell)]
        assert all(reasons), "a cell that cannot be says why"
        assert len(cells) - len(reasons) >= LEAST_FAULTS


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy, no authority; hosts of the domain ``test`` are this machine, ``invalid`` none."""
    for name in (*PROXY_NAMES, "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in [name for name in os.environ if name.startswith(("AZURE_OPENAI_", "AWS_"))]:
        monkeypatch.delenv(name)
    # Where a dialect has no last event, the end of an open connection is waited for.
    monkeypatch.setattr("pi_rpc.llm.http._LAST_READS_S", 0.2)
    monkeypatch.setattr("pi_rpc.llm.http._LIFELESS_IDLES", 2)
    resolve = socket.getaddrinfo

    def resolve_here(host: Any, *args: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name.endswith(".invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve("127.0.0.1" if name.endswith(".test") else name, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_here)


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port at which nobody listens, and nobody will meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.mark.usefixtures("bare_environment")
@pytest.mark.parametrize(("dialect", "cell"), CELLS)
async def test_a_fault_ends_as_the_table_says(  # noqa: PLR0917 - fixtures
    dialect: Dialect,
    cell: Cell,
    fault_host: FaultServer,
    make_model: Any,
    hello: Context,
    authority_file: Path,
    dead_port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = fault_host.add(cell.script)
    places = {
        "port": fault_host.port,
        "tls_port": fault_host.tls_port,
        "dead_port": dead_port,
        "case": case.name,
        "key": KEY,
        "authority": authority_file,
    }
    for name, value in cell.environ.items():
        monkeypatch.setenv(name, value.format(**places))
    if cell.environ:
        await aclose_clients()  # they read the environment when they are made
    url = cell.url.format(**places) + dialect.base_path
    model = make_model(api=dialect.api, provider=dialect.provider, base_url=url)
    try:
        with anyio.fail_after(DEADLINE_S):
            stream, message = await ask(cell, case, model, hello)
            await case.all_closed()
    finally:
        if cell.environ:
            await aclose_clients()
    check_end(dialect, cell, stream, message)
    check_retry(cell, stream, message)
    check_content(cell.expect.keeps, message)
    assert len(case.asked) == cell.expect.asked


async def ask(
    cell: Cell, case: Case, model: Model, context: Context
) -> tuple[AssistantMessageStream, AssistantMessage]:
    abort = AbortController()
    options = StreamOptions(api_key=KEY, signal=abort.signal, idle_timeout_s=cell.idle_s)
    stream = stream_simple(model, context, options)

    async def abort_when_asked() -> None:
        await case.arrived.wait()
        abort.abort()

    async with anyio.create_task_group() as tasks:
        if cell.abort == "waiting":
            tasks.start_soon(abort_when_asked)
        while (batch := await stream.next_batch()) is not None:
            if not any(isinstance(event, TextDelta) for event in batch):
                continue
            if cell.abort == "streaming":
                abort.abort()
            elif cell.abort == "leaving":
                await stream.aclose()
    return stream, await stream.result()


def check_end(
    dialect: Dialect, cell: Cell, stream: AssistantMessageStream, message: AssistantMessage
) -> None:
    expect = cell.expect
    text = message.error_message or ""
    assert type(stream.error) is (expect.error or type(None)), text
    if expect.error is None:
        wanted = "toolUse" if expect.keeps in {"a whole call", "a bad call"} else "stop"
        assert message.stop_reason == ("aborted" if cell.abort != "no" else wanted)
        return
    assert message.stop_reason == "error"
    assert dialect.provider in text
    for words in expect.says:
        assert words in text
    assert "\n" not in text
    assert "Traceback" not in text
    assert len(text) < 800
    for secret in SECRETS:
        assert secret not in text


def check_retry(cell: Cell, stream: AssistantMessageStream, message: AssistantMessage) -> None:
    expect, error = cell.expect, stream.error
    decision = should_retry(message, error, 1, RetrySettings())
    assert decision.will_retry is expect.retried, decision
    assert is_overflow(message) is isinstance(error, ContextOverflowError)
    if error is None:
        return
    if not expect.is_by_header:
        assert is_retryable(message) is error.retryable, "what was stored says the same"
    if expect.waits_ms is not None:
        least, most = expect.waits_ms
        assert error.retry_after_ms is not None
        assert least <= error.retry_after_ms <= most
        if expect.retried:
            assert decision.delay_ms == max(error.retry_after_ms, 2000)
        else:
            assert decision.reason == "wait_too_long"


def check_content(keeps: Kept, message: AssistantMessage) -> None:
    kept = text_of(message.content)
    calls = [block for block in message.content if isinstance(block, ToolCall)]
    assert len(message.content) == len(calls) + (keeps != "nothing")
    if keeps == "long text":
        assert kept == TEXT * (8_000_000 // len(TEXT))
        return
    cut_short = keeps in {"a piece", "a cut call"}
    assert kept == ("" if keeps == "nothing" else PIECES[0] if cut_short else TEXT)
    if keeps == "a cut call":
        assert [(call.name, call.arguments) for call in calls] == [(TOOL, {"path": "READ"})]
    elif keeps == "a whole call":
        assert [(call.name, call.arguments) for call in calls] == [(TOOL, {"path": "README.md"})]
        assert calls[0].arguments_error is msgspec.UNSET
    elif keeps == "a bad call":
        assert [call.name for call in calls] == [TOOL]
        assert calls[0].arguments_error
    else:
        assert calls == []
        assert all(isinstance(block, TextBlock) for block in message.content)
