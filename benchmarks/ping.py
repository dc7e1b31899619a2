"""A ping over header framing, against the smallest asyncio program that answers the same frames."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.measuring import DAEMON, Figure, environment

LIMIT = 3.0
ROUNDS = 3000
WARM_UP = 300

ECHO = """
import asyncio, sys, msgspec
async def main():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    pipe = asyncio.streams.FlowControlMixin
    transport, _ = await loop.connect_write_pipe(pipe, sys.stdout)
    while True:
        head = await reader.readuntil(b"\\r\\n\\r\\n")
        body = msgspec.json.decode(await reader.readexactly(int(head[16:-4])))
        if "id" in body:
            answer = msgspec.json.encode({"jsonrpc": "2.0", "id": body["id"], "result": {}})
            transport.write(b"Content-Length: %d\\r\\n\\r\\n" % len(answer) + answer)
asyncio.run(main())
"""


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as scratch:
        ours = _round_trips(DAEMON, scratch)
        bare = _round_trips([sys.executable, "-c", ECHO], scratch)
    p50, bare_p50 = statistics.median(ours), statistics.median(bare)
    p99 = statistics.quantiles(ours, n=100)[98]
    detail = f"p50 {p50 * 1e6:.0f} us against {bare_p50 * 1e6:.0f} us, p99 {p99 * 1e6:.0f} us"
    yield Figure("ping p50 / bare asyncio echo", p50 / bare_p50, LIMIT, "x", detail)


def _round_trips(argv: list[str], scratch: str) -> list[float]:
    process = subprocess.Popen(
        argv,
        env=environment(PI_CODING_AGENT_DIR=scratch),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    send, receive = process.stdin.fileno(), process.stdout.fileno()
    os.write(send, _frame({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}))
    _read_frame(receive)
    times = []
    for number in range(1, WARM_UP + ROUNDS):
        frame = _frame({"jsonrpc": "2.0", "id": number, "method": "ping", "params": {}})
        start = time.perf_counter()
        os.write(send, frame)
        _read_frame(receive)
        if number > WARM_UP:
            times.append(time.perf_counter() - start)
    process.kill()
    process.stdin.close()
    process.stdout.close()
    process.wait()
    return times


def _frame(message: dict[str, Any]) -> bytes:
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def _read_frame(fd: int) -> None:
    data = _read(fd)
    while b"\r\n\r\n" not in data:
        data += _read(fd)
    head, _, body = data.partition(b"\r\n\r\n")
    missing = int(head.split(b":")[1]) - len(body)
    while missing > 0:
        missing -= len(_read(fd))


def _read(fd: int) -> bytes:
    if not (data := os.read(fd, 65536)):
        raise RuntimeError("the process ended early")
    return data
