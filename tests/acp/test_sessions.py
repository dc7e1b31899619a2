"""Sessions: made, listed, loaded with their history, resumed, closed, thrown away; choices."""

import json
from pathlib import Path

import pytest

from tests.acp.client import FULL, Client, acp, call, hold, said, say, text


def test_what_a_client_may_know_of_a_session_comes_after_it_knows_the_session(
    tmp_path: Path,
) -> None:
    servers = [{"name": "db", "command": "/bin/db", "args": [], "env": []}]
    with acp(tmp_path) as client:
        session = client.new(mcpServers=servers)
        assert client.updates() == []  # Nothing was heard before the answer.
        told = client.until("session_info_update")["_meta"]["pi"]["diagnostic"]
        assert (told["severity"], told["source"]) == ("warning", "mcp")
        assert "db" in told["message"]
        commands = client.until("available_commands_update")["availableCommands"]
        assert [each["name"] for each in commands] == ["compact"]
        assert client.updates(session) == client.updates()


def test_a_session_is_listed_loaded_with_its_history_and_resumed_without(tmp_path: Path) -> None:
    replies = [
        [{"thinking": "hm"}, say("Looking."), call("read", path="a.txt")],
        [call("edit", path="a.txt", edits=[{"oldText": "b", "newText": "c"}])],
        [say("Done.")],
    ]
    with acp(tmp_path, replies, *FULL) as client:
        (client.project / "a.txt").write_text("a\nb\n")
        session = client.new()
        link = {
            "type": "resource_link",
            "uri": (client.project / "a.txt").as_uri(),
            "name": "a.txt",
        }
        prompt = [*text("Change "), link, *text(" please")]
        client.ask("session/prompt", sessionId=session, prompt=prompt)
        live = client.updates(session)
        client.ask("session/close", sessionId=session)
        (listed,) = client.ask("session/list", cwd=str(client.project))["sessions"]
        assert (listed["sessionId"], listed["cwd"]) == (session, str(client.project))
        assert listed["title"] == "Change @a.txt please"
        assert client.ask("session/list", cwd="/nowhere")["sessions"] == []

        begun = len(client.frames)
        where = {"sessionId": session, "cwd": str(client.project), "mcpServers": []}
        loaded = client.ask("session/load", **where)
        replayed = client.updates(session, begun)
        assert client.frames[-1]["result"] is loaded  # The history was first.
        assert said(replayed, "user_message_chunk") == "Change @a.txt please"
        assert said(replayed) == said(live) == "Looking.Done."
        assert said(replayed, "agent_thought_chunk") == "hm"
        ends = [each for each in replayed if each["sessionUpdate"] == "tool_call_update"]
        assert [each["status"] for each in ends] == ["completed", "completed"]
        diffs = [each for each in live if each.get("status") == "completed"][-1]["content"]
        assert ends[-1]["content"] == diffs
        assert diffs[0]["type"] == "diff"

        client.ask("session/close", sessionId=session)
        begun = len(client.frames)
        resumed = client.ask("session/resume", **where)
        assert client.updates(session, begun) == []
        assert resumed == loaded
        assert [each["id"] for each in resumed["configOptions"]][:2] == ["mode", "model"]


