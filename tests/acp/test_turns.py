"""A turn: what is heard of it, in which order, why it ended; cancelling; exactly one answer."""

import array
import fcntl
import json
import os
import signal
import termios
from pathlib import Path
from typing import Any

import psutil
import pytest

from pi_rpc.acp.features.prompting import result_of
from pi_rpc.harness.runs import RunOutcome
from pi_rpc.llm.messages import AssistantMessage, Usage
from tests.acp.client import FULL, Client, acp, call, hold, said, say, text
from tests.acp.schema import Frame

ALLOW = {"outcome": {"outcome": "selected", "optionId": "allow"}}
FULL_PIPE = 60_000
"""Bytes, of the 64 Ki that a pipe takes."""
DISMISSED = {"outcome": {"outcome": "cancelled"}}


def kinds(updates: list[Frame]) -> list[str]:
    """The kinds of updates, runs of one kind counted once."""
    found: list[str] = []
    for each in updates:
        if found[-1:] != [each["sessionUpdate"]]:
            found.append(each["sessionUpdate"])
    return found


def test_a_reply_comes_in_pieces_before_its_turn_is_answered(tmp_path: Path) -> None:
    reply = [{"thinking": "Let me see."}, say("Hello from the model."), {"usage": {"input": 7}}]
    with acp(tmp_path, [reply]) as client:
        session = client.new()
        begun = len(client.frames)
        assert client.prompt(session, "hi") == "end_turn"
        heard = client.updates(session, begun)
        assert said(heard) == "Hello from the model."
        assert said(heard, "agent_thought_chunk") == "Let me see."
        ids = {each["messageId"] for each in heard if "messageId" in each}
        assert len(ids) == 1
        (usage,) = [each for each in heard if each["sessionUpdate"] == "usage_update"]
        assert usage["size"] > usage["used"] > 0
        assert usage["cost"]["currency"] == "USD"
        # The person's words are on their screen already, and nothing comes after the answer.
        assert "user_message_chunk" not in kinds(heard)
        assert client.frames[-1]["result"] == {"stopReason": "end_turn"}


def test_a_tool_call_is_announced_asked_about_run_and_ended(tmp_path: Path) -> None:
    replies = [[call("bash", command="echo out; echo err >&2")], [say("done")]]
    with acp(tmp_path, replies) as client:
        client.answers["session/request_permission"] = lambda params: ALLOW
        session = client.new()
        assert client.prompt(session, "run it") == "end_turn"
        calls = [each for each in client.updates(session) if "toolCallId" in each]
        assert calls[0]["sessionUpdate"] == "tool_call"
        assert len({each["toolCallId"] for each in calls}) == 1
        assert [each["status"] for each in calls if "status" in each] == [
            *("pending", "in_progress", "completed")
        ]
        begun = next(each for each in calls if each.get("status") == "in_progress")
        assert (begun["kind"], begun["rawInput"]) == (
            "execute",
            {"command": "echo out; echo err >&2"},
        )
        assert calls[-1]["content"][0]["content"]["text"] == "```\nout\nerr\n```"
        assert calls[-1]["rawOutput"]["exit_code"] == 0
        ((_, asked),) = client.asked
        assert asked["toolCall"]["toolCallId"] == calls[0]["toolCallId"]
        options = [each["kind"] for each in asked["options"]]
        assert options == ["allow_once", "allow_always", "reject_once", "reject_always"]


