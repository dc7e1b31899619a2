"""The first milliseconds of the door, its command line, and frames that are none."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.cli import parse
from tests.acp.client import DEADLINE_S, FULL, acp, call, said, say, text

HEAVY = {"asyncio", "anyio", "httpx", "pydantic", "acp", "pi_rpc.host", "pi_rpc.harness"}
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}


def started(home: Path, code: str, stdin: bytes) -> "subprocess.CompletedProcess[bytes]":
    environment = {**os.environ, "PI_CODING_AGENT_DIR": str(home)}
    return subprocess.run(
        [sys.executable, "-c", code, "--acp"],
        input=stdin,
        env=environment,
        cwd=home,
        capture_output=True,
        check=True,
    )


def test_nothing_heavy_is_imported_before_the_handshake_is_answered(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from pi_rpc.doors import opening\n"
        "answer = opening.answer_initialize\n"
        "def watched(*given):\n"
        "    greeting = answer(*given)\n"
        "    sys.stderr.write(' '.join(sys.modules))\n"
        "    sys.stderr.flush()\n"
        "    return greeting\n"
        "opening.answer_initialize = watched\n"
        "from pi_rpc.cli import main\n"
        "main()\n"
    )
    ended = started(tmp_path, code, json.dumps(INITIALIZE).encode() + b"\n")
    assert HEAVY.isdisjoint(ended.stderr.decode().split())
    assert b"pi_rpc.acp.handshake" in ended.stderr
    assert json.loads(ended.stdout)["result"]["protocolVersion"] == 1


def test_only_lines_are_frames(tmp_path: Path) -> None:
    # Headers are no framing of this protocol, and what is no JSON is answered as such.
    stdin = b"Content-Length: 2\r\n\r\n{}\n" + json.dumps(INITIALIZE).encode() + b"\n"
    ended = started(tmp_path, "from pi_rpc.cli import main; main()", stdin)
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [each.get("id") for each in answers] == [None, None, 0]
    assert [each["error"]["code"] for each in answers[:2]] == [-32700, -32600]


def test_anything_before_the_handshake_is_refused_and_the_handshake_still_works(
    tmp_path: Path,
) -> None:
    early = {"jsonrpc": "2.0", "id": 7, "method": "session/list", "params": {}}
    frames = [json.dumps(each).encode() + b"\n" for each in (early, INITIALIZE)]
    ended = started(tmp_path, "from pi_rpc.cli import main; main()", b"".join(frames))
    refused, greeted = map(json.loads, ended.stdout.splitlines())
    assert (refused["id"], refused["error"]["code"]) == (7, -32600)
    assert greeted["result"]["agentInfo"]["name"] == "pi-rpc"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--acp", "--stdio"],
        ["--acp", "sessions", "list"],
        ["--acp", "run", "hi"],
    ],
    ids=" ".join,
)
def test_options_that_do_not_go_together_are_a_usage_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err


def test_a_trace_has_every_frame_from_the_handshake_on(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with acp(tmp_path, [[say("fine")]], "--trace", str(path)) as client:
        session = client.new()
        client.ask("session/prompt", sessionId=session, prompt=text("hi"))
        client.process.stdin.close()
        assert client.process.wait(DEADLINE_S) == 0
    passed = [json.loads(line) for line in path.read_text().splitlines()]
    came = [each["frame"] for each in passed if each.get("direction") == "in"]
    assert [each["method"] for each in came] == ["initialize", "session/new", "session/prompt"]
    said = [each["frame"] for each in passed if each.get("direction") == "out"]
    assert said[: len(client.frames)] == client.frames


def test_a_terminal_can_store_a_key_with_the_agents_own_command() -> None:
    # Clients append what a terminal is to run to the command that they start the agent with.
    parsed = parse(["--acp", "auth", "set", "anthropic"])
    assert (parsed.command, parsed.action, parsed.provider) == ("auth", "set", "anthropic")


def test_odd_frames_do_no_harm(tmp_path: Path) -> None:
    with acp(tmp_path, [[say("fine")]]) as client:
        session = client.new()
        odd: list[Any] = [
            [],
            {"jsonrpc": "2.0", "method": "session/cancel"},
            {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": 3}},
            {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "none"}},
            {"jsonrpc": "2.0", "id": "d999", "result": {}},
            {"jsonrpc": "2.0", "id": 1e3, "method": "session/prompt", "params": [None]},
            {"jsonrpc": "2.0", "id": 1001, "method": "session/prompt", "params": {"prompt": []}},
        ]
        assert client.process.stdin is not None
        for each in odd:
            client.process.stdin.write(json.dumps(each).encode() + b"\n")
        client.process.stdin.flush()
        assert client.prompt(session, "still there?") == "end_turn"
        errors = {each["id"]: each["error"]["code"] for each in client.frames if "error" in each}
        assert errors == {None: -32600, 1000.0: -32602, 1001: -32602}


def test_with_drain_the_end_of_input_lets_turns_finish(tmp_path: Path) -> None:
    replies = [[say("one")], [call("bash", command="echo two")], [say("three")]]
    with acp(tmp_path, replies, *FULL, "--drain") as client:
        session = client.new()
        turns = [
            client.begin("session/prompt", sessionId=session, prompt=text("go")) for _ in range(2)
        ]
        assert client.end() == 0
        ended = [client.answer(each)["result"] for each in turns]
        assert ended == [{"stopReason": "end_turn"}] * 2
        assert said(client.updates(session)) == "onethree"
