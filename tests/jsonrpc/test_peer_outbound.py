"""Requests of ours to the client."""

from typing import Any

import anyio
import msgspec
import pytest

from pi_rpc.jsonrpc.errors import PeerClosedError, RpcError
from pi_rpc.jsonrpc.peer import Peer, Request
from tests.jsonrpc.wiring import Client, Steered, connected

pytestmark = pytest.mark.anyio


class Asked:
    """What became of a request of ours."""

    def __init__(self) -> None:
        self.result: bytes | None = None
        self.error: BaseException | None = None
        self.scope = anyio.CancelScope()
        self.done = anyio.Event()

    async def ask(self, peer: Peer, **options: Any) -> None:
        with self.scope:
            try:
                self.result = bytes(await peer.request("ui/input", {"requestId": "r"}, **options))
            except (RpcError, PeerClosedError, TimeoutError) as exc:
                self.error = exc
        self.done.set()


async def asked(client: Client, peer: Peer, tasks: Any, **options: Any) -> tuple[Asked, Any]:
    """Asks, and gives the id that the client sees."""
    question = Asked()
    tasks.start_soon(lambda: question.ask(peer, **options))
    message = await client.next()
    assert message["method"] == "ui/input"
    assert message["params"] == {"requestId": "r"}
    return question, message["id"]


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"result": {"a": [1]}}, b'{"a": [1]}'),
        ({"result": None}, b"null"),
        ({"result": 0, "error": None}, b"0"),
        ({"error": None}, b"null"),
        ({}, b"null"),
    ],
)
async def test_an_answer_is_the_raw_result(answer: dict[str, Any], result: bytes) -> None:
    async with connected(Steered()) as (client, peer), anyio.create_task_group() as tasks:
        question, id = await asked(client, peer, tasks)
        client.send({"id": id, **answer})
        await question.done.wait()
        assert question.result == result


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            {"code": 7, "message": "no", "data": {"kind": "k", "more": 1}},
            (7, "no", "k", {"more": 1}),
        ),
        ({"code": -32601, "message": "what?"}, (-32601, "what?", "unknown", None)),
        ({"code": 7, "message": "no", "data": "text"}, (7, "no", "unknown", {"value": "text"})),
        ({"code": "x"}, (-32603, "The other end gave no message", "unknown", None)),
        ("text", (-32603, '"text"', "unknown", None)),
        (5, (-32603, "5", "unknown", None)),
    ],
)
async def test_an_error_of_any_shape_is_raised_also_beside_a_result(
    error: Any, expected: tuple[Any, ...]
) -> None:
    async with connected(Steered()) as (client, peer), anyio.create_task_group() as tasks:
        question, id = await asked(client, peer, tasks)
        client.send({"id": id, "error": error, "result": {"a": 1}})
        await question.done.wait()
        raised = question.error
        assert isinstance(raised, RpcError)
        assert (raised.code, raised.message, raised.kind, raised.data) == expected


async def test_an_answer_that_cannot_be_read_fails_the_request_and_is_not_answered() -> None:
    async with connected(Steered()) as (client, peer), anyio.create_task_group() as tasks:
        question, id = await asked(client, peer, tasks)
        client.far.send_bytes(b'{"id":"%b","result":{"a":}}\n' % id.encode())
        await question.done.wait()
        assert isinstance(question.error, RpcError)
        assert question.error.code == -32700
    assert len(client.seen) == 1


async def test_the_same_id_in_both_directions_is_two_things() -> None:
    async with connected(Steered()) as (client, peer), anyio.create_task_group() as tasks:
        question, id = await asked(client, peer, tasks)
        client.call(id, "ping")
        assert (await client.next()) == {"jsonrpc": "2.0", "id": id, "result": {}}
        assert not question.done.is_set()
        client.cancel(id)
        client.send({"id": id, "result": 1})
        await question.done.wait()
        assert question.result == b"1"


