"""``pi-rpc run`` and ``pi-rpc demo`` as a person or a script starts them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.editor import DEADLINE_S, call, hold, say, session_files, stored_messages

PI_RPC = (sys.executable, "-m", "pi_rpc")
MODEL = ("--model", "scripted/scripted")


def environment(home: Path, replies: Sequence[Any]) -> dict[str, str]:
    keys = ("_API_KEY", "_TOKEN")
    variables = {name: value for name, value in os.environ.items() if not name.endswith(keys)}
    script = home / "script.json"
    script.write_text(json.dumps({"replies": [{"steps": steps} for steps in replies]}))
    return {**variables, "PI_CODING_AGENT_DIR": str(home), "PI_RPC_SCRIPT": str(script)}


def run(
    home: Path, *arguments: str, replies: Sequence[Any] = ()
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*PI_RPC, *arguments],
        env=environment(home, replies),
        cwd=home,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=DEADLINE_S,
        check=False,
    )


def lines(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_the_answer_goes_to_standard_output_and_the_rest_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("in the file\n")
    replies = [[call("read", path="a.txt")], [say("I read it.")]]
    done = run(tmp_path, "run", *MODEL, "read", "a.txt", replies=replies)
    assert done.returncode == 0
    assert done.stdout == b"I read it.\n"
    notes = done.stderr.decode().splitlines()
    assert notes[:2] == ['-> read {"path": "a.txt"}', "<- in the file"]
    assert notes[2].startswith("[stop: ")
    (path,) = session_files(tmp_path)
    assert stored_messages(path)[0]["content"] == "read a.txt"


def test_with_json_every_line_is_an_object_from_the_header_to_the_result(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("in the file\n")
    replies = [[call("read", path="a.txt")], [say("I read it.")]]
    done = run(tmp_path, "run", "--json", *MODEL, "go", replies=replies)
    assert done.returncode == 0
    assert done.stderr == b""
    header, *events, result = lines(done.stdout)
    (path,) = session_files(tmp_path)
    assert header["type"] == "session"
    assert header["sessionId"] in path.name
    assert header["cwd"] == str(tmp_path)
    types = [each["type"] for each in events]
    assert types[-1] == "agent_settled"
    assert {"agent_start", "turn_start", "message_start", "message_update", "turn_end"} <= {*types}
    assert {"tool_execution_start", "tool_execution_end", "agent_end", "save_point"} <= {*types}
    ended = [each["entryId"] for each in events if each["type"] == "message_end"]
    (end,) = [each for each in events if each["type"] == "agent_end"]
    assert end["entryIds"] == ended
    assert len(ended) == 4
    assert "messages" not in end
    assert result["type"] == "result"
    assert (result["stopReason"], result["text"]) == ("stop", "I read it.")
    assert result["runId"] == events[-1]["runId"]
    assert result["usage"] == events[-1]["usage"]
    assert result["cost"] == events[-1]["cost"]
    assert "errorMessage" not in result


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_a_provider_failure_is_exit_code_one_and_says_why(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    failure = {"error": {"message": "the key is wrong", "status": 401}}
    done = run(tmp_path, "run", *arguments, *MODEL, "go", replies=[[say("half"), failure]])
    assert done.returncode == 1
    if arguments:
        result = lines(done.stdout)[-1]
        assert result["stopReason"] == "error"
        assert "the key is wrong" in result["errorMessage"]
        assert result["text"] == "half"
        assert done.stderr == b""
    else:
        assert done.stdout == b"half\n"
        assert b"the key is wrong" in done.stderr
        assert b"Traceback" not in done.stderr


def test_without_a_prompt_it_is_a_usage_error(tmp_path: Path) -> None:
    done = run(tmp_path, "run")
    assert done.returncode == 2
    assert b"prompt" in done.stderr
    assert done.stdout == b""


def test_an_unknown_tool_is_a_usage_error_that_names_those_there_are(tmp_path: Path) -> None:
    done = run(tmp_path, "run", *MODEL, "--tools", "read,fly", "go", replies=[[say("x")]])
    assert done.returncode == 2
    assert b"fly" in done.stderr
    assert b"bash" in done.stderr
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr


def test_an_unknown_model_is_a_usage_error_that_names_it_and_nothing_is_run(tmp_path: Path) -> None:
    done = run(tmp_path, "run", "--model", "nobody/nothing", "go")
    assert done.returncode == 2
    assert b"nobody/nothing" in done.stderr
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr
    assert session_files(tmp_path) == []


def test_an_unknown_permission_mode_is_a_usage_error(tmp_path: Path) -> None:
    done = run(tmp_path, "run", "--permission-mode", "anything", "go")
    assert done.returncode == 2
    assert b"readonly" in done.stderr


def test_an_ephemeral_run_leaves_no_file(tmp_path: Path) -> None:
    done = run(tmp_path, "run", "--ephemeral", *MODEL, "go", replies=[[say("gone")]])
    assert (done.returncode, done.stdout) == (0, b"gone\n")
    assert sorted(each.name for each in tmp_path.rglob("*") if each.is_file()) == ["script.json"]


@pytest.mark.parametrize("tools", [("--tools", "read"), ("--tools", "read,bash"), ()])
def test_a_command_runs_only_where_it_is_offered_and_permitted(
    tmp_path: Path, tools: tuple[str, ...]
) -> None:
    replies = [[call("bash", command="touch made")], [say("done")]]
    refused = run(tmp_path, "run", "--json", *tools, *MODEL, "go", replies=replies)
    (end,) = [each for each in lines(refused.stdout) if each["type"] == "tool_execution_end"]
    assert end["isError"] is True
    if tools != ("--tools", "read"):
        assert "--permission-mode" in end["result"]["content"][0]["text"]
    assert not (tmp_path / "made").exists()
    full = ("--permission-mode", "full")
    run(tmp_path, "run", *full, *tools, *MODEL, "go", replies=replies)
    assert (tmp_path / "made").exists() == (tools != ("--tools", "read"))


def test_full_permission_offers_every_tool_and_readonly_none_that_writes(tmp_path: Path) -> None:
    replies = [[call("write", path="made", content="x")], [say("done")]]
    read_only = ("--permission-mode", "readonly", "--tools", "read,write")
    run(tmp_path, "run", *read_only, *MODEL, "go", replies=replies)
    assert not (tmp_path / "made").exists()
    run(tmp_path, "run", "--permission-mode", "full", *MODEL, "go", replies=replies)
    assert (tmp_path / "made").exists()


def test_options_may_stand_before_the_command_too(tmp_path: Path) -> None:
    replies = [[call("bash", command="touch made")], [say("done")]]
    full = ("--permission-mode", "full")
    done = run(tmp_path, *full, "--tools", "bash", *MODEL, "run", "go", replies=replies)
    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_what_there_is_and_has_an_exit_code_of_its_own(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    process = subprocess.Popen(
        [*PI_RPC, "run", "--json", *MODEL, "go"],
        env=environment(tmp_path, [[say("half"), hold()]]),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    read: list[dict[str, Any]] = []
    while not read or "text_delta" not in json.dumps(read[-1]):
        read.append(json.loads(process.stdout.readline()))
    process.send_signal(number)
    rest, errors = process.communicate(timeout=DEADLINE_S)
    result = lines(rest)[-1]
    assert (result["type"], result["stopReason"], result["text"]) == ("result", "aborted", "half")
    assert errors == b""
    assert process.returncode == code
    (path,) = session_files(tmp_path)
    assert stored_messages(path)[-1]["stopReason"] == "aborted"


def test_an_interrupt_before_the_run_has_begun_is_exit_code_130_without_a_traceback(
    tmp_path: Path,
) -> None:
    late = (
        "import os, signal, sys\n"
        "from pi_rpc.host import host\n"
        "async def create(self, options):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    import anyio\n"
        "    await anyio.sleep_forever()\n"
        "host.Host.create = create\n"
        "from pi_rpc.cli import main\n"
        "main(['run', '--model', 'scripted/scripted', 'go'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", late],
        env=environment(tmp_path, [[say("never")]]),
        cwd=tmp_path,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 130
    assert b"Traceback" not in done.stderr
    assert done.stdout == b""


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_a_reader_that_goes_away_ends_the_run_without_a_word(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    long = {"repeatText": "word\n", "count": 50_000}
    process = subprocess.Popen(
        [*PI_RPC, "run", *arguments, *MODEL, "go"],
        env=environment(tmp_path, [[call("read", path="script.json")], [long, hold()]]),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    begun = process.stdout if arguments else process.stderr
    assert begun.readline()
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 141
    assert b"Broken" not in errors
    assert b"Traceback" not in errors
    (path,) = session_files(tmp_path)
    assert stored_messages(path)[-1].get("stopReason") != "stop"


DEMO = (
    "import sys\n"
    "from pi_rpc.llm import local\n"
    "local.find_installation = lambda: None\n"
    "from pi_rpc.cli import main\n"
    "main(['demo', *sys.argv[1:]])\n"
)


def test_the_demo_plays_a_script_where_the_embedded_model_cannot_be_had(tmp_path: Path) -> None:
    (tmp_path / "READ.me").write_text("# The first line\n")
    done = subprocess.run(
        [sys.executable, "-c", DEMO, "--file", "READ.me"],
        env=environment(tmp_path, []),
        cwd=tmp_path,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    shown = done.stdout.decode()
    assert done.returncode == 0, shown
    assert "scripted demo" in shown
    assert '-> read {"path": "READ.me"}' in shown
    assert "<- # The first line" in shown
    assert "`pi-rpc local install` installs the embedded one" in shown
    assert "what read said of READ.me is real" in shown
    assert "[stop: " in shown
    assert done.stderr == b""
    assert session_files(tmp_path) == []


@pytest.mark.parametrize(
    ("file", "reason"),
    [("README.md", "cannot be read: No such file"), (".", "is not a file")],
)
def test_the_demo_needs_a_file_to_read(tmp_path: Path, file: str, reason: str) -> None:
    done = run(tmp_path, "demo", "--model", "scripted/scripted", "--file", file)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().startswith(f"pi-rpc demo: {file} {reason}")
    assert b"name another file with --file" in done.stderr


def test_the_demo_fails_when_its_model_has_read_nothing(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# The first line\n")
    replies = [[call("read", path="elsewhere")], [say("It is lovely.")]]
    done = run(tmp_path, "demo", "--model", "scripted/scripted", replies=replies)
    assert done.returncode == 1
    assert b"it failed: README.md was not read" in done.stdout


def test_a_run_logs_as_it_is_told_to(tmp_path: Path) -> None:
    log = tmp_path / "log"
    options = ("--log-level", "debug", "--log-file", str(log))
    for number, arguments in enumerate(((*options, "run"), ("run", *options)), 1):
        done = run(tmp_path, *arguments, "go", replies=[[say("done")]])
        assert (done.returncode, done.stdout) == (0, b"done\n")
        assert log.exists(), number
        log.unlink()
    lost = run(tmp_path, "run", "--log-file", str(tmp_path / "no" / "log"), "go")
    assert (lost.returncode, lost.stdout) == (2, b"")
    assert lost.stderr.decode() == (
        f"pi-rpc run: cannot write the log file: {tmp_path}/no/log: No such file or directory\n"
    )


def test_a_model_that_is_not_there_is_told_with_the_command_that_lists_them(
    tmp_path: Path,
) -> None:
    done = run(tmp_path, "run", "--model", "foo/bar", "x")
    assert done.returncode == 2
    assert b"`pi-rpc models` names those there are" in done.stderr
    assert b"model/list" not in done.stderr
    (tmp_path / "settings.json").write_text('{"defaultModel": "foo/bar"}')
    done = run(tmp_path, "run", "x", replies=[[say("done")]])
    assert b"model/list" not in done.stderr


def test_the_demo_fails_with_a_line_when_its_model_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# The first line\n")
    done = run(tmp_path, "demo", "--model", "nobody/nothing")
    assert done.returncode == 1
    assert b"nobody/nothing" in done.stdout + done.stderr
    assert b"Traceback" not in done.stderr


def test_a_template_is_called_up_by_its_name(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    (prompts / "greet.md").write_text("Say hello to $1 and $2.\n")
    done = run(tmp_path, "run", "--json", "/greet Ada Grace", replies=[[say("hello")]])
    assert done.returncode == 0
    said = [each for each in lines(done.stdout) if each["type"] == "message_end"]
    assert said[0]["message"]["content"].strip() == "Say hello to Ada and Grace."


NOTES = """
import time
from pathlib import Path

