"""An editor that speaks LSP, without a library: frames over the pipes of a real server.

It reads only when it is told to, holds buffers as editors do, and answers what the server asks the
way a test wants it to be answered.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.e2e.editor import DEADLINE_S, call, hold, say
from tests.warm import Daemon, start_daemon

__all__ = ["ABLE", "DEADLINE_S", "FULL", "Editor", "call", "hold", "lsp", "say"]

Frame = dict[str, Any]

FULL = ("--permission-mode", "full")
ABLE: Frame = {
    "general": {"positionEncodings": ["utf-16"]},
    "textDocument": {"codeAction": {"codeActionLiteralSupport": {"codeActionKind": {}}}},
    "workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}},
    "window": {"showDocument": {"support": True}, "workDoneProgress": True},
}


class Editor:
    """A server that has been started, and everything that it has said."""

    def __init__(self, process: Daemon, home: Path) -> None:
        self.process = process
        self.home = home
        self.project = home / "project"
        self.frames: list[Frame] = []
        self.buffers: dict[str, tuple[int, str]] = {}
        self.encoding = "utf-16"
        self.initialized: Frame = {}
        """The result of ``initialize``."""
        self._last_id = -1
        self.answers: dict[str, Callable[[Frame], Any]] = {
            "window/workDoneProgress/create": lambda params: None,
            "window/showDocument": lambda params: {"success": True},
            "workspace/applyEdit": self.apply,
        }
        """By method, what the server's requests are answered with; what is missing is answered as
        unknown, ``NotImplemented`` not at all."""

    # --- frames ----------------------------------------------------------------------------------

    def send_raw(self, body: bytes, *, header: bytes = b"Content-Length") -> None:
        """Send bytes as one frame."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"%b: %d\r\n\r\n%b" % (header, len(body), body))
        self.process.stdin.flush()

    def send(self, **frame: Any) -> None:
        """Send a frame."""
        self.send_raw(json.dumps({"jsonrpc": "2.0", **frame}).encode())

    def begin(self, method: str, params: Any = None) -> int:
        """Send a request; its id."""
        self._last_id += 1
        self.send(id=self._last_id, method=method, params=params)
        return self._last_id

    def tell(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.send(method=method, params=params)

    def read(self) -> Frame:
        """The next frame; a request is answered."""
        assert self.process.stdout is not None
        size = 0
        while (line := self.process.stdout.readline()) not in {b"\r\n", b""}:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
        assert size, "the server has ended"
        frame: Frame = json.loads(self.process.stdout.read(size))
        self.frames.append(frame)
        assert self.process.stdin is not None
        if "method" in frame and "id" in frame and not self.process.stdin.closed:
            self._answer(frame)
        return frame

    def _answer(self, frame: Frame) -> None:
        answer = self.answers.get(frame["method"])
        if answer is None:
            self.send(id=frame["id"], error={"code": -32601, "message": "unknown"})
        elif (result := answer(frame["params"])) is not NotImplemented:
            self.send(id=frame["id"], result=result)

    def answer(self, number: int) -> Frame:
        """The answer to a request, reading on until it comes."""
        return self.until(lambda frame: frame.get("id") == number and "method" not in frame)

    def ask(self, method: str, params: Any = None) -> Any:
        """The result of a request."""
        answer = self.answer(self.begin(method, params))
        assert "result" in answer, answer
        return answer["result"]

    def until(self, wanted: Callable[[Frame], Any]) -> Frame:
        """The first frame that is wanted, reading on until it comes."""
        for frame in self.frames:
            if wanted(frame):
                return frame
        while not wanted(frame := self.read()):
            pass
        return frame

    def called(self, method: str) -> Frame:
        """The params of the first request or notification of the server's, once it has come."""
        params: Frame = self.until(lambda frame: frame.get("method") == method)["params"]
        return params

    def all(self, method: str) -> list[Frame]:
        """The params of all of them so far."""
        return [frame["params"] for frame in self.frames if frame.get("method") == method]

    def progress(self) -> list[Frame]:
        """All values of progress so far."""
        return [each["value"] for each in self.all("$/progress")]

    def until_progress(self, kind: str) -> Frame:
        """The value of the first progress of a kind."""
        frame = self.until(
            lambda frame: (
                frame.get("method") == "$/progress" and frame["params"]["value"]["kind"] == kind
            )
        )
        params: Frame = frame["params"]
        return params

    def until_doing(self) -> Frame:
        """The first progress that says what the model does, which may have begun to already when
        the progress begins."""
        frame = self.until(
            lambda frame: (
                frame.get("method") == "$/progress"
                and frame["params"]["value"].get("message", "waiting") != "waiting"
            )
        )
        params: Frame = frame["params"]
        return params

    # --- buffers ---------------------------------------------------------------------------------

    def uri(self, name: str) -> str:
        """Of a file in the project."""
        return (self.project / name).as_uri()

    def open(self, name: str, text: str, *, on_disk: str | None = None) -> str:
        """Open a document; its file says the same, or ``on_disk``."""
        path = self.project / name
        path.write_bytes((text if on_disk is None else on_disk).encode())
        uri = path.as_uri()
        self.buffers[uri] = (1, text)
        document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})
        return uri

    def change(self, uri: str, *changes: Frame, text: str) -> None:
        """Say that a document has changed, and to what it did."""
        version = self.buffers[uri][0] + 1
        self.buffers[uri] = (version, text)
        named = {"uri": uri, "version": version}
        self.tell(
            "textDocument/didChange", {"textDocument": named, "contentChanges": list(changes)}
        )

    def apply(self, params: Frame) -> Frame:
        """Do what ``workspace/applyEdit`` says, and tell the change before the answer."""
        for change in params["edit"]["documentChanges"]:
            uri, edits = change["textDocument"]["uri"], change["edits"]
            version, text = self.buffers[uri]
            if change["textDocument"]["version"] != version:
                return {"applied": False, "failureReason": "version"}
            # Ranges are in the text before all of them: from the last to the first.
            for edit in reversed(edits):
                text = self.edited(text, edit)
            changes = [{"range": e["range"], "text": e["newText"]} for e in reversed(edits)]
            self.change(uri, *changes, text=text)
        return {"applied": True}

    def edited(self, text: str, edit: Frame) -> str:
        """``text`` with one edit."""
        start, end = (self._index(text, edit["range"][each]) for each in ("start", "end"))
        return text[:start] + edit["newText"] + text[end:]

    def _index(self, text: str, position: Frame) -> int:
        lines = text.split("\n")
        before = "\n".join(lines[: position["line"]]) + ("\n" if position["line"] else "")
        line = lines[position["line"]] if position["line"] < len(lines) else ""
        units = position["character"]
        if self.encoding == "utf-32":
            return len(before) + units
        codec, size = ("utf-8", 1) if self.encoding == "utf-8" else ("utf-16-le", 2)
        return len(before) + len(line.encode(codec)[: units * size].decode(codec))

    # --- what a person does ----------------------------------------------------------------------

    def actions(self, uri: str, line: int = 0, *, to: int | None = None, **context: Any) -> Any:
        """The code actions at a line, or at lines."""
        end = {"line": line if to is None else to, "character": 0 if to is None else 1}
        part = {"start": {"line": line, "character": 0}, "end": end}
        params = {
            "textDocument": {"uri": uri},
            "range": part,
            "context": {"diagnostics": [], **context},
        }
        return self.ask("textDocument/codeAction", params)

    def act(self, title: str, uri: str, line: int = 0, **context: Any) -> Any:
        """Run the code action with this title; the result of its command."""
        (action,) = (e for e in self.actions(uri, line, **context) if e["title"] == title)
        return self.ask("workspace/executeCommand", command_of(action))

    def command(self, name: str, *arguments: Any, **more: Any) -> Any:
        """Run a command."""
        return self.ask("workspace/executeCommand", command(name, *arguments, **more))

    def end(self) -> int:
        """Say that there is nothing more to say, read the rest, and give the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        with suppress(AssertionError, BrokenPipeError):
            while True:
                self.read()
        return self.process.wait(DEADLINE_S)


def command(name: str, *arguments: Any, **more: Any) -> Frame:
    """Params of ``workspace/executeCommand``."""
    return {"command": name, "arguments": list(arguments), **more}


def command_of(action: Frame) -> Frame:
    """What running a code action sends."""
    called = action["command"]
    return command(called["command"], *called["arguments"])


@contextmanager
def lsp(
    home: Path,
    replies: Sequence[Sequence[Frame]] = (),
    *arguments: str,
    able: Frame | None = None,
    options: Frame | None = None,
    process_id: int | None = None,
    warm: bool = True,
) -> Iterator[Editor]:
    """A server in ``home/project`` that was initialized; ``able``: the editor's capabilities."""
    project = home / "project"
    project.mkdir(exist_ok=True)
    script = home / "script.json"
    script.write_text(json.dumps({"replies": [{"steps": list(each)} for each in replies]}))
    env = {**os.environ, "PI_CODING_AGENT_DIR": str(home), "PI_RPC_SCRIPT": str(script)}
    process = start_daemon(["--lsp", *arguments], cwd=home, env=env, warm=warm)
    try:
        editor = Editor(process, home)
        editor.initialized = editor.ask(
            "initialize",
            {
                "processId": process_id or os.getpid(),
                "rootUri": project.as_uri(),
                "workspaceFolders": [{"uri": project.as_uri(), "name": "project"}],
                "capabilities": ABLE if able is None else able,
                "initializationOptions": options,
            },
        )
        editor.tell("initialized", {})
        yield editor
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(DEADLINE_S)
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError, ValueError):
                stream.close()
