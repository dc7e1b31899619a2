"""A model server whose every delta says when it was sent, at a rate that the request names.

``POST /<rate>-<count>/…`` is answered, in ``openai-completions``, with ``count`` deltas at ``rate``
a second. The text of the first is when the first byte of the request came, that of each other one
when it was sent itself: nanoseconds of ``time.monotonic_ns()``, which all processes of a machine
share, and a blank. Run as a process of its own; prints its port.
"""

import asyncio
import json
import time

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
)


def chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "paced", "object": "chat.completion.chunk", "choices": [choice]}
    event = b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


def stamped(at_ns: int) -> bytes:
    return chunk({"content": f"{at_ns} "})


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if not (first := await reader.read(1)):
        writer.close()  # A client opened more connections than it used.
        return
    came_at = time.monotonic_ns()
    head = (first + await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = head.partition("content-length:")[2].split("\r\n")[0]
    await reader.readexactly(int(length))
    rate, count = map(int, head.split("/")[1].split("-"))
    writer.write(HEAD + stamped(came_at))
    begun = time.monotonic()
    for number in range(1, count):
        # From the beginning, so that what one wait is late the next makes up for.
        await asyncio.sleep(max(0.0, begun + number / rate - time.monotonic()))
        writer.write(stamped(time.monotonic_ns()))
    writer.write(chunk({}, "stop") + b"0\r\n\r\n")
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main())