def test_an_edit_is_shown_as_a_diff_when_it_is_asked_about_and_when_it_is_made(
    tmp_path: Path,
) -> None:
    replies = [
        [call("read", path="a.txt")],
        [call("edit", path="a.txt", edits=[{"oldText": "two", "newText": "zwei"}])],
        [say("done")],
    ]
    with acp(tmp_path, replies) as client:
        file = client.project / "a.txt"
        file.write_text("one\ntwo\nthree\n")
        client.answers["session/request_permission"] = lambda params: ALLOW
        session = client.new()
        client.prompt(session, "translate")
        assert file.read_text() == "one\nzwei\nthree\n"
        ((_, asked),) = client.asked
        whole = {"oldText": "one\ntwo\nthree\n", "newText": "one\nzwei\nthree\n"}
        diff = {"type": "diff", "path": str(file), **whole}
        assert diff in asked["toolCall"]["content"]
        assert asked["toolCall"]["kind"] == "edit"
        last = [each for each in client.updates(session) if "toolCallId" in each][-1]
        assert last["content"] == [diff]
        assert last["locations"] == [{"path": str(file), "line": 2}]


def test_what_is_rejected_is_not_run_and_the_turn_goes_on(tmp_path: Path) -> None:
    replies = [[call("bash", command="touch made")], [say("all right")]]
    with acp(tmp_path, replies) as client:
        chosen = {"outcome": {"outcome": "selected", "optionId": "reject"}}
        client.answers["session/request_permission"] = lambda params: chosen
        session = client.new()
        assert client.prompt(session, "go") == "end_turn"
        assert not (client.project / "made").exists()
        assert said(client.updates(session)) == "all right"


def test_a_client_that_knows_no_permissions_is_asked_once_and_nothing_is_run(
    tmp_path: Path,
) -> None:
    replies = [[call("bash", command="touch a")], [call("bash", command="touch b")], [say("no")]]
    with acp(tmp_path, replies) as client:
        session = client.new()
        assert client.prompt(session, "go") == "end_turn"
        assert len(client.asked) == 1
        assert list(client.project.iterdir()) == []


def test_cancelling_ends_the_command_and_is_no_error(tmp_path: Path) -> None:
    with acp(tmp_path, [[call("bash", command="sleep 7100")], [say("again")]], *FULL) as client:
        session = client.new()
        number = client.begin("session/prompt", sessionId=session, prompt=text("go"))
        while (update := client.until("tool_call_update")).get("status") != "in_progress":
            pass
        client.tell("session/cancel", sessionId=session)
        assert client.answer(number)["result"] == {"stopReason": "cancelled"}
        failed = [each for each in client.updates() if each.get("status") == "failed"]
        assert [each["toolCallId"] for each in failed] == [update["toolCallId"]]
        children = psutil.Process(client.process.pid).children(recursive=True)
        assert not [each for each in children if each.name() == "sleep"]
        assert client.prompt(session, "and now?") == "end_turn"
        assert client.count(number) == 1


def test_a_turn_that_waits_for_permission_can_be_cancelled(tmp_path: Path) -> None:
    with acp(tmp_path, [[call("bash", command="make")]]) as client:
        client.answers["session/request_permission"] = lambda params: None
        session = client.new()
        number = client.begin("session/prompt", sessionId=session, prompt=text("go"))
        question = client.until_asked("session/request_permission")
        client.tell("session/cancel", sessionId=session)
        # As the protocol asks of clients.
        client.send(id=question["id"], result=DISMISSED)
        assert client.answer(number)["result"] == {"stopReason": "cancelled"}


def test_a_question_that_became_moot_is_taken_back_in_the_protocols_words(tmp_path: Path) -> None:
    with acp(tmp_path, [[call("bash", command="make")]]) as client:
        client.answers["session/request_permission"] = lambda params: None
        session = client.new()
        number = client.begin("session/prompt", sessionId=session, prompt=text("go"))
        question = client.until_asked("session/request_permission")
        client.tell("session/cancel", sessionId=session)
        client.answer(number)
        taken_back = [each for each in client.frames if each.get("method") == "$/cancel_request"]
        assert [each["params"] for each in taken_back] == [{"requestId": question["id"]}]


