"""A provider that talks to many sessions at once, and to each of its own words.

Owns when the replies go on: they begin together, and go on when the test says so. What a session
says (``kind name``) decides what becomes of its reply.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.e2e.editor import DEADLINE_S
from tests.e2e.provider import MODEL, text_of

PIECES = 40
DYING = "die"
"""Of these words' replies the connection breaks halfway."""
CALLING = "call"
"""These words are answered with a call of the tool ``burst``, and then as usual."""


def reply_to(words: str) -> str:
    """What is said to ``words`` in the end."""
    return "".join(f"{words} {number}, " for number in range(PIECES))


class Parrots(ThreadingHTTPServer):
    """Replies that wait for each other: ``together`` first ones begin, none goes on."""

    request_queue_size = 256
    daemon_threads = True

    def __init__(self, together: int) -> None:
        super().__init__(("127.0.0.1", 0), _Parrot)
        self.begin = threading.Barrier(together)
        self.go_on = threading.Event()


class _Parrot(BaseHTTPRequestHandler):
    server: Parrots

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"]
        words = text_of([each for each in asked if each["role"] == "user"][-1])
        is_first = asked[-1]["role"] == "user"
        if is_first:
            self.server.begin.wait(DEADLINE_S)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        if is_first and words.startswith(CALLING):
            how = words.split()[1]
            function = {"name": "burst", "arguments": json.dumps({"how": how})}
            self._say(tool_calls=[{"index": 0, "id": f"c{how}", "function": function}])
            self._finish("tool_calls")
            return
        for number in range(PIECES):
            self._say(content=f"{words} {number}, ")
            self.server.go_on.wait(DEADLINE_S)
            if number == PIECES // 2 and words.startswith(DYING):
                return
        self._finish("stop")

    def _say(self, **delta: Any) -> None:
        self._send({"index": 0, "delta": delta})

    def _finish(self, reason: str) -> None:
        self._send({"index": 0, "delta": {}, "finish_reason": reason})
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, choice: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps({'choices': [choice]})}\n\n".encode())

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


@contextmanager
def parrots(home: Path, together: int) -> Iterator[Parrots]:
    """A provider that ``models.json`` of the agent directory names; nothing is tried twice."""
    server = Parrots(together)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    name, _, model = MODEL.partition("/")
    written = {
        "baseUrl": f"http://127.0.0.1:{server.server_port}/v1",
        "api": "openai-completions",
        "apiKey": "not-a-secret",
        "models": [{"id": model}],
    }
    (home / "models.json").write_text(json.dumps({"providers": {name: written}}))
    (home / "settings.json").write_text(json.dumps({"retry": {"enabled": False}}))
    try:
        yield server
    finally:
        server.begin.abort()
        server.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()
