"""How the daemon begins and ends, over the real process."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import psutil
import pytest

from tests.e2e.editor import (
    DAEMON,
    DEADLINE_S,
    Refused,
    call,
    editor,
    hold,
    say,
    session_files,
    stored_messages,
)

pytestmark = pytest.mark.anyio

RUN = {"jsonrpc": "2.0", "id": 1, "method": "prompt", "params": {"message": "go"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}


def text_arrived(event: dict) -> bool:
    return (event.get("assistantMessageEvent") or {}).get("type") == "text_delta"


UNHURRIED = (
    "import sys\n"
    "from pi_rpc.doors import connection, life\n"
    "connection._SETTLE_S = life._GRACE_S = 60.0\n"
    "from pi_rpc.cli import main\n"
    "main(['--stdio', *sys.argv[1:]])\n"
)
"""A daemon that tells how all has ended, however busy this machine is."""


def pipe(home: Path, frames: list[dict], *arguments: str, script: list | None = None) -> tuple:
    """Frames in, the input closed, and what came out: answers by id, events, the exit code."""
    variables = {**os.environ, "PI_CODING_AGENT_DIR": str(home)}
    if script is not None:
        path = home / "script.json"
        path.write_text(json.dumps({"replies": [{"steps": steps} for steps in script]}))
        variables["PI_RPC_SCRIPT"] = str(path)
    done = subprocess.run(
        [sys.executable, "-c", UNHURRIED, *arguments],
        input="".join(json.dumps(frame) + "\n" for frame in frames).encode(),
        env=variables,
        cwd=home,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    sent = [json.loads(line) for line in done.stdout.splitlines()]
    answers = {frame["id"]: frame for frame in sent if "id" in frame}
    events = [frame["params"]["event"] for frame in sent if "method" in frame]
    assert len(answers) == sum("id" in frame for frame in sent)
    assert done.stderr == b""
    return answers, events, done.returncode


def test_with_drain_the_end_of_input_waits_for_what_was_accepted(tmp_path: Path) -> None:
    answers, events, code = pipe(
        tmp_path, [INITIALIZE, RUN], "--drain", script=[[{"delayMs": 300}, say("done")]]
    )
    assert answers[1]["result"]["text"] == "done"
    assert events[-1]["type"] == "agent_settled"
    assert code == 0


def test_without_drain_the_end_of_input_answers_a_running_prompt_as_aborted(
    tmp_path: Path,
) -> None:
    answers, events, code = pipe(tmp_path, [INITIALIZE, RUN], script=[[say("half"), hold()]])
    assert answers[1]["result"]["stopReason"] == "aborted"
    assert [each["type"] for each in events].count("agent_settled") == 1
    assert code == 0


def test_input_that_ends_before_anything_was_said_is_an_orderly_end(tmp_path: Path) -> None:
    assert pipe(tmp_path, []) == ({}, [], 0)


def test_requests_before_initialize_are_refused_and_it_still_works_afterwards(
    tmp_path: Path,
) -> None:
    ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
    again = {**INITIALIZE, "id": 8}
    answers, _, _ = pipe(tmp_path, [ping, INITIALIZE, {**ping, "id": 9}, again])
    assert answers[7]["error"]["code"] == -32002
    assert answers[0]["result"]["protocolVersion"] == 1
    assert answers[9]["result"] == {}
    assert answers[8]["error"]["code"] == -32600


def test_a_higher_protocol_version_is_answered_with_ours(tmp_path: Path) -> None:
    newer = {**INITIALIZE, "params": {"protocolVersion": 99}}
    answers, _, _ = pipe(tmp_path, [newer])
    assert answers[0]["result"]["protocolVersion"] == 1


async def test_after_shutdown_only_exit_is_taken_and_the_exit_code_is_zero(
    tmp_path: Path,
) -> None:
    async with editor(tmp_path, [[say("half"), hold()]]) as client:
        run = client.begin("prompt", {"message": "go"})
        await client.until(text_arrived)
        assert await client.request("shutdown") is None
        with pytest.raises(Refused) as refused:
            await client.request("ping")
        assert refused.value.code == -32600
        assert (await client.answer(run))["stopReason"] == "aborted"
        client.notify("exit")
        assert await client.ended() == 0


async def test_exit_without_shutdown_is_exit_code_one(tmp_path: Path) -> None:
    async with editor(tmp_path) as client:
        client.notify("exit")
        assert await client.ended() == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
async def test_a_signal_ends_the_run_the_children_and_the_daemon(
    tmp_path: Path, number: signal.Signals
) -> None:
    marker = f"{600 + number}.{os.getpid()}"
    replies = [[call("bash", command=f"setsid sleep {marker} & sleep {marker}")]]
    start = {"capabilities": {}, "initializationOptions": {"session": {"permissionMode": "full"}}}
    async with editor(tmp_path, replies, initialize=start) as client:
        await client.request("prompt", {"message": "go", "wait": "accepted"})
        await survivors(marker, at_least=2)
        client.process.send_signal(number)
        assert await client.ended() == 128 + number
    await survivors(marker, at_most=0)
    (path,) = session_files(tmp_path)
    assert [each["role"] for each in stored_messages(path)] == ["user", "assistant", "toolResult"]


async def test_the_daemon_ends_with_the_process_that_the_client_named(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = {"processId": parent.pid, "capabilities": {}}
    async with editor(tmp_path, [[say("half"), hold()]], initialize=start) as client:
        await client.request("prompt", {"message": "go", "wait": "accepted"})
        await client.until(text_arrived)
        parent.kill()
        parent.wait()
        await client.ended()
    assert parent.stdin is not None
    parent.stdin.close()
    (path,) = session_files(tmp_path)
    assert stored_messages(path)[-1]["stopReason"] == "aborted"


async def test_a_process_id_that_does_not_exist_here_is_ignored(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    start = {"processId": gone.pid, "capabilities": {}}
    async with editor(tmp_path, [[say("hello")]], initialize=start) as client:
        assert (await client.request("prompt", {"message": "hi"}))["text"] == "hello"


async def test_initialize_takes_what_a_language_client_sends(tmp_path: Path) -> None:
    project = tmp_path / "project with space"
    project.mkdir()
    start = {
        "processId": None,
        "rootUri": None,
        "rootPath": None,
        "workspaceFolders": [{"uri": project.as_uri(), "name": "project"}],
        "capabilities": {
            "general": {"positionEncodings": ["utf-32", "utf-8"]},
            "textDocument": {"synchronization": {"dynamicRegistration": True}},
        },
        "trace": "off",
    }
    async with editor(tmp_path, initialize=start) as client:
        state = await client.request("session/state")
        assert state["cwd"] == str(project)


async def test_nothing_heavy_is_imported_before_initialize_is_answered(tmp_path: Path) -> None:
    probe = (
        "import sys, atexit\n"
        "from pi_rpc.doors import opening\n"
        "answer = opening.answer_initialize\n"
        "def watched(*given):\n"
        "    params = answer(*given)\n"
        "    heavy = {'anyio', 'asyncio', 'httpx', 'pydantic', 'jsonschema', 'ssl', 'pygls'}\n"
        "    heavy.add('tree_sitter')\n"
        "    layers = ('agent', 'harness', 'headless', 'host', 'llm', 'session', 'tools')\n"
        "    ours = tuple(f'pi_rpc.{each}.' for each in layers)\n"
        "    early = {each for each in sys.modules if each.startswith(ours)}\n"
        "    early |= heavy & set(sys.modules)\n"
        "    print(sorted(early - {'pi_rpc.llm.messages'}), file=sys.stderr)\n"
        "    sys.exit(0)\n"
        "opening.answer_initialize = watched\n"
        "from pi_rpc.cli import main\n"
        "main(['--stdio'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        input=json.dumps(INITIALIZE).encode() + b"\n",
        env={**os.environ, "PI_CODING_AGENT_DIR": str(tmp_path)},
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "pi-rpc"
    assert done.stderr.decode().strip() == "[]"


async def survivors(marker: str, *, at_least: int = 0, at_most: int | None = None) -> None:
    """Wait until as many ``sleep`` processes with ``marker`` run as are wanted."""
    with anyio.fail_after(DEADLINE_S):
        while True:
            running = [
                each
                for each in psutil.process_iter(["cmdline"])
                if each.info["cmdline"] == ["sleep", marker]
            ]
            if len(running) >= at_least and (at_most is None or len(running) <= at_most):
                return
            await anyio.sleep(0.02)


SHUTDOWN = {"jsonrpc": "2.0", "id": 90, "method": "shutdown"}
EXIT = {"jsonrpc": "2.0", "method": "exit"}


@pytest.mark.parametrize("arguments", [(), ("--drain",)])
def test_shutdown_and_exit_may_be_sent_together(tmp_path: Path, arguments: tuple) -> None:
    answers, _, code = pipe(tmp_path, [INITIALIZE, SHUTDOWN, EXIT], *arguments)
    assert answers[90]["result"] is None
    assert code == 0


@pytest.mark.parametrize("ending", [[], [SHUTDOWN, EXIT]])
def test_a_run_that_nobody_waits_for_says_how_it_ended(tmp_path: Path, ending: list) -> None:
    run = {**RUN, "params": {"message": "go", "wait": "accepted"}}
    _, events, _ = pipe(tmp_path, [INITIALIZE, run, *ending], script=[[say("half"), hold()]])
    assert [each["type"] for each in events][-1] == "agent_settled"
    assert events[-1]["aborted"] is True


def test_a_prompt_that_waits_in_the_queue_is_answered_at_the_end(tmp_path: Path) -> None:
    queued = {**RUN, "id": 2, "params": {"message": "x", "streamingBehavior": "followUp"}}
    answers, _, _ = pipe(tmp_path, [INITIALIZE, RUN, queued], script=[[say("half"), hold()]])
    assert answers[1]["result"]["stopReason"] == "aborted"
    assert answers[2]["result"]["disposition"] == "queued"
    assert answers[2]["result"]["stopReason"] == "aborted"


@pytest.mark.parametrize("cwd", ["relative", "/nowhere/at/all"])
def test_a_working_directory_that_cannot_be_used_is_refused_at_once(
    tmp_path: Path, cwd: str
) -> None:
    wrong = {**INITIALIZE, "params": {"cwd": cwd}}
    answers, _, _ = pipe(tmp_path, [wrong, {**INITIALIZE, "id": 5}])
    assert answers[0]["error"]["data"] == {"kind": "invalidParams", "path": "cwd"}
    assert answers[5]["result"]["protocolVersion"] == 1


def test_a_client_that_dies_while_the_daemon_starts_is_noticed(tmp_path: Path) -> None:
    parent = subprocess.Popen(["sleep", "60"])
    daemon = subprocess.Popen(
        DAEMON,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PI_CODING_AGENT_DIR": str(tmp_path)},
    )
    assert daemon.stdin is not None
    assert daemon.stdout is not None
    start = {**INITIALIZE, "params": {"processId": parent.pid}}
    daemon.stdin.write(json.dumps(start).encode() + b"\n")
    daemon.stdin.flush()
    assert json.loads(daemon.stdout.readline())["id"] == 0
    parent.kill()
    parent.wait()
    try:
        assert daemon.wait(DEADLINE_S) == 0
    finally:
        daemon.kill()
        daemon.stdin.close()
        daemon.stdout.close()


def test_with_drain_what_a_failed_run_leaves_in_the_queue_is_answered(tmp_path: Path) -> None:
    queued = {**RUN, "id": 2, "params": {"message": "x", "streamingBehavior": "followUp"}}
    failure = {"error": {"message": "no", "status": 400}}
    script = [[{"delayMs": 300}, failure]]
    answers, events, code = pipe(tmp_path, [INITIALIZE, RUN, queued], "--drain", script=script)
    assert answers[1]["result"]["stopReason"] == "error"
    assert answers[2]["result"] == {
        "disposition": "queued",
        "sessionId": answers[1]["result"]["sessionId"],
        "stopReason": "aborted",
    }
    assert [each["type"] for each in events].count("agent_settled") == 1
    assert code == 0


@pytest.mark.parametrize("process_id", [-1, 0, 2**31, 2**63, 10**29])
def test_a_process_id_that_cannot_be_one_is_ignored(tmp_path: Path, process_id: int) -> None:
    start = {**INITIALIZE, "params": {"processId": process_id}}
    answers, _, code = pipe(tmp_path, [start, RUN], "--drain", script=[[say("hello")]])
    if "result" in answers[0]:
        assert answers[1]["result"]["text"] == "hello"
    else:
        assert answers[0]["error"]["code"] == -32602
    assert code == 0


def test_a_daemon_started_in_a_directory_that_is_gone_says_so(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"replies": [{"steps": [say("never")]}]}))
    command = f'cd "{gone}" && rmdir "{gone}" && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", command, "sh", *DAEMON, "--drain"],
        input="".join(json.dumps(each) + "\n" for each in (INITIALIZE, RUN)).encode(),
        env={
            **os.environ,
            "PI_CODING_AGENT_DIR": str(tmp_path),
            "PI_RPC_SCRIPT": str(script),
            "PYTHONPATH": str(Path(__file__).parents[2]),
        },
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines() if b'"id"' in line[:30]]
    assert [each["id"] for each in answers] == [0, 1]
    assert b"Traceback" not in done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("greeted", [False, True])
def test_a_signal_in_the_first_moments_ends_the_daemon_in_order(
    tmp_path: Path, number: signal.Signals, greeted: bool
) -> None:
    daemon = subprocess.Popen(
        DAEMON,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PI_CODING_AGENT_DIR": str(tmp_path)},
    )
    with daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        assert daemon.stderr is not None
        if greeted:
            daemon.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
            daemon.stdin.flush()
            assert json.loads(daemon.stdout.readline())["id"] == 0
        else:
            # It has claimed its streams, so it listens to signals too, or will in a moment.
            while not os.path.samefile(f"/proc/{daemon.pid}/fd/0", os.devnull):
                assert daemon.poll() is None
        daemon.send_signal(number)
        try:
            assert daemon.wait(DEADLINE_S) in {128 + number, -number}
            assert greeted is False or daemon.returncode == 128 + number
            assert daemon.stderr.read() == b""
        finally:
            daemon.kill()
