"""Cancellation of requests by the client."""

from typing import Any

import anyio
import pytest

from pi_rpc.jsonrpc.peer import Request
from tests.jsonrpc.wiring import Steered, connected, error_code

pytestmark = pytest.mark.anyio


class Sleeper:
    """``sleep`` waits for ever, ``own`` answers its cancellation, ``hold`` waits for a gate."""

    def __init__(self, handler: Steered) -> None:
        self.calls: list[Any] = []
        self.gate = anyio.Event()
        handler.methods |= {"sleep": self.sleep, "own": self.own, "hold": self.hold}

    async def sleep(self, request: Request) -> Any:
        await anyio.sleep_forever()

    async def own(self, request: Request) -> Any:
        ended = anyio.Event()

        def cancel() -> None:
            self.calls.append(request.id)
            ended.set()

        request.on_cancel(cancel)
        await ended.wait()
        return {"cancelled": request.cancelled}

    async def hold(self, request: Request) -> Any:
        await self.gate.wait()
        return "held"


@pytest.mark.parametrize(
    "notification",
    [
        {"method": "$/cancelRequest", "params": {"id": 1}},
        {"method": "$/cancel_request", "params": {"requestId": 1}},
    ],
)
async def test_a_cancelled_request_is_answered_as_cancelled_once(
    notification: dict[str, Any],
) -> None:
    handler = Steered()
    Sleeper(handler)
    async with connected(handler) as (client, _):
        client.call(1, "sleep")
        client.call("1", "sleep")
        await handler.until(lambda: len(handler.begun) == 2)
        client.send(notification, notification)
        error = (await client.next())["error"]
        assert (error["code"], error["data"]["kind"]) == (-32800, "requestCancelled")
        client.call(2)
        assert (await client.next())["id"] == 2
        client.cancel("1")
        assert error_code(await client.answer_to("1")) == -32800


async def test_the_ids_zero_and_empty_are_cancelled_like_others() -> None:
    handler = Steered()
    Sleeper(handler)
    async with connected(handler) as (client, _):
        for id in (0, ""):
            client.call(id, "sleep")
            client.cancel(id)
            assert error_code(await client.answer_to(id)) == -32800


async def test_a_whole_number_is_the_same_id_however_it_is_written() -> None:
    handler = Steered()
    Sleeper(handler)
    async with connected(handler) as (client, _):
        for id, cancelled in ((3.0, 3), (4, 4.0), (5.0, 5.0)):
            client.call(id, "sleep")
            await handler.until(lambda: len(handler.begun) == 1)
            client.send({"method": "$/cancelRequest", "params": {"id": cancelled}})
            answer = await client.next()
            assert (answer["id"], type(answer["id"])) == (id, type(id))
            assert error_code(answer) == -32800
            handler.begun.clear()


async def test_a_handler_that_answers_its_cancellation_is_called_once() -> None:
    handler = Steered()
    sleeper = Sleeper(handler)
    async with connected(handler) as (client, _):
        client.call(1, "own")
        await handler.until(lambda: handler.begun == [1])
        client.cancel(1)
        client.cancel(1)
        assert (await client.answer_to(1))["result"] == {"cancelled": True}
    assert sleeper.calls == [1]


async def test_a_handler_that_answers_its_cancellation_does_so_also_before_its_start() -> None:
    handler = Steered()
    sleeper = Sleeper(handler)
    async with connected(handler) as (client, _):
        client.send({"id": 1, "method": "own"}, {"method": "$/cancelRequest", "params": {"id": 1}})
        assert (await client.answer_to(1))["result"] == {"cancelled": True}
        client.call(2, "hold", key="a")
        client.call(3, "own", key="a")
        client.call(4, "sleep", key="a")
        client.cancel(4)
        client.cancel(3)
        sleeper.gate.set()
        assert (await client.answer_to(2))["result"] == "held"
        assert (await client.answer_to(3))["result"] == {"cancelled": True}
        assert error_code(await client.answer_to(4)) == -32800
    assert sleeper.calls == [1, 3]


async def test_a_method_without_an_answer_of_its_own_is_cancelled_where_it_waits() -> None:
    handler = Steered()
    sleeper = Sleeper(handler)
    handler.methods["initialize"] = sleeper.hold
    async with connected(handler, answers_cancel=lambda method: method == "own") as (client, _):
        client.call(0, "hold", key="a")
        client.call(1, "sleep", key="a")
        client.call(2, "own", key="a")
        client.cancel(1)
        assert error_code(await client.answer_to(1)) == -32800
        client.call(3, "initialize")
        client.call(4, "sleep")
        client.cancel(4)
        assert error_code(await client.answer_to(4)) == -32800
        client.cancel(2)
        sleeper.gate.set()
        assert (await client.answer_to(2))["result"] == {"cancelled": True}
    assert handler.begun == [0, 3, 2]


