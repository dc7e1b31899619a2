"""A provider on the loopback that says yes to everything and keeps what it was asked."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODEL = "loopback/parrot"


class Provider:
    """What was asked; each request is the body of a chat completion."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    @property
    def system_prompt(self) -> str:
        """That of the latest request."""
        (first, *_) = self.requests[-1]["messages"]
        assert first["role"] in {"system", "developer"}
        return text_of(first)

    @property
    def said(self) -> list[str]:
        """What the user said in the latest request."""
        messages = self.requests[-1]["messages"]
        return [text_of(each) for each in messages if each["role"] == "user"]


def text_of(message: dict[str, Any]) -> str:
    """The text of a message, in whichever form it was sent."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(block["text"] for block in content)


@contextmanager
def provider(home: Path) -> Iterator[Provider]:
    """One that ``models.json`` of the agent directory ``home`` names, as the default model's."""
    asked = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            asked.requests.append(json.loads(self.rfile.read(length)))
            delta = {"index": 0, "delta": {"role": "assistant", "content": "yes"}}
            stop = {"index": 0, "delta": {}, "finish_reason": "stop"}
            chunks = [json.dumps({"choices": [each]}) for each in (delta, stop)]
            body = "".join(f"data: {each}\n\n" for each in [*chunks, "[DONE]"]).encode()
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    provider_name, _, model = MODEL.partition("/")
    written = {
        "baseUrl": f"http://127.0.0.1:{server.server_port}/v1",
        "api": "openai-completions",
        "apiKey": "not-a-secret",
        "models": [{"id": model}],
    }
    home.mkdir(parents=True, exist_ok=True)
    (home / "models.json").write_text(json.dumps({"providers": {provider_name: written}}))
    try:
        yield asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