def note(text):
    Path("noted").write_text(text)

def slow(text):
    Path("begun").write_text("")
    time.sleep(60)

def setup(api):
    api.command("note", "Keeps a note", note)
    api.command("tell", "Tells", lambda text: api.notify(text))
    api.command("fail", "Fails", lambda text: 1 / 0)
    api.command("slow", "Takes its time", slow)
"""


def extension(home: Path, name: str, source: str) -> None:
    (home / "extensions-py").mkdir(exist_ok=True)
    (home / "extensions-py" / f"{name}.py").write_text(source)


def test_a_command_of_an_extension_runs_without_a_model(tmp_path: Path) -> None:
    extension(tmp_path, "notes", NOTES)
    done = run(tmp_path, "run", "/note  two words ")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / "noted").read_text() == "two words "
    assert b"info: hello" in run(tmp_path, "run", "/tell hello").stderr
    assert session_files(tmp_path) == []


def test_a_command_that_fails_is_exit_code_one_and_says_why_once(tmp_path: Path) -> None:
    extension(tmp_path, "notes", NOTES)
    done = run(tmp_path, "run", "/fail")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.count(b"ZeroDivisionError") == 1
    assert b"Traceback" not in done.stderr
    told = run(tmp_path, "run", "--json", "/fail")
    assert told.returncode == 1
    header, diagnostic, result = lines(told.stdout)
    assert (header["type"], diagnostic["type"]) == ("session", "diagnostic")
    assert (result["type"], result["disposition"]) == ("result", "handled")
    assert result["stopReason"] == "error"
    assert "ZeroDivisionError" in result["errorMessage"]
    header, result = lines(run(tmp_path, "run", "--json", "/note x").stdout)
    assert (result["type"], result["disposition"]) == ("result", "handled")
    assert result["exitCode"] == 0
    assert "text" not in result


def test_an_interrupted_command_is_exit_code_130(tmp_path: Path) -> None:
    extension(tmp_path, "notes", NOTES)
    process = subprocess.Popen(
        [*PI_RPC, "run", "/slow"],
        env=environment(tmp_path, ()),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + DEADLINE_S
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, notes = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, output) == (130, b"")
    assert b"/slow was stopped" in notes
    assert b"Traceback" not in notes


def test_what_is_wrong_with_an_extension_is_told_before_the_run(tmp_path: Path) -> None:
    extension(tmp_path, "broken", "raise RuntimeError('not today')")
    done = run(tmp_path, "run", *MODEL, "go", replies=[[say("done")]])
    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert b"not today" in done.stderr


def test_a_retry_says_that_it_is_one(tmp_path: Path) -> None:
    tmp_path.joinpath("settings.json").write_text('{"retry": {"baseDelayMs": 1}}')
    busy = {"error": {"message": "overloaded", "status": 503}}
    done = run(tmp_path, "run", "go", replies=[[busy], [say("at last")]])
    assert done.stdout == b"at last\n"
    assert b"trying again in 0.001 s (1 of 3)" in done.stderr
