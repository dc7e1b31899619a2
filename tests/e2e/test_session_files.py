"""Forking, deleting and changing sessions that are not open, with our own client."""

from pathlib import Path

import anyio
import pytest

from pi_rpc.client import RpcError, Session
from pi_rpc.llm.messages import UserMessage
from pi_rpc.protocol.base import SessionNewParams
from pi_rpc.protocol.events import AgentStart, MessageUpdate, QueueUpdate
from pi_rpc.protocol.requests import PromptResult
from tests.client.daemon import connected, until
from tests.e2e.editor import hold, say, session_files

pytestmark = pytest.mark.anyio


async def test_a_conversation_goes_on_two_ways_after_a_fork(tmp_path: Path) -> None:
    async with connected(tmp_path, [[say("one")], [say("two")], [say("three")]]) as client:
        session = await client.default_session()
        await session.prompt("first")
        await session.prompt("second")
        ids = (await session.messages()).entry_ids
        fork = await session.fork(entry_id=ids[2])
        assert fork.text == "second"
        forked = client.session(fork.session_id)
        events = forked.events()
        await forked.prompt("second, said otherwise")
        await session.prompt("third")

        async def asked(of: Session) -> list[object]:
            messages = (await of.messages()).messages
            return [each.content for each in messages if isinstance(each, UserMessage)]

        assert await asked(forked) == ["first", "second, said otherwise"]
        assert await asked(session) == ["first", "second", "third"]
        await until(events, AgentStart)
    assert len(session_files(tmp_path)) == 2


async def test_a_stored_session_is_forked_named_labelled_and_deleted_without_opening_it(
    tmp_path: Path,
) -> None:
    async with connected(tmp_path, [[say("one")]]) as client:
        session = await client.default_session()
        await session.prompt("first")
        entry_id = (await session.messages()).entry_ids[0]
    async with connected(tmp_path, [[say("two")]]) as client:
        old = client.session(session.id)
        assert (await old.configure(name="found again")).name == "found again"
        await old.label(entry_id, "here")
        fork = await old.fork()
        tree = await client.session(fork.session_id).tree()
        assert {node.label or None for node in tree.nodes} == {None, "here"}
        listed = (await client.list_sessions()).sessions
        assert {each.session_id: bool(each.open) for each in listed} == {
            old.id: False,
            fork.session_id: True,
        }
        assert {each.name for each in listed} == {"found again"}
        await client.delete_session(old.id)
        with pytest.raises(RpcError) as refused:
            await client.open_session(session_id=old.id)
        assert (refused.value.code, refused.value.kind) == (1001, "sessionNotFound")
        (left,) = (await client.list_sessions()).sessions
        assert left.session_id == fork.session_id
    (trashed,) = (tmp_path / "sessions" / ".trash").rglob("*.jsonl")
    assert old.id in trashed.name


async def test_a_running_session_is_deleted_with_its_run_and_its_queue(tmp_path: Path) -> None:
    async with connected(tmp_path, [[say("half"), hold()]]) as client:
        session = await client.default_session()
        events = session.events()
        ended: dict[str, PromptResult] = {}

        async def run() -> None:
            ended["run"] = await session.prompt("go")

        async def queue() -> None:
            ended["queued"] = await session.prompt("and then", streaming_behavior="followUp")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await until(events, MessageUpdate)
            tasks.start_soon(queue)
            await until(events, QueueUpdate)
            await client.delete_session(session.id)
        assert ended["run"].stop_reason == "aborted"
        assert ended["queued"].disposition == "queued"
        assert session_files(tmp_path) == list((tmp_path / "sessions/.trash").rglob("*.jsonl"))
        assert (await client.default_session()).id != session.id


@pytest.mark.parametrize(
    ("params", "path"),
    [
        (SessionNewParams(additional_directories=["relative"]), "additionalDirectories[0]"),
        (SessionNewParams(parent_session="nobody"), "parentSession"),
        (SessionNewParams(cwd="relative"), "cwd"),
    ],
    ids=["additionalDirectories", "parentSession", "cwd"],
)
async def test_a_default_session_that_cannot_be_is_refused_when_it_is_needed(
    tmp_path: Path, params: SessionNewParams, path: str
) -> None:
    async with connected(tmp_path, [[say("one")]], session=params) as client:
        for method, asked in (("prompt", {"message": "go"}), ("session/fork", {})):
            with pytest.raises(RpcError) as refused:
                await client.request(method, asked)
            assert refused.value.kind == "invalidParams"
            assert refused.value.data == {"path": path}
        assert (await (await client.new_session()).state()).message_count == 0
    assert session_files(tmp_path) == []
