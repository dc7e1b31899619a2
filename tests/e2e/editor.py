"""The daemon as an editor meets it: a real process, driven by pytest-lsp's stock client.

The client shares no code with ours. ``Editor`` adds what tests need: plain JSON instead of the
client's objects, the events that came, and waits with a deadline.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from lsprotocol.types import CancelParams, ClientCapabilities, InitializeParams
from pygls.exceptions import JsonRpcException
from pygls.protocol import default_converter
from pytest_lsp import LanguageClient
from pytest_lsp.client import make_test_lsp_client

from tests.deadlines import DEADLINE_S

DAEMON = (sys.executable, "-m", "pi_rpc", "--stdio")
HOLD_MS = 60_000
"""A delay in a script that no test waits for: it is aborted or killed before."""

Event = dict[str, Any]
Step = dict[str, Any]


class Refused(Exception):
    """An error response."""

    def __init__(self, error: JsonRpcException) -> None:
        super().__init__(f"{error.code}: {error.message}")
        self.code = error.code
        self.message = error.message
        self.data: dict[str, Any] = plain(error.data)

    @property
    def kind(self) -> str:
        kind: str = self.data["kind"]
        return kind


class Editor:
    """One connected client."""

    def __init__(self, client: LanguageClient) -> None:
        self._client = client
        self.frames: list[dict[str, Any]] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """What the daemon has sent beside events: methods and params."""
        self._came = anyio.Event()

        @client.feature("agent/event")
        def agent_event(_: LanguageClient, params: Any) -> None:
            self.frames.append(plain(params))
            self._came.set()
            self._came = anyio.Event()

    def answers(self, method: str, answer: Callable[[dict[str, Any]], Awaitable[Any]]) -> None:
        """Answer the daemon's requests of ``method``; an answer to a notification is dropped."""

        async def feature(_: LanguageClient, params: Any) -> Any:
            self.asked.append((method, plain(params)))
            return await answer(plain(params))

        # Its checks of what a server sends want to know of LSP's; ours are none of those.
        self._client.capabilities = ClientCapabilities()
        self._client.feature(method)(feature)

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._client._server is not None
        return self._client._server

    @property
    def events(self) -> list[Event]:
        """Every event so far, of all sessions."""
        return [frame["event"] for frame in self.frames]

    @property
    def types(self) -> list[str]:
        """The types of the events so far, runs of one kind of update counted once."""
        found: list[str] = []
        for event in self.events:
            name = event["type"]
            if name not in {"message_update", "tool_execution_update"} or found[-1:] != [name]:
                found.append(name)
        return found

    async def request(self, method: str, params: Any = None) -> Any:
        """A result, as plain JSON; ``Refused`` for an error response."""
        with anyio.fail_after(DEADLINE_S):
            return await self._answer(self.begin(method, params))

    def begin(self, method: str, params: Any = None, request_id: str | None = None) -> Any:
        """Send a request without waiting for its answer; give what ``answer`` takes."""
        if method == "initialize":
            # The stock client sends what LSP knows of it and nothing else.
            params = default_converter().structure(params, InitializeParams)
        return self._client.protocol.send_request(method, params, msg_id=request_id)

    async def answer(self, begun: Any) -> Any:
        """The answer of a request that was begun."""
        with anyio.fail_after(DEADLINE_S):
            return await self._answer(begun)

    async def _answer(self, begun: Any) -> Any:
        try:
            return plain(await asyncio.wrap_future(begun))
        except JsonRpcException as error:
            raise Refused(error) from None

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        if method == "$/cancelRequest":
            params = default_converter().structure(params, CancelParams)
        self._client.protocol.notify(method, params)

    async def until(
        self, wanted: str | Callable[[Event], bool], *, after: int = 0, count: int = 1
    ) -> Event:
        """The event that is wanted, or a type, once ``count`` of them have come since ``after``."""

        def fits(event: Event) -> bool:
            return event["type"] == wanted if isinstance(wanted, str) else wanted(event)

        with anyio.fail_after(DEADLINE_S):
            while True:
                found = [event for event in self.events[after:] if fits(event)]
                if len(found) >= count:
                    return found[count - 1]
                await self._came.wait()

    async def ended(self) -> int:
        """The exit code, once the process has gone."""
        with anyio.fail_after(DEADLINE_S):
            return await self.process.wait()


@asynccontextmanager
async def editor(
    home: Path,
    replies: Sequence[Sequence[Step]] = (),
    *arguments: str,
    cwd: Path | None = None,
    initialize: dict[str, Any] | None = None,
    environ: dict[str, str] | None = None,
) -> AsyncIterator[Editor]:
    """A daemon with an agent directory at ``home`` and a scripted model, initialized."""
    variables = {**os.environ, "PI_CODING_AGENT_DIR": str(home), **(environ or {})}
    variables.pop("PI_RPC_SCRIPT", None)
    if replies:
        script = home / "script.json"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(json.dumps({"replies": [{"steps": list(steps)} for steps in replies]}))
        variables["PI_RPC_SCRIPT"] = str(script)
    client = make_test_lsp_client()
    await client.start_io(*DAEMON, *arguments, env=variables, cwd=str(cwd or home))
    connected = Editor(client)
    try:
        if initialize is not None:
            await connected.request("initialize", initialize)
        else:
            await connected.request("initialize", {"processId": os.getpid(), "capabilities": {}})
        yield connected
    finally:
        if connected.process.returncode is None:
            connected.process.stdin.close()
            with anyio.move_on_after(5, shield=True):
                await connected.process.wait()
        if connected.process.returncode is None:
            connected.process.kill()
        with anyio.CancelScope(shield=True):
            await client.stop()


def plain(value: Any) -> Any:
    """The client's objects as plain JSON."""
    if hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return value


def say(text: str) -> Step:
    """The model says something."""
    return {"text": text}


def call(name: str, **arguments: Any) -> Step:
    """The model calls a tool."""
    return {"toolCall": {"name": name, "arguments": arguments}}


def hold() -> Step:
    """The model falls silent until it is stopped."""
    return {"delayMs": HOLD_MS}


def session_files(home: Path) -> list[Path]:
    """The session files below an agent directory."""
    return sorted(home.glob("sessions/**/*.jsonl"))


def stored_messages(path: Path) -> list[dict[str, Any]]:
    """The messages of a session file, in order."""
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    return [entry["message"] for entry in entries if entry["type"] == "message"]
