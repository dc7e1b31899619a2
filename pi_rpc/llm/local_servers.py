"""Model servers on this machine: Ollama, llama.cpp and LM Studio, and what they serve.

Owns where they are looked for, how they are asked, and the models that come of it. A server that
does not answer in ``LIMIT_S`` is not waited for. Nothing is looked for before somebody asks, and
nothing is kept beyond the process. Does not own when to look (``pi_rpc.host.services``) nor asking
a model.
"""

import logging
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import anyio
import msgspec
from anyio.abc import ByteStream
from msgspec import Struct, field

from pi_rpc.llm._local_answers import llama_models, lmstudio_models, ollama_model, ollama_names
from pi_rpc.llm.models import Model

__all__ = ["LIMIT_S", "LOCAL_PROVIDERS", "LocalServers", "addresses"]

_log = logging.getLogger(__name__)

LIMIT_S = 0.3
"""Longest wait for one answer of a server."""
LOCAL_PROVIDERS = ("ollama", "llama.cpp", "lmstudio")
"""The provider ids of what is found."""

_PORTS = {"ollama": 11434, "llama.cpp": 8080, "lmstudio": 1234}
_FRESH_S = 5.0
_LARGEST_ANSWER = 8 * 1024 * 1024
_MOST_MODELS = 200
_AT_ONCE = 8
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d{1,12})")
_WHOLE_S = 5.0
"""Longest look; a server with many models is asked once for each."""


def addresses(environ: Mapping[str, str]) -> dict[str, str]:
    """Where each server is looked for, by provider, without a slash at the end.

    ``OLLAMA_HOST`` is read as Ollama reads it (``host``, ``host:port``, ``:port`` or an address),
    ``LLAMA_ARG_HOST`` and ``LLAMA_ARG_PORT`` as llama.cpp's server does.
    """
    host, port = environ.get("LLAMA_ARG_HOST", ""), environ.get("LLAMA_ARG_PORT", "")
    llama = f"{host}:{port}" if port.isdigit() else host
    return {
        "ollama": _address(environ.get("OLLAMA_HOST", ""), _PORTS["ollama"]),
        "llama.cpp": _address(llama, _PORTS["llama.cpp"]),
        "lmstudio": _address("", _PORTS["lmstudio"]),
    }


def _address(written: str, port: int) -> str:
    text = written.strip().strip("\"'").rstrip("/")
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "http", text
    elif scheme in {"http", "https"} and ":" not in rest.rpartition("]")[2]:
        port = 443 if scheme == "https" else 80
    authority, slash, path = rest.partition("/")
    host, colon, own_port = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        host, own_port = authority, ""
    # Where a server listens on every address, it is reached on this one.
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)  # noqa: S104
    return f"{scheme}://{host}:{own_port or port}{slash}{path}"


class _Found(Struct):
    models: list[Model] = field(default_factory=list)
    details: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Ollama's descriptions by model and digest: what has not changed is not asked again."""


