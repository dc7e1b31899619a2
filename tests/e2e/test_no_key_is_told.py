"""No key comes out anywhere, whichever way it got in and whatever fails with it.

A provider that repeats everything it is sent, in bodies, headers and events, is asked with keys
from every source; then all that came out is searched.
"""

import json
import os
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.editor import DAEMON, DEADLINE_S
from tests.server.wire import Wire

MARK = "hush-hush"
"""In every key; nothing else says it, and it does not look like anybody's key."""
DIALECTS = (
    "openai-completions",
    "openai-responses",
    "anthropic-messages",
    "google-generative-ai",
    "mistral-conversations",
)
FAULTS = ("refuse", "forbid", "break", "move", "page", "json", "event", "cut")


class Parrot:
    """A provider; ``heard`` is everything it was sent, as text."""

    def __init__(self) -> None:
        self.heard = ""
        self.port = 0


@contextmanager
def parrot() -> Iterator[Parrot]:
    """One that listens on the loopback; the first part of a path says how it fails."""
    state = Parrot()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            echo = f"{self.path} {dict(self.headers.items())}"
            state.heard += echo
            fault = self.path.split("/")[1]
            error = {"error": {"message": f"wrong: {echo}", "type": echo, "code": echo}}
            body, kind = json.dumps(error), "application/json"
            if fault == "page":
                body, kind = f"<html>{echo}</html>", "text/html"
            if fault in {"event", "cut"}:
                body, kind = f"event: error\ndata: {body}\n\n", "text/event-stream"
            if fault == "cut":
                body = f"data: {echo}\n\n"
            status = {"refuse": 401, "forbid": 403, "break": 400, "move": 302}.get(fault, 200)
            self.send_response(status, f"said {echo}"[:60])
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body) + (fault == "cut")))
            self.send_header("x-echo", echo)
            self.send_header("www-authenticate", f'Bearer realm="{echo}"')
            self.send_header("location", f"/elsewhere?{echo}")
            self.end_headers()
            self.wfile.write(body.encode())
            self.close_connection = True

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def written_provider(port: int, dialect: str, fault: str, **extra: Any) -> dict[str, Any]:
    return {
        "baseUrl": f"http://127.0.0.1:{port}/{fault}",
        "api": dialect,
        "models": [{"id": "m"}],
        **extra,
    }


def providers(port: int, calls: Path) -> dict[str, Any]:
    """``models.json``: every dialect with every fault; and every way of writing a key."""
    found = {
        f"{dialect}-{fault}": written_provider(
            port,
            dialect,
            fault,
            apiKey=f"{MARK}-literal",
            headers={"x-token": f"{MARK}-header", "x-said": f"!echo {MARK}-said-header"},
        )
        for dialect in DIALECTS
        for fault in FAULTS
    }
    url = f"http://{MARK}-user:{MARK}-password@127.0.0.1:{port}"
    for dialect in DIALECTS:
        found[f"{dialect}-in-url"] = written_provider(
            port, dialect, "refuse", baseUrl=f"{url}/refuse"
        )
        found[f"{dialect}-bearer"] = written_provider(
            port, dialect, "refuse", apiKey=f"!echo {MARK}-bearer", authHeader=True
        )
        found[f"{dialect}-stored"] = written_provider(port, dialect, "refuse")
    loud = f"echo {MARK}-loud | tee -a {calls} >&2; echo {MARK}-loud; exit 3"
    found["loud"] = written_provider(port, "openai-completions", "refuse", apiKey=f"!{loud}")
    found["loud-header"] = written_provider(
        port, "openai-completions", "refuse", apiKey="x", headers={"x-h": f"!{loud} 2>&1"}
    )
    found["two-lines"] = written_provider(
        port, "openai-completions", "refuse", apiKey=f"!printf '{MARK}-a\\n{MARK}-b'"
    )
    for name in ("groq", "openai"):  # With the keys of the environment.
        found[name] = {"baseUrl": f"http://127.0.0.1:{port}/refuse"}
    closed = f"http://{MARK}-u:{MARK}-p@127.0.0.1:1/v1"
    found["closed"] = written_provider(port, "openai-responses", "x", baseUrl=closed)
    found["no-url"] = written_provider(port, "openai-responses", "x", baseUrl=f"ftp://{MARK}@x:y")
    return found


