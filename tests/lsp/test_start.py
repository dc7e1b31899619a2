"""The first milliseconds of the door, its command line, and where its libraries are missing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pi_rpc.cli import parse
from tests.lsp.client import DEADLINE_S, lsp

HEAVY = {"asyncio", "anyio", "httpx", "pydantic", "pygls", "lsprotocol", "attrs", "cattrs"}
OURS = {"pi_rpc.host", "pi_rpc.harness", "pi_rpc.agent"}


def framed(*frames: dict[str, object]) -> bytes:
    bodies = [json.dumps({"jsonrpc": "2.0", **each}).encode() for each in frames]
    return b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(each), each) for each in bodies)


def started(home: Path, code: str, stdin: bytes) -> "subprocess.CompletedProcess[bytes]":
    environment = {**os.environ, "PI_CODING_AGENT_DIR": str(home)}
    return subprocess.run(
        [sys.executable, "-c", code, "--lsp"],
        input=stdin,
        env=environment,
        cwd=home,
        capture_output=True,
        check=False,
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
    ended = started(tmp_path, code, framed({"id": 0, "method": "initialize", "params": {}}))
    assert ended.returncode == 0
    loaded = set(ended.stderr.decode().split())
    assert (HEAVY | OURS).isdisjoint(loaded)
    assert "pi_rpc.lsp.handshake" in loaded
    assert ended.stdout.startswith(b"Content-Length: ")
    assert json.loads(ended.stdout.partition(b"\r\n\r\n")[2])["result"]["serverInfo"]


def test_without_its_libraries_it_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import importlib.util as util, sys\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name: None if name == 'pygls' else find(name)\n"
        "from pi_rpc.cli import main\n"
        "main()\n"
    )
    ended = started(tmp_path, code, b"")
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert "pip install 'pi-rpc[lsp]'" in ended.stderr.decode()


@pytest.mark.parametrize(
    "arguments",
    [["--lsp", "--stdio"], ["--lsp", "--acp"], ["--lsp", "run", "hi"]],
    ids=" ".join,
)
def test_options_that_do_not_go_together_are_a_usage_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err


def test_a_trace_has_every_frame_and_the_editor_can_be_told_what_passes(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with lsp(tmp_path, [], "--trace", str(path)) as editor:
        editor.tell("$/setTrace", {"value": "messages"})
        place = {
            "textDocument": {"uri": "file:///nowhere"},
            "position": {"line": 0, "character": 0},
        }
        assert editor.ask("textDocument/hover", place) is None
        told = editor.called("$/logTrace")
        assert told["message"].startswith("Received request 'textDocument/hover - (")
        editor.tell("$/setTrace", {"value": "off"})
        editor.ask("shutdown")
        editor.tell("exit")
        assert editor.process.wait(DEADLINE_S) == 0
    passed = [json.loads(line) for line in path.read_text().splitlines()]
    came = [each["frame"].get("method") for each in passed if each.get("direction") == "in"]
    assert (came[0], came[-2:]) == ("initialize", ["shutdown", "exit"])
    said = [each["frame"] for each in passed if each.get("direction") == "out"]
    assert editor.frames == said[: len(editor.frames)]
