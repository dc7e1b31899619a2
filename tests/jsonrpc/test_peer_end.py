"""How a connection ends."""

import math
from typing import Any

import anyio
import pytest

from pi_rpc.jsonrpc.framing import Framing
from pi_rpc.jsonrpc.peer import Peer, Request
from pi_rpc.jsonrpc.stdio import memory_pair
from tests.jsonrpc.wiring import DEADLINE_S, Client, Steered, connected, error_code

pytestmark = pytest.mark.anyio


async def sleep(request: Request) -> Any:
    await anyio.sleep_forever()


async def test_what_was_read_before_the_end_is_answered_and_the_handler_told_once() -> None:
    handler = Steered()
    async with connected(handler) as (client, _):
        client.send(*({"id": id, "method": "ping"} for id in range(300)))
    assert handler.eofs == 1
    assert client.codes() == {(id, None): 1 for id in range(300)}


async def test_a_handler_may_finish_its_work_after_the_end_of_input() -> None:
    handler, gate = Steered(), anyio.Event()

    async def work(request: Request) -> Any:
        await gate.wait()
        return "done"

    async def drain() -> None:
        gate.set()
        await handler.until(lambda: 3 in handler.begun)

    handler.methods["work"] = work
    handler.on_eof = drain
    async with connected(handler, grace_s=0) as (client, _):
        client.call(1, "work", key="a")
        client.call(2, "work", key="a")
        client.call(3, "ping", key="a")
    assert client.codes() == {(1, None): 1, (2, None): 1, (3, None): 1}


async def test_work_that_does_not_end_in_time_is_ended_and_answered() -> None:
    handler = Steered()
    handler.methods |= {"sleep": sleep, "initialize": sleep}

    async def own(request: Request) -> Any:
        request.on_cancel(lambda: None)
        await anyio.sleep_forever()

    handler.methods["own"] = own
    async with connected(handler, grace_s=0) as (client, _):
        client.call(1, "sleep", key="a")
        client.call(2, "ping", key="a")
        client.call(3, "own")
        client.call(4, "initialize")
        client.call(5, "ping")
        client.send({"method": "note"})
        await handler.until(lambda: handler.begun == [1, 3, 4])
    # Not as cancelled: nobody asked for that, and clients drop such an answer.
    assert client.codes() == {(id, -32603): 1 for id in (1, 2, 3, 4, 5)}
    assert handler.begun == [1, 3, 4]
    assert not handler.told


async def test_the_time_for_work_after_the_end_can_be_cut_short() -> None:
    handler = Steered()
    handler.methods["sleep"] = sleep
    async with connected(handler, grace_s=math.inf) as (client, peer):
        client.call(1, "sleep")
        await handler.until(lambda: handler.begun == [1])
        client.far.end_output()
        await handler.until(lambda: handler.eofs == 1)
        await anyio.wait_all_tasks_blocked()
        peer.hurry(grace_s=0, flush_s=0)
        assert error_code(await client.answer_to(1)) == -32603


async def test_a_handler_that_fails_at_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    handler = Steered()

    async def fail() -> None:
        raise RuntimeError("at the end")

    handler.on_eof = fail
    async with connected(handler) as (client, _):
        client.call(1)
    assert client.codes() == {(1, None): 1}
    assert [record.message for record in caplog.records] == ["The end of input was not handled"]


async def test_close_ends_as_the_end_of_input_does() -> None:
    handler = Steered()
    handler.methods["sleep"] = sleep
    async with connected(handler, grace_s=0) as (client, peer):
        client.call(1, "sleep")
        await handler.until(lambda: handler.begun == [1])
        peer.close()
        peer.close()
        assert error_code(await client.answer_to(1)) == -32603
        await client.rest()
    assert handler.eofs == 1


async def test_an_end_from_outside_answers_everything_and_starts_nothing() -> None:
    handler = Steered()
    handler.methods["sleep"] = sleep
    near, far = memory_pair(Framing.LINES)
    peer = Peer(near, handler, flush_s=0)
    client = Client(far)
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.serve)
            client.call(1, "sleep", key="a")
            client.call(2, "sleep", key="a")
            await handler.until(lambda: handler.begun == [1])
            tasks.cancel_scope.cancel()
        await client.rest()
    assert client.codes() == {(1, -32603): 1, (2, -32603): 1}
    assert handler.begun == [1]


async def test_a_client_that_is_gone_ends_the_peer() -> None:
    handler = Steered()
    handler.methods["sleep"] = sleep
    near, far = memory_pair(Framing.LINES)
    peer = Peer(near, handler, grace_s=0)
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.serve)
            Client(far).call(1, "sleep")
            await handler.until(lambda: handler.begun == [1])
            far.close()
    assert handler.eofs == 1
    peer.notify("nobody", {})
    await peer.drained()


async def test_a_client_that_takes_nothing_does_not_keep_the_peer_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pi_rpc.jsonrpc.peer._OVERFULL_BYTES", 1000)
    handler = Steered()
    near, far = memory_pair(Framing.LINES)
    peer = Peer(near, handler, grace_s=0, flush_s=0)
    client = Client(far)
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.serve)
            peer.notify("noise", "x" * 1_000_000)
            client.call(1)
            far.end_output()
    assert handler.eofs == 1
    assert peer.waiting_bytes > 1_000_000


async def test_drained_waits_for_the_client_to_take_most_of_it() -> None:
    async with connected(Steered()) as (client, peer):
        await peer.drained()
        peer.notify("noise", "x" * 1_000_000)
        drained = anyio.Event()

        async def wait() -> None:
            await peer.drained()
            drained.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            assert not drained.is_set()
            await client.next()
            await drained.wait()
        assert peer.waiting_bytes == 0
