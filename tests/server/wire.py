"""A client without a library: lines of JSON over the pipes of a real daemon.

It reads only when it is told to, so it can be as slow as a test needs.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.e2e.editor import DEADLINE_S
from tests.warm import Daemon, start_daemon

Frame = dict[str, Any]


class Wire:
    """A daemon that has been started; ``say`` and ``read`` are all there is to it."""

    def __init__(self, process: Daemon) -> None:
        self.process = process
        self.frames: list[Frame] = []
        """Everything read so far."""
        self._ids = iter(range(1, 1_000_000))

    def say(self, method: str, params: Any = None, *, wants_answer: bool = True) -> int | None:
        """Send a request, or a notification; give the request's id."""
        frame: Frame = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            frame["params"] = params
        if wants_answer:
            frame["id"] = next(self._ids)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        self.process.stdin.flush()
        return frame.get("id")

    def reply(self, question: Frame, **answer: Any) -> None:
        """Answer a request of the daemon's, with a ``result`` or an ``error``, or neither."""
        frame = {"jsonrpc": "2.0", "id": question["id"], **answer}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        self.process.stdin.flush()

    def call(self, method: str) -> Frame:
        """Read on until the daemon sends this, as a request or as a notification."""
        while (frame := self.read()).get("method") != method:
            pass
        return frame

    def read(self) -> Frame:
        """The next frame."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the daemon has ended"
        self.frames.append(json.loads(line))
        return self.frames[-1]

    def answer(self, request_id: int | None) -> Frame:
        """The answer to a request, reading on until it comes."""
        for frame in self.frames:
            if frame.get("id") == request_id:
                return frame
        while (frame := self.read()).get("id") != request_id:
            pass
        return frame

    def ask(self, method: str, params: Any = None) -> Any:
        """The result of a request."""
        return self.answer(self.say(method, params))["result"]

    def until(self, kind: str) -> Frame:
        """Read on until an event of this type comes."""
        while (frame := self.read()).get("params", {}).get("event", {}).get("type") != kind:
            pass
        event: Frame = frame["params"]["event"]
        return event

    def end(self) -> int:
        """Say that there is nothing more to say, read the rest, and give the exit code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.frames += [json.loads(line) for line in self.process.stdout.read().splitlines()]
        return self.process.wait(DEADLINE_S)

    def numbered(self, session_id: str | None = None) -> list[tuple[int, Frame]]:
        """The numbers and events of a session, or of all."""
        return [
            (frame["params"]["seq"], frame["params"]["event"])
            for frame in self.frames
            if frame.get("method") == "agent/event"
            and session_id in {None, frame["params"]["sessionId"]}
        ]

    def events(self, kind: str | None = None) -> list[Frame]:
        """The events of a type, or all."""
        return [each for _, each in self.numbered() if kind in {None, each["type"]}]


@contextmanager
def wire(
    home: Path,
    replies: Sequence[Sequence[Frame]] = (),
    *arguments: str,
    features: Any = None,
    repeat: bool = False,
    environ: dict[str, str] | None = None,
    warm: bool = True,
) -> Iterator[Wire]:
    """A daemon that was initialized with ``features`` as the client's capabilities. Not ``warm``:
    its memory is to be measured."""
    variables = {**os.environ, "PI_CODING_AGENT_DIR": str(home), **(environ or {})}
    script = home / "script.json"
    steps = [{"steps": list(steps)} for steps in replies]
    script.write_text(json.dumps({"replies": steps, "repeat": repeat}))
    variables["PI_RPC_SCRIPT"] = str(script)
    process = start_daemon(["--stdio", *arguments], env=variables, cwd=home, warm=warm)
    try:
        connected = Wire(process)
        connected.ask("initialize", {"capabilities": features or {}})
        yield connected
        if process.poll() is None and not process.stdin.closed:  # type: ignore[union-attr]
            connected.end()
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
