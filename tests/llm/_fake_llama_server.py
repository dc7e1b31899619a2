"""A stand-in for ``llama-server``, run as a program.

The file it is given as model says how it acts: ``{"log": PATH, "loading": N?, "never": true?,
"dies": CODE?}``. It appends a line to ``log`` at every start, and answers ``/health`` with 503 the
first N times, or always.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

arguments = dict(zip(sys.argv[1:], sys.argv[2:], strict=False))
plan = json.loads(Path(arguments["--model"]).read_text())
with Path(plan["log"]).open("a") as log:
    log.write(
        json.dumps({"pid": os.getpid(), "argv": sys.argv[1:], "env": dict(os.environ)}) + "\n"
    )
if "dies" in plan:
    print("cannot load: reasons", flush=True)
    sys.exit(plan["dies"])
answers = iter(range(plan.get("loading", 0)))


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        loading = plan.get("never") or next(answers, None) is not None
        self._answer(503 if loading else 200, "application/json", "{}")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("authorization") != f"Bearer {os.environ['LLAMA_API_KEY']}":
            self._answer(401, "application/json", '{"error": {"message": "Invalid API Key"}}')
            return
        chunk = {"choices": [{"index": 0, "delta": {"content": f"hello from {self.path}"}}]}
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        body = "".join(f"data: {json.dumps(each)}\n\n" for each in (chunk, end))
        self._answer(200, "text/event-stream", f"{body}data: [DONE]\n\n")

    def _answer(self, status: int, kind: str, body: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


ThreadingHTTPServer((arguments["--host"], int(arguments["--port"])), Handler).serve_forever()
