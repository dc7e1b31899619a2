"""The client of pygls, as pytest-lsp drives it, against real processes of ours."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import LanguageClient

from tests.deadlines import DEADLINE_S
from tests.jsonrpc.processes import PROCESSES, ROOT, scratch_environment

pytestmark = pytest.mark.anyio


@pytest.fixture(params=PROCESSES.values(), ids=PROCESSES)
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LanguageClient]:
    """A client whose server has been initialized, and ends in order afterwards."""
    client = LanguageClient()
    await client.start_io(*request.param, cwd=str(ROOT), env=scratch_environment(tmp_path))
    await soon(
        client.initialize_session(
            types.InitializeParams(
                capabilities=types.ClientCapabilities(), process_id=None, root_uri=None
            )
        )
    )
    yield client
    assert await soon(client.shutdown_async(None)) is None
    client.exit(None)
    assert client._server is not None
    assert await soon(client._server.wait()) == 0
    await client.stop()


async def soon(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, DEADLINE_S)


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        [],
        {"message": {"jsonrpc": "2.0", "id": 1, "method": "ping"}},
        {"class": 1, "a-b": 2, "type_name": "T"},
        {"text": "\u2028\u0085 é😀"},
        {"text": "\ud83d half"},
        {"text": "x" * 300_000},
    ],
    ids=range(8),
)
async def test_a_request_is_answered_whatever_its_params(
    client: LanguageClient, params: Any
) -> None:
    await soon(client.protocol.send_request_async("ping", params))
    assert client.error is None


async def test_ids_that_are_numbers_or_text_get_their_own_answers(client: LanguageClient) -> None:
    answers = [
        client.protocol.send_request_async("ping", {}, msg_id=id) for id in ("a", "", "0", "é")
    ]
    await soon(asyncio.gather(*answers))
    for id in (0, 2**40):
        await soon(client.protocol.send_request_async("ping", {}, msg_id=id))


async def test_an_unknown_request_is_an_error_and_an_unknown_notification_is_none(
    client: LanguageClient,
) -> None:
    client.protocol.notify("no/such", {"a": 1})
    client.protocol.notify("$/setTrace", types.SetTraceParams(types.TraceValue.Off))
    with pytest.raises(JsonRpcException) as caught:
        await soon(client.protocol.send_request_async("no/such", {}))
    assert caught.value.code == -32601
    await soon(client.protocol.send_request_async("ping", {}))


async def test_cancellations_of_nothing_and_many_requests_at_once_leave_nobody_waiting(
    client: LanguageClient,
) -> None:
    client.protocol.notify("$/cancelRequest", types.CancelParams(id=12345))
    client.protocol.notify("$/cancelRequest", types.CancelParams(id="none"))
    await soon(
        asyncio.gather(*(client.protocol.send_request_async("ping", {"n": n}) for n in range(200)))
    )