async def test_answers_out_of_order_reach_those_who_asked() -> None:
    async with connected(Steered()) as (client, peer), anyio.create_task_group() as tasks:
        first, first_id = await asked(client, peer, tasks)
        second, second_id = await asked(client, peer, tasks)
        client.send({"id": second_id, "result": 2}, {"id": first_id, "result": 1})
        await first.done.wait()
        await second.done.wait()
        assert (first.result, second.result) == (b"1", b"2")


async def test_no_answer_in_time_is_a_timeout_and_a_late_one_is_ignored() -> None:
    async with connected(Steered()) as (client, peer), anyio.create_task_group() as tasks:
        question, id = await asked(client, peer, tasks, timeout_s=0)
        assert (await client.next()) == {
            "jsonrpc": "2.0",
            "method": "$/cancelRequest",
            "params": {"id": id},
        }
        await question.done.wait()
        assert isinstance(question.error, TimeoutError)
        client.send({"id": id, "result": 1}, {"id": id, "error": {"code": 1, "message": "late"}})
        client.send({"id": id})
        client.call(1)
        assert (await client.next())["id"] == 1


@pytest.mark.parametrize("id", ["d0", "d1", "d", "x1", "d" + "9" * 5000, 1])
async def test_what_answers_nothing_that_was_ever_asked_is_no_request(id: int | str) -> None:
    async with connected(Steered()) as (client, _):
        client.send({"id": id})
        refused = await client.next()
        assert (refused["id"], refused["error"]["code"]) == (id, -32600)


async def test_whoever_stops_waiting_cancels_the_request() -> None:
    async with connected(Steered()) as (client, peer), anyio.create_task_group() as tasks:
        question, id = await asked(client, peer, tasks)
        question.scope.cancel()
        assert (await client.next())["params"] == {"id": id}
        await question.done.wait()
        client.send({"id": id, "result": 1})
        client.call(1)
        assert (await client.next())["id"] == 1


async def test_a_request_answered_within_a_barrier_does_not_wait_for_it() -> None:
    handler = Steered()
    async with connected(handler) as (client, peer):

        async def initialize(request: Request) -> Any:
            return await peer.request("ui/input", {})

        handler.methods["initialize"] = initialize
        client.call(1, "initialize")
        client.send({"id": (await client.next())["id"], "result": "yes"})
        assert (await client.answer_to(1))["result"] == "yes"


async def test_the_end_of_input_wakes_everybody_who_waits_for_an_answer() -> None:
    handler = Steered()
    async with connected(handler) as (client, peer):

        async def ask(request: Request) -> Any:
            try:
                await peer.request("ui/input", {})
            except PeerClosedError:
                return "gone"

        handler.methods["ask"] = ask
        client.call(1, "ask")
        await client.next()
        client.far.end_output()
        assert (await client.answer_to(1))["result"] == "gone"
        with pytest.raises(PeerClosedError):
            await peer.request("ui/input", {})


async def test_what_cannot_be_written_is_the_callers_error() -> None:
    async with connected(Steered()) as (_, peer):
        with pytest.raises(TypeError):
            await peer.request("ui/input", {"a": object()})
        with pytest.raises(ValueError, match="larger"):
            peer.notify("note", "x" * (64 << 20))


async def test_half_a_surrogate_pair_leaves_as_a_replacement_character() -> None:
    async with connected(Steered()) as (client, peer):
        peer.notify("note", {"a\udcff": ["\ud83d", "\ud83d\ude00", msgspec.Raw(b'{"b": 1}')]})
        assert (await client.next())["params"] == {"a\ufffd": ["\ufffd", "\U0001f600", {"b": 1}]}


async def test_notifications_and_frames_leave_in_the_order_they_were_given() -> None:
    async with connected(Steered()) as (client, peer):
        peer.notify("a", {})
        peer.send_frames([b'{"jsonrpc":"2.0","method":"b"}', b'{"jsonrpc":"2.0",\n"method":"c"}'])
        peer.notify("d", None)
        assert [(await client.next())["method"] for _ in range(4)] == ["a", "b", "c", "d"]