class LocalServers:
    """What the servers of this machine serve, as of the last look. For one event loop."""

    def __init__(
        self,
        where: Mapping[str, str] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        fresh_s: float = _FRESH_S,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        """``where`` are addresses by provider; None looks where the environment says."""
        self._environ: Mapping[str, str] = os.environ if environ is None else environ
        self._where = addresses(self._environ) if where is None else dict(where)
        self._fresh_s = fresh_s
        self._clock = clock
        self._looked_at: float | None = None
        self._looking: anyio.Lock | None = None
        self._found = {provider: _Found() for provider in self._where}

    def models(self) -> list[Model]:
        """What was there at the last look; nothing before the first. Immediate."""
        return [model for found in self._found.values() for model in found.models]

    async def look(self, *, limit_s: float = _WHOLE_S) -> None:
        """Ask every server, all at once, unless that was done in the last seconds.

        A server that is gone, refuses or talks nonsense has no models. Returns after ``limit_s`` at
        the latest, with what was learned kept for the next look. Never fails.
        """
        if self._looking is None:
            self._looking = anyio.Lock()
        with anyio.move_on_after(limit_s):
            async with self._looking:
                if self._looked_at is None or self._clock() - self._looked_at >= self._fresh_s:
                    await self._look()
                    self._looked_at = self._clock()

    async def _look(self) -> None:
        async with anyio.create_task_group() as tasks:
            for provider, address in self._where.items():
                tasks.start_soon(self._ask, provider, _Server(address))

    async def _ask(self, provider: str, server: "_Server") -> None:
        ask: dict[str, Callable[[_Server], Awaitable[list[Model]]]] = {
            "ollama": self._ollama,
            "llama.cpp": _llama_cpp,
            "lmstudio": _lmstudio,
        }
        found = self._found[provider]
        before = {model.id for model in found.models}
        try:
            found.models = await ask[provider](server)
        except _TooSlowError as error:
            # It may be at work on an answer; what it had is not gone for that.
            _log.debug("%s at %s: %s", provider, server.address, error)
        except _NoAnswerError as error:
            _log.debug("no %s at %s: %s", provider, server.address, error)
            found.models = []
        if {model.id for model in found.models} != before:
            _log.info("%s at %s: %d models", provider, server.address, len(found.models))

    async def _ollama(self, server: "_Server") -> list[Model]:
        names = ollama_names(await server.get("/api/tags"))[:_MOST_MODELS]
        running: Any = None
        with suppress(_NoAnswerError):  # It only says more of what is known without it.
            running = await server.get("/api/ps")
        details = self._found["ollama"].details
        known = {f"{name}@{digest}" for name, digest in names}
        for gone in details.keys() - known:
            del details[gone]
        at_once = anyio.CapacityLimiter(_AT_ONCE)

        async def describe(name: str, key: str) -> None:
            async with at_once:
                try:
                    details[key] = await server.post("/api/show", {"model": name})
                except _NoAnswerError as error:
                    _log.debug("ollama does not describe %s: %s", name, error)

        async with anyio.create_task_group() as tasks:
            for name, digest in names:
                if f"{name}@{digest}" not in details:
                    tasks.start_soon(describe, name, f"{name}@{digest}")
        windows = self._environ.get("OLLAMA_CONTEXT_LENGTH", "")
        told = int(windows) if windows.isdigit() else None
        models = (
            ollama_model(name, details.get(f"{name}@{digest}"), running, told, server.address)
            for name, digest in names
        )
        return [model for model in models if model is not None]


async def _llama_cpp(server: "_Server") -> list[Model]:
    listed = await server.get("/v1/models")
    properties: Any = None
    if llama_models(listed, None, server.address):
        with suppress(_NoAnswerError):  # It wants a key, or is of an older version.
            properties = await server.get("/props")
    return llama_models(listed, properties, server.address)


async def _lmstudio(server: "_Server") -> list[Model]:
    try:
        listed = await server.get("/api/v0/models")
    except _NoAnswerError:
        listed = await server.get("/v1/models")
    return lmstudio_models(listed, server.address)


class _NoAnswerError(Exception):
    """Nobody is there, or what answered is no such server."""


class _TooSlowError(_NoAnswerError):
    """There was no answer in time; the server may be busy."""


class _Server(Struct, frozen=True):
    """Asks in HTTP/1.0: the answer ends with the connection, and nothing has to be imported."""

    address: str

    async def get(self, path: str) -> dict[str, Any]:
        return await self._answer("GET", path, b"")

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return await self._answer("POST", path, msgspec.json.encode(body))

    async def _answer(self, method: str, path: str, body: bytes) -> dict[str, Any]:
        try:
            with anyio.fail_after(LIMIT_S):
                head, _, content = (await self._exchange(method, path, body)).partition(b"\r\n\r\n")
        except TimeoutError:
            raise _TooSlowError(f"{path}: no answer in time") from None
        except (OSError, ValueError, anyio.BrokenResourceError) as error:
            raise _NoAnswerError(f"{path}: {type(error).__name__}") from error
        status = head.split(b"\r\n", 1)[0].split(b" ")[1:2]
        if status != [b"200"]:
            raise _NoAnswerError(f"{path}: not answered with 200")
        try:
            return msgspec.json.decode(content, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _NoAnswerError(f"{path}: {error}") from error

    async def _exchange(self, method: str, path: str, body: bytes) -> bytes:
        where = urlsplit(self.address)
        if not where.hostname:
            raise ValueError("no host")
        lines = (
            f"{method} {where.path}{path} HTTP/1.0",
            f"host: {where.netloc.rpartition('@')[2]}",
            "accept: application/json",
            "content-type: application/json",
            f"content-length: {len(body)}",
        )
        request = "\r\n".join((*lines, "", "")).encode("ascii") + body
        read = bytearray()
        stream: ByteStream
        if where.scheme == "https":
            stream = await anyio.connect_tcp(where.hostname, where.port or 443, tls=True)
        else:
            stream = await anyio.connect_tcp(where.hostname, where.port or 80)
        async with stream:
            await stream.send(request)
            with suppress(anyio.EndOfStream):
                while not _complete(read):
                    read += await stream.receive()
        return bytes(read)


def _complete(read: bytearray) -> bool:
    """The answer is as long as it says, or as long as anybody reads."""
    if len(read) > _LARGEST_ANSWER:
        return True
    head, separator, content = read.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return bool(separator and length and len(content) >= int(length[1]))
