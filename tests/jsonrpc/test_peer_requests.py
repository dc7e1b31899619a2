"""Requests of the client: one answer each, and starts in order."""

import logging
from typing import Any

import anyio
import pytest
from msgspec import Raw, Struct, json

from pi_rpc.jsonrpc.errors import RpcError
from pi_rpc.jsonrpc.peer import Request
from tests.jsonrpc.wiring import Client, Steered, connected, error_code

pytestmark = pytest.mark.anyio


async def one(handler: Steered, method: str, **params: Any) -> dict[str, Any]:
    async with connected(handler) as (client, _):
        client.call(1, method, **params)
        answer = await client.answer_to(1)
    assert client.codes().total() == 1
    return answer


async def test_a_result_is_written_as_it_is_also_null() -> None:
    handler = Steered()
    results: list[Any] = [None, {"a": [1]}, Raw(b'{\n "raw" : 1}'), "", 0, False, []]

    async def give(request: Request) -> Any:
        return results[int(request.id)]

    handler.methods["give"] = give
    async with connected(handler) as (client, _):
        for id in range(len(results)):
            client.call(id, "give")
            assert "result" in await client.answer_to(id)
        found = [(await client.answer_to(id))["result"] for id in range(len(results))]
    assert found == [None, {"a": [1]}, {"raw": 1}, "", 0, False, []]


class Params(Struct):
    message: str
    count: int = 0


@pytest.mark.parametrize(
    ("params", "path", "message"),
    [
        ({"message": 5}, "message", "message: expected `str`, got `int`"),
        ({}, "message", "message: is required"),
        ({"message": "a", "count": "b"}, "count", "count: expected `int`, got `str`"),
    ],
)
async def test_params_of_the_wrong_type_are_answered_with_path_and_expectation(
    params: dict[str, Any], path: str, message: str
) -> None:
    handler = Steered()

    async def read(request: Request) -> Any:
        return json.decode(request.params, type=Params)

    handler.methods["read"] = read
    answer = await one(handler, "read", **params)
    assert answer["error"] == {
        "code": -32602,
        "message": message,
        "data": {"kind": "invalidParams", "path": path},
    }