def test_cancelling_the_request_itself_is_answered_as_cancelled_too(tmp_path: Path) -> None:
    with acp(tmp_path, [[say("half"), hold()]]) as client:
        session = client.new()
        number = client.begin("session/prompt", sessionId=session, prompt=text("go"))
        client.until("agent_message_chunk")
        client.tell("$/cancel_request", requestId=number)
        assert client.answer(number)["result"] == {"stopReason": "cancelled"}


def test_a_cancellation_reaches_every_prompt_before_it_and_none_after(tmp_path: Path) -> None:
    with acp(tmp_path, [[say("half"), hold()], [say("whole")]]) as client:
        session = client.new()
        before = [client.begin("session/prompt", sessionId=session, prompt=text("one"))]
        client.until("agent_message_chunk")
        before += [
            client.begin("session/prompt", sessionId=session, prompt=text(words))
            for words in ("two", "three")
        ]
        client.tell("session/cancel", sessionId=session)
        after = client.begin("session/prompt", sessionId=session, prompt=text("four"))
        assert client.answer(after)["result"]["stopReason"] == "end_turn"
        for number in before:
            assert client.answer(number)["result"] == {"stopReason": "cancelled"}
            assert client.count(number) == 1


def test_prompts_are_turns_of_their_own_in_the_order_they_came(tmp_path: Path) -> None:
    with acp(tmp_path, [[say("first")], [say("second")]]) as client:
        session = client.new()
        numbers = [
            client.begin("session/prompt", sessionId=session, prompt=text(words))
            for words in ("one", "two")
        ]
        for number in numbers:
            assert client.answer(number)["result"]["stopReason"] == "end_turn"
        answered = [each["id"] for each in client.frames if each.get("id") in numbers]
        assert answered == numbers
        first = next(
            place for place, each in enumerate(client.frames) if each.get("id") == numbers[0]
        )
        assert said(client.updates(session, first)) == "second"


def test_a_prompt_behind_one_that_failed_is_answered_all_the_same(tmp_path: Path) -> None:
    broken = {"error": {"message": "the key is wrong", "status": 401}}
    with acp(tmp_path, [[broken], [say("fine")]]) as client:
        session = client.new()
        first = client.begin("session/prompt", sessionId=session, prompt=text("one"))
        second = client.begin("session/prompt", sessionId=session, prompt=text("two"))
        assert "the key is wrong" in client.answer(first)["error"]["message"]
        assert client.answer(second)["result"] == {"stopReason": "end_turn"}


def test_a_reply_that_was_cut_off_ends_with_max_tokens(tmp_path: Path) -> None:
    with acp(tmp_path, [[say("too lo"), {"stopReason": "length"}]]) as client:
        assert client.prompt(client.new(), "go") == "max_tokens"


def outcome(reason: Any, raw: str = "") -> RunOutcome:
    message = AssistantMessage(
        content=[],
        api="a",
        provider="p",
        model="m",
        usage=Usage.ZERO,
        stop_reason="error",
        timestamp=0,
        raw_stop_reason=raw,
    )
    return RunOutcome(
        run_id="r",
        stop_reason=reason,
        aborted=False,
        error_message="why",
        text="",
        usage=Usage.ZERO,
        cost=0,
        message=message,
    )


@pytest.mark.parametrize(
    ("reason", "raw", "stop_reason"),
    [
        ("stop", "", "end_turn"),
        ("toolUse", "", "end_turn"),
        ("length", "", "max_tokens"),
        ("limit", "", "max_turn_requests"),
        ("aborted", "", "cancelled"),
        ("error", "refusal", "refusal"),
        ("error", "content_filter", "refusal"),
    ],
)
def test_a_stop_reason_is_the_protocols(reason: str, raw: str, stop_reason: str) -> None:
    assert result_of(outcome(reason, raw)).stop_reason == stop_reason


