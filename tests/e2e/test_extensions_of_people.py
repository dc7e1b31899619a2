"""Extensions over the real process: a tool, a command, a hook, and a broken one."""

import json
from pathlib import Path

import pytest

from tests.e2e.editor import Refused, call, editor, say

pytestmark = pytest.mark.anyio

NOTES = """
from pi_rpc.agent.tool import AgentTool, ToolResult
from pi_rpc.harness.hook_payloads import ToolCallHookResult

notes = []

def recall(tool_call_id, params, signal, on_update):
    return ToolResult.of_text(" ".join(notes))

def decide(call):
    if call.tool_name == "bash":
        return ToolCallHookResult(block=True, reason="no commands today")

def setup(api):
    api.command("note", "Keeps a note", notes.append)
    api.command("fails", "Fails", lambda _: 1 / 0)
    api.on("tool_call", decide)
    api.tool(AgentTool(name="recall", label="Recall", description="Recalls.",
                       parameters={"type": "object"}, execute=recall))
"""
PROJECT = "def setup(api):\n    api.notify('the project is here')\n"
FULL = {"capabilities": {}, "initializationOptions": {"session": {"permissionMode": "full"}}}


def written(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True)
    for name, source in files.items():
        (folder / f"{name}.py").write_text(source)


async def test_extensions_add_tools_commands_and_hooks_and_a_broken_one_is_told(
    tmp_path: Path,
) -> None:
    home, cwd = tmp_path / "home", tmp_path / "project"
    written(home / "extensions-py", notes=NOTES, wrong="raise RuntimeError('not today')")
    written(cwd / ".pi" / "extensions-py", it=PROJECT)
    replies = [[call("recall"), call("bash", command="touch x")], [say("done")]]
    async with editor(home, replies, cwd=cwd, initialize=FULL) as client:
        noted = await client.request("prompt", {"message": "/note milk"})
        assert noted["disposition"] == "handled"
        assert "runId" not in noted
        told = await client.until("diagnostic")
        assert told["source"] == str(home / "extensions-py" / "wrong.py")
        assert "RuntimeError: not today" in told["message"]
        failed = await client.request("prompt", {"message": "/fails now"})
        assert (failed["disposition"], failed["stopReason"]) == ("handled", "error")
        assert "ZeroDivisionError" in failed["errorMessage"]
        with pytest.raises(Refused, match="send it with prompt"):
            await client.request("steer", {"message": "/note later"})
        result = await client.request("prompt", {"message": "go"})
        assert (result["disposition"], result["text"]) == ("completed", "done")
        ends = [each for each in client.events if each["type"] == "tool_execution_end"]
        texts = {each["toolName"]: each["result"]["content"][0]["text"] for each in ends}
        assert texts == {"recall": "milk", "bash": "no commands today"}
        tools = (await client.request("tool/list"))["tools"]
        assert ("recall", True) in [(each["name"], each["active"]) for each in tools]
        messages = [each.get("message") for each in client.events if each["type"] == "diagnostic"]
        assert "the project is here" not in messages
    assert not (cwd / "x").exists()


async def test_a_trusted_project_brings_its_extensions_and_tools_can_be_named(
    tmp_path: Path,
) -> None:
    home, cwd = tmp_path / "home", tmp_path / "project"
    written(cwd / ".pi" / "extensions-py", it=PROJECT, notes=NOTES)
    home.mkdir()
    (home / "trust.json").write_text(json.dumps({str(cwd.resolve()): True}))
    async with editor(home, [[say("hi")]], cwd=cwd) as client:
        state = await client.request("session/new", {"tools": ["recall"]})
        told = await client.until("diagnostic")
        assert told["message"] == "the project is here"
        session = {"sessionId": state["sessionId"]}
        tools = (await client.request("tool/list", session))["tools"]
        assert [each["name"] for each in tools if each["active"]] == ["recall"]
        with pytest.raises(Refused) as refused:
            await client.request("session/new", {"tools": ["nothing"]})
        assert refused.value.kind == "invalidParams"


HANGING = """
import threading

def decide(call):
    threading.Event().wait()

def setup(api):
    api.on("tool_call", decide)
"""


async def test_the_time_limit_of_hooks_is_a_setting(tmp_path: Path) -> None:
    written(tmp_path / "extensions-py", hanging=HANGING)
    settings = {"piRpc": {"hookTimeoutSeconds": 0.25}}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    replies = [[call("bash", command="true")], [say("done")]]
    async with editor(tmp_path, replies, initialize=FULL) as client:
        assert (await client.request("prompt", {"message": "go"}))["text"] == "done"
        end = await client.until("tool_execution_end")
        assert "longer than its time limit of 0.25 s" in end["result"]["content"][0]["text"]