def test_an_open_session_that_is_loaded_for_another_directory_says_where_it_goes_on(
    tmp_path: Path,
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with acp(tmp_path, [[say("hi")]]) as client:
        session = client.new()
        client.prompt(session, "hi")
        where = {"sessionId": session, "mcpServers": []}
        begun = len(client.frames)
        client.ask("session/load", **where, cwd=f"{client.project}/")
        client.ask("session/load", **where, cwd=str(other))
        client.ask("session/set_mode", sessionId=session, modeId="full")
        told = [
            each["_meta"]["pi"]["diagnostic"]["message"]
            for each in client.updates(session, begun)
            if "_meta" in each
        ]
        assert len(told) == 1
        assert str(client.project) in told[0]
        assert str(other) in told[0]


def test_loading_a_session_while_its_turn_goes_on_shows_what_there_is(tmp_path: Path) -> None:
    with acp(tmp_path, [[say("half a reply"), hold()]]) as client:
        session = client.new()
        number = client.begin("session/prompt", sessionId=session, prompt=text("go"))
        while said(client.updates(session)) != "half a reply":
            client.read()
        begun = len(client.frames)
        client.ask("session/load", sessionId=session, cwd=str(client.project), mcpServers=[])
        replayed = client.updates(session, begun)
        assert said(replayed, "user_message_chunk") == "go"
        assert said(replayed) == "half a reply"
        client.tell("session/cancel", sessionId=session)
        assert client.answer(number)["result"] == {"stopReason": "cancelled"}


def test_a_list_comes_in_pages(tmp_path: Path) -> None:
    with acp(tmp_path, [[say("hi")]], repeat=True) as client:
        folder = tmp_path / "agent" / "sessions" / "--x--"
        folder.mkdir(parents=True)
        for number in range(60):
            stamp = f"2026-01-01T00:00:{number:02d}.000Z"
            name = f"0a1b2c3d-0000-4000-8000-{number:012d}"
            header = {"type": "session", "version": 3, "id": name, "timestamp": stamp, "cwd": "/x"}
            (folder / f"2026-01-01T00-00-{number:02d}-000Z_{name}.jsonl").write_text(
                json.dumps(header) + "\n"
            )
        first = client.ask("session/list")
        second = client.ask("session/list", cursor=first["nextCursor"])
        ids = [each["sessionId"] for each in first["sessions"] + second["sessions"]]
        assert len(ids) == len(set(ids)) == 60
        assert second["nextCursor"] is None
        assert client.refused("session/list", cursor="nonsense")["code"] == -32602


def test_closing_a_session_ends_its_turn_first(tmp_path: Path) -> None:
    with acp(tmp_path, [[say("half"), hold()]]) as client:
        session = client.new()
        number = client.begin("session/prompt", sessionId=session, prompt=text("go"))
        client.until("agent_message_chunk")
        assert client.ask("session/close", sessionId=session) == {}
        assert client.answer(number)["result"] == {"stopReason": "cancelled"}
        error = client.refused("session/prompt", sessionId=session, prompt=text("more"))
        assert error["code"] == -32002


def test_deleting_is_done_at_most_once_and_succeeds_always(tmp_path: Path) -> None:
    with acp(tmp_path, [[say("hi"), hold()]]) as client:
        session = client.new()
        number = client.begin("session/prompt", sessionId=session, prompt=text("go"))
        client.until("agent_message_chunk")
        for _ in range(2):
            assert client.ask("session/delete", sessionId=session) == {}
        assert client.ask("session/delete", sessionId="never-was") == {}
        assert client.answer(number)["result"] == {"stopReason": "cancelled"}
        assert client.ask("session/list")["sessions"] == []


def test_what_is_not_there_is_refused_with_the_protocols_codes(tmp_path: Path) -> None:
    with acp(tmp_path) as client:
        where = {"cwd": str(client.project), "mcpServers": []}
        for method in ("session/load", "session/resume"):
            assert client.refused(method, sessionId="never-was", **where)["code"] == -32002
        for cwd in ("relative", "/does/not/exist"):
            error = client.refused("session/new", cwd=cwd, mcpServers=[])
            assert (error["code"], error["data"]["path"]) == (-32602, "cwd")
        error = client.refused("session/new", **where, additionalDirectories=["here"])
        assert error["code"] == -32602


def options(client: Client, session: str, option: str, value: str) -> dict[str, str]:
    result = client.ask(
        "session/set_config_option", sessionId=session, configId=option, value=value
    )
    return {each["id"]: each["currentValue"] for each in result["configOptions"]}


def test_choices_are_listed_whole_and_told_to_whoever_listens(tmp_path: Path) -> None:
    environ = {"ANTHROPIC_API_KEY": "sk-test"}
    with acp(tmp_path, [[say("hi")]], environ=environ) as client:
        session = client.new()
        listed = client.frames[-1]["result"]["configOptions"]
        assert [(each["id"], each["category"]) for each in listed] == [
            *(("mode", "mode"), ("model", "model"), ("thought_level", "thought_level"))
        ]
        begun = len(client.frames)
        chosen = options(client, session, "model", "anthropic/claude-sonnet-4-5")
        assert chosen["model"] == "anthropic/claude-sonnet-4-5"
        assert "thought_level" in chosen
        assert options(client, session, "thought_level", "high")["thought_level"] == "high"
        assert options(client, session, "mode", "readonly")["mode"] == "readonly"
        kinds = [each["sessionUpdate"] for each in client.updates(session, begun)]
        assert kinds.count("config_option_update") == 3
        assert client.ask("session/set_mode", sessionId=session, modeId="full") == {}
        modes = [
            each for each in client.updates() if each["sessionUpdate"] == "current_mode_update"
        ]
        assert [each["currentModeId"] for each in modes] == ["readonly", "full"]
        for bad in (
            {"configId": "mode", "value": "yolo"},
            {"configId": "model", "value": "no/such"},
            {"configId": "model", "value": ""},
            {"configId": "thought_level", "value": "deep"},
            {"configId": "mode", "type": "boolean", "value": True},
            {"configId": "colour", "value": "red"},
        ):
            error = client.refused("session/set_config_option", sessionId=session, **bad)
            assert error["data"]["kind"] in {"invalidParams", "modelNotFound"}, bad
        assert (
            client.refused("session/set_mode", sessionId=session, modeId="yolo")["code"] == -32602
        )


def test_authenticating_logging_out_and_being_asked_to(tmp_path: Path) -> None:
    with acp(tmp_path, [[say("hi")]], capabilities={"auth": {"terminal": True}}) as client:
        offered = client.frames[0]["result"]["authMethods"]
        assert offered[0]["id"] == "keys"
        assert {each["args"][0] for each in offered[1:]} == {"auth"}
        assert client.ask("authenticate", methodId="keys") == {}
        assert client.ask("logout") == {}
        error = client.refused("session/new", cwd=str(client.project), mcpServers=[])
        assert error["code"] == -32000
        client.ask("authenticate", methodId="keys")
        assert client.prompt(client.new(), "hi") == "end_turn"
        assert client.refused("authenticate", methodId="keys-anthropic")["code"] == -32602


def test_logging_out_ends_every_turn_and_asks_no_model_for_a_summary(tmp_path: Path) -> None:
    with acp(tmp_path, [[say("hi")], [say("half"), hold()]]) as client:
        session = client.new()
        client.prompt(session, "hi")
        turns = [
            client.begin("session/prompt", sessionId=session, prompt=text("go")) for _ in range(2)
        ]
        while said(client.updates(session)) != "hihalf":
            client.read()
        assert client.ask("logout") == {}
        for number in turns:
            assert client.answer(number)["result"] == {"stopReason": "cancelled"}
        error = client.refused("_pi/branch", sessionId=session, entryId=None, summarize=True)
        assert error["code"] == -32000
        branched = client.ask("_pi/branch", sessionId=session, entryId=None)
        assert branched == {"cancelled": False, "leafId": None}


def test_without_a_model_a_prompt_asks_to_authenticate(tmp_path: Path) -> None:
    environ = {"PI_RPC_SCRIPT": "", "ANTHROPIC_API_KEY": "", "PI_RPC_LOCAL_MODEL": "off"}
    with acp(tmp_path, environ=environ) as client:
        session = client.new()
        if any(each["id"] == "model" for each in client.frames[-1]["result"]["configOptions"]):
            pytest.skip("the embedded model is installed")
        error = client.refused("session/prompt", sessionId=session, prompt=text("hi"))
        assert error["code"] == -32000
        assert client.refused("authenticate", methodId="keys")["code"] == -32000


def test_what_comes_before_the_handshake_is_refused_and_one_handshake_is_enough(
    tmp_path: Path,
) -> None:
    with acp(tmp_path) as client:
        assert client.refused("initialize", protocolVersion=1)["code"] == -32600
        # A version we do not know: we answer with ours, and the client decides.
        assert client.frames[0]["result"]["protocolVersion"] == 1