@pytest.mark.parametrize(
    ("failure", "code", "kind"),
    [
        (RpcError(1001, "gone", "sessionNotFound", {"a": 1}), 1001, "sessionNotFound"),
        (KeyError("x"), -32603, "internalError"),
        (ExceptionGroup("several", [RpcError(7, "one", "seven")]), 7, "seven"),
        (ExceptionGroup("several", [KeyError(1), ValueError(2)]), -32603, "internalError"),
        (TimeoutError(), -32603, "internalError"),
        (ValueError("secret\n  File line 1"), -32603, "internalError"),
        (
            RecursionError("maximum recursion depth exceeded while deserializing"),
            -32600,
            "invalidRequest",
        ),
        (RpcError(5, "half \ud83d", "half", {"x": object()}), 5, "half"),
        (ZeroDivisionError(), -32603, "internalError"),
    ],
)
async def test_a_failure_is_one_error_without_a_traceback(
    failure: Exception, code: int, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler = Steered()

    async def fail(request: Request) -> Any:
        raise failure

    handler.methods["fail"] = fail
    with caplog.at_level(logging.ERROR, "pi_rpc"):
        error = (await one(handler, "fail"))["error"]
    assert (error["code"], error["data"]["kind"]) == (code, kind)
    assert "File" not in error["message"]
    assert bool(caplog.records) == (code == -32603)
    assert all(record.exc_info for record in caplog.records)


@pytest.mark.parametrize(
    "failure",
    [
        RpcError(1001, "no session " + "\u2028" * (20 << 20), "sessionNotFound"),
        RpcError(1001, "no session", "sessionNotFound", {"path": "\u0085" * (20 << 20)}),
    ],
)
async def test_an_error_that_quotes_what_is_as_long_as_a_frame_is_cut(failure: RpcError) -> None:
    handler = Steered()

    async def fail(request: Request) -> Any:
        raise failure

    handler.methods["fail"] = fail
    response = await one(handler, "fail")
    assert len(json.encode(response)) < 64 * 1024
    assert response["error"]["message"].startswith("no session")
    assert response["error"]["data"]["kind"] == "sessionNotFound"


@pytest.mark.parametrize("result", [object(), {"a": {1, object()}}, ["\ud83d", object()]])
async def test_a_result_that_cannot_be_written_is_an_internal_error(
    result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    handler = Steered()

    async def give(request: Request) -> Any:
        return result

    handler.methods["give"] = give
    assert error_code(await one(handler, "give")) == -32603


async def test_a_result_larger_than_a_frame_is_an_internal_error() -> None:
    handler = Steered()

    async def give(request: Request) -> Any:
        return Raw(b'"' + b"x" * (64 << 20) + b'"')

    handler.methods["give"] = give
    assert error_code(await one(handler, "give")) == -32603


async def test_an_id_in_flight_is_refused_and_the_first_is_still_answered() -> None:
    handler, gate = Steered(), anyio.Event()

    async def wait(request: Request) -> Any:
        await gate.wait()
        return "first"

    handler.methods["wait"] = wait
    async with connected(handler) as (client, _):
        client.call(1, "wait")
        client.call("1", "ping")
        client.call(1, "ping")
        assert error_code(await client.next()) == -32600
        assert (await client.answer_to("1"))["result"] == {}
        gate.set()
        assert (await client.next())["result"] == "first"
        client.call(1, "ping")
        assert (await client.next())["result"] == {}


async def test_too_many_in_flight_are_told_when_to_come_back() -> None:
    handler, gate = Steered(), anyio.Event()

    async def wait(request: Request) -> Any:
        await gate.wait()

    handler.methods["wait"] = wait
    async with connected(handler, max_in_flight=3) as (client, _):
        for id in range(5):
            client.call(id, "wait")
        for id in (3, 4):
            error = (await client.answer_to(id))["error"]
            assert (error["code"], error["data"]["kind"]) == (1301, "overloaded")
            assert error["data"]["retryAfterMs"] > 0
        gate.set()
        for id in range(3):
            assert (await client.answer_to(id))["result"] is None
        client.call(9, "wait")
        assert (await client.answer_to(9))["result"] is None


async def test_what_makes_room_is_taken_though_there_is_none() -> None:
    handler, gate = Steered(), anyio.Event()

    async def wait(request: Request) -> Any:
        await gate.wait()

    async def end(request: Request) -> Any:
        gate.set()

    handler.methods |= {"wait": wait, "end": end}
    makes_room = {"end"}.__contains__
    async with connected(handler, max_in_flight=2, makes_room=makes_room) as (client, _):
        for id in range(3):
            client.call(id, "wait")
        assert (await client.answer_to(2))["error"]["data"]["kind"] == "overloaded"
        client.call("e", "end")
        for id in ("e", 0, 1):
            assert (await client.answer_to(id))["result"] is None


async def test_what_makes_room_has_a_limit_of_its_own() -> None:
    handler, gate = Steered(), anyio.Event()

    async def wait(request: Request) -> Any:
        await gate.wait()

    handler.methods["wait"] = wait
    async with connected(handler, max_in_flight=2, makes_room=lambda method: True) as (client, _):
        for id in range(100):
            client.call(id, "wait")
        assert (await client.answer_to(99))["error"]["data"]["kind"] == "overloaded"
        gate.set()


async def test_a_thousand_quick_requests_in_one_piece_are_all_served() -> None:
    async with connected(Steered()) as (client, _):
        client.send(*({"id": id, "method": "ping"} for id in range(1000)))
        for _ in range(1000):
            assert (await client.next())["result"] == {}


class Lane:
    """Requests that say when they have started and end when told."""

    def __init__(self, handler: Steered) -> None:
        self.start = {id: anyio.Event() for id in range(10)}
        self.end = {id: anyio.Event() for id in range(10)}
        handler.methods["slow"] = self.slow
        handler.methods["initialize"] = self.slow

    async def slow(self, request: Request) -> Any:
        id = int(request.id)
        await self.start[id].wait()
        request.started()
        request.started()
        await self.end[id].wait()
        return id


async def settle(handler: Steered, client: Client) -> None:
    """Everything that was sent has been looked at, and what it started has begun."""
    client.call("settle", "ping")
    await client.answer_to("settle")
    client.seen.clear()
    handler.begun.remove("settle")


async def test_requests_of_one_key_start_in_order_and_only_their_ends_cross() -> None:
    handler = Steered()
    lane = Lane(handler)
    async with connected(handler) as (client, _):
        for id in range(3):
            client.call(id, "slow", key="a")
        client.call(5, "slow", key="b")
        client.call(6, "slow")
        await settle(handler, client)
        assert handler.begun == [0, 5, 6]
        lane.start[0].set()
        await handler.until(lambda: 1 in handler.begun)
        await settle(handler, client)
        assert 2 not in handler.begun
        lane.start[1].set()
        await handler.until(lambda: 2 in handler.begun)
        lane.end[1].set()
        assert (await client.next())["result"] == 1
        for event in (*lane.start.values(), *lane.end.values()):
            event.set()
    assert client.codes() == {(id, None): 1 for id in (1, 0, 2, 5, 6)}


async def test_a_request_that_fails_before_it_said_started_lets_the_next_start() -> None:
    handler = Steered()

    async def fail(request: Request) -> Any:
        raise RpcError(1, "no", "no")

    handler.methods["fail"] = fail
    async with connected(handler) as (client, _):
        for id in range(20):
            client.call(id, "fail", key="a")
        client.call("last", "ping", key="a")
        await client.answer_to("last")
    assert handler.begun == [*range(20), "last"]


async def test_nothing_that_came_later_starts_before_a_barrier_has_finished() -> None:
    handler = Steered()
    lane = Lane(handler)
    async with connected(handler) as (client, _):
        client.call(7, "slow")
        client.call(0, "initialize")
        client.call(1, "ping")
        client.send({"method": "note"})
        client.call(2, "initialize")
        client.call(3, "ping")
        await handler.until(lambda: 0 in handler.begun)
        lane.start[0].set()
        client.send({"id": 8, "result": None})
        await anyio.lowlevel.checkpoint()
        assert handler.begun == [7, 0]
        assert not handler.told
        lane.end[0].set()
        await handler.until(lambda: 2 in handler.begun)
        assert handler.told == [("note", {})]
        assert 3 not in handler.begun
        assert (await client.answer_to(1))["result"] == {}
        for event in (*lane.start.values(), *lane.end.values()):
            event.set()
        assert (await client.answer_to(3))["result"] == {}


async def test_a_barrier_that_fails_lets_the_others_pass() -> None:
    handler = Steered()

    async def fail(request: Request) -> Any:
        raise RpcError(1, "no", "no")

    handler.methods["initialize"] = fail
    async with connected(handler) as (client, _):
        client.call(1, "initialize")
        client.call(2)
        assert error_code(await client.answer_to(1)) == 1
        assert (await client.answer_to(2))["result"] == {}


async def test_a_key_that_cannot_be_told_is_that_requests_error_alone() -> None:
    async with connected(Steered()) as (client, _):
        client.call(1, key="raise")
        client.call(2)
        assert error_code(await client.answer_to(1)) == -32603
        assert (await client.answer_to(2))["result"] == {}


async def test_a_notification_that_fails_is_logged_and_the_next_is_taken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = Steered()
    async with connected(handler) as (client, _):
        client.send({"method": "raise"}, {"method": "next", "params": {"a": 1}})
        await handler.until(lambda: len(handler.told) == 2)
        client.call(1)
        await client.answer_to(1)
    assert handler.told == [("raise", {}), ("next", {"a": 1})]
    assert [record.message for record in caplog.records] == ["The notification raise failed"]