@contextmanager
def daemon(home: Path) -> Iterator[Wire]:
    """With a log of everything, and its standard error in a file."""
    environ = {
        **os.environ,
        "PI_CODING_AGENT_DIR": str(home),
        "WORK_KEY": f"{MARK}-work",
        "GROQ_API_KEY": f"{MARK}-groq",
        "OPENAI_API_KEY": f"{MARK}-\u00e9 two words\n",
    }
    arguments = ("--permission-mode", "full", "--log-level", "debug")
    with (home / "stderr.txt").open("wb") as stderr:
        process = subprocess.Popen(
            [*DAEMON, *arguments, "--log-file", str(home / "log.txt")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environ,
            cwd=home,
        )
        try:
            client = Wire(process)
            client.ask("initialize", {"capabilities": {"events": {"full": True}}})
            yield client
            assert client.end() in {0, 1}
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                stream.close()


def command(home: Path, *arguments: str, given: str = "") -> str:
    """Everything that a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "pi_rpc", *arguments],
        env={**os.environ, "PI_CODING_AGENT_DIR": str(home), "GROQ_API_KEY": f"{MARK}-groq"},
        cwd=home,
        input=given.encode(),
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return (done.stdout + done.stderr).decode()


def secrets() -> list[str]:
    """What must not come out: the mark, and what stands for it in a header."""
    basic = b64encode(f"{MARK}-user:{MARK}-password".encode()).decode()
    return [MARK, basic, b64encode(MARK.encode()).decode()[:10]]


def leaks(home: Path, out: str) -> list[str]:
    """Where a secret was found: in what came out, or in any file but those that hold keys."""
    places = {"output": out}
    holders = {"auth.json", "models.json", "calls.txt"}
    for path in home.rglob("*"):
        if path.is_file() and path.name not in holders:
            places[str(path.relative_to(home))] = path.read_bytes().decode(errors="replace")
    return [
        f"{place}: {line[max(0, line.find(secret) - 200) :][:400]}"
        for place, text in places.items()
        for line in text.splitlines()
        for secret in secrets()
        if secret in line
    ]


def prompt(client: Wire, session: str, model: str) -> dict[str, Any]:
    """What becomes of a prompt to a model that cannot answer it."""
    configured = client.say("session/configure", {"sessionId": session, "model": model})
    assert "result" in client.answer(configured), model
    return client.answer(client.say("prompt", {"sessionId": session, "message": "hello"}))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "settings.json").write_text(json.dumps({"retry": {"enabled": False}}))
    return tmp_path


def test_no_key_is_told_whatever_fails(home: Path) -> None:
    with parrot() as heard, daemon(home) as client:
        written = providers(heard.port, home / "calls.txt")
        (home / "models.json").write_text(json.dumps({"providers": written}))
        session = client.ask("session/new", {})["sessionId"]
        forms = ["apiKey", "apiKeyEnv", "apiKeyCommand"]
        values = [f"{MARK}-stored", "WORK_KEY", f"echo {MARK}-of-command"]
        for place, dialect in enumerate(DIALECTS):
            key = {forms[place % 3]: values[place % 3]}
            client.ask("auth/set", {"provider": f"{dialect}-stored", **key})
        for name, provider in written.items():
            model = f"{name}/m" if "models" in provider else model_of(client, name)
            answer = prompt(client, session, model)
            failed = "error" in answer or answer["result"]["stopReason"] == "error"
            assert failed, (name, answer)
        ask_wrongly(client)
        client.ask("bash", {"sessionId": session, "command": "env"})
        client.ask("trust/set", {"trusted": True})
    said = "".join(json.dumps(frame) for frame in client.frames)
    assert "hello" in said
    everything = (
        "literal", "header", "said-header", "bearer", "stored", "work", "of-command", "groq",
    )  # fmt: skip
    assert [each for each in everything if f"{MARK}-{each}" not in heard.heard] == []
    assert secrets()[1] in heard.heard
    assert (home / "calls.txt").read_text().count(f"{MARK}-loud") == 2
    assert leaks(home, said) == []


def model_of(client: Wire, provider: str) -> str:
    entry = client.ask("model/list", {"provider": provider, "limit": 1})["models"][0]
    return f"{provider}/{entry['id']}"


def ask_wrongly(client: Wire) -> None:
    """Requests that are refused, with keys where they do not belong."""
    key = f"{MARK}-misplaced"
    for params in (
        {"provider": key, "apiKey": key},
        {"provider": "groq", "apiKey": key, "apiKeyEnv": key},
        {"provider": "groq", "apiKey": [key]},
        {"provider": "groq", "apiKey": {"is": key}},
        {"provider": "groq", "apiKey": f"{key}\nx"},
        {"provider": "groq", "apiKeyEnv": key},
        {"provider": "groq", "apiKeyCommand": f"{key}\0"},
        {"provider": [key]},
        [key],
    ):
        refused = client.answer(client.say("auth/set", params))
        assert refused["error"]["data"]["kind"] == "invalidParams", params
    client.answer(client.say("auth/status", {"provider": key}))
    client.answer(client.say("auth/remove", {"provider": key}))
    client.ask("auth/status")
    client.ask("model/list", {"authenticated": True})


def test_no_key_is_told_by_a_command(home: Path) -> None:
    with parrot() as heard:
        written = providers(heard.port, home / "calls.txt")
        (home / "models.json").write_text(json.dumps({"providers": written}))
        stored = command(home, "auth", "set", "anthropic", given=f"{MARK}-anthropic\n")
        assert "is stored" in stored
        out = stored + command(home, "auth", "set", "anthropic", given=f"{MARK}\n{MARK}")
        for arguments in (
            ("auth", "status", "--all"),
            ("auth", "status", "--json"),
            ("models", "--json"),
            ("doctor",),
            ("doctor", "--json"),
            ("run", "--model", "openai-completions-refuse/m", "hello"),
            ("run", "--json", "--model", "anthropic-messages-in-url/m", "hello"),
            ("models", "--check", "openai-responses-break"),
            ("models", "--json", "--check", "loud"),
            ("auth", "set", f"{MARK}-as-provider"),
            ("auth", "remove", f"{MARK}-as-provider"),
        ):
            said = command(home, *arguments)
            assert said, arguments
            out += said
    assert f"{MARK}-literal" in heard.heard
    assert leaks(home, out) == []


@pytest.mark.parametrize(
    "text",
    [
        f'{{"groq": "{MARK}"}}',
        f'{{"groq": {{"type": "{MARK}", "key": "{MARK}"}}}}',
        f'{{"groq": {{"type": "api_key", "key": "{MARK}", "env": {{"A": ["{MARK}"]}}}}}}',
        f'{{"groq": {{"type": "oauth", "access": "{MARK}", "expires": "{MARK}"}}}}',
        f'{{"groq": {{"type": "oauth", "access": "{MARK}", "refresh": "{MARK}", "expires": 1}}}}',
        f'"{MARK}"',
        f"{MARK}",
        f'{{"groq": {{"type": "api_key", "key": "{MARK}"',
    ],
)
def test_no_key_is_told_of_a_file_that_is_wrong(home: Path, text: str) -> None:
    (home / "auth.json").write_text(text)
    nobody = {"baseUrl": "http://127.0.0.1:9/v1"}
    (home / "models.json").write_text(
        json.dumps({"providers": {"groq": {**nobody, "apiKey": [MARK], "headers": {"x": [MARK]}}}})
    )
    with daemon(home) as client:
        session = client.ask("session/new", {})["sessionId"]
        answer = prompt(client, session, model_of(client, "groq"))
        assert "error" in answer or answer["result"]["stopReason"] == "error"
        client.ask("auth/status")
        client.answer(client.say("auth/set", {"provider": "groq", "apiKey": f"{MARK}-new"}))
    said = "".join(json.dumps(frame) for frame in client.frames)
    out = said + command(home, "doctor") + command(home, "auth", "status")
    assert "auth.json" in out
    assert leaks(home, out) == []
