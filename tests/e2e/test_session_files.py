"""Forking, deleting and changing sessions that are not open, with a client we did not write."""

from pathlib import Path

import pytest

from tests.e2e.editor import Refused, editor, hold, say, session_files

pytestmark = pytest.mark.anyio


async def test_a_conversation_goes_on_two_ways_after_a_fork(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("one")], [say("two")], [say("three")]]) as client:
        await client.request("prompt", {"message": "first"})
        await client.request("prompt", {"message": "second"})
        ids = (await client.request("session/messages"))["entryIds"]
        fork = await client.request("session/fork", {"entryId": ids[2]})
        assert fork["text"] == "second"
        new = {"sessionId": fork["sessionId"]}
        await client.request("prompt", {**new, "message": "second, said otherwise"})
        await client.request("prompt", {"message": "third"})

        async def asked(**name: str) -> list[str]:
            page = await client.request("session/messages", name)
            return [each["content"] for each in page["messages"] if each["role"] == "user"]

        assert await asked(**new) == ["first", "second, said otherwise"]
        assert await asked() == ["first", "second", "third"]
        heard = {frame["sessionId"] for frame in client.frames}
        assert fork["sessionId"] in heard
    assert len(session_files(tmp_path)) == 2


async def test_a_stored_session_is_forked_named_labelled_and_deleted_without_opening_it(
    tmp_path: Path,
) -> None:
    async with editor(tmp_path, [[say("one")]]) as client:
        await client.request("prompt", {"message": "first"})
        old = {"sessionId": (await client.request("session/state"))["sessionId"]}
        entry_id = (await client.request("session/messages"))["entryIds"][0]
    async with editor(tmp_path, [[say("two")]]) as client:
        named = await client.request("session/configure", {**old, "name": "found again"})
        assert named["name"] == "found again"
        await client.request("session/label", {**old, "entryId": entry_id, "label": "here"})
        fork = await client.request("session/fork", old)
        tree = await client.request("session/tree", {"sessionId": fork["sessionId"]})
        assert {node.get("label") for node in tree["nodes"]} == {None, "here"}
        listed = (await client.request("session/list"))["sessions"]
        assert {each["sessionId"]: each.get("open", False) for each in listed} == {
            old["sessionId"]: False,
            fork["sessionId"]: True,
        }
        assert {each["name"] for each in listed} == {"found again"}
        assert await client.request("session/delete", old) == {}
        with pytest.raises(Refused) as refused:
            await client.request("session/open", old)
        assert (refused.value.code, refused.value.kind) == (1001, "sessionNotFound")
        (left,) = (await client.request("session/list"))["sessions"]
        assert left["sessionId"] == fork["sessionId"]
    (trashed,) = (tmp_path / "sessions" / ".trash").rglob("*.jsonl")
    assert old["sessionId"] in trashed.name


async def test_a_running_session_is_deleted_with_its_run_and_its_queue(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("half"), hold()]]) as client:
        run = client.begin("prompt", {"message": "go"})
        await client.until("message_update")
        waiting = {"message": "and then", "streamingBehavior": "followUp"}
        queued = client.begin("prompt", waiting)
        await client.until("queue_update")
        name = {"sessionId": client.frames[0]["sessionId"]}
        assert await client.request("session/delete", name) == {}
        assert (await client.answer(run))["stopReason"] == "aborted"
        assert (await client.answer(queued))["disposition"] == "queued"
        assert session_files(tmp_path) == list((tmp_path / "sessions/.trash").rglob("*.jsonl"))
        fresh = await client.request("session/state")
        assert fresh["sessionId"] != name["sessionId"]


@pytest.mark.parametrize(
    ("session", "path"),
    [
        ({"additionalDirectories": ["relative"]}, "additionalDirectories[0]"),
        ({"parentSession": "nobody"}, "parentSession"),
        ({"cwd": "relative"}, "cwd"),
    ],
)
async def test_a_default_session_that_cannot_be_is_refused_when_it_is_needed(
    tmp_path: Path, session: dict, path: str
) -> None:
    start = {"capabilities": {}, "initializationOptions": {"session": session}}
    async with editor(tmp_path, [[say("one")]], initialize=start) as client:
        for method, params in (("prompt", {"message": "go"}), ("session/fork", {})):
            with pytest.raises(Refused) as refused:
                await client.request(method, params)
            assert refused.value.kind == "invalidParams"
            assert refused.value.data["path"] == path
        assert (await client.request("session/new"))["messageCount"] == 0
    assert session_files(tmp_path) == []
