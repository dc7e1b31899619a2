"""The end comes when it was promised, whatever is going on. Deadlines here are generous."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from pi_rpc._os.signals import STUCK
from tests.e2e.editor import DAEMON, DEADLINE_S, call, editor, hold, say, session_files
from tests.e2e.test_lifecycle import survivors, text_arrived
from tests.server.test_slow_clients import EVERY_DELTA, FLOOD, wait_until_it_rests
from tests.server.wire import wire

INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
SIGNALS = [signal.SIGTERM, signal.SIGINT]
FULL = {"capabilities": {}, "initializationOptions": {"session": {"permissionMode": "full"}}}


@pytest.mark.anyio
async def test_shutdown_is_answered_while_a_run_and_a_command_go_on(tmp_path: Path) -> None:
    marker = f"811.{os.getpid()}"
    replies = [[call("bash", command=f"sleep {marker}")], [say("never")]]
    async with editor(tmp_path, replies, initialize=FULL) as client:
        command = client.begin("prompt", {"message": "go"})
        other = await client.request("session/new", {"permissionMode": "full"})
        second = client.begin("prompt", {"message": "go", "sessionId": other["sessionId"]})
        await survivors(marker, at_least=2)
        assert await client.request("shutdown") is None
        for each in (command, second):
            assert (await client.answer(each))["stopReason"] == "aborted"
        client.notify("exit")
        assert await client.ended() == 0
    await survivors(marker, at_most=0)
    settled = [each for each in client.events if each["type"] == "agent_settled"]
    assert [each["aborted"] for each in settled] == [True, True]


@pytest.mark.anyio
async def test_exit_alone_ends_a_run_and_says_how_it_ended(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("half"), hold()]]) as client:
        run = client.begin("prompt", {"message": "go"})
        await client.until(text_arrived)
        client.notify("exit")
        assert (await client.answer(run))["stopReason"] == "aborted"
        assert await client.ended() == 1


@pytest.mark.parametrize("arguments", [(), ("--drain",)])
def test_a_signal_ends_it_though_the_client_does_not_read(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    with wire(tmp_path, [[FLOOD]], *arguments, features=EVERY_DELTA) as client:
        client.say("prompt", {"message": "go"})
        wait_until_it_rests(psutil.Process(client.process.pid))
        client.process.terminate()
        assert client.process.wait(DEADLINE_S) == 128 + signal.SIGTERM
    (path,) = session_files(tmp_path)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert entries[-1]["message"]["stopReason"] == "aborted"


def test_a_signal_ends_a_drain_that_nobody_reads(tmp_path: Path) -> None:
    # Little enough to be produced whole, too much for the pipe.
    reply = {"repeatText": "ab ", "count": 3000}
    with wire(tmp_path, [[reply]], "--drain", features=EVERY_DELTA) as client:
        client.say("prompt", {"message": "go"})
        assert client.process.stdin is not None
        client.process.stdin.close()
        wait_until_it_rests(psutil.Process(client.process.pid))
        assert client.process.poll() is None
        client.process.terminate()
        assert client.process.wait(DEADLINE_S) == 128 + signal.SIGTERM


HANGS = (
    "import anyio, sys\n"
    "from pi_rpc.server.connection import Connection\n"
    "async def aclose(self):\n"
    "    print('ending', file=sys.stderr, flush=True)\n"
    "    await anyio.sleep_forever()\n"
    "Connection.aclose = aclose\n"
    "from pi_rpc.cli import main\n"
    "main(['--stdio'])\n"
)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_ends_it_at_once_though_the_orderly_end_hangs(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = start(tmp_path, sys.executable, "-c", HANGS)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
    process.stdin.flush()
    process.stdout.readline()
    # The answer comes before the daemon takes signals; this one comes after.
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(number)
    assert process.stderr.readline() == b"ending\n"
    assert process.poll() is None
    process.send_signal(number)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 128 + number
    assert errors == b""


BLOCKING = """
import time
from pi_rpc.agent.tool import AgentTool, ToolResult

async def block(tool_call_id, params, signal, on_update):
    print("blocking", flush=True)
    BLOCK

def setup(api):
    api.tool(AgentTool(name="block", label="Block", description="Blocks.",
                       parameters={"type": "object"}, execute=block))
