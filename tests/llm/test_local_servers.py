"""Model servers on this machine: found, asked what they serve, and gone when they are gone."""

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import msgspec
import pytest
from msgspec import UNSET

from pi_rpc.llm import local_servers
from pi_rpc.llm.local_servers import LocalServers, addresses
from pi_rpc.llm.messages import UserMessage, text_of
from pi_rpc.llm.models import Model, thinking_levels
from pi_rpc.llm.provider import Context, StreamOptions, stream_simple
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

Answers = dict[str, Any]


class Fake:
    """A server with an answer for each path: JSON, a status, bytes, or None to say nothing."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []
        self.url = ""

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            buffer = b""
            while True:
                while b"\r\n\r\n" not in buffer:
                    try:
                        buffer += await stream.receive()
                    except (anyio.EndOfStream, anyio.BrokenResourceError):
                        return
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                length = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.split(b"\r\n")
                        if line.lower().startswith(b"content-length:")
                    ),
                    0,
                )
                while len(buffer) < length:
                    buffer += await stream.receive()
                body, buffer = buffer[:length], buffer[length:]
                path = head.split()[1].decode()
                self.asked.append((path, msgspec.json.decode(body) if body else None))
                answer = self.answers.get(path, 404)
                if callable(answer):
                    answer = answer(msgspec.json.decode(body) if body else None)
                if answer is None:
                    await anyio.sleep_forever()
                status = answer if isinstance(answer, int) else 200
                sent = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
                kind = "text/event-stream" if sent.startswith(b"data:") else "application/json"
                start = (
                    f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n"
                    f"content-length: {len(sent)}\r\n\r\n"
                )
                await stream.send(start.encode() + sent)

    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]


@asynccontextmanager
async def fake(answers: Answers) -> AsyncIterator[Fake]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    server = Fake(answers)
    server.url = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, server.serve)
        yield server
        tasks.cancel_scope.cancel()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that answer are waited for, however busy this machine is."""
    monkeypatch.setattr(local_servers, "LIMIT_S", DEADLINE_S)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch, patient: None) -> None:
    """One that is silent is given up soon, one that answers hardly ever."""
    monkeypatch.setattr(local_servers, "LIMIT_S", 1.0)


