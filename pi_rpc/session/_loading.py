"""Reading a session file from the disk, piece by piece.

Owns cutting bytes into lines, finding the header, and what is tolerated: blank and malformed lines,
CRLF, a last line without its end. Calls block and are short; callers run each in a file thread.
"""

from pi_rpc.session._file import SessionFile
from pi_rpc.session._migrate import Upgrade
from pi_rpc.session._scanning import FoundLines, KnownLine, scan
from pi_rpc.session.entries import SESSION_VERSION, SessionHeader
from pi_rpc.session.storage import SessionCorruptError
from pi_rpc.session.stored import EntryReader, is_json, parse_header

__all__ = ["CHUNK", "HEADER_SCAN", "Lines", "Loader", "find_header"]

CHUNK = 1 << 20
"""Bytes read at once where lines are not kept."""

PIECE = 1 << 18
"""Bytes read at once by a ``Loader``."""
_PIECES_AT_ONCE = 4

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
        self._upgrade: Upgrade | None = None
        self._at = file.line_start if file.torn else file.size
        self._from_start = self._at == 0
        self._size = PIECE
        self._done = False

    def step(self) -> list[FoundLines | KnownLine] | None:
        """The entries of the next pieces; None at the end of the file.

        Raises ``SessionCorruptError`` when there is no valid header, ``OSError`` when the file
        cannot be read.
        """
        if self._done:
            return None
        found: list[FoundLines | KnownLine] = []
        for _ in range(_PIECES_AT_ONCE):
            data = self._file.read_at(self._at, self._size)
            last_end = data.rfind(b"\n") + 1
            self._lines(data, last_end, found, at_end=len(data) < self._size)
            self._at += last_end
            if self.header is None and (
                self._at >= HEADER_SCAN or (last_end == 0 and len(data) >= HEADER_SCAN)
            ):
                raise SessionCorruptError("the file has no session header in its first MiB")
            if len(data) == last_end == 0 or (last_end == 0 and len(data) < self._size):
                self._finish(data, found)
                break
            # A line that is longer than what was read: read it again with what follows.
            self._size = PIECE if last_end else self._size * 2
        return found

    def _finish(self, rest: bytes, found: list[FoundLines | KnownLine]) -> None:
        self._done = True
        end = self._at + len(rest)
        self._file.known_up_to(end, self._at)
        if rest:
            skipped = self.skipped
            self._line(rest.removesuffix(b"\r"), self._at, found)
            self.skipped = skipped  # it may still be completed, and is then read again
        if self.header is None and end > 0:
            raise SessionCorruptError("the file has no session header")

    def _lines(
        self, data: bytes, stop: int, found: list[FoundLines | KnownLine], *, at_end: bool
    ) -> None:
        """The whole lines of ``data``, which is at ``_at`` of the file."""
        start = 0
        # The last line decides where the session goes on, so it is read in any case.
        quick = data.rfind(b"\n", 0, max(stop - 1, 0)) + 1 if at_end else stop
        while start < stop:
            if self.header is not None and self._upgrade is None:
                lines, start = scan(data, start, quick, self._at)
                if lines.ids:
                    found.append(lines)
                if start >= stop:
                    return
            end = data.index(b"\n", start)
            self._line(data[start:end].removesuffix(b"\r"), self._at + start, found)
            start = end + 1

    def _line(self, line: bytes, offset: int, found: list[FoundLines | KnownLine]) -> None:
        if self.header is None:
            self.header = find_header(line)
            if self.header is None:
                self.skipped += bool(line.strip())
            elif self.header.version < SESSION_VERSION:
                self._upgrade = Upgrade(self.header.version)
            return
        if self._upgrade is None:
            stored, size = self._reader.line(line), len(line)
        else:
            stored, offset, size = self._reader.line(self._upgrade.line(line)), -1, 0
        if stored is not None:
            found.append((stored, offset, size))
        elif line.strip():
            self.skipped += 1
