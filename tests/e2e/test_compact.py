"""Compaction that a person asks for, over the real process."""

import json
from pathlib import Path

import pytest

from tests.e2e.editor import Editor, Refused, editor, hold, say, session_files

pytestmark = pytest.mark.anyio

SUMMARY = say("## Goal\nThe story.")
FIRST, SECOND = "tell me everything " * 20, "and what came then? " * 10


def settings(home: Path) -> None:
    (home / "settings.json").write_text(json.dumps({"compaction": {"keepRecentTokens": 10}}))


async def talk(client: Editor) -> None:
    for message in (FIRST, SECOND):
        await client.request("prompt", {"message": message})


async def refusal(client: Editor, method: str, params: dict | None = None) -> str:
    with pytest.raises(Refused) as refused:
        await client.request(method, params)
    return refused.value.kind


async def test_a_compaction_answers_what_it_came_to_and_the_session_goes_on_from_it(
    tmp_path: Path,
) -> None:
    settings(tmp_path)
    replies = [[say("a story")], [say("more")], [SUMMARY], [say("going on")]]
    async with editor(tmp_path, replies) as client:
        await talk(client)
        begun = len(client.events)
        result = await client.request("compact", {"customInstructions": "Keep the names."})
        assert "## Goal" in result["summary"]
        assert "cancelled" not in result
        assert result["tokensBefore"] > result["estimatedTokensAfter"] > 0
        entries = (await client.request("session/entries"))["entries"]
        assert entries[-1]["type"] == "compaction"
        assert entries[-1]["firstKeptEntryId"] == result["firstKeptEntryId"]
        (end,) = [each for each in client.events if each["type"] == "compaction_end"]
        assert (end["reason"], end["aborted"]) == ("manual", False)
        assert end["result"] == result
        phases = [each["phase"] for each in client.events[begun:] if "phase" in each]
        assert phases == ["compaction", "idle"]
        assert (await client.request("prompt", {"message": "on"}))["text"] == "going on"
        assert await refusal(client, "compact", {"sessionId": "gone"}) == "sessionNotFound"


async def test_a_conversation_that_is_too_short_is_refused_and_nothing_is_told(
    tmp_path: Path,
) -> None:
    async with editor(tmp_path, [[say("hello")]]) as client:
        await client.request("prompt", {"message": "hi"})
        assert await refusal(client, "compact") == "nothingToCompact"
        assert "compaction_start" not in client.types
        assert (await client.request("session/state"))["phase"] == "idle"


async def test_a_cancelled_compaction_answers_cancelled_and_leaves_the_session_as_it_was(
    tmp_path: Path,
) -> None:
    settings(tmp_path)
    replies = [[say("a story")], [say("more")], [say("## Goal"), hold()], [say("going on")]]
    async with editor(tmp_path, replies) as client:
        await talk(client)
        before = await client.request("session/entries")
        compaction = client.begin("compact", request_id="c1")
        await client.until("compaction_start")
        assert (await client.request("session/state"))["phase"] == "compaction"
        assert await refusal(client, "compact") == "sessionBusy"
        assert await refusal(client, "prompt", {"message": "now"}) == "sessionBusy"
        client.notify("$/cancelRequest", {"id": "c1"})
        assert await client.answer(compaction) == {"cancelled": True}
        (end,) = [each for each in client.events if each["type"] == "compaction_end"]
        assert end["aborted"] is True
        assert await client.request("session/entries") == before
        assert (await client.request("session/state"))["phase"] == "idle"
        assert (await client.request("prompt", {"message": "on"}))["text"] == "going on"


async def test_a_compaction_that_is_cancelled_at_once_answers_cancelled_too(
    tmp_path: Path,
) -> None:
    settings(tmp_path)
    replies = [[say("a story")], [say("more")], [SUMMARY, hold()]]
    async with editor(tmp_path, replies) as client:
        await talk(client)
        compaction = client.begin("compact", request_id="c1")
        client.notify("$/cancelRequest", {"id": "c1"})
        assert await client.answer(compaction) == {"cancelled": True}


async def test_abort_stops_a_compaction_and_what_was_sent_meanwhile_is_given_back(
    tmp_path: Path,
) -> None:
    settings(tmp_path)
    replies = [[say("a story")], [say("more")], [say("## Goal"), hold()]]
    async with editor(tmp_path, replies) as client:
        await talk(client)
        compaction = client.begin("compact")
        await client.until("compaction_start")
        sent = await client.request("steer", {"message": "hurry"})
        assert sent["disposition"] == "queued"
        ended = await client.request("abort")
        assert (ended["aborted"], ended["steering"]) == (True, ["hurry"])
        assert await client.answer(compaction) == {"cancelled": True}


async def test_what_was_sent_during_a_compaction_starts_a_run_after_it(tmp_path: Path) -> None:
    settings(tmp_path)
    slow = [{"delayMs": 2000}, SUMMARY]
    async with editor(tmp_path, [[say("a story")], [say("more")], slow, [say("ok")]]) as client:
        await talk(client)
        compaction = client.begin("compact")
        await client.until("compaction_start")
        sent = await client.request("followUp", {"message": "then go on"})
        assert sent["disposition"] == "queued"
        assert "summary" in await client.answer(compaction)
        await client.until("agent_settled", count=3)
        page = await client.request("session/messages")
        assert page["messages"][-1]["content"][0]["text"] == "ok"


async def test_a_provider_that_fails_is_an_error_and_leaves_the_session_as_it_was(
    tmp_path: Path,
) -> None:
    settings(tmp_path)
    refused = {"error": {"message": "the engine is on fire", "status": 400}}
    async with editor(tmp_path, [[say("a story")], [say("more")], [refused]]) as client:
        await talk(client)
        with pytest.raises(Refused, match="on fire") as failure:
            await client.request("compact")
        assert failure.value.kind == "providerError"
        assert (await client.request("session/state"))["phase"] == "idle"
    (path,) = session_files(tmp_path)
    assert '"compaction"' not in path.read_text()


async def test_a_session_that_was_opened_to_look_at_is_not_compacted(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("hello")]]) as client:
        await client.request("prompt", {"message": "hi"})
    (path,) = session_files(tmp_path)
    async with editor(tmp_path, [[say("never")]]) as client:
        opened = await client.request("session/open", {"path": str(path), "readOnly": True})
        session = {"sessionId": opened["sessionId"]}
        assert await refusal(client, "compact", session) == "storage"
