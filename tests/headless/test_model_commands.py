"""``pi-rpc auth``, ``models`` and ``doctor`` as a person or a script starts them."""

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.harness.credentials import MAX_KEY
from tests.e2e.editor import DEADLINE_S

PI_RPC = (sys.executable, "-m", "pi_rpc")
SECRET = "hush-hush-1234"
_KEYS = ("_API_KEY", "_TOKEN")


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith(_KEYS) and not name.startswith("AWS_")
    }
    return {**kept, "PI_CODING_AGENT_DIR": str(home), **more}


def run(
    home: Path, *arguments: str, given: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PI_RPC, *arguments],
        env=environment(home, **more),
        cwd=home if home.is_dir() else home.parent,
        input=given,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def stored(home: Path) -> Any:
    return json.loads((home / "auth.json").read_text())


# --- auth ---------------------------------------------------------------------------------------


def test_a_key_is_read_from_standard_input_and_stored(tmp_path: Path) -> None:
    done = run(tmp_path, "auth", "set", "groq", given=f"{SECRET}\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "a key for Groq is stored" in done.stdout
    assert SECRET not in done.stdout
    assert stored(tmp_path) == {"groq": {"type": "api_key", "key": SECRET}}
    status = run(tmp_path, "auth", "status", "--json", "groq")
    assert status.returncode == 0
    assert json.loads(status.stdout)["providers"] == [
        {
            "provider": "groq",
            "name": "Groq",
            "source": "auth.json",
            "kind": "api_key",
            "usable": True,
            "form": "text",
        }
    ]
    removed = run(tmp_path, "auth", "remove", "groq")
    assert removed.returncode == 0
    assert stored(tmp_path) == {}
    assert run(tmp_path, "auth", "remove", "groq").returncode == 1
    assert run(tmp_path, "auth", "status", "groq").returncode == 1


def test_at_a_terminal_the_key_is_asked_for_and_not_shown(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*PI_RPC, "auth", "set", "groq"],
        env=environment(tmp_path),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    try:
        while b"not shown" not in shown:
            shown += os.read(ours, 4096)
        os.write(ours, f"{SECRET}\n".encode())
        assert process.wait(DEADLINE_S) == 0
        shown += _rest(ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert b"a key for Groq is stored" in shown
    assert SECRET.encode() not in shown
    assert stored(tmp_path)["groq"]["key"] == SECRET


def _rest(fd: int) -> bytes:
    found = b""
    try:
        while piece := os.read(fd, 4096):
            found += piece
    except OSError:  # Nobody has the other end any more.
        pass
    return found


def test_a_key_on_the_command_line_is_not_taken(tmp_path: Path) -> None:
    assert run(tmp_path, "auth", "set", "groq", SECRET).returncode == 2
    assert not (tmp_path / "auth.json").exists()


def test_where_to_find_a_key_is_stored(tmp_path: Path) -> None:
    done = run(tmp_path, "auth", "set", "groq", "--env", "WORK_KEY")
    assert done.returncode == 0
    assert "WORK_KEY is not set" in done.stderr
    assert stored(tmp_path)["groq"]["key"] == "$WORK_KEY"
    done = run(tmp_path, "auth", "set", "groq", "--from-command", "pass show groq")
    assert done.returncode == 0
    assert stored(tmp_path)["groq"]["key"] == "!pass show groq"


@pytest.mark.parametrize(
    ("arguments", "given", "reason"),
    [
        (("auth", "set", "grokk"), SECRET, "near it are: groq"),
        (("auth", "set", "groq"), "", "it is empty"),
        (("auth", "set", "groq"), "x" * (MAX_KEY + 1), "far longer than a key"),
        (("auth", "set", "groq"), f"{SECRET}\n{SECRET}", "characters that no key has"),
        (("auth", "set", "groq", "--env", "A B"), "", "not the name of an environment variable"),
        (("auth", "status", "grokk"), "", "near it are: groq"),
        (("auth", "set", "mine"), SECRET, "`pi-rpc auth status --all` names those there are"),
    ],
)
def test_what_is_wrong_is_said_and_no_key_is_repeated(
    tmp_path: Path, arguments: tuple[str, ...], given: str, reason: str
) -> None:
    done = run(tmp_path, *arguments, given=given)
    assert done.returncode == 2
    assert reason in done.stderr
    assert SECRET not in done.stderr + done.stdout
    assert not (tmp_path / "auth.json").exists()


def test_the_status_shows_what_there_is_and_on_request_what_is_missing(tmp_path: Path) -> None:
    run(tmp_path, "auth", "set", "groq", given=SECRET)
    done = run(tmp_path, "auth", "status", XAI_API_KEY=SECRET)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["*", "groq", "key", "auth.json"] in rows
    assert ["*", "xai", "key", "XAI_API_KEY"] in rows
    assert not any("openai" in row for row in rows)
    assert "providers without a key" in done.stdout
    everything = run(tmp_path, "auth", "status", "--all").stdout
    assert "run `pi-rpc auth set openai`, or set OPENAI_API_KEY" in everything


# --- models -------------------------------------------------------------------------------------


def test_a_pattern_shows_what_it_means_and_who_has_a_key(tmp_path: Path) -> None:
    done = run(tmp_path, "models", "anthropic/claude-opus-4-5:high", ANTHROPIC_API_KEY="k")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] == "MODEL"
    assert lines[1].startswith("*  anthropic/claude-opus-4-5 ")
    assert lines[-1] == (
        "anthropic/claude-opus-4-5:high means anthropic/claude-opus-4-5, thinking high"
    )


def test_json_has_the_models_and_the_choice(tmp_path: Path) -> None:
    done = run(tmp_path, "models", "--json", "--usable", "opus:high", ANTHROPIC_API_KEY="k")
    found = json.loads(done.stdout)
    assert found["choice"].startswith("anthropic/claude-opus")
    assert found["thinkingLevel"] == "high"
    assert {(each["provider"], each["authenticated"]) for each in found["models"]} == {
        ("anthropic", True)
    }
    without = json.loads(run(tmp_path, "models", "--json", "nothing-like-this").stdout)
    assert without["models"] == []
    assert "nothing-like-this" in without["problem"]


def test_where_no_key_is_the_models_are_listed_with_how_to_give_one(tmp_path: Path) -> None:
    done = run(tmp_path, "models", "deepseek/deepseek-v4-pro")
    assert done.returncode == 0
    assert "run `pi-rpc auth set deepseek`, or set DEEPSEEK_API_KEY" in done.stdout


def test_a_name_that_means_nothing_fails(tmp_path: Path) -> None:
    done = run(tmp_path, "models", "nothing-like-this")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no model 'nothing-like-this'; `pi-rpc models` names" in done.stderr


# --- checking a model ---------------------------------------------------------------------------

CALL = {"index": 0, "id": "c1", "function": {"name": "report", "arguments": '{"number": 7}'}}
USAGE = {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35}


@contextmanager
def server(home: Path, status: int, *chunks: Any, **model: Any) -> Iterator[list[Any]]:
    """A provider ``mine`` that answers everything with these chunks; gives what it is asked."""
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            lines = "".join(f"data: {json.dumps(each)}\n\n" for each in chunks)
            body = (lines + "data: [DONE]\n\n").encode()
            self.send_response(status)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    mine = {
        "baseUrl": f"http://127.0.0.1:{http.server_port}/v1",
        "api": "openai-completions",
        "models": [{"id": "m", **model}, {"id": "other"}],
    }
    (home / "models.json").write_text(json.dumps({"providers": {"mine": mine}}))
    try:
        yield asked
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def checks(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    return {each["name"]: each["state"] for each in json.loads(done.stdout)["checks"]}


def test_a_check_asks_once_and_says_what_works(tmp_path: Path) -> None:
    chunks = (
        delta(reasoning_content="Hm."),
        delta(tool_calls=[CALL]),
        delta("tool_calls"),
        {"choices": [], "usage": USAGE},
    )
    with server(tmp_path, 200, *chunks, reasoning=True) as asked:
        done = run(tmp_path, "models", "--json", "--check", "mine")
        said = run(tmp_path, "models", "--check", "mine/other")
    assert done.returncode == 0
    assert set(checks(done).values()) == {"yes"}
    assert json.loads(done.stdout)["model"] == "mine/m"
    assert [each["model"] for each in asked] == ["m", "other"]
    assert [each["function"]["name"] for each in asked[0]["tools"]] == ["report"]
    assert asked[0]["reasoning_effort"] == "minimal"
    assert [line.split()[:2] for line in said.stdout.splitlines()[1:]] == [
        ["auth", "yes"],
        ["streaming", "yes"],
        ["tools", "yes"],
        ["thinking", "no"],
        ["usage", "yes"],
    ]


def test_a_check_names_what_does_not_work(tmp_path: Path) -> None:
    with server(tmp_path, 200, delta(content="7."), delta("stop")):
        done = run(tmp_path, "models", "--json", "--check", "mine/m")
    assert done.returncode == 1
    assert checks(done) == {
        "auth": "yes",
        "streaming": "yes",
        "tools": "no",
        "thinking": "no",
        "usage": "no",
    }
    assert "it said: '7.'" in done.stdout


@pytest.mark.parametrize(("status", "auth"), [(401, "no"), (400, "yes"), (500, "unknown")])
def test_a_check_that_is_refused_says_why(tmp_path: Path, status: int, auth: str) -> None:
    with server(tmp_path, status):
        done = run(tmp_path, "models", "--json", "--check", "mine")
    assert done.returncode == 1
    assert checks(done) == {
        "auth": auth,
        "streaming": "no",
        "tools": "unknown",
        "thinking": "unknown",
        "usage": "unknown",
    }


def test_a_check_without_a_key_asks_nobody_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "models.json").write_text(
        '{"providers": {"groq": {"baseUrl": "http://0.0.0.0:9/v1"}}}'
    )
    done = run(tmp_path, "models", "--check", "groq")
    assert done.returncode == 1
    assert "run `pi-rpc auth set groq`, or set GROQ_API_KEY" in done.stdout


def test_a_check_of_nothing_known_is_a_mistake(tmp_path: Path) -> None:
    assert run(tmp_path, "models", "--check", "nobody").returncode == 2
    assert run(tmp_path, "models", "sonnet", "--check", "groq").returncode == 2


# --- doctor -------------------------------------------------------------------------------------


def findings(done: subprocess.CompletedProcess[str]) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for each in json.loads(done.stdout)["findings"]:
        found.setdefault(each["topic"], []).append(each)
    return found


def test_the_doctor_passes_where_there_is_a_model_to_ask(tmp_path: Path) -> None:
    done = run(tmp_path, "doctor", XAI_API_KEY=SECRET)
    assert done.returncode == 0
    assert done.stdout.endswith("it can work\n")
    assert "xai: a key from XAI_API_KEY" in done.stdout
    assert SECRET not in done.stdout
    assert list(tmp_path.iterdir()) == [], "it changes nothing"


def test_the_doctor_names_every_problem_of_files_and_what_is_missing(tmp_path: Path) -> None:
    own = '"piRpc": {"caFile": "ca.pem"}'
    (tmp_path / "settings.json").write_text(
        f'{{"steeringMode": 1, "defaultProvider": "groq", {own}}}'
    )
    (tmp_path / "models.json").write_text('{"providers": 7}')
    (tmp_path / "auth.json").write_text('{"openai": 7}')
    (tmp_path / "trust.json").write_text('{"/x": 7}')
    (tmp_path / "settings.json.lock").mkdir()
    (tmp_path / ".pi" / "prompts").mkdir(parents=True)
    done = run(
        tmp_path, "doctor", "--json", PATH="/nowhere", SSL_CERT_FILE="/nowhere/ca.pem",
        NODE_EXTRA_CA_CERTS="/nowhere/more.pem",
        HTTPS_PROXY=f"http://me:{SECRET}@proxy:1",
    )  # fmt: skip
    assert done.returncode == 1
    assert json.loads(done.stdout)["ok"] is False
    assert SECRET not in done.stdout
    found = findings(done)
    problems = "\n".join(each["text"] for each in found["files"])
    for name in ("settings.json", "models.json", "auth.json", "trust.json"):
        assert str(tmp_path / name) in problems
    (model,) = found["default model"]
    assert model["verdict"] == "wrong"
    certificates = [each["text"] for each in found["certificates"] if each["verdict"] == "wrong"]
    assert [text.partition(" ")[0] for text in certificates] == [
        "piRpc.caFile", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS",
    ]  # fmt: skip
    assert found["proxy"][0]["text"] == "set by HTTPS_PROXY"
    assert "settings.json.lock" in found["locks"][0]["text"]
    assert str(tmp_path / ".pi" / "prompts") in found["project"][0]["text"]
    (git,) = found["git"]
    assert (git["verdict"], git["fix"]) == ("missing", "install git")


def test_the_doctor_tells_of_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(tmp_path / "file", "doctor", "--json", XAI_API_KEY="k")
    assert done.returncode == 1
    assert findings(done)["agent folder"][0]["verdict"] == "wrong"
    # As one that belongs to another user: it cannot even be looked at.
    hidden = str(tmp_path / ("x" * 300))
    done = run(tmp_path, "doctor", "--json", PI_CODING_AGENT_DIR=hidden, XAI_API_KEY="k")
    assert done.returncode == 1, done.stderr
    (folder,) = findings(done)["agent folder"]
    assert (folder["verdict"], hidden in folder["text"]) == ("wrong", True)
