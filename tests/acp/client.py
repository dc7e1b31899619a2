"""A client of the Agent Client Protocol without a library: lines of JSON to a real agent.

It reads only when it is told to. Every frame that comes is held to the published schema.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.acp.schema import Frame, check
from tests.e2e.editor import DEADLINE_S, call, hold, say
from tests.warm import Daemon, start_daemon

__all__ = ["DEADLINE_S", "Client", "acp", "call", "hold", "said", "say", "text"]

FULL = ("--permission-mode", "full")


def text(words: str) -> list[Frame]:
    """A prompt."""
    return [{"type": "text", "text": words}]


class Client:
    """An agent that has been started, and everything that it has said."""

    def __init__(self, process: Daemon, home: Path) -> None:
        self.process = process
        self.home = home
        self.project = home / "project"
        self.frames: list[Frame] = []
        self.answers: dict[str, Callable[[Frame], Any]] = {}
        """By method, what the agent's requests are answered with, made of their params; what is
        missing is answered as unknown, None not at all."""
        self.asked: list[tuple[str, Frame]] = []
        self._methods: dict[Any, str] = {}

    def send(self, **frame: Any) -> None:
        """Send a frame as it is."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, method: str, **params: Any) -> int:
        """Send a request; its id."""
        number = len(self._methods)
        self._methods[number] = method
        self.send(id=number, method=method, params=params)
        return number

    def tell(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.send(method=method, params=params)

    def read(self) -> Frame:
        """The next frame; a request is answered."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the agent has ended"
        return self._take(line)

    def _take(self, line: bytes) -> Frame:
        frame: Frame = json.loads(line)
        check(frame, self._methods.get(frame.get("id")))
        self.frames.append(frame)
        if "method" in frame and "id" in frame:
            self.asked.append((frame["method"], frame["params"]))
            answer = self.answers.get(frame["method"], lambda params: NotImplementedError)
            result = answer(frame["params"])
            if result is NotImplementedError:
                self.send(id=frame["id"], error={"code": -32601, "message": "unknown"})
            elif result is not None:
                self.send(id=frame["id"], result=result)
        return frame

    def answer(self, number: int) -> Frame:
        """The answer to a request, reading on until it comes."""
        for frame in self.frames:
            if frame.get("id") == number and "method" not in frame:
                return frame
        while (frame := self.read()).get("id") != number or "method" in frame:
            pass
        return frame

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a request."""
        frame = self.answer(self.begin(method, **params))
        assert "result" in frame, frame
        return frame["result"]

    def refused(self, method: str, **params: Any) -> Frame:
        """The error of a request."""
        error: Frame = self.answer(self.begin(method, **params))["error"]
        return error

    def until(self, kind: str) -> Frame:
        """Read on until an update of this kind comes."""
        while (frame := self.read()).get("params", {}).get("update", {}).get(
            "sessionUpdate"
        ) != kind:
            pass
        update: Frame = frame["params"]["update"]
        return update

    def until_asked(self, method: str) -> Frame:
        """Read on until the agent asks this."""
        while (frame := self.read()).get("method") != method:
            pass
        return frame

    def new(self, **params: Any) -> str:
        """A new session; its id."""
        result = self.ask("session/new", **{"cwd": str(self.project), "mcpServers": [], **params})
        session: str = result["sessionId"]
        return session

    def prompt(self, session: str, words: str) -> str:
        """A turn; why it ended."""
        reason: str = self.ask("session/prompt", sessionId=session, prompt=text(words))[
            "stopReason"
        ]
        return reason

    def end(self) -> int:
        """Say nothing more, read the rest, and give the exit code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        for line in self.process.stdout.read().splitlines():
            with suppress(BrokenPipeError, ValueError):
                self._take(line)
        return self.process.wait(DEADLINE_S)

    def updates(self, session: str | None = None, after: int = 0) -> list[Frame]:
        """The updates of a session, or of all."""
        return [
            frame["params"]["update"]
            for frame in self.frames[after:]
            if frame.get("method") == "session/update"
            and session in {None, frame["params"]["sessionId"]}
        ]

    def count(self, number: int) -> int:
        """How often a request was answered."""
        return sum(each.get("id") == number and "method" not in each for each in self.frames)


def said(updates: Sequence[Frame], kind: str = "agent_message_chunk") -> str:
    """The text of all chunks."""
    return "".join(each["content"]["text"] for each in updates if each["sessionUpdate"] == kind)


@contextmanager
def acp(
    home: Path,
    replies: Sequence[Sequence[Frame]] = (),
    *arguments: str,
    capabilities: Any = None,
    repeat: bool = False,
    environ: dict[str, str] | None = None,
) -> Iterator[Client]:
    """An agent that was initialized, with a project at ``home / "project"``."""
    (home / "project").mkdir(exist_ok=True)
    script = home / "script.json"
    steps = [{"steps": list(each)} for each in replies]
    script.write_text(json.dumps({"replies": steps, "repeat": repeat}))
    variables = {**os.environ, "PI_CODING_AGENT_DIR": str(home / "agent")}
    variables |= {"PI_RPC_SCRIPT": str(script), **(environ or {})}
    process = start_daemon(["--acp", *arguments], env=variables, cwd=home)
    try:
        client = Client(process, home)
        client.ask("initialize", protocolVersion=1, clientCapabilities=capabilities or {})
        yield client
        if process.poll() is None and not process.stdin.closed:  # type: ignore[union-attr]
            client.end()
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