@pytest.fixture
def free_address() -> Iterator[str]:
    """An address at which nobody listens, and nobody will meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


SHOWN: dict[str, Any] = {
    "qwen3:8b": {
        "capabilities": ["completion", "tools", "thinking"],
        "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960},
    },
    "gpt-oss:20b": {
        "capabilities": ["completion", "tools", "thinking"],
        "thinking": {"values": ["low", "medium", "high"], "default": "medium"},
        "model_info": {"gptoss.context_length": 131072},
        "parameters": "temperature 1\nnum_ctx                        65536",
    },
    "llava:7b": {
        "capabilities": ["completion", "tools", "vision"],
        "model_info": {"llama.context_length": 32768},
    },
    "nomic-embed-text:latest": {"capabilities": ["embedding"], "model_info": {}},
    "gemma:2b": {"capabilities": ["completion"], "model_info": {"gemma.context_length": 8192}},
    "old:1b": {"model_info": "nothing that is known"},
}


def ollama(*names: str, **more: Any) -> Answers:
    return {
        "/api/tags": {
            "models": [{"name": name, "model": name, "digest": f"d-{name}"} for name in names]
        },
        "/api/show": lambda body: SHOWN.get(body["model"], 404),
        **more,
    }


async def found(provider: str, answers: Answers, **environ: str) -> list[Model]:
    async with fake(answers) as server:
        servers = LocalServers({provider: server.url}, environ=environ)
        assert servers.models() == []
        await servers.look()
        models = servers.models()
        assert all(model.base_url == f"{server.url}/v1" for model in models)
    assert all(model.provider == provider for model in models)
    assert all(model.api == "openai-completions" for model in models)
    assert all(model.max_tokens <= model.context_window for model in models)
    return models


def windows(models: list[Model]) -> dict[str, int]:
    return {model.id: model.context_window for model in models}


async def test_ollama_s_models_come_with_window_and_abilities() -> None:
    models = await found("ollama", ollama(*SHOWN))
    assert windows(models) == {
        "qwen3:8b": 40960,
        "gpt-oss:20b": 65536,
        "llava:7b": 32768,
        "old:1b": 8192,
    }
    by_id = {model.id: model for model in models}
    assert by_id["llava:7b"].input == ["text", "image"]
    assert by_id["qwen3:8b"].input == ["text"]
    assert thinking_levels(by_id["qwen3:8b"]) == ["off", "low", "medium", "high"]
    assert thinking_levels(by_id["gpt-oss:20b"]) == ["low", "medium", "high"]
    assert thinking_levels(by_id["llava:7b"]) == ["off"]
    assert by_id["llava:7b"].thinking_level_map is UNSET


async def test_ollama_s_window_is_that_of_the_loaded_model_else_the_environment_s() -> None:
    running = {"models": [{"name": "qwen3:8b", "model": "qwen3:8b", "context_length": 4096}]}
    models = await found(
        "ollama",
        ollama("qwen3:8b", "llava:7b", **{"/api/ps": running}),
        OLLAMA_CONTEXT_LENGTH="16000",
    )
    assert windows(models) == {"qwen3:8b": 4096, "llava:7b": 16000}


async def test_a_model_that_did_not_change_is_described_once() -> None:
    async with fake(ollama("qwen3:8b")) as server:
        servers = LocalServers({"ollama": server.url}, environ={}, fresh_s=0)
        for _ in range(2):
            await servers.look()
        server.answers = ollama("qwen3:8b", "llava:7b")
        await servers.look()
        shown = [body["model"] for path, body in server.asked if path == "/api/show"]
    assert shown == ["qwen3:8b", "llava:7b"]
    assert set(windows(servers.models())) == {"qwen3:8b", "llava:7b"}


LLAMA_LIST = {
    "object": "list",
    "data": [
        {
            "id": "/models/Qwen3-8B-Q4_K_M.gguf",
            "object": "model",
            "owned_by": "llamacpp",
            "meta": {"n_ctx_train": 40960},
        }
    ],
}
PROPERTIES = {
    "default_generation_settings": {"n_ctx": 12288},
    "modalities": {"vision": True, "audio": False},
    "chat_template": "{% if enable_thinking %}...",
}


async def test_llama_cpp_s_model_has_the_window_it_was_started_with() -> None:
    (model,) = await found("llama.cpp", {"/v1/models": LLAMA_LIST, "/props": PROPERTIES})
    assert model.id == "/models/Qwen3-8B-Q4_K_M.gguf"
    assert model.name == "Qwen3-8B-Q4_K_M.gguf"
    assert model.context_window == 12288
    assert model.input == ["text", "image"]
    assert thinking_levels(model) == ["off", "high"]


async def test_llama_cpp_without_properties_has_the_window_of_the_model() -> None:
    (model,) = await found("llama.cpp", {"/v1/models": LLAMA_LIST, "/props": 401})
    assert model.context_window == 40960
    assert not model.reasoning


async def test_another_server_on_llama_cpp_s_port_is_left_alone() -> None:
    answers = {"/v1/models": {"object": "list", "data": [{"id": "x", "owned_by": "acme"}]}}
    async with fake(answers) as server:
        servers = LocalServers({"llama.cpp": server.url}, environ={})
        await servers.look()
        assert servers.models() == []
        assert server.paths() == ["/v1/models"]


async def test_lm_studio_s_models_come_without_those_that_embed() -> None:
    listed = {
        "data": [
            {"id": "qwen2-vl-7b", "type": "vlm", "max_context_length": 32768},
            {
                "id": "llama-3.1-8b",
                "type": "llm",
                "max_context_length": 131072,
                "loaded_context_length": 8192,
            },
            {"id": "text-embedding-nomic", "type": "embeddings", "max_context_length": 2048},
        ]
    }
    models = await found("lmstudio", {"/api/v0/models": listed})
    assert windows(models) == {"qwen2-vl-7b": 32768, "llama-3.1-8b": 8192}
    assert [model.input for model in models] == [["text", "image"], ["text"]]


async def test_lm_studio_is_asked_in_openai_s_way_where_its_own_is_not_known() -> None:
    listed = {"data": [{"id": "some-model", "object": "model"}, {"id": "text-embedding-x"}]}
    assert windows(await found("lmstudio", {"/v1/models": listed})) == {"some-model": 8192}


@pytest.mark.parametrize(
    "answer",
    [
        404,
        500,
        b"<html>",
        b"\xff",
        [],
        {},
        {"models": "x", "data": 5},
        {"models": [5], "data": [{}]},
        {"models": [{"name": 5}], "data": [{"id": 5, "owned_by": "llamacpp"}]},
        b"[" * 5000,
    ],
    ids=repr,
)
@pytest.mark.parametrize("provider", ["ollama", "llama.cpp", "lmstudio"])
async def test_a_server_that_talks_nonsense_has_no_models(provider: str, answer: Any) -> None:
    paths = ("/api/tags", "/v1/models", "/api/v0/models", "/props")
    assert await found(provider, dict.fromkeys(paths, answer)) == []


@pytest.mark.usefixtures("hurried")
async def test_a_server_that_is_silent_is_not_waited_for_and_hides_no_other() -> None:
    silent: Answers = dict.fromkeys(("/api/tags", "/v1/models", "/api/v0/models"))
    async with fake(silent) as quiet, fake(ollama("qwen3:8b")) as answering:
        servers = LocalServers(
            {"llama.cpp": quiet.url, "lmstudio": quiet.url, "ollama": answering.url}, environ={}
        )
        with anyio.fail_after(DEADLINE_S):
            await servers.look()
        assert set(windows(servers.models())) == {"qwen3:8b"}


@pytest.mark.usefixtures("hurried")
async def test_a_server_that_is_busy_keeps_the_models_it_had() -> None:
    async with fake(ollama("qwen3:8b")) as server:
        servers = LocalServers({"ollama": server.url}, environ={}, fresh_s=0)
        await servers.look()
        server.answers = {"/api/tags": None}
        await servers.look()
        assert set(windows(servers.models())) == {"qwen3:8b"}
        server.answers = {}
        await servers.look()
        assert servers.models() == []


@pytest.mark.usefixtures("hurried")
async def test_whoever_has_no_time_gets_what_is_known_and_the_next_look_goes_on() -> None:
    async with fake(ollama("qwen3:8b", **{"/api/ps": None})) as server:
        servers = LocalServers({"ollama": server.url}, environ={})
        await servers.look(limit_s=0)
        assert servers.models() == []
        await servers.look()
        assert set(windows(servers.models())) == {"qwen3:8b"}


async def test_a_server_that_is_gone_takes_its_models_with_it(free_address: str) -> None:
    where: dict[str, str] = {}
    async with fake(ollama("qwen3:8b")) as server:
        where["ollama"] = server.url
        servers = LocalServers(where, environ={}, fresh_s=0)
        await servers.look()
        assert servers.models()
    await servers.look()
    assert servers.models() == []
    nobody = LocalServers({"ollama": free_address}, environ={})
    await nobody.look()
    assert nobody.models() == []


async def test_what_was_found_is_kept_for_a_while_and_asked_for_once_at_a_time() -> None:
    now = 100.0
    async with fake(ollama("qwen3:8b")) as server:
        servers = LocalServers({"ollama": server.url}, environ={}, clock=lambda: now)
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(servers.look)
        await servers.look()
        assert server.paths().count("/api/tags") == 1
        now += 6
        await servers.look()
        assert server.paths().count("/api/tags") == 2


async def test_proxies_of_the_environment_are_not_used(
    monkeypatch: pytest.MonkeyPatch, free_address: str
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, free_address)
    assert await found("ollama", ollama("qwen3:8b"))


async def test_a_found_model_is_asked_without_a_key() -> None:
    chunk = {"choices": [{"delta": {"content": "hello"}, "finish_reason": "stop"}]}
    stream = b"data: " + msgspec.json.encode(chunk) + b"\n\ndata: [DONE]\n\n"
    async with fake(ollama("qwen3:8b", **{"/v1/chat/completions": stream})) as server:
        servers = LocalServers({"ollama": server.url}, environ={})
        await servers.look()
        (model,) = servers.models()
        context = Context(messages=[UserMessage(content="hi", timestamp=1)])
        options = StreamOptions(thinking_level="off")
        message = await stream_simple(model, context, options).result()
    path, body = server.asked[-1]
    assert path == "/v1/chat/completions"
    assert body["reasoning_effort"] == "none"
    assert body["model"] == "qwen3:8b"
    assert (text_of(message.content), message.stop_reason) == ("hello", "stop")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8000", "http://127.0.0.1:8000"),
        (":8000", "http://127.0.0.1:8000"),
        ("box", "http://box:11434"),
        ("box:99/", "http://box:99"),
        ("http://box", "http://box:80"),
        ("https://box/ollama/", "https://box:443/ollama"),
        ("https://box:8443", "https://box:8443"),
        ("[::1]", "http://[::1]:11434"),
        ("[::]:7", "http://[::1]:7"),
        (' "box:5" ', "http://box:5"),
    ],
)
def test_ollama_s_variable_is_read_as_ollama_reads_it(written: str, expected: str) -> None:
    assert addresses({"OLLAMA_HOST": written})["ollama"] == expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "http://127.0.0.1:8080"),
        ({"LLAMA_ARG_PORT": "9000"}, "http://127.0.0.1:9000"),
        ({"LLAMA_ARG_HOST": "0.0.0.0", "LLAMA_ARG_PORT": "9000"}, "http://127.0.0.1:9000"),
        ({"LLAMA_ARG_HOST": "box", "LLAMA_ARG_PORT": "nine"}, "http://box:8080"),
    ],
)
def test_llama_cpp_s_variables_are_read(environ: dict[str, str], expected: str) -> None:
    assert addresses(environ)["llama.cpp"] == expected
    assert addresses(environ)["lmstudio"] == "http://127.0.0.1:1234"


async def test_an_address_that_is_none_is_nobody_s() -> None:
    servers = LocalServers({"ollama": "http://[::1", "lmstudio": "http://a b:1"}, environ={})
    await servers.look()
    assert servers.models() == []
