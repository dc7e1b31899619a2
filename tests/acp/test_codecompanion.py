"""What Neovim's CodeCompanion says to an agent, call by call, as its adapters do it.

Untested with the plugin itself: the calls are those that it is known to make, with what it says of
itself (files, no terminal).
"""

from pathlib import Path
from typing import Any

from tests.acp.client import acp, call, said, say, text

CAPABILITIES = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": False}


def test_the_flow_of_codecompanion(tmp_path: Path) -> None:
    replies = [
        [say("I look. "), call("read", path="a.lua")],
        [call("edit", path="a.lua", edits=[{"oldText": "1", "newText": "2"}])],
        [say("Changed.")],
        [say("Hello again.")],
        [call("bash", command="sleep 7104")],
    ]
    with acp(tmp_path, replies, capabilities=CAPABILITIES) as client:
        buffer = client.project / "a.lua"
        buffer.write_text("return 1\n")

        def read(params: dict[str, Any]) -> Any:
            return {"content": Path(params["path"]).read_text()}

        def write(params: dict[str, Any]) -> Any:
            Path(params["path"]).write_text(params["content"])
            return {}

        allowed = {"outcome": {"outcome": "selected", "optionId": "allow"}}
        client.answers["fs/read_text_file"] = read
        client.answers["fs/write_text_file"] = write
        client.answers["session/request_permission"] = lambda params: allowed

        assert client.frames[0]["result"]["authMethods"][0]["id"] == "keys"
        client.ask("authenticate", methodId="keys")
        session = client.new()
        assert client.prompt(session, "Make it two.") == "end_turn"
        assert buffer.read_text() == "return 2\n"
        asked = [method for method, _ in client.asked]
        assert {"fs/read_text_file", "fs/write_text_file"} < set(asked)
        assert asked.count("session/request_permission") == 1
        result = client.ask(
            "session/set_config_option", sessionId=session, configId="mode", value="readonly"
        )
        assert [each["id"] for each in result["configOptions"]][:2] == ["mode", "model"]

    # Another start of Neovim: /resume.
    with acp(
        tmp_path, replies[3:], "--permission-mode", "full", capabilities=CAPABILITIES
    ) as client:
        client.ask("authenticate", methodId="keys")
        (listed,) = client.ask("session/list", cwd=str(client.project))["sessions"]
        assert listed["title"] == "Make it two."
        where = {"cwd": str(client.project), "mcpServers": []}
        client.ask("session/load", sessionId=session, **where)
        assert said(client.updates(session)) == "I look. Changed."
        assert client.prompt(session, "hi") == "end_turn"
        number = client.begin("session/prompt", sessionId=session, prompt=text("wait"))
        while client.until("tool_call_update").get("status") != "in_progress":
            pass
        client.tell("session/cancel", sessionId=session)
        assert client.answer(number)["result"] == {"stopReason": "cancelled"}
