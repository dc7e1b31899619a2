"""Servers of this machine, as a client meets them: listed, named, and left alone when told so."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.editor import DEADLINE_S
from tests.server.wire import wire

TAGS = {"models": [{"name": "qwen3:8b", "model": "qwen3:8b", "digest": "d"}]}
SHOWN = {
    "capabilities": ["completion", "tools"],
    "model_info": {"qwen3.context_length": 40960},
}


class _Ollama(ThreadingHTTPServer):
    asked: list[str]


class _Handler(BaseHTTPRequestHandler):
    server: _Ollama

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.asked.append(self.path)
        body = json.dumps({"/api/tags": TAGS, "/api/show": SHOWN}.get(self.path, {})).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def ollama() -> Iterator[_Ollama]:
    server = _Ollama(("127.0.0.1", 0), _Handler)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def daemon(home: Path, server: _Ollama, **environ: str) -> Iterator[Any]:
    variables = {
        "OLLAMA_HOST": f"127.0.0.1:{server.server_port}",
        # Nobody listens there for long: what else runs on this machine is not for this test.
        "LLAMA_ARG_PORT": "9",
        "PI_RPC_LOCAL_SERVERS": "on",
        **environ,
    }
    with wire(home, environ=variables) as connected:
        yield connected


def found(connected: Any) -> list[dict[str, Any]]:
    """What is listed of the server, once a daemon that has just started has the time to look."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        listed = connected.ask("model/list", {"provider": "ollama"})["models"]
        if listed or time.monotonic() > deadline:
            return listed


def test_a_found_model_is_listed_as_one_that_can_be_asked_and_can_be_named(
    tmp_path: Path, ollama: _Ollama
) -> None:
    with daemon(tmp_path, ollama) as connected:
        listed = found(connected)
        assert [(each["id"], each["contextWindow"]) for each in listed] == [("qwen3:8b", 40960)]
        assert listed[0]["authenticated"] is True
        opened = connected.ask("session/new", {"cwd": str(tmp_path), "model": "ollama/qwen3:8b"})
    assert (opened["model"]["provider"], opened["model"]["id"]) == ("ollama", "qwen3:8b")


def test_a_local_model_in_the_settings_is_there_for_the_first_session(
    tmp_path: Path, ollama: _Ollama
) -> None:
    settings = {"defaultProvider": "ollama", "defaultModel": "qwen3:8b"}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    with daemon(tmp_path, ollama) as connected:
        assert found(connected)
        opened = connected.ask("session/new", {"cwd": str(tmp_path)})
    assert opened["model"]["id"] == "qwen3:8b"


@pytest.mark.parametrize("way", ["setting", "environment"])
def test_who_does_not_want_it_has_nobody_asked(tmp_path: Path, ollama: _Ollama, way: str) -> None:
    if way == "setting":
        (tmp_path / "settings.json").write_text('{"piRpc": {"localServers": false}}')
    environ = {"PI_RPC_LOCAL_SERVERS": "off"} if way == "environment" else {}
    with daemon(tmp_path, ollama, **environ) as connected:
        assert connected.ask("model/list", {"provider": "ollama"})["models"] == []
    assert ollama.asked == []
