"""A model server for the model layer: every dialect, read in bulk or event by event.

``POST /<how>/<api>/…`` is answered in the dialect ``<api>``. ``<how>`` is ``bulk-N`` (a text of N
deltas in HTTP chunks of 16 KiB), ``paced-N`` (the same, each event a chunk of its own, sent apart
from the next) or ``call-N`` (a tool call whose arguments come in N deltas, in bulk). Run as a
process of its own, so that its CPU is not counted; prints its port.
"""

import functools
import socket
import socketserver
import time

from benchmarks.replies import call_frames, text_frames

CHUNK_BYTES = 16 * 1024
GAP_S = 0.0003
"""Between events that are sent apart; the kernel makes a little more of it."""


@functools.lru_cache(maxsize=4)
def _chunks(how: str, api: str) -> list[bytes]:
    kind, _, count = how.partition("-")
    frames = (call_frames if kind == "call" else text_frames)(api, int(count))
    if kind != "paced":
        whole = b"".join(frames)
        frames = [whole[at : at + CHUNK_BYTES] for at in range(0, len(whole), CHUNK_BYTES)]
    return [b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames]


def _head(api: str) -> bytes:
    is_aws = api == "bedrock-converse-stream"
    kind = "application/vnd.amazon.eventstream" if is_aws else "text/event-stream"
    lines = ["HTTP/1.1 200 OK", f"Content-Type: {kind}", "Transfer-Encoding: chunked"]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode()


class Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self) -> None:
        asked = self.rfile.readline().decode()
        if not asked:
            return  # A client opened more connections than it used.
        _, how, api, *_ = asked.split(" ")[1].split("/")
        length = 0
        while line := self.rfile.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        self.rfile.read(length)
        chunks = _chunks(how, api)
        connection: socket.socket = self.request
        connection.sendall(_head(api))
        if how.startswith("paced"):
            for chunk in chunks:
                connection.sendall(chunk)
                time.sleep(GAP_S)
        else:
            connection.sendall(b"".join(chunks))
        connection.sendall(b"0\r\n\r\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    with Server(("127.0.0.1", 0), Handler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()
