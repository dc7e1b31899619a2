"""Commands of the person over the real process, with the stock client."""

import json
from pathlib import Path

import pytest

from tests.e2e.editor import Refused, call, editor, say, session_files, stored_messages
from tests.e2e.provider import MODEL, provider

pytestmark = pytest.mark.anyio

FULL = {"capabilities": {}, "initializationOptions": {"session": {"permissionMode": "full"}}}


async def test_output_comes_while_a_command_runs_and_the_model_reads_it_afterwards(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    with provider(home) as asked:
        async with editor(home, (), "--model", MODEL, cwd=tmp_path) as client:
            begun = client.begin(
                "bash",
                {"command": "echo one; read -r _ < gate; echo two; exit 4", "token": "t"},
            )
            # There is no gate yet: the shell says so, and goes on.
            result = await client.answer(begun)
            assert result["exitCode"] == 4
            assert result["output"].startswith("one\n")
            assert result["output"].endswith("two\n")
            deltas = [each for each in client.events if each["type"] == "bash_output"]
            assert {each["token"] for each in deltas} == {"t"}
            assert "".join(each["delta"] for each in deltas) == result["output"]
            await client.request("bash", {"command": "echo hush", "excludeFromContext": True})
            await client.request("prompt", {"message": "well?"})
            ran, question = asked.said
            assert ran.startswith("Ran `echo one;")
            assert ran.endswith("Exit code: 4")
            assert question == "well?"


async def test_commands_of_a_session_are_there_again_when_it_is_opened_again(
    tmp_path: Path,
) -> None:
    async with editor(tmp_path, [[say("hello")]]) as client:
        await client.request("bash", {"command": "echo before"})
        await client.request("prompt", {"message": "hi"})
        await client.request("bash", {"command": "echo after; exit 1"})
        state = await client.request("session/state")
        assert (state["messageCount"], state.get("interrupted")) == (4, None)
    (path,) = session_files(tmp_path)
    async with editor(tmp_path, [[say("hello")]]) as client:
        opened = await client.request("session/open", {"path": str(path), "readOnly": True})
        session = {"sessionId": opened["sessionId"]}
        assert opened.get("interrupted") is None
        page = await client.request("session/messages", session)
        roles = [each["role"] for each in page["messages"]]
        assert roles == ["bashExecution", "user", "assistant", "bashExecution"]
        assert page["messages"][-1]["exitCode"] == 1
        with pytest.raises(Refused) as refused:
            await client.request("bash", {**session, "command": "touch never"})
        assert refused.value.kind == "storage"
    assert not (tmp_path / "never").exists()


async def test_cancelling_by_the_stock_client_ends_a_command_and_not_the_run_beside_it(
    tmp_path: Path,
) -> None:
    replies = [[call("bash", command="until [ -e go ]; do sleep 0.02; done; echo went")]]
    async with editor(tmp_path, [*replies, [say("done")]], initialize=FULL) as client:
        prompt = client.begin("prompt", {"message": "go"})
        await client.until("tool_execution_start")
        command = client.begin("bash", {"command": "echo half; sleep 600"}, request_id="b1")
        await client.until("bash_output")
        client.notify("$/cancelRequest", {"id": "b1"})
        result = await client.answer(command)
        assert result == {"output": "half\n", "cancelled": True, "truncated": False}
        (tmp_path / "go").touch()
        assert (await client.answer(prompt))["text"] == "done"
    (path,) = session_files(tmp_path)
    messages = stored_messages(path)
    roles = [each["role"] for each in messages]
    assert roles == ["user", "assistant", "toolResult", "bashExecution", "assistant"]
    assert "exitCode" not in messages[3]


async def test_what_pi_wrote_about_a_command_is_read_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    stamp = "2026-01-01T00:00:00.000Z"
    ran = {
        "role": "bashExecution",
        "command": "make",
        "output": "ok",
        "exitCode": 0,
        "cancelled": False,
        "truncated": False,
        "timestamp": 1,
    }
    lines = [
        {"type": "session", "version": 3, "id": "s", "timestamp": stamp, "cwd": str(tmp_path)},
        {"type": "message", "id": "0a", "parentId": None, "timestamp": stamp, "message": ran},
    ]
    path = folder / "s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    async with editor(tmp_path, [[say("hello")]]) as client:
        opened = await client.request("session/open", {"path": str(path)})
        session = {"sessionId": opened["sessionId"]}
        await client.request("bash", {**session, "command": "echo more"})
    stored = [json.loads(line) for line in path.read_text().splitlines()]
    assert stored[:2] == lines
    assert (stored[2]["parentId"], stored[2]["message"]["output"]) == ("0a", "more\n")
