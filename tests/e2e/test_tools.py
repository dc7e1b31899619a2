"""Tools over the real process: what a command shows, keeps and inherits."""

import json
from pathlib import Path

import pytest

from tests.e2e.editor import call, editor, say, session_files, stored_messages

pytestmark = pytest.mark.anyio

FULL = {"capabilities": {}, "initializationOptions": {"session": {"permissionMode": "full"}}}


def output_arrived(event: dict) -> bool:
    return bool((event.get("partialResult") or {}).get("delta"))


def result_text(event: dict) -> str:
    return event["result"]["content"][0]["text"]


async def test_an_aborted_command_keeps_what_it_had_printed(tmp_path: Path) -> None:
    replies = [[call("bash", command="echo so far; sleep 60")], [say("never asked")]]
    async with editor(tmp_path, replies, initialize=FULL) as client:
        run = client.begin("prompt", {"message": "go"})
        await client.until(output_arrived)
        await client.request("abort")
        assert (await client.answer(run))["stopReason"] == "aborted"
        end = await client.until("tool_execution_end")
        assert end["isError"] is True
        assert result_text(end).startswith("so far\n")
        assert client.types.count("turn_start") == 1
        last = ["agent_end", "entry_appended", "session_changed", "agent_settled"]
        assert client.types[-4:] == last
    (path,) = session_files(tmp_path)
    stored = stored_messages(path)
    assert [each["role"] for each in stored] == ["user", "assistant", "toolResult"]
    assert stored[2]["content"][0]["text"].startswith("so far\n")


async def test_a_session_that_was_aborted_in_a_tool_is_not_interrupted(tmp_path: Path) -> None:
    replies = [[call("bash", command="echo so far; sleep 60")]]
    async with editor(tmp_path, replies, initialize=FULL) as client:
        await client.request("prompt", {"message": "go", "wait": "accepted"})
        await client.until(output_arrived)
        await client.request("abort")
        session_id = (await client.request("session/state"))["sessionId"]
        await client.request("session/close", {"sessionId": session_id})
        state = await client.request("session/open", {"sessionId": session_id})
        assert "interrupted" not in state


async def test_live_output_is_part_of_the_state(tmp_path: Path) -> None:
    replies = [[call("bash", command="echo running; sleep 60")]]
    async with editor(tmp_path, replies, initialize=FULL) as client:
        await client.request("prompt", {"message": "go", "wait": "accepted"})
        await client.until(output_arrived)
        state = await client.request("session/state", {"include": ["live"]})
        (tool,) = state["live"]["tools"]
        assert (tool["toolName"], tool["output"]) == ("bash", "running\n")
        assert tool["args"] == {"command": "echo running; sleep 60"}
        await client.request("abort")
        idle = await client.request("session/state", {"include": ["live"]})
        assert idle["live"] == {"tools": [], "requests": []}


async def test_commands_see_the_session_but_no_key(tmp_path: Path) -> None:
    names = ["OPENAI_API_KEY", "MY_OWN_KEY", "PI_RPC_SCRIPT"]
    secrets = {"OPENAI_API_KEY": "sk-secret-1", "MY_OWN_KEY": "sk-secret-2"}
    provider = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "$MY_OWN_KEY", "models": []}
    tmp_path.joinpath("models.json").write_text(json.dumps({"providers": {"mine": provider}}))
    command = f"echo [{']['.join('$' + name for name in names)}] $PI_SESSION_ID $PI_MODEL"
    replies = [[call("bash", command=command)], [say("done")]]
    async with editor(tmp_path, replies, initialize=FULL, environ=secrets) as client:
        state = await client.request(
            "session/new", {"model": "scripted/scripted", "permissionMode": "full"}
        )
        await client.request("prompt", {"message": "go", "sessionId": state["sessionId"]})
        end = await client.until("tool_execution_end")
        assert result_text(end).strip() == f"[][][] {state['sessionId']} scripted"


async def test_parallel_calls_end_as_they_finish_and_are_answered_in_order(tmp_path: Path) -> None:
    slow = call("bash", command="while [ ! -e go ]; do sleep 0.01; done; sleep 1; echo slow")
    quick = call("bash", command="echo quick; touch go")
    async with editor(tmp_path, [[slow, quick], [say("both")]], initialize=FULL) as client:
        await client.request("prompt", {"message": "go"})
        ends = [each for each in client.events if each["type"] == "tool_execution_end"]
        assert [result_text(each).strip() for each in ends] == ["quick", "slow"]
        results = [
            each["message"]["content"][0]["text"].strip()
            for each in client.events
            if each["type"] == "message_end" and each["message"]["role"] == "toolResult"
        ]
        assert results == ["slow", "quick"]


async def test_edit_and_write_change_files_and_say_so(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    edits = [{"oldText": "two", "newText": "2"}]
    replies = [
        [call("edit", path="a.txt", edits=edits), call("write", path="new/b.txt", content="b\n")],
        [say("done")],
    ]
    async with editor(tmp_path, replies, initialize=FULL) as client:
        await client.request("prompt", {"message": "go"})
        starts = [each for each in client.events if each["type"] == "tool_execution_start"]
        assert [each["kind"] for each in starts] == ["edit", "edit"]
        assert starts[0]["locations"][0]["uri"] == (tmp_path / "a.txt").as_uri()
    assert (tmp_path / "a.txt").read_text() == "one\n2\n"
    assert (tmp_path / "new" / "b.txt").read_text() == "b\n"
