"""What the options of the command do, over the real process."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pi_rpc import __version__
from pi_rpc.cli import parse
from pi_rpc.protocol.schema import GENERATED_FILES, render
from tests.e2e.editor import DEADLINE_S, Refused, call, editor, say

PI_RPC = (sys.executable, "-m", "pi_rpc")
ROOT = Path(__file__).parents[2]
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}


def command(
    *arguments: str, cwd: Path, stdin: bytes = b"", **variables: str
) -> "subprocess.CompletedProcess[str]":
    """A command that ends by itself."""
    done = subprocess.run(
        [*PI_RPC, *arguments],
        input=stdin,
        env={**os.environ, **variables},
        cwd=cwd,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def serve(home: Path, frames: Sequence[Any], *arguments: str) -> "tuple[list[Any], str, int]":
    """A daemon that is told these frames; what it sent, what it logged, its exit code."""
    done = command(
        "--stdio",
        *arguments,
        cwd=home,
        stdin=b"".join(json.dumps(each).encode() + b"\n" for each in frames),
        PI_CODING_AGENT_DIR=str(home),
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr, done.returncode


# --- what a session begins with ------------------------------------------------------------------


@pytest.mark.anyio
async def test_tools_are_offered_as_they_were_named(tmp_path: Path) -> None:
    async with editor(tmp_path, (), "--tools", "bash, read") as client:
        state = await client.request("session/state")
        assert state["activeTools"] == ["bash", "read"]
        other = await client.request("session/new", {"tools": ["write"]})
        assert other["activeTools"] == ["write"]
        assert (await client.request("session/new"))["activeTools"] == ["bash", "read"]


@pytest.mark.anyio
async def test_without_tools_a_session_has_none(tmp_path: Path) -> None:
    async with editor(tmp_path, (), "--tools", "") as client:
        assert (await client.request("session/state"))["activeTools"] == []


@pytest.mark.anyio
async def test_an_unknown_tool_is_told_to_whoever_starts_a_session(tmp_path: Path) -> None:
    async with editor(tmp_path, (), "--tools", "fly") as client:
        with pytest.raises(Refused) as refused:
            await client.request("session/state")
        assert refused.value.kind == "invalidParams"
        assert "fly" in refused.value.message


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["ask", "edits", "full", "readonly"])
async def test_the_permission_mode_is_that_of_every_session_that_names_none(
    tmp_path: Path, mode: str
) -> None:
    async with editor(tmp_path, (), "--permission-mode", mode) as client:
        state = await client.request("session/state")
        assert state["permissionMode"] == mode
        assert ("bash" in state["activeTools"]) == (mode != "readonly")
        other = await client.request("session/new", {"permissionMode": "readonly"})
        assert other["permissionMode"] == "readonly"


@pytest.mark.anyio
async def test_readonly_outweighs_the_tools_that_were_named(tmp_path: Path) -> None:
    replies = [[call("write", path="made", content="x")], [say("done")]]
    options = ("--permission-mode", "readonly", "--tools", "read,write")
    async with editor(tmp_path, replies, *options) as client:
        assert (await client.request("session/state"))["activeTools"] == ["read"]
        await client.request("prompt", {"message": "go"})
        end = next(each for each in client.events if each["type"] == "tool_execution_end")
        assert end["isError"] is True
        assert not (tmp_path / "made").exists()


@pytest.mark.anyio
async def test_the_model_is_that_of_every_session_that_names_none(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("hi")]], "--model", "anthropic/claude-haiku-4-5") as client:
        state = await client.request("session/state")
        assert state["model"]["provider"] == "anthropic"
        other = await client.request("session/new", {"model": "scripted/scripted"})
        assert other["model"]["provider"] == "scripted"


@pytest.mark.anyio
async def test_an_unknown_model_is_told_to_whoever_starts_a_session(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("hi")]], "--model", "nobody/nothing") as client:
        with pytest.raises(Refused) as refused:
            await client.request("session/state")
        assert refused.value.kind == "modelNotFound"
        other = await client.request("session/new", {"model": "scripted/scripted"})
        assert other["model"]["id"] == "scripted"


# --- the log -------------------------------------------------------------------------------------

LATE_ANSWER = {"jsonrpc": "2.0", "id": "nobody asked", "result": {"x": 1}}


def test_a_healthy_daemon_logs_nothing_unless_it_is_asked_to(tmp_path: Path) -> None:
    _, quiet, code = serve(tmp_path, [INITIALIZE, LATE_ANSWER])
    assert (quiet, code) == ("", 0)
    _, talkative, _ = serve(tmp_path, [INITIALIZE, LATE_ANSWER], "--log-level", "debug")
    (line,) = [each for each in talkative.splitlines() if "nobody asked" in each]
    assert "DEBUG pi_rpc.jsonrpc" in line
    _, less, _ = serve(tmp_path, [INITIALIZE, LATE_ANSWER], "--log-level", "info")
    assert "nobody asked" not in less


def test_a_log_file_takes_what_would_be_on_standard_error_and_is_added_to(tmp_path: Path) -> None:
    log = tmp_path / "pi-rpc.log"
    log.write_text("from before\n")
    options = ("--log-level", "debug", "--log-file", str(log))
    _, errors, _ = serve(tmp_path, [INITIALIZE, LATE_ANSWER], *options)
    assert errors == ""
    assert log.read_text().startswith("from before\n")
    assert "nobody asked" in log.read_text()


def test_a_log_file_that_cannot_be_written_is_said_before_anything_else(tmp_path: Path) -> None:
    sent, errors, code = serve(tmp_path, [INITIALIZE], "--log-file", str(tmp_path / "no" / "log"))
    assert sent == []
    assert code == 2
    assert "log file" in errors
    assert "Traceback" not in errors


# --- the command line ----------------------------------------------------------------------------


def test_without_arguments_it_says_how_it_is_used(tmp_path: Path) -> None:
    done = command(cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "usage: pi-rpc" in done.stderr
    assert "--stdio" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("fly",),
        ("--fly", "--stdio"),
        ("--stdio", "--permission-mode", "anything"),
        ("--stdio", "--log-level", "loud"),
        ("local",),
        ("local", "remove"),
        ("schema", "--json", "--markdown"),
    ],
)
def test_what_it_does_not_know_is_a_usage_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("usage: pi-rpc")
    assert "Traceback" not in done.stderr


COMMANDS = {
    "run": ("run", "x"),
    "demo": ("demo",),
    "schema": ("schema",),
    "auth": ("auth", "status"),
    "models": ("models",),
    "doctor": ("doctor",),
    "export": ("export", "x"),
    "sessions": ("sessions", "list"),
    "trace": ("trace", "show", "x"),
    "local": ("local", "status"),
}
DAEMON_OPTIONS = {
    "--stdio": (),
    "--drain": (),
    "--trace": ("file",),
    "--log-file": ("file",),
    "--log-level": ("debug",),
    "--permission-mode": ("full",),
    "--tools": ("read",),
    "--model": ("scripted/scripted",),
}
HONOURED = {
    "run": {"--log-file", "--log-level", "--permission-mode", "--tools", "--model"},
    "demo": {"--model"},
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("option", DAEMON_OPTIONS)
def test_an_option_before_a_command_counts_or_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], name: str, option: str
) -> None:
    argv = [option, *DAEMON_OPTIONS[option], *COMMANDS[name]]
    if option in HONOURED.get(name, ()):
        field = option.removeprefix("--").replace("-", "_")
        assert getattr(parse(argv), field) is not None
        return
    with pytest.raises(SystemExit) as ended:
        parse(argv)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert f"{option} has no meaning for the command {name!r}" in said


def test_an_empty_list_of_tools_is_an_option_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--tools", "", "models"])
    assert "--tools has no meaning" in capsys.readouterr().err
    assert parse(["--tools", "", "run", "x"]).tools == []


def test_every_command_is_among_those_that_are_tried(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["fly"])
    listed = re.search(r"choose from (.*)\)", capsys.readouterr().err)
    assert listed is not None
    assert set(re.findall(r"\w+", listed[1])) == set(COMMANDS)


def test_help_names_every_command(tmp_path: Path) -> None:
    done = command("--help", cwd=tmp_path)
    assert done.returncode == 0
    for name in ("run", "demo", "schema", "local", "--stdio", "--drain", "--log-file", "--tools"):
        assert name in done.stdout


def test_it_tells_its_version(tmp_path: Path) -> None:
    done = command("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"pi-rpc {__version__}\n")


@pytest.mark.parametrize("kind", ["json", "markdown"])
def test_the_schema_is_printed(tmp_path: Path, kind: Any) -> None:
    done = command("schema", f"--{kind}", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == render(kind)
    if kind == "json":
        assert {"prompt", "session/new"} <= {*json.loads(done.stdout)["methods"]}


def copy_of_what_is_generated(folder: Path) -> Path:
    for name in ("protocol.md", *GENERATED_FILES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder / "schema" / "pi-rpc.schema.json"


def test_what_is_generated_is_checked_and_brought_up_to_date(tmp_path: Path) -> None:
    schema = copy_of_what_is_generated(tmp_path)
    assert command("schema", "--write", cwd=tmp_path).returncode == 0
    assert command("schema", "--check", cwd=tmp_path).returncode == 0
    right = schema.read_bytes()
    schema.write_text("{}\n")
    drifted = command("schema", "--check", cwd=tmp_path)
    assert drifted.returncode == 1
    assert "pi-rpc.schema.json is out of date" in drifted.stderr
    assert schema.read_text() == "{}\n"
    assert command("schema", "--write", cwd=tmp_path).returncode == 0
    assert schema.read_bytes() == right


def test_where_there_is_nothing_to_check_it_says_where_to_run(tmp_path: Path) -> None:
    done = command("schema", "--check", cwd=tmp_path)
    assert done.returncode == 2
    assert "checkout" in done.stderr
    assert "Traceback" not in done.stderr


STATUS = (
    "import sys\n"
    "from pi_rpc.llm import local\n"
    "local.find_installation = lambda: {there}\n"
    "from pi_rpc.cli import main\n"
    "main(['local', 'status'])\n"
)


@pytest.mark.parametrize(
    ("there", "code", "said"),
    [
        ("object()", 0, "local/smollm2-135m: installed\n"),
        ("None", 1, "local/smollm2-135m: not installed\nrun: pi-rpc local install\n"),
    ],
)
def test_it_says_whether_the_embedded_model_is_there(
    tmp_path: Path, there: str, code: int, said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STATUS.format(there=there)],
        cwd=tmp_path,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stdout.decode(), done.stderr) == (code, said, b"")