"""
BLOCKS = ["time.sleep(3600)", "while True: pass"]


def blocked(home: Path, block: str) -> "subprocess.Popen[bytes]":
    """A daemon in which people's code keeps the event loop from running."""
    extensions = home / "extensions-py"
    extensions.mkdir()
    (extensions / "blocking.py").write_text(BLOCKING.replace("BLOCK", block))
    script = home / "script.json"
    script.write_text(json.dumps({"replies": [{"steps": [call("block")]}]}))
    process = start(home, *DAEMON, environ={"PI_RPC_SCRIPT": str(script)})
    prompt = {"jsonrpc": "2.0", "id": 1, "method": "prompt", "params": {"message": "go"}}
    assert process.stdin is not None
    assert process.stderr is not None
    for frame in ({**INITIALIZE, "params": FULL}, prompt):
        process.stdin.write(json.dumps(frame).encode() + b"\n")
    process.stdin.flush()
    assert process.stderr.readline() == b"blocking\n"
    return process


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_it_though_an_extension_blocks_the_event_loop(
    tmp_path: Path, block: str, number: signal.Signals
) -> None:
    process = blocked(tmp_path, block)
    process.send_signal(number)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 128 + number


@pytest.mark.parametrize("block", BLOCKS)
def test_the_end_of_input_ends_it_though_an_extension_blocks_the_event_loop(
    tmp_path: Path, block: str
) -> None:
    process = blocked(tmp_path, block)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == STUCK


def test_a_coroutine_that_will_not_be_cancelled_does_not_outlive_a_signal(tmp_path: Path) -> None:
    refuses = (
        "import asyncio\n    while True:\n        try: await asyncio.sleep(3600)\n"
        "        except BaseException: pass"
    )
    process = blocked(tmp_path, refuses)
    process.terminate()
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 128 + signal.SIGTERM


WAITING = (
    "import sys\n"
    "from pi_rpc.doors import opening\n"
    "answer = opening.answer_initialize\n"
    "def waiting(*given):\n"
    "    print('waiting', file=sys.stderr, flush=True)\n"
    "    return answer(*given)\n"
    "opening.answer_initialize = waiting\n"
    "from pi_rpc.cli import main\n"
    "main(['--stdio'])\n"
)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_the_first_frame_is_waited_for_ends_it_quietly(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = start(tmp_path, sys.executable, "-c", WAITING)
    assert process.stderr is not None
    assert process.stderr.readline() == b"waiting\n"
    process.send_signal(number)
    output, errors = process.communicate(timeout=DEADLINE_S)
    assert (output, errors) == (b"", b"")
    # Nothing is set up yet that would need an orderly end: dying of the signal is as good.
    assert process.returncode in {128 + number, -number}


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_before_initialize_ends_it_quietly(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, *DAEMON)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["error"]["code"] == -32002
    process.send_signal(number)
    code = process.wait(DEADLINE_S)
    assert process.communicate() == (b"", b"")
    assert code == 128 + number


BLOCKED = (
    "import os, signal, sys\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
)
"""A parent's mask goes along to what it starts, also through a shell."""


@pytest.mark.skipif(sys.platform == "win32", reason="has no masks of signals")
@pytest.mark.parametrize("frames", [b"", json.dumps(INITIALIZE).encode() + b"\n"])
@pytest.mark.parametrize("number", [*SIGNALS, signal.SIGHUP])
def test_a_signal_ends_it_though_its_parent_had_blocked_it(
    tmp_path: Path, number: signal.Signals, frames: bytes
) -> None:
    command = DAEMON[1:] if frames else ("-c", WAITING)
    process = start(tmp_path, sys.executable, "-c", BLOCKED, *command)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(frames)
    process.stdin.flush()
    (process.stdout if frames else process.stderr).readline()
    process.send_signal(number)
    try:
        assert process.wait(DEADLINE_S) in {128 + number, -number}
    finally:
        process.kill()
        process.communicate()


STARTING = (
    "import os, signal, sys\n"
    "from pi_rpc.doors import opening\n"
    "answer = opening.answer_initialize\n"
    "def answered(*given):\n"
    "    greeted = answer(*given)\n"
    "    os.kill(os.getpid(), int(sys.argv[1]))\n"
    "    return greeted\n"
    "opening.answer_initialize = answered\n"
    "from pi_rpc.cli import main\n"
    "main(['--stdio'])\n"
)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_right_behind_the_first_answer_ends_it_quietly(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = start(tmp_path, sys.executable, "-c", STARTING, str(int(number)))
    assert process.stdin is not None
    process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
    process.stdin.flush()
    code = process.wait(DEADLINE_S)
    output, errors = process.communicate()
    assert errors == b""
    assert len(output.splitlines()) == 1
    assert code in {128 + number, -number}


def start(
    home: Path, *command: str, environ: dict[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    pipe: Any = subprocess.PIPE
    return subprocess.Popen(
        command,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env={**os.environ, "PI_CODING_AGENT_DIR": str(home), **(environ or {})},
        cwd=home,
    )
