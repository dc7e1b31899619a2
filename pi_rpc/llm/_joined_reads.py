"""Reading fewer and larger pieces of an answer from the network, below the HTTP library.

Providers send each event in a chunk and a packet of its own. Read one by one, each costs a wake-up,
several system calls and a walk through all layers of the library: far more than decoding it. So
chunks of a body that came together are handed on as one chunk; and where whoever asks has the time
(``pace_reads``), and pieces follow each other quickly, the network is looked at only so often, and
what came by then is read in one go. A piece that comes after a pause is read at once, and so is
whatever comes in bulk.

Owns the network backend that does this and how a client is given it. Does not own HTTP: what is not
understood passes as it came, for the library to judge. Importing this imports the library.
"""

import re
import ssl
from collections.abc import Iterable
from typing import Any

import anyio
import httpcore
import httpx

__all__ = ["ChunkJoiner", "join_reads", "pace_reads"]

_BULK_BYTES = 8 * 1024
"""A read of that much is no trickle: there is more, and waiting would only delay it."""
_READ_BYTES = 256 * 1024
"""As much as the event loop takes at once; cutting that up would copy it several times."""
_KEPT_BYTES = 2 * 1024 * 1024
_MAX_HEAD_BYTES = 128 * 1024
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n", re.IGNORECASE)
_CHUNK_HEAD = re.compile(rb"([0-9a-fA-F]{1,8})\r\n")
_MAX_CHUNK_HEAD_BYTES = 10


class ChunkJoiner:
    """Rewrites the bytes of an HTTP answer so that chunks that came together are one chunk.

    The body stays the same, and so does whether the answer is whole and valid.
    """

    def __init__(self) -> None:
        self._head: bytes | None = b""
        """What came of the head; None once it is whole, or is not one."""
        self._is_chunked = False
        self._rest = b""
        """Of a chunk's head or end, what does not suffice to read it."""
        self._missing = 0
        """How much of the open chunk's content is still to come."""
        self._is_open = False
        """A chunk's content has begun, and its closing line end has not been seen."""

    @property
    def in_body(self) -> bool:
        """The head of the answer was read."""
        return self._head is None

    def feed(self, read: bytes) -> bytes:
        """What to hand on of ``read`` and of what was kept before; may be nothing."""
        if self._head is not None:
            read = self._after_head(read)
        elif self._is_chunked:
            return self._joined(read)
        return read

    def eof(self) -> bytes:
        """What was kept, when nothing more comes."""
        rest, self._rest = self._rest, b""
        return rest

    def _after_head(self, read: bytes) -> bytes:
        assert self._head is not None
        whole = self._head + read
        end = whole.find(b"\r\n\r\n")
        if end < 0:
            self._head = whole if len(whole) < _MAX_HEAD_BYTES else None
            return read
        head, body = whole[: end + 4], whole[end + 4 :]
        if re.match(rb"HTTP/1\.1 1\d\d", head):
            # A word in advance; the answer follows.
            self._head = b""
            return read[: len(read) - len(body)] + (self._after_head(body) if body else b"")
        self._head = None
        self._is_chunked = head.startswith(b"HTTP/1.1 ") and _CHUNKED.search(head[:-2]) is not None
        if not self._is_chunked:
            return read
        return read[: len(read) - len(body)] + self._joined(body)

    def _joined(self, read: bytes) -> bytes:
        data = self._rest + read if self._rest else read
        self._rest = b""
        pieces: list[bytes] = []
        at, end = 0, len(data)
        while at < end:
            if self._missing:
                piece = data[at : at + self._missing]
                pieces.append(piece)
                self._missing -= len(piece)
                at += len(piece)
            elif self._is_open:
                if end - at < 2:
                    self._rest = data[at:]
                    break
                if not data.startswith(b"\r\n", at):
                    return self._give_up(pieces, data[at:])
                self._is_open = False
                at += 2
            else:
                match = _CHUNK_HEAD.match(data, at)
                if match is None and end - at < _MAX_CHUNK_HEAD_BYTES and b"\n" not in data[at:]:
                    self._rest = data[at:]
                    break
                size = int(match[1], 16) if match is not None else 0
                if match is None or size == 0:
                    # The last chunk and what follows, or something with more to it.
                    return self._give_up(pieces, data[at:])
                start = match.end()
                stop = start + size
                if data.startswith(b"\r\n", stop):
                    # A whole chunk, as nearly all are.
                    pieces.append(data[start:stop])
                    at = stop + 2
                else:
                    self._missing, self._is_open, at = size, True, start
        return _chunk(pieces)

    def _give_up(self, pieces: list[bytes], rest: bytes) -> bytes:
        self._is_chunked = False
        return _chunk(pieces) + rest


class _Stream(httpcore.AsyncNetworkStream):
    """A connection that is read in larger pieces."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._joiner = ChunkJoiner()
        self._again_at = 0.0
        self._read_at = 0.0
        self.pause_s = 0.0
        """How long what trickles may wait after a read; of the answer that is being read."""
        self._tls = stream.get_extra_info("ssl_object")

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        while True:
            if self._again_at:
                await anyio.sleep_until(self._again_at)
            read = await self._stream.read(max(max_bytes, _READ_BYTES), timeout)
            if not read:
                return self._joiner.eof()
            if self._tls is not None:
                read += self._decrypted()
            joined = self._joiner.feed(read)
            now = anyio.current_time()
            # Where pieces are further apart, a pause would join none.
            is_quick = now - self._read_at < 2 * self.pause_s
            waits = is_quick and self._joiner.in_body and len(read) < _BULK_BYTES
            self._again_at = now + self.pause_s if waits else 0.0
            self._read_at = now
            if joined:
                return joined

    def _decrypted(self) -> bytes:
        """What else has come: a read of an encrypted connection gives one record."""
        records: list[bytes] = []
        try:
            while sum(map(len, records)) < _BULK_BYTES and (record := self._tls.read(65536)):
                records.append(record)
        except ssl.SSLError:
            # Mostly that nothing more has come; anything else the next read meets again.
            pass
        return b"".join(records)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # What comes next begins another answer.
        self._joiner = ChunkJoiner()
        self._again_at = self.pause_s = 0.0
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore.AnyIOBackend):
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        stream = await super().connect_tcp(host, port, timeout, local_address, socket_options)
        return _Stream(stream)


def join_reads(client: httpx.AsyncClient) -> None:
    """Have ``client`` read through the backend of this module, whatever its proxies.

    httpx has no public place for a backend. Where a version of it keeps its connections elsewhere,
    the client works as before, and reads event by event.
    """
    # Each large read would have its memory from the system anew, page by page, and give it back at
    # once. The usual allocator of Linux keeps as much for the next as was once freed in one piece,
    # and the same again; elsewhere this does nothing.
    bytes(_KEPT_BYTES)
    backend = _Backend()
    for transport in (client._transport, *client._mounts.values()):
        pool: Any = getattr(transport, "_pool", None)
        if hasattr(pool, "_network_backend"):
            pool._network_backend = backend


def pace_reads(response: httpx.Response, pause_s: float) -> None:
    """Look at the network for more of ``response`` every ``pause_s`` at most, where it trickles."""
    stream = response.extensions.get("network_stream")
    if isinstance(stream, _Stream):
        stream.pause_s = pause_s


def _chunk(pieces: list[bytes]) -> bytes:
    if not pieces:
        return b""
    return b"".join([b"%x\r\n" % sum(map(len, pieces)), *pieces, b"\r\n"])
