"""Failures that pass and windows that fill up, over the real process."""

import json
from pathlib import Path

import pytest

from tests.e2e.editor import call, editor, hold, say, session_files, stored_messages

pytestmark = pytest.mark.anyio

BUSY = {"error": {"message": "the model is overloaded", "status": 503}}
TOO_LONG = {"error": {"message": "prompt is too long: 300000 tokens", "status": 400}}


def settings(home: Path, **changes: object) -> None:
    home.joinpath("settings.json").write_text(json.dumps({"retry": {"baseDelayMs": 1}, **changes}))


def of_type(client, name: str) -> list[dict]:
    return [event for event in client.events if event["type"] == name]


async def test_a_failure_that_passes_is_retried_and_hidden_from_the_model(tmp_path: Path) -> None:
    settings(tmp_path)
    async with editor(tmp_path, [[say("half"), BUSY], [BUSY], [say("whole")]]) as client:
        result = await client.request("prompt", {"message": "go"})
        assert (result["stopReason"], result["text"]) == ("stop", "whole")
        assert [event["willRetry"] for event in of_type(client, "agent_end")] == [True, True, False]
        starts = of_type(client, "auto_retry_start")
        assert [(each["attempt"], each["maxAttempts"]) for each in starts] == [(1, 3), (2, 3)]
        assert "overloaded" in starts[0]["errorMessage"]
        (end,) = of_type(client, "auto_retry_end")
        assert (end["success"], end["attempt"]) == (True, 2)
        assert client.types.count("agent_settled") == 1
        place = client.events.index(end)
        assert client.events[place - 1]["type"] == "message_end"
        page = await client.request("session/entries")
        hidden = [each for each in page["entries"] if each["type"] == "context_edit"]
        assert [each["replacement"] for each in hidden] == [None, None]
    (path,) = session_files(tmp_path)
    reasons = [each.get("stopReason") for each in stored_messages(path)]
    assert reasons == [None, "error", "error", "stop"]


async def test_retries_that_are_used_up_end_the_run_with_the_last_failure(tmp_path: Path) -> None:
    settings(tmp_path, retry={"baseDelayMs": 1, "maxRetries": 2})
    async with editor(tmp_path, [[BUSY], [BUSY], [BUSY], [say("never")]]) as client:
        result = await client.request("prompt", {"message": "go"})
        assert result["stopReason"] == "error"
        (end,) = of_type(client, "auto_retry_end")
        assert (end["success"], end["attempt"]) == (False, 2)
        assert "overloaded" in end["finalError"]


async def test_an_abort_while_waiting_to_retry_ends_the_run(tmp_path: Path) -> None:
    settings(tmp_path, retry={"baseDelayMs": 60_000})
    async with editor(tmp_path, [[BUSY], [say("never")]]) as client:
        run = client.begin("prompt", {"message": "go"})
        await client.until(lambda event: event.get("phase") == "retry")
        assert (await client.request("session/state"))["phase"] == "retry"
        assert (await client.request("abort"))["aborted"] is True
        assert (await client.answer(run))["stopReason"] == "aborted"
        (end,) = of_type(client, "auto_retry_end")
        assert end["success"] is False
        assert client.types.count("agent_settled") == 1


async def test_retrying_can_be_switched_off(tmp_path: Path) -> None:
    settings(tmp_path)
    async with editor(tmp_path, [[BUSY], [say("never")]]) as client:
        state = await client.request("session/configure", {"autoRetry": False})
        assert state["autoRetry"] is False
        assert (await client.request("prompt", {"message": "go"}))["stopReason"] == "error"
        assert of_type(client, "auto_retry_start") == []


async def test_a_refusal_is_not_retried(tmp_path: Path) -> None:
    settings(tmp_path)
    refusal = {"error": {"message": "no such thing", "status": 400}}
    async with editor(tmp_path, [[refusal], [say("never")]]) as client:
        assert (await client.request("prompt", {"message": "go"}))["stopReason"] == "error"
        assert of_type(client, "auto_retry_start") == []


FULL = {"usage": {"input": 190_000, "output": 10}}
SUMMARY = say("## Goal\nThe story.")
FIRST, SECOND = "tell me everything " * 20, "and what came then? " * 10


