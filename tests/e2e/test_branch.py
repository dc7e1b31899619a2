"""Going on from another place of the tree, over the real process."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.editor import Editor, Refused, editor, hold, say, session_files

pytestmark = pytest.mark.anyio

SUMMARY = say("## Goal\nThe other story.")
TALK = [[say("one")], [say("two")]]
PIXEL = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
NOTE = {"type": "text", "name": "log", "text": "0 1 2"}


async def talk(client: Editor) -> list[str]:
    """Two exchanges; the entries of their four messages."""
    for message in ("first", "second"):
        await client.request("prompt", {"message": message})
    ids: list[str] = (await client.request("session/messages"))["entryIds"]
    assert len(ids) == 4
    return ids


async def entries(client: Editor) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.request("session/entries"))["entries"]
    return found


async def texts(client: Editor, **session: Any) -> list[str]:
    """What the active branch says."""
    page = await client.request("session/messages", session)
    return [
        each.get("summary") or content
        if isinstance(content := each.get("content", ""), str)
        else content[0]["text"]
        for each in page["messages"]
    ]


async def refusal(client: Editor, params: dict[str, Any]) -> str:
    with pytest.raises(Refused) as refused:
        await client.request("branch", params)
    return refused.value.kind


async def test_going_back_to_a_message_gives_it_back_and_the_next_prompt_takes_its_place(
    tmp_path: Path,
) -> None:
    async with editor(tmp_path, [*TALK, [say("three")]]) as client:
        ids = await talk(client)
        begun = len(client.events)
        result = await client.request("branch", {"entryId": ids[2]})
        assert result["editorText"] == "second"
        assert result["cancelled"] is False
        assert {"images", "attachments", "summaryEntry"}.isdisjoint(result)
        by_id = {each["id"]: each for each in await entries(client)}
        assert result["leafId"] == by_id[ids[2]]["parentId"]
        changes = [each for each in client.events[begun:] if "leafId" in each]
        assert (changes[-1]["leafId"], changes[-1]["messageCount"]) == (result["leafId"], 2)
        state = await client.request("session/state")
        assert (state["leafId"], state["messageCount"]) == (result["leafId"], 2)
        assert state["phase"] == "idle"
        assert await texts(client) == ["first", "one"]
        await client.request("prompt", {"message": "instead"})
        assert await texts(client) == ["first", "one", "instead", "three"]
        assert ids[3] in [each["id"] for each in await entries(client)]


async def test_the_first_message_goes_back_to_what_was_before_it(tmp_path: Path) -> None:
    async with editor(tmp_path, [*TALK, [say("three")]]) as client:
        ids = await talk(client)
        result = await client.request("branch", {"entryId": ids[0]})
        by_id = {each["id"]: each for each in await entries(client)}
        assert result["editorText"] == "first"
        assert result["leafId"] == by_id[ids[0]]["parentId"]
        assert await texts(client) == []
        await client.request("prompt", {"message": "anew"})
        assert await texts(client) == ["anew", "three"]


async def test_the_root_is_before_everything_and_gives_nothing_back(tmp_path: Path) -> None:
    async with editor(tmp_path, [*TALK, [say("three")]]) as client:
        await talk(client)
        result = await client.request("branch", {"entryId": "root"})
        assert result == {"cancelled": False, "leafId": None}
        assert (await client.request("session/state"))["leafId"] is None
        await client.request("prompt", {"message": "anew"})
        assert await texts(client) == ["anew", "three"]


async def test_images_and_attachments_come_back_and_the_text_is_the_persons_own(
    tmp_path: Path,
) -> None:
    replies = [[say("one")], [say("two")], [say("three")]]
    async with editor(tmp_path, replies) as client:
        attached = {"message": "look", "attachments": [NOTE]}
        for message in (attached, {**attached, "images": [PIXEL]}, {"message": "bare"}):
            await client.request("prompt", message)
        ids = (await client.request("session/messages"))["entryIds"]
        both = await client.request("branch", {"entryId": ids[2]})
        assert (both["editorText"], both["images"]) == ("look", [PIXEL])
        assert both["attachments"] == [NOTE]
        text = await client.request("branch", {"entryId": ids[0]})
        assert (text["editorText"], text["attachments"]) == ("look", [NOTE])
        assert "images" not in text


async def test_another_branch_is_gone_to_and_the_next_prompt_continues_there(
    tmp_path: Path,
) -> None:
    async with editor(tmp_path, [*TALK, [say("three")], [say("four")]]) as client:
        ids = await talk(client)
        await client.request("branch", {"entryId": ids[2]})
        await client.request("prompt", {"message": "instead"})
        result = await client.request("branch", {"entryId": ids[3]})
        assert result == {"cancelled": False, "leafId": ids[3]}
        assert await texts(client) == ["first", "one", "second", "two"]
        await client.request("prompt", {"message": "third"})
        assert await texts(client) == ["first", "one", "second", "two", "third", "four"]


async def test_a_session_is_opened_again_where_it_was_left(tmp_path: Path) -> None:
    async with editor(tmp_path, TALK) as client:
        ids = await talk(client)
        await client.request("branch", {"entryId": ids[1]})
    (path,) = session_files(tmp_path)
    async with editor(tmp_path, [[say("three")]]) as client:
        opened = await client.request("session/open", {"path": str(path)})
        session = {"sessionId": opened["sessionId"]}
        assert (opened["leafId"], opened["messageCount"]) == (ids[1], 2)
        await client.request("prompt", {**session, "message": "on"})
        assert await texts(client, **session) == ["first", "one", "on", "three"]


async def test_a_summary_of_what_is_left_stands_at_the_new_place(tmp_path: Path) -> None:
    async with editor(tmp_path, [*TALK, [SUMMARY], [say("four")]]) as client:
        ids = await talk(client)
        tokens = (await client.request("session/state"))["tokens"]["total"]
        request = {"entryId": ids[1], "summarize": True, "customInstructions": "names"}
        result = await client.request("branch", {**request, "label": "other"})
        entry = result["summaryEntry"]
        assert (entry["type"], entry["parentId"], entry["fromId"]) == (
            "branch_summary",
            ids[1],
            ids[3],
        )
        assert "The other story." in entry["summary"]
        (label,) = [each for each in await entries(client) if each["type"] == "label"]
        assert (label["targetId"], label["label"]) == (entry["id"], "other")
        assert result["leafId"] == label["id"]
        said = await texts(client)
        assert said[:2] == ["first", "one"]
        assert said[2] == entry["summary"]
        state = await client.request("session/state")
        assert state["tokens"]["total"] == tokens + entry["usage"]["totalTokens"]
        await client.request("prompt", {"message": "on"})
        assert (await texts(client))[2:] == [entry["summary"], "on", "four"]


async def test_a_label_alone_is_put_on_the_entry(tmp_path: Path) -> None:
    async with editor(tmp_path, TALK) as client:
        ids = await talk(client)
        result = await client.request("branch", {"entryId": ids[3], "label": "here"})
        (label,) = [each for each in await entries(client) if each["type"] == "label"]
        assert (label["targetId"], label["label"], label["parentId"]) == (ids[3], "here", ids[3])
        assert result == {"cancelled": False, "leafId": label["id"]}


async def test_going_to_where_the_session_stands_changes_nothing(tmp_path: Path) -> None:
    async with editor(tmp_path, [*TALK, [say("never asked")]]) as client:
        ids = await talk(client)
        before = await entries(client)
        result = await client.request("branch", {"entryId": ids[3], "summarize": True})
        assert result == {"cancelled": False, "leafId": ids[3]}
        assert await entries(client) == before


@pytest.mark.parametrize("way", ["cancel", "abort"])
async def test_a_summary_that_is_stopped_leaves_the_session_as_it_was(
    way: str, tmp_path: Path
) -> None:
    async with editor(tmp_path, [*TALK, [SUMMARY, hold()], [say("three")]]) as client:
        ids = await talk(client)
        before = await client.request("session/entries")
        params = {"entryId": ids[0], "summarize": True}
        branch = client.begin("branch", params, request_id="b1")
        await client.until(lambda event: event.get("phase") == "branch_summary")
        assert (await client.request("session/state"))["phase"] == "branch_summary"
        assert await refusal(client, params) == "sessionBusy"
        if way == "cancel":
            client.notify("$/cancelRequest", {"id": "b1"})
        else:
            assert (await client.request("abort"))["aborted"] is True
        assert await client.answer(branch) == {"cancelled": True, "leafId": ids[3]}
        assert await client.request("session/entries") == before
        assert (await client.request("prompt", {"message": "on"}))["text"] == "three"
        assert await texts(client) == ["first", "one", "second", "two", "on", "three"]


async def test_a_summary_that_fails_is_an_error_and_leaves_the_session_as_it_was(
    tmp_path: Path,
) -> None:
    refused = {"error": {"message": "the engine is on fire", "status": 400}}
    async with editor(tmp_path, [*TALK, [refused]]) as client:
        ids = await talk(client)
        before = await client.request("session/entries")
        assert await refusal(client, {"entryId": ids[0], "summarize": True}) == "providerError"
        assert await client.request("session/entries") == before
        assert (await client.request("session/state"))["phase"] == "idle"


async def test_an_entry_that_is_not_there_and_a_running_session_are_refused(
    tmp_path: Path,
) -> None:
    async with editor(tmp_path, [*TALK, [say("three"), hold()]]) as client:
        ids = await talk(client)
        assert await refusal(client, {"entryId": "ffffffff"}) == "entryNotFound"
        run = client.begin("prompt", {"message": "on"})
        await client.until("agent_start", count=3)
        assert await refusal(client, {"entryId": ids[1]}) == "sessionBusy"
        await client.request("abort")
        assert (await client.answer(run))["stopReason"] == "aborted"


async def test_a_move_survives_in_the_file_and_nothing_is_lost(tmp_path: Path) -> None:
    async with editor(tmp_path, TALK) as client:
        ids = await talk(client)
        await client.request("branch", {"entryId": ids[2]})
        told = [each["entry"] for each in client.events if each["type"] == "entry_appended"]
    (path,) = session_files(tmp_path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[-1] == told[-1]
    assert lines[-1]["type"] == "leaf"
    assert set(ids) <= {line["id"] for line in lines}