def test_what_came_beside_a_request_comes_back_beside_its_answer(tmp_path: Path) -> None:
    with acp(tmp_path, [[say("hi")]]) as client:
        meta = {"traceparent": "00-80e1afed08e019fc1110464cfa66635c-7a085853722dc6d2-01", "x": {}}
        cwd = str(client.project)
        created = client.ask("session/new", cwd=cwd, mcpServers=[], _meta=meta)
        assert created["_meta"] == meta
        session = created["sessionId"]
        said = [{**text("go")[0], "_meta": {"of": "a block"}}]
        result = client.ask("session/prompt", sessionId=session, prompt=said, _meta=meta)
        assert result == {"stopReason": "end_turn", "_meta": meta}
        mode = client.ask("session/set_mode", sessionId=session, modeId="full", _meta=meta)
        assert mode["_meta"] == meta


@pytest.mark.parametrize("meta", [None, {}, [], "odd"], ids=json.dumps)
def test_nothing_beside_a_request_is_nothing_beside_its_answer(meta: Any, tmp_path: Path) -> None:
    with acp(tmp_path, [[say("hi")]]) as client:
        session = client.new(_meta=meta)
        result = client.ask("session/prompt", sessionId=session, prompt=text("go"), _meta=meta)
        assert result == {"stopReason": "end_turn"}


def test_sessions_of_one_client_run_at_once_and_hear_only_themselves(tmp_path: Path) -> None:
    with acp(tmp_path, [[{"delayMs": 30}, say("answer")]], repeat=True) as client:
        sessions = [client.new() for _ in range(3)]
        numbers = [
            client.begin("session/prompt", sessionId=each, prompt=text("go")) for each in sessions
        ]
        for number in numbers:
            assert client.answer(number)["result"] == {"stopReason": "end_turn"}
        assert [said(client.updates(each)) for each in sessions] == ["answer"] * 3


def test_end_of_input_and_signals_end_turns_and_the_process(tmp_path: Path) -> None:
    for number, code in ((None, 0), (signal.SIGTERM, 128 + signal.SIGTERM)):
        home = tmp_path / str(code)
        home.mkdir()
        with acp(home, [[call("bash", command="sleep 7101")]], *FULL) as client:
            session = client.new()
            begun = client.begin("session/prompt", sessionId=session, prompt=text("go"))
            while client.until("tool_call_update").get("status") != "in_progress":
                pass
            if number is not None:
                os.kill(client.process.pid, number)
            assert client.end() == code
            assert client.count(begun) == 1
            assert client.answer(begun)["result"] == {"stopReason": "cancelled"}


def test_a_scripted_file_of_settings_that_is_broken_is_told_as_a_notice(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "settings.json").write_text("{")
    with acp(tmp_path, [], capabilities={"session": {"notices": {}}}) as client:
        client.new()
        notice = client.until("notice")
        assert notice["severity"] == "warning"
        assert "settings.json" in notice["title"]


def test_a_tool_that_makes_a_plan_has_it_drawn(tmp_path: Path) -> None:
    extension = tmp_path / "agent" / "extensions-py" / "todo.py"
    extension.parent.mkdir(parents=True)
    entries = [{"content": "look", "priority": "high", "status": "completed"}, {"content": "leap"}]
    extension.write_text(
        "from pi_rpc.agent.tool import AgentTool, ToolResult\n"
        "def setup(api):\n"
        f"    result = ToolResult.of_text('ok', details={{'plan': {json.dumps(entries)}}})\n"
        "    api.tool(AgentTool(name='todo', label='Todo', description='Plans',\n"
        "        parameters={'type': 'object', 'properties': {}},\n"
        "        execute=lambda tool_call_id, params, signal, on_update: result))\n"
    )
    with acp(tmp_path, [[call("todo")], [say("planned")]], *FULL) as client:
        session = client.new()
        client.prompt(session, "plan")
        (plan,) = [each for each in client.updates(session) if each["sessionUpdate"] == "plan"]
        leap = {"content": "leap", "priority": "medium", "status": "pending"}
        assert plan["entries"] == [entries[0], leap]


