"""A model server that sends a reply of many deltas as fast as the other end reads.

Speaks just enough HTTP and ``openai-completions`` for a client. Run as a process of its own, so
that its CPU is not counted; prints its port.
"""

import json
import socketserver
import sys

DELTAS = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
WORD = "lorem "


def chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {
        "id": "chatcmpl-benchmark",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "benchmark",
        "choices": [choice],
    }
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


USAGE = {"prompt_tokens": 10, "completion_tokens": DELTAS, "total_tokens": DELTAS + 10}
REPLY = b"".join(
    [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": WORD}) * DELTAS,
        chunk({}, "stop"),
        b"data: " + json.dumps({"choices": [], "usage": USAGE}).encode() + b"\n\n",
        b"data: [DONE]\n\n",
    ]
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


class Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        length = 0
        while line := self.rfile.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        self.rfile.read(length)
        self.wfile.write(HEAD + REPLY)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


with Server(("127.0.0.1", 0), Handler) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
