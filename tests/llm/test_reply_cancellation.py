"""Aborts, cancellations and early closes reach the provider's connection at once."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.events import Failed, Start
from pi_rpc.llm.messages import TextBlock
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, stream_simple
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

WORD = {"choices": [{"delta": {"content": "word"}}]}


@pytest.mark.parametrize("moment", ["before the head", "mid-stream"])
async def test_an_abort_closes_the_connection_at_once(
    serve: Any, make_model: Callable[..., Model], hello: Context, moment: str
) -> None:
    arrived, closed = anyio.Event(), anyio.Event()

    async def answer(exchange: Any) -> None:
        if moment == "mid-stream":
            await exchange.head()
            await exchange.events(WORD)
        arrived.set()
        await exchange.wait_until_closed()
        closed.set()

    controller = AbortController()

    async def abort_when_it_waits() -> None:
        await arrived.wait()
        controller.abort()

    async with serve(answer) as server:
        stream = stream_simple(
            make_model(base_url=server.url), hello, StreamOptions(signal=controller.signal)
        )
        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(abort_when_it_waits)
                message = await stream.result()
            await closed.wait()
    assert message.stop_reason == "aborted"
    assert message.error_message == "Request was aborted"
    assert stream.error is None


async def test_an_abort_between_two_reads_closes_the_connection(
    serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    closed = anyio.Event()

    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(WORD)
        await exchange.wait_until_closed()
        closed.set()

    controller = AbortController()
    async with serve(answer) as server:
        stream = stream_simple(
            make_model(base_url=server.url), hello, StreamOptions(signal=controller.signal)
        )
        with anyio.fail_after(DEADLINE_S):
            first = await stream.next_batch()
            assert first is not None
            assert isinstance(first[0], Start)
            controller.abort()
            last = await stream.next_batch()
            await closed.wait()
    assert last is not None
    assert [type(event) for event in last] == [Failed]
    assert stream.partial.content == [TextBlock(text="word")]


async def test_a_cancelled_reader_closes_the_connection_and_stays_cancelled(
    serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    arrived, closed = anyio.Event(), anyio.Event()

    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(WORD)
        arrived.set()
        await exchange.wait_until_closed()
        closed.set()

    async with serve(answer) as server:
        stream = stream_simple(make_model(base_url=server.url), hello)
        with anyio.fail_after(DEADLINE_S):
            with anyio.CancelScope() as scope:
                await stream.next_batch()
                await arrived.wait()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(stream.result)
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()
            assert scope.cancelled_caught
            await closed.wait()
    assert (await stream.result()).stop_reason == "aborted"


async def test_closing_early_in_a_cancelled_scope_still_closes_the_connection(
    serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    closed = anyio.Event()

    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events(WORD)
        await exchange.wait_until_closed()
        closed.set()

    async with serve(answer) as server:
        stream = stream_simple(make_model(base_url=server.url), hello)
        with anyio.fail_after(DEADLINE_S):
            await stream.next_batch()
            with anyio.CancelScope() as scope:
                scope.cancel()
                await stream.aclose()
            await closed.wait()
    assert (await stream.result()).stop_reason == "aborted"
    assert await stream.next_batch() is None
