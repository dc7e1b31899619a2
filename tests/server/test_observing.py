"""What passes can be recorded, told and counted, and costs a session nothing."""

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.doors import tracing
from pi_rpc.doors.tracing import TraceFile
from tests.e2e.editor import DAEMON, DEADLINE_S
from tests.server.wire import Frame, Wire, wire

KEY = "sk-ant-from-the-environment"
STORED = "sk-openai-from-the-file"


def lines(path: Path) -> list[Frame]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def spoken(path: Path) -> list[Frame]:
    """The frames that were exchanged, with who spoke."""
    return [line for line in lines(path) if "direction" in line]


def run(home: Path, frames: list[Frame], *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    """A daemon that is told everything at once, and finishes."""
    script = home / "script.json"
    script.write_text(json.dumps({"replies": [{"steps": [{"text": "hello"}]}] * 3}))
    said = [{"jsonrpc": "2.0", **frame} for frame in frames]
    return subprocess.run(
        [*DAEMON, "--drain", *arguments],
        input="".join(f"{json.dumps(frame)}\n" for frame in said).encode(),
        capture_output=True,
        cwd=home,
        env={**os.environ, "PI_CODING_AGENT_DIR": str(home), "PI_RPC_SCRIPT": str(script)},
        timeout=DEADLINE_S,
        check=True,
    )


HELLO = [
    {"id": 1, "method": "initialize", "params": {}},
    {"id": 2, "method": "prompt", "params": {"message": "go"}},
]


def test_a_trace_has_every_frame_from_the_first_on(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    said = run(tmp_path, HELLO, "--trace", str(path))
    recorded = spoken(path)
    assert [each["frame"] for each in recorded if each["direction"] == "in"] == [
        {"jsonrpc": "2.0", **frame} for frame in HELLO
    ]
    out = [json.loads(line) for line in said.stdout.splitlines()]
    assert [each["frame"] for each in recorded if each["direction"] == "out"] == out
    sizes = [len(line) for line in said.stdout.splitlines()]
    assert [each["bytes"] for each in recorded if each["direction"] == "out"] == sizes
    assert recorded[1]["frame"]["id"] == 1
    assert said.stderr == b""


def test_a_trace_is_private_and_is_added_to(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.touch(mode=0o644)
    for _ in range(2):
        run(tmp_path, HELLO, "--trace", str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [set(line) for line in lines(path)].count({"time", "start"}) == 2


def test_a_trace_and_what_the_client_is_told_hold_no_key(tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text(json.dumps({"openai": {"type": "api_key", "key": STORED}}))
    (tmp_path / "leak.txt").write_text(f"{KEY} {STORED}")
    path = tmp_path / "trace.jsonl"
    replies = [
        [{"toolCall": {"name": "read", "arguments": {"path": "leak.txt"}}}],
        [{"text": f"It says {KEY}.", "pieces": 1}],
    ]
    environ = {"ANTHROPIC_API_KEY": KEY}
    with wire(tmp_path, replies, "--trace", str(path), environ=environ) as client:
        client.say("$/setTrace", {"value": "verbose"}, wants_answer=False)
        client.ask("prompt", {"message": f"is it {STORED}?"})
        client.ask("auth/set", {"provider": "groq", "apiKey": "gsk-set-just-now"})
        client.ask("session/list", {"query": "gsk-set-just-now"})
        client.end()
        told = [
            json.dumps(frame["params"])
            for frame in client.frames
            if frame.get("method") == "$/logTrace"
        ]
    text = path.read_text()
    assert "It says ***." in text
    for key in (KEY, STORED, "gsk-set-just-now"):
        assert key not in text
        assert not [each for each in told if key in each]
    assert any("is it ***?" in each for each in told)


def test_a_trace_that_cannot_be_written_is_told_once_and_hurts_nobody(tmp_path: Path) -> None:
    said = run(tmp_path, HELLO, "--trace", "/dev/full")
    answers = [json.loads(line) for line in said.stdout.splitlines()]
    assert next(each for each in answers if each.get("id") == 2)["result"]["text"] == "hello"
    assert said.stderr.decode().count("the trace /dev/full ends here") == 1
    assert said.stderr.count(b"\n") == 1


def test_a_trace_has_what_led_to_the_end_of_a_daemon_that_failed(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    program = (
        "import sys; from pi_rpc.cli import main; from pi_rpc.doors import life\n"
        "async def serve(*given): raise RuntimeError('a bug')\n"
        "life.serve = serve; main(sys.argv[1:])"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, "--stdio", "--trace", str(path)],
        input=json.dumps({"jsonrpc": "2.0", **HELLO[0]}).encode(),
        capture_output=True,
        env={**os.environ, "PI_CODING_AGENT_DIR": str(tmp_path)},
        timeout=DEADLINE_S,
        check=False,
    )
    assert said.returncode == 1
    assert b"a bug" in said.stderr
    assert [each["direction"] for each in spoken(path)] == ["in", "out"]


def test_a_trace_that_cannot_be_opened_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run(tmp_path, HELLO, "--trace", str(tmp_path / "nowhere" / "trace"))
    assert caught.value.returncode == 2
    assert caught.value.stderr.startswith(b"pi-rpc: cannot write the trace: ")


def test_what_the_disk_is_too_slow_for_is_left_out_and_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_CLOSE_S", DEADLINE_S)
    path = tmp_path / "trace.jsonl"
    trace = TraceFile(path)
    big = json.dumps({"text": "x" * 9_000_000}).encode()
    for _ in range(4):
        trace.record("out", big)
    trace.close()
    kept = lines(path)
    assert len([line for line in kept if "frame" in line]) == 2
    assert [line["dropped"] for line in kept if "dropped" in line] == [
        {"frames": 2, "bytes": 2 * len(big)}
    ]


def test_what_is_no_json_is_recorded_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_CLOSE_S", DEADLINE_S)
    path = tmp_path / "trace.jsonl"
    trace = TraceFile(path)
    trace.record("in", b'{"bad')
    trace.record("in", b'{\n "method":\r\n "x"}')
    trace.close()
    assert [line.get("text") for line in lines(path)[1:]] == ['{"bad', None]
    assert lines(path)[2]["frame"] == {"method": "x"}


def test_nothing_of_it_is_imported_where_nobody_wants_it(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "pi_rpc", "--stdio"],
        input=b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n{"jsonrpc":"2.0","id":2,"method":"ping"}\n',
        capture_output=True,
        env={**os.environ, "PI_CODING_AGENT_DIR": str(tmp_path)},
        timeout=DEADLINE_S,
        check=True,
    )
    assert b"pi_rpc.server.statistics" in said.stderr
    for name in (b"tracing", b"masking", b"reporting"):
        assert b"pi_rpc.doors." + name not in said.stderr


# --- told -----------------------------------------------------------------------------------------


def told(client: Wire) -> list[Any]:
    return [frame["params"] for frame in client.frames if frame.get("method") == "$/logTrace"]


def test_set_trace_has_as_much_told_as_was_asked_for(tmp_path: Path) -> None:
    with wire(tmp_path) as client:
        client.ask("ping")
        assert told(client) == []
        client.say("$/setTrace", {"value": "messages"}, wants_answer=False)
        client.say("$/setTrace", {"value": "loud"}, wants_answer=False)
        client.ask("ping")
        client.ask("server/stats")
        assert told(client)
        assert not [each for each in told(client) if "verbose" in each]
        client.say("$/setTrace", {"value": "verbose"}, wants_answer=False)
        client.ask("ping", {"token": 7})
        client.ask("ping")
        assert any('{"token": 7}' in each.get("verbose", "") for each in told(client))
        client.say("$/setTrace", {"value": "off"}, wants_answer=False)
        client.ask("ping")
        count = len(told(client))
        client.ask("ping")
        assert len(told(client)) == count
    for each in told(client):
        assert set(each) <= {"message", "verbose"}
    assert any(each["message"].startswith("Sent response 'ping - (") for each in told(client))


def test_a_healthy_run_logs_nothing_and_debug_says_how_long_requests_took(tmp_path: Path) -> None:
    assert run(tmp_path, HELLO).stderr == b""
    log = run(tmp_path, HELLO, "--log-level", "debug").stderr.decode()
    assert "Received request 'prompt - (2)'." in log
    assert " ms." in next(line for line in log.splitlines() if "response 'prompt - (2)'" in line)


# --- counted --------------------------------------------------------------------------------------


def test_stats_count_by_method_and_by_session(tmp_path: Path) -> None:
    with wire(tmp_path, [[{"text": "a long story", "pieces": 12}]] * 2) as client:
        session = client.ask("prompt", {"message": "go"})["sessionId"]
        client.ask("ping")
        client.ask("ping")
        client.answer(client.say("session/state", {"sessionId": "gone"}))
        client.answer(client.say("no/such/method"))
        stats = client.ask("server/stats")
        methods = {each.pop("method"): each for each in stats["methods"]}
        assert methods["ping"]["count"] == 2
        assert (methods["session/state"]["count"], methods["session/state"]["errors"]) == (1, 1)
        assert methods["server/stats"]["inFlight"] == stats["inFlight"] == 1
        assert 0 < methods["prompt"]["meanMs"] == methods["prompt"]["maxMs"]
        assert "no/such/method" not in methods
        assert stats["refused"] == 1
        [counts] = stats["sessions"]
        assert counts["sessionId"] == session
        assert counts["loaded"] is True
        assert counts["prompts"] == 1
        events = [frame for frame in client.frames if frame.get("method") == "agent/event"]
        assert counts["events"] == len(events)
        assert counts["bytes"] > 0
        deltas = [
            each
            for each in client.events("message_update")
            if each["assistantMessageEvent"]["type"] == "text_delta"
        ]
        assert len(deltas) + counts["deltasMerged"] == 12
        if sys.platform == "linux":
            assert stats["memory"]["residentBytes"] > 10_000_000
        client.ask("session/close", {"sessionId": session})
        again = client.ask("server/stats")
        assert again["sessions"] == []
        assert again["epoch"] == stats["epoch"]
        assert again["uptimeSeconds"] >= stats["uptimeSeconds"]


# --- unloaded -------------------------------------------------------------------------------------


def test_an_idle_session_is_unloaded_and_answers_as_before_under_another_epoch(
    tmp_path: Path,
) -> None:
    (tmp_path / "settings.json").write_text('{"piRpc": {"idleUnloadMinutes": 0.002}}')
    with wire(tmp_path, [[{"text": "hello"}]] * 2) as client:
        before = client.ask("session/new", {"permissionMode": "readonly"})
        named = {"sessionId": before["sessionId"]}
        client.ask("prompt", {"message": "go", **named})

        def loaded() -> bool:
            return bool(client.ask("server/stats")["sessions"][0]["loaded"])

        deadline = time.monotonic() + DEADLINE_S
        here = True
        while here:
            assert time.monotonic() < deadline
            here = loaded()
            # Also while it is just being unloaded.
            [listed] = client.ask("session/list")["sessions"]
            assert (listed["open"], listed["phase"]) == (True, "idle")
            assert "lockedPid" not in listed
        assert not loaded()
        after = client.ask("session/state", named)
        assert after["epoch"] != before["epoch"]
        assert after["permissionMode"] == "readonly"
        assert after["messageCount"] == 2
        numbered = client.numbered()
        place = [seq for seq, _ in numbered].index(1, 1)
        assert numbered[place][1] == {"type": "session_changed", "epoch": after["epoch"]}
        assert client.ask("prompt", {"message": "go", **named})["text"] == "hello"
