"""Looking at a session's tree, counting and labelling, over the real process."""

from pathlib import Path

import pytest

from tests.e2e.editor import Refused, call, editor, hold, say

pytestmark = pytest.mark.anyio


async def test_the_tree_shows_all_branches_flat_and_a_page_at_a_time(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("one")], [say("two")], [say("three")]]) as client:
        await client.request("prompt", {"message": "first"})
        ids = (await client.request("session/messages"))["entryIds"]
        await client.request("prompt", {"message": "second"})
        await client.request("branch", {"entryId": ids[1]})
        await client.request("prompt", {"message": "instead"})
        whole = await client.request("session/tree")
        said = {node["preview"]: node for node in whole["nodes"] if "role" in node}
        assert list(said) == ["first", "one", "second", "two", "instead", "three"]
        assert said["second"]["parentId"] == said["instead"]["parentId"] == ids[1]
        assert "parentId" not in whole["nodes"][0]
        assert whole["leafId"] == said["three"]["entryId"]
        assert "nextCursor" not in whole
        page = await client.request("session/tree", {"limit": 2})
        rest = await client.request("session/tree", {"cursor": page["nextCursor"]})
        assert page["nodes"] + rest["nodes"] == whole["nodes"]
        found = await client.request("session/tree", {"query": "INSTEAD"})
        assert [node["preview"] for node in found["nodes"]] == ["instead"]
        with pytest.raises(Refused) as refused:
            await client.request("session/tree", {"cursor": "nonsense"})
        assert refused.value.kind == "invalidParams"


async def test_a_label_is_set_changed_and_taken_off(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("one")]]) as client:
        await client.request("prompt", {"message": "first"})
        ids = (await client.request("session/messages"))["entryIds"]

        async def labels() -> list[str]:
            nodes = (await client.request("session/tree"))["nodes"]
            return [node["label"] for node in nodes if "label" in node]

        for label, expected in (("here", ["here"]), ("there", ["there"]), ("", [])):
            params = {"entryId": ids[0], "label": label}
            assert await client.request("session/label", params) == {}
            assert await labels() == expected
        with pytest.raises(Refused) as refused:
            await client.request("session/label", {"entryId": "ffffffff", "label": "x"})
        assert refused.value.kind == "entryNotFound"


async def test_stats_count_what_is_in_all_branches(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    replies = [[call("read", path="a.txt")], [say("one")], [say("two")]]
    async with editor(tmp_path, replies) as client:
        await client.request("prompt", {"message": "first"})
        await client.request("branch", {"entryId": "root"})
        await client.request("prompt", {"message": "anew"})
        stats = await client.request("session/stats")
        state = await client.request("session/state")
        assert {name: stats[name] for name in stats if name.endswith(("s", "Calls"))} == {
            "userMessages": 2,
            "assistantMessages": 3,
            "toolCalls": 1,
            "toolResults": 1,
            "totalMessages": 6,
            "tokens": state["tokens"],
        }
        assert stats["contextUsage"] == state["contextUsage"]
        assert stats["cost"] == state["cost"]


async def test_one_message_is_taken_out_of_the_queue_and_given_back(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("working"), hold()]]) as client:
        run = client.begin("prompt", {"message": "go"})
        await client.until("message_update")
        await client.request("steer", {"message": "first"})
        sent = await client.request("followUp", {"message": "second", "clientMessageId": "m2"})
        (item,) = [each for each in sent["queue"]["items"] if each["kind"] == "followUp"]
        removed = await client.request("queue/remove", {"id": item["id"]})
        assert removed == {
            "aborted": False,
            "steering": [],
            "followUp": ["second"],
            "items": [item],
        }
        update = [each for each in client.events if each["type"] == "queue_update"][-1]
        assert (update["steering"], update["followUp"]) == (["first"], [])
        again = await client.request("queue/remove", {"id": item["id"]})
        assert again == {"aborted": False, "steering": [], "followUp": [], "items": []}
        assert (await client.request("abort"))["steering"] == ["first"]
        assert (await client.answer(run))["stopReason"] == "aborted"
