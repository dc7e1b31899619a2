"""Questions to the person, as a stock client answers them."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.e2e.editor import DEADLINE_S, call, editor, say

pytestmark = pytest.mark.anyio

CAREFUL = """
from pi_rpc.harness.hook_payloads import ToolCallHookResult

def setup(api):
    async def confirm(call):
        command = call.input["command"]
        if not await api.ui.confirm("Run this?", command):
            return ToolCallHookResult(block=True, reason="The person said no.")
        where = await api.ui.choose("Where?", ["here", "there"])
        token = await api.ui.enter("Token?", secret=True)
        note = await api.ui.edit("Note?", "none")
        api.ui.notify(f"{where} {token} {note}")

    api.on("tool_call", confirm)
"""
UI = {
    # The stock client sends what LSP knows of capabilities, and nothing else.
    "capabilities": {"experimental": {"pi": {"ui": True}}},
    "initializationOptions": {"session": {"permissionMode": "full"}},
}


async def test_a_stock_client_answers_every_kind_of_question(tmp_path: Path) -> None:
    home, cwd = tmp_path / "home", tmp_path / "project"
    (home / "extensions-py").mkdir(parents=True)
    (home / "extensions-py" / "careful.py").write_text(CAREFUL)
    cwd.mkdir()
    replies = [[call("bash", command="echo yes > x")], [say("done")]]
    async with editor(home, replies, cwd=cwd, initialize=UI) as client:
        notified = anyio.Event()

        async def confirm(_: Any) -> Any:
            return {"confirmed": True}

        async def select(params: Any) -> Any:
            return {"value": params["options"][1]["value"]}

        async def text(params: Any) -> Any:
            return {"value": params.get("prefill", "abc") + "!"}

        async def notify(_: Any) -> None:
            notified.set()

        client.answers("ui/confirm", confirm)
        client.answers("ui/select", select)
        client.answers("ui/input", text)
        client.answers("ui/editor", text)
        client.answers("ui/notify", notify)
        result = await client.request("prompt", {"message": "go"})
        assert result["text"] == "done"
        with anyio.fail_after(DEADLINE_S):
            await notified.wait()
        assert [method for method, _ in client.asked] == [
            "ui/confirm",
            "ui/select",
            "ui/input",
            "ui/editor",
            "ui/notify",
        ]
        assert client.asked[-1][1]["message"] == "there abc! none!"
    assert (cwd / "x").read_text() == "yes\n"