async def test_a_full_window_is_compacted_after_the_run(tmp_path: Path) -> None:
    settings(tmp_path, compaction={"keepRecentTokens": 10})
    replies = [[say("a story")], [say("more of it"), FULL], [SUMMARY], [say("going on")]]
    async with editor(tmp_path, replies) as client:
        await client.request("prompt", {"message": FIRST})
        await client.request("prompt", {"message": SECOND})
        (end,) = of_type(client, "compaction_end")
        assert (end["reason"], end["aborted"], end["willRetry"]) == ("threshold", False, False)
        assert "## Goal" in end["result"]["summary"]
        assert end["result"]["tokensBefore"] > 180_000 > end["result"]["estimatedTokensAfter"]
        order = [client.types.index(name) for name in ("compaction_start", "compaction_end")]
        assert order[0] < order[1] < len(client.types) - 1
        assert client.types[-1] == "agent_settled"
        page = await client.request("session/messages")
        assert "compactionSummary" in [each["role"] for each in page["messages"]]
        result = await client.request("prompt", {"message": "and then?"})
        assert result["text"] == "going on"


async def test_a_request_that_was_too_long_is_made_again_once_after_compaction(
    tmp_path: Path,
) -> None:
    settings(tmp_path, compaction={"keepRecentTokens": 10})
    replies = [[say("one")], [TOO_LONG], [SUMMARY], [say("it fits")]]
    async with editor(tmp_path, replies) as client:
        await client.request("prompt", {"message": FIRST})
        result = await client.request("prompt", {"message": SECOND})
        assert (result["stopReason"], result["text"]) == ("stop", "it fits")
        (end,) = of_type(client, "compaction_end")
        assert (end["reason"], end["willRetry"]) == ("overflow", True)
        assert client.types.count("agent_settled") == 2


async def test_a_second_overflow_gives_up_and_says_why(tmp_path: Path) -> None:
    settings(tmp_path, compaction={"keepRecentTokens": 10})
    replies = [[say("one")], [TOO_LONG], [SUMMARY], [TOO_LONG], [say("never")]]
    async with editor(tmp_path, replies) as client:
        await client.request("prompt", {"message": FIRST})
        result = await client.request("prompt", {"message": SECOND})
        assert result["stopReason"] == "error"
        ends = of_type(client, "compaction_end")
        assert len(ends) == 2
        assert "larger context window" in ends[1]["errorMessage"]


async def test_an_abort_while_a_summary_is_written_leaves_the_session_as_it_was(
    tmp_path: Path,
) -> None:
    settings(tmp_path, compaction={"keepRecentTokens": 10})
    replies = [[say("a story")], [say("more"), FULL], [say("## Goal"), hold()]]
    async with editor(tmp_path, replies) as client:
        await client.request("prompt", {"message": FIRST})
        run = client.begin("prompt", {"message": SECOND})
        await client.until("compaction_start")
        assert (await client.request("session/state"))["phase"] == "compaction"
        await client.request("abort")
        assert (await client.answer(run))["stopReason"] == "aborted"
        (end,) = of_type(client, "compaction_end")
        assert end["aborted"] is True
        page = await client.request("session/entries")
        assert "compaction" not in [each["type"] for each in page["entries"]]


async def test_a_window_that_fills_up_between_turns_is_compacted_there(tmp_path: Path) -> None:
    settings(tmp_path, compaction={"keepRecentTokens": 10})
    (tmp_path / "a.txt").write_text("a\n")
    replies = [[say("one")], [call("read", path="a.txt"), FULL], [SUMMARY], [say("done")]]
    async with editor(tmp_path, replies) as client:
        await client.request("prompt", {"message": FIRST})
        begun = len(client.frames)
        result = await client.request("prompt", {"message": SECOND})
        assert result["text"] == "done"
        kinds = [event["type"] for event in client.events[begun:]]
        first = kinds.index("compaction_start")
        assert kinds[:first].count("turn_end") == 1
        assert kinds[first:].count("turn_start") == 1
        assert kinds.count("agent_start") == 1
