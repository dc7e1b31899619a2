"""Reading a session file from the disk, piece by piece.

Owns cutting bytes into lines, finding the header, and what is tolerated: blank and malformed lines,
CRLF, a last line without its end. Calls block and are short; callers run each in a file thread.
"""

import os
from collections.abc import Iterator

from pi_rpc.session._file import SessionFile
from pi_rpc.session._migrate import Upgrade
from pi_rpc.session.entries import SESSION_VERSION, SessionHeader
from pi_rpc.session.storage import SessionCorruptError
from pi_rpc.session.stored import EntryReader, StoredEntry, is_json, parse_header

__all__ = ["CHUNK", "HEADER_SCAN", "Lines", "Loader", "find_header"]

CHUNK = 1 << 20
"""Bytes read at once."""

HEADER_SCAN = 1 << 20
"""How far into a file its header may end."""


class Lines:
    """Cuts chunks of bytes into lines, in time linear in their length."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` completes, without their ends."""
        first, *others = chunk.split(b"\n")
        self._rest.append(first)
        if not others:
            return []
        lines = [b"".join(self._rest), *others[:-1]]
        self._rest = [others[-1]]
        return [line.removesuffix(b"\r") for line in lines]

    def rest(self) -> bytes:
        """What came after the last line end."""
        rest = b"".join(self._rest)
        self._rest = [rest]
        return rest


def find_header(line: bytes) -> SessionHeader | None:
    """The header, if ``line`` is it; None for a line that may stand before it.

    Raises ``SessionCorruptError`` for any other JSON.
    """
    if not line.strip():
        return None
    header = parse_header(line)
    if header is None and is_json(line):
        raise SessionCorruptError("the file does not begin with the header of a session")
    return header


class Loader:
    """Reads a session file from where ``file`` is known to its end.

    From the start of a file it looks for the header first. ``step`` until it gives None; afterwards
    ``file`` says how far it was read.
    """

    def __init__(
        self, file: SessionFile, reader: EntryReader, header: SessionHeader | None
    ) -> None:
        self._file = file
        self._reader = reader
        self.header = header
        self.skipped = 0
        """Lines that are neither blank nor entries."""
        self._lines = Lines()
        self._upgrade: Upgrade | None = None
        self._start = file.line_start if file.torn else file.size
        self._read = 0
        self._done = False

    def step(self) -> list[StoredEntry] | None:
        """The entries of the next piece; None at the end of the file.

        Raises ``SessionCorruptError`` when there is no valid header, ``OSError`` when the file
        cannot be read.
        """
        if self._done:
            return None
        os.lseek(self._file.fd, self._start + self._read, os.SEEK_SET)
        chunk = os.read(self._file.fd, CHUNK)
        if chunk:
            self._read += len(chunk)
            entries = list(self._entries(self._lines.feed(chunk)))
        else:
            entries = self._finish()
        if self.header is None and self._read >= HEADER_SCAN:
            raise SessionCorruptError("the file has no session header in its first MiB")
        return entries

    def _finish(self) -> list[StoredEntry]:
        self._done = True
        rest = self._lines.rest()
        end = self._start + self._read
        self._file.size, self._file.line_start, self._file.torn = end, end - len(rest), bool(rest)
        skipped = self.skipped
        entries = list(self._entries([rest]))
        self.skipped = skipped  # it may still be completed, and is then read again
        if self.header is None and self._read > 0:
            raise SessionCorruptError("the file has no session header")
        return entries

    def _entries(self, lines: list[bytes]) -> Iterator[StoredEntry]:
        for line in lines:
            if self.header is None:
                self.header = find_header(line)
                if self.header is None:
                    self.skipped += bool(line.strip())
                elif self.header.version < SESSION_VERSION:
                    self._upgrade = Upgrade(self.header.version)
                continue
            current = line if self._upgrade is None else self._upgrade.line(line)
            stored = self._reader.line(current)
            if stored is not None:
                yield stored
            elif line.strip():
                self.skipped += 1
