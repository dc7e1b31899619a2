"""``bash``, ``command/list`` and ``trust/*`` over raw pipes: order, cancelling, ends, refusals."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.e2e.editor import DEADLINE_S, call, hold, say, session_files, stored_messages
from tests.e2e.test_lifecycle import survivors
from tests.server.wire import Wire, wire


def output(client: Wire) -> str:
    return "".join(each["delta"] for each in client.events("bash_output"))


def until_output(client: Wire, wanted: str) -> None:
    while wanted not in output(client):
        client.read()


def refusal(client: Wire, method: str, params: object) -> str:
    error = client.answer(client.say(method, params))["error"]
    kind: str = error["data"]["kind"]
    return kind


def test_a_command_is_on_disk_when_it_is_answered(tmp_path: Path) -> None:
    with wire(tmp_path) as client:
        result = client.ask("bash", {"command": "echo hi", "token": 7})
        assert result == {"output": "hi\n", "cancelled": False, "truncated": False, "exitCode": 0}
        (path,) = session_files(tmp_path)
        (message,) = stored_messages(path)
        del message["timestamp"]
        assert message == {
            "role": "bashExecution",
            "command": "echo hi",
            "output": "hi\n",
            "exitCode": 0,
            "cancelled": False,
            "truncated": False,
        }
        kinds = [each["type"] for each in client.events()]
        assert kinds == ["bash_output", "message_start", "message_end", "session_changed"]
        assert client.events("bash_output") == [
            {"type": "bash_output", "delta": "hi\n", "token": 7}
        ]
        assert client.frames[-1]["result"] == result


def test_a_cancelled_command_answers_with_what_there_is(tmp_path: Path) -> None:
    with wire(tmp_path) as client:
        running = client.say("bash", {"command": "echo half; sleep 600"})
        until_output(client, "half\n")
        client.say("$/cancelRequest", {"id": running}, wants_answer=False)
        assert client.answer(running)["result"] == {
            "output": "half\n",
            "cancelled": True,
            "truncated": False,
        }
        # In the same breath: it may not even have begun.
        second = client.say("bash", {"command": "sleep 600"})
        client.say("$/cancelRequest", {"id": second}, wants_answer=False)
        assert client.answer(second)["result"]["cancelled"] is True


def test_a_command_holds_up_nothing_and_abort_leaves_it_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    with wire(tmp_path, [[say("hello")], [say("half"), hold()]]) as client:
        running = client.say("bash", {"command": "echo on; read -r _ < gate; echo off"})
        until_output(client, "on\n")
        assert client.ask("bash", {"command": "echo two"})["output"] == "two\n"
        assert client.ask("prompt", {"message": "hi"})["text"] == "hello"
        held = client.say("prompt", {"message": "hi"})
        client.until("message_update")
        assert client.ask("abort")["aborted"] is True
        assert client.answer(held)["result"]["stopReason"] == "aborted"
        (tmp_path / "gate").write_text("\n")
        assert client.answer(running)["result"]["output"] == "on\noff\n"


@pytest.mark.parametrize("end", ["eof", "shutdown", "close"])
def test_the_end_of_a_session_ends_its_commands_which_are_answered_and_stored(
    tmp_path: Path, end: str
) -> None:
    with wire(tmp_path) as client:
        running = client.say("bash", {"command": "echo half; sleep 600"})
        until_output(client, "half\n")
        if end == "close":
            session = client.frames[-1]["params"]["sessionId"]
            client.ask("session/close", {"sessionId": session})
        elif end == "shutdown":
            assert client.ask("shutdown") is None
        else:
            assert client.end() == 0
        result = client.answer(running)["result"]
        assert (result["output"], result["cancelled"]) == ("half\n", True)
        (path,) = session_files(tmp_path)
        assert [each["cancelled"] for each in stored_messages(path)] == [True]


def test_with_drain_a_command_runs_to_its_end(tmp_path: Path) -> None:
    with wire(tmp_path, (), "--drain") as client:
        running = client.say("bash", {"command": "echo on; sleep 0.2; echo off"})
        assert client.end() == 0
        assert client.answer(running)["result"]["output"] == "on\noff\n"


@pytest.mark.anyio
async def test_commands_die_with_the_daemon(tmp_path: Path) -> None:
    marker = f"812.{os.getpid()}"
    with wire(tmp_path) as client:
        client.say("bash", {"command": f"echo on; setsid sleep {marker} & sleep {marker}"})
        until_output(client, "on\n")
        await survivors(marker, at_least=2)
        client.process.send_signal(signal.SIGKILL)
        client.process.wait(DEADLINE_S)
        await survivors(marker, at_most=0)


def test_a_command_between_calls_and_results_waits_for_the_end_of_the_turn(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "gate")
    replies = [[call("bash", command="echo on; read -r _ < gate")], [say("done")]]
    with wire(tmp_path, replies) as client:
        client.ask("session/configure", {"permissionMode": "full"})
        running = client.say("prompt", {"message": "go"})
        client.until("tool_execution_start")
        assert client.ask("bash", {"command": "echo aside"})["output"] == "aside\n"
        (tmp_path / "gate").write_text("\n")
        client.answer(running)
        (path,) = session_files(tmp_path)
        roles = [each["role"] for each in stored_messages(path)]
        assert roles == ["user", "assistant", "toolResult", "bashExecution", "assistant"]
        (ended,) = client.events("agent_end")
        bash_id = next(
            each["entryId"]
            for each in client.events("message_end")
            if each["message"]["role"] == "bashExecution"
        )
        assert bash_id not in ended["entryIds"]


def test_a_command_too_long_for_an_argument_is_run_all_the_same(tmp_path: Path) -> None:
    with wire(tmp_path) as client:
        client.ask("session/configure", {"permissionMode": "full"})
        command = "echo start; # " + "x" * 300_000 + "\necho end"
        assert client.ask("bash", {"command": command})["output"] == "start\nend\n"


def test_what_cannot_be_run_is_refused_with_what_is_to_blame(tmp_path: Path) -> None:
    with wire(tmp_path) as client:
        assert refusal(client, "bash", {}) == "invalidParams"
        assert refusal(client, "bash", {"command": ""}) == "invalidParams"
        assert refusal(client, "bash", {"command": "a\0b"}) == "invalidParams"
        assert refusal(client, "bash", {"command": "x", "cwd": "nowhere"}) == "invalidParams"
        assert refusal(client, "bash", {"command": "x", "sessionId": "?"}) == "sessionNotFound"
        client.ask("session/configure", {"permissionMode": "readonly"})
        assert refusal(client, "bash", {"command": "touch x"}) == "permissionDenied"
    assert not (tmp_path / "x").exists()
    assert session_files(tmp_path) == []


def test_trust_that_cannot_be_stored_changes_nothing(tmp_path: Path) -> None:
    trust = tmp_path / "trust.json"
    with wire(tmp_path) as client:
        for written in ("[]", "{", '"yes"'):
            trust.write_text(written)
            assert refusal(client, "trust/set", {"trusted": True}) == "storage"
            assert client.ask("trust/get")["trusted"] is False
            assert trust.read_text() == written
        trust.write_text(json.dumps({"/elsewhere": True, "note": "of pi"}))
        client.ask("trust/set", {"trusted": True})
        here = str(tmp_path.resolve())
        assert json.loads(trust.read_text()) == {
            "/elsewhere": True,
            "note": "of pi",
            here: True,
        }
        for wrong in ("relative", str(tmp_path / "gone"), "/\0"):
            assert refusal(client, "trust/set", {"cwd": wrong}) == "invalidParams"
            assert refusal(client, "trust/get", {"cwd": wrong}) == "invalidParams"
