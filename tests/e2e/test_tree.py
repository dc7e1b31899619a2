"""A session's tree, its counts and its labels, over the real process with our own client."""

from pathlib import Path

import anyio
import pytest

from pi_rpc.client import RpcError
from pi_rpc.protocol.events import MessageUpdate, QueueUpdate
from pi_rpc.protocol.requests import PromptResult
from tests.client.daemon import connected, until
from tests.e2e.editor import call, hold, say

pytestmark = pytest.mark.anyio


async def test_the_tree_shows_all_branches_flat_and_a_page_at_a_time(tmp_path: Path) -> None:
    async with connected(tmp_path, [[say("one")], [say("two")], [say("three")]]) as client:
        session = await client.default_session()
        await session.prompt("first")
        ids = (await session.messages()).entry_ids
        await session.prompt("second")
        await session.branch(ids[1])
        await session.prompt("instead")
        whole = await session.tree()
        said = {node.preview: node for node in whole.nodes if node.role}
        assert list(said) == ["first", "one", "second", "two", "instead", "three"]
        assert said["second"].parent_id == said["instead"].parent_id == ids[1]
        assert not whole.nodes[0].parent_id
        assert whole.leaf_id == said["three"].entry_id
        assert not whole.next_cursor
        page = await session.tree(limit=2)
        assert page.next_cursor
        rest = await session.tree(cursor=page.next_cursor)
        assert page.nodes + rest.nodes == whole.nodes
        found = await session.tree(query="INSTEAD")
        assert [node.preview for node in found.nodes] == ["instead"]
        with pytest.raises(RpcError) as refused:
            await session.tree(cursor="nonsense")
        assert refused.value.kind == "invalidParams"


async def test_a_label_is_set_changed_and_taken_off(tmp_path: Path) -> None:
    async with connected(tmp_path, [[say("one")]]) as client:
        session = await client.default_session()
        await session.prompt("first")
        ids = (await session.messages()).entry_ids
        for label, expected in (("here", ["here"]), ("there", ["there"]), ("", [])):
            await session.label(ids[0], label)
            assert [node.label for node in (await session.tree()).nodes if node.label] == expected
        with pytest.raises(RpcError) as refused:
            await session.label("ffffffff", "x")
        assert refused.value.kind == "entryNotFound"


async def test_stats_count_what_is_in_all_branches(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    replies = [[call("read", path="a.txt")], [say("one")], [say("two")]]
    async with connected(tmp_path, replies) as client:
        session = await client.default_session()
        await session.prompt("first")
        await session.branch("root")
        await session.prompt("anew")
        stats, state = await session.stats(), await session.state()
        assert (stats.user_messages, stats.assistant_messages, stats.total_messages) == (2, 3, 6)
        assert (stats.tool_calls, stats.tool_results) == (1, 1)
        assert stats.tokens == state.tokens
        assert stats.context_usage == state.context_usage
        assert stats.cost == state.cost


async def test_one_message_is_taken_out_of_the_queue_and_given_back(tmp_path: Path) -> None:
    async with connected(tmp_path, [[say("working"), hold()]]) as client:
        session = await client.default_session()
        events = session.events()
        ended: list[PromptResult] = []

        async def run() -> None:
            ended.append(await session.prompt("go"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await until(events, MessageUpdate)
            await session.steer("first")
            sent = await session.follow_up("second", client_message_id="m2")
            (item,) = [each for each in sent.queue.items if each.kind == "followUp"]
            removed = await session.remove_from_queue(item.id)
            assert (removed.aborted, removed.steering) == (False, [])
            assert (removed.follow_up, removed.items) == (["second"], [item])
            updates = [(await until(events, QueueUpdate))[-1] for _ in range(3)]
            assert isinstance(updates[-1], QueueUpdate)
            assert (updates[-1].steering, updates[-1].follow_up) == (["first"], [])
            again = await session.remove_from_queue(item.id)
            assert (again.aborted, again.steering, again.follow_up, again.items) == (
                False,
                [],
                [],
                [],
            )
            assert (await session.abort()).steering == ["first"]
        assert [each.stop_reason for each in ended] == ["aborted"]