async def test_a_callback_that_fails_is_logged_and_the_handler_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = Steered()
    sleeper = Sleeper(handler)

    async def odd(request: Request) -> Any:
        request.on_cancel({}.popitem)
        await sleeper.gate.wait()
        return "done"

    handler.methods["odd"] = odd
    async with connected(handler) as (client, _):
        client.call(1, "odd")
        await handler.until(lambda: handler.begun == [1])
        client.cancel(1)
        client.call(2)
        await client.answer_to(2)
        sleeper.gate.set()
        assert (await client.answer_to(1))["result"] == "done"
    assert [record.message for record in caplog.records] == ["The cancellation of odd failed"]


async def test_a_result_given_in_spite_of_the_cancellation_counts() -> None:
    handler = Steered()

    async def stubborn(request: Request) -> Any:
        with anyio.CancelScope(shield=True):
            while not request.cancelled:
                await anyio.lowlevel.checkpoint()
        return "finished"

    handler.methods["stubborn"] = stubborn
    async with connected(handler) as (client, _):
        client.call(1, "stubborn")
        await handler.until(lambda: handler.begun == [1])
        client.cancel(1)
        assert (await client.answer_to(1))["result"] == "finished"


async def test_what_a_cancelled_handler_raises_while_it_tidies_is_its_answer() -> None:
    handler = Steered()

    async def untidy(request: Request) -> Any:
        try:
            await anyio.sleep_forever()
        finally:
            raise KeyError("tidying")

    handler.methods["untidy"] = untidy
    async with connected(handler) as (client, _):
        client.call(1, "untidy")
        await handler.until(lambda: handler.begun == [1])
        client.cancel(1)
        assert error_code(await client.answer_to(1)) == -32603


@pytest.mark.parametrize("overfull", [False, True])
async def test_cancel_gets_through_while_output_stands_still_and_all_places_are_taken(
    overfull: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if overfull:
        monkeypatch.setattr("pi_rpc.jsonrpc.peer._OVERFULL_BYTES", 1000)
    handler = Steered()
    Sleeper(handler)
    ended: list[Any] = []

    async def watched(request: Request) -> Any:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(request.id)
            handler.changed()

    handler.methods["watched"] = watched
    async with connected(handler) as (client, peer):
        for id in range(256):
            client.call(id, "watched")
        await handler.until(lambda: len(handler.begun) == 256)
        peer.notify("noise", {"text": "x" * 2_000_000})
        client.cancel(17)
        await handler.until(lambda: ended == [17])
        assert peer.waiting_bytes > 2_000_000
        # One more than there is room for while nothing is taken: told to come back, or put aside.
        client.call("more")
        client.call("late")
        client.call("later", "sleep")
        client.cancel("later")
        for id in range(256):
            client.cancel(id)
        await handler.until(lambda: len(ended) == 256)
    outcome = client.codes()
    assert all(outcome[id, -32800] == 1 for id in range(256))
    assert outcome["later", -32800 if overfull else 1301] == 1
    assert sum(outcome.values()) == 259


async def test_requests_put_aside_are_served_in_order_once_output_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pi_rpc.jsonrpc.peer._OVERFULL_BYTES", 1000)
    monkeypatch.setattr("pi_rpc.jsonrpc.peer._ASIDE_BYTES", 20_000)
    handler = Steered()
    async with connected(handler) as (client, peer):
        peer.notify("noise", {"text": "x" * 1_000_000})
        for id in range(1000):
            client.call(id)
            client.send({"method": "note", "params": {"id": id}})
        for id in range(1000):
            assert (await client.answer_to(id))["result"] == {}
    assert handler.begun == list(range(1000))
    assert [params["id"] for _, params in handler.told] == list(range(1000))


async def test_refusals_do_not_pile_up_while_output_stands_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pi_rpc.jsonrpc.peer._OVERFULL_BYTES", 1000)
    monkeypatch.setattr("pi_rpc.jsonrpc.peer._ASIDE_BYTES", 20_000)
    async with connected(Steered()) as (client, peer):
        peer.notify("noise", {"text": "x" * 1_000_000})
        await anyio.wait_all_tasks_blocked()
        before = peer.waiting_bytes
        for _ in range(100):
            client.far.send_bytes(b'{"id":1}\n' * 5 + b"[\n" * 5)
            await anyio.wait_all_tasks_blocked()
        assert peer.waiting_bytes == before
        assert client.far.waiting_bytes, "all was read, though none of it can be answered"
    assert client.codes() == {(1, -32600): 500, (None, -32700): 500}