def test_a_compaction_is_drawn_for_clients_that_draw_them(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    settings = {"compaction": {"keepRecentTokens": 5}}
    (tmp_path / "agent" / "settings.json").write_text(json.dumps(settings))
    replies = [[say("long ago " * 9)], [say("later")], [say("In short.")]]
    with acp(tmp_path, replies, capabilities={"session": {"compaction": {}}}) as client:
        session = client.new()
        client.prompt(session, "one " * 40)
        client.prompt(session, "two")
        assert client.prompt(session, "/compact\nthe names") == "end_turn"
        states = [
            each for each in client.updates(session) if each["sessionUpdate"] == "compaction_update"
        ]
        assert [each["status"] for each in states] == ["in_progress", "completed"]
        assert "In short." in states[-1]["summary"][0]["text"]


def steer(client: Client, session: str, words: str) -> Any:
    return client.ask("_pi/steer", sessionId=session, prompt=text(words))


def test_extras_of_ours_are_announced_and_work(tmp_path: Path) -> None:
    replies = [[call("bash", command="sleep 0.3")], [say("steered")], [say("more")]]
    with acp(tmp_path, replies, *FULL) as client:
        announced = client.frames[0]["result"]["agentCapabilities"]["_meta"]["pi"]["methods"]
        assert announced == ["_pi/steer", "_pi/followUp", "_pi/compact", "_pi/branch"]
        session = client.new()
        number = client.begin("session/prompt", sessionId=session, prompt=text("go"))
        while client.until("tool_call_update").get("status") != "in_progress":
            pass
        assert steer(client, session, "left!") == {"disposition": "queued"}
        follow = client.ask("_pi/followUp", sessionId=session, prompt=text("and then?"))
        assert follow == {"disposition": "queued"}
        assert client.answer(number)["result"] == {"stopReason": "end_turn"}
        assert said(client.updates(session)) == "steeredmore"
        assert (
            client.refused("_pi/compact", sessionId=session)["data"]["kind"] == "nothingToCompact"
        )
        branched = client.ask("_pi/branch", sessionId=session, entryId=None)
        assert branched == {"cancelled": False, "leafId": None}
        assert client.refused("_pi/unknown")["code"] == -32601
        client.tell("_pi/unknown")
        client.tell("unknown")
        assert client.ask("session/list")["sessions"] != []


def unread_bytes(client: Client) -> int:
    """How much the agent has written that was not taken out of the pipe."""
    waiting = array.array("i", [0])
    assert client.process.stdout is not None
    fcntl.ioctl(client.process.stdout.fileno(), termios.FIONREAD, waiting)
    return waiting[0]


def test_a_client_that_does_not_read_can_cancel_and_holds_nobody_up(tmp_path: Path) -> None:
    endless = {"repeatText": "many words of one reply ", "count": 400_000}
    with acp(tmp_path, [[endless], [say("short")]]) as client:
        session = client.new()
        number = client.begin("session/prompt", sessionId=session, prompt=text("go"))
        client.until("agent_message_chunk")
        process = psutil.Process(client.process.pid)
        before = process.memory_info().rss
        while unread_bytes(client) < FULL_PIPE:
            pass
        unread = client.begin("session/list")
        client.tell("session/cancel", sessionId=session)
        after = client.begin("session/prompt", sessionId=session, prompt=text("and now?"))
        assert client.answer(number)["result"] == {"stopReason": "cancelled"}
        assert client.answer(after)["result"] == {"stopReason": "end_turn"}
        assert "result" in client.answer(unread)
        assert process.memory_info().rss - before < 64 * 1024 * 1024


def test_text_that_is_no_unicode_hides_no_update(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    with acp(tmp_path, [[call("bash", command="ls")], [say("done")]], *FULL) as client:
        (client.project / name).write_text("x")
        session = client.new()
        assert client.prompt(session, "go") == "end_turn"
        assert [each["status"] for each in client.updates(session) if "status" in each][-1] == (
            "completed"
        )
