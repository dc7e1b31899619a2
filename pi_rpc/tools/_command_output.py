"""What a command has written, in bounded memory.

Owns the beginning and the end that are kept of it, the file that gets all of it once it is too long
for a model, and the live part of it that clients are shown. Does not own the notes around it
(``pi_rpc.tools.bash``).
"""

import codecs
import os
import re
from collections import deque
from pathlib import Path

import anyio
from msgspec.structs import replace

from pi_rpc._os.files import write_at
from pi_rpc._os.threads import run_blocking
from pi_rpc.tools._command_files import output_file
from pi_rpc.tools._truncate import MAX_BYTES, MAX_LINES, Truncation, truncate_tail

__all__ = ["FULL_OUTPUT_LIMIT", "CommandOutput", "EscapeStripper", "LiveOutput"]

FULL_OUTPUT_LIMIT = 100_000_000
"""How much of its output, in bytes, the file of a command gets."""
_HALF = 512 * 1024
"""What is kept in memory of the beginning, and as much of the end."""
_PIECE = 256 * 1024
_BACKLOG = 4 * 1024 * 1024
"""How much may wait for the file threads; a disk that is slower than this stops the command."""


class CommandOutput:
    """All output of one command: ``feed`` it, run ``write_file`` beside it, then read it."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self._newlines = 0
        self._open_line = 0
        self._last_full_line = 0
        self._head = bytearray()
        self._tail = bytearray()
        self._spill: _Spill | None = None
        self._spilling = anyio.Event()

    @property
    def total_lines(self) -> int:
        """Lines so far, one that has not ended included."""
        return self._newlines + (1 if self._open_line else 0)

    @property
    def last_line_bytes(self) -> int:
        """The length of the last line, its newline not included."""
        return self._open_line or self._last_full_line

    @property
    def file_path(self) -> Path | None:
        """After ``finish``: the file with the whole output, where it was too long to be shown."""
        return self._spill.path if self._spill is not None else None

    @property
    def file_error(self) -> str | None:
        """After ``finish``: why there is no such file although there should be."""
        return self._spill.error if self._spill is not None else None

    @property
    def file_complete(self) -> bool:
        """The file holds everything, not just the first 100 MB."""
        return self.total_bytes <= FULL_OUTPUT_LIMIT

    def feed(self, data: bytes) -> None:
        """Take what the command has written next."""
        self._count(data)
        if self._spill is None and (self.total_bytes > MAX_BYTES or self.total_lines > MAX_LINES):
            # Until now everything was small enough to be in the head.
            self._spill = _Spill()
            self._spill.feed(bytes(self._head))
            self._spilling.set()
        if self._spill is not None:
            self._spill.feed(data)
        room = _HALF - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * _HALF:
            del self._tail[:-_HALF]

    def _count(self, data: bytes) -> None:
        self.total_bytes += len(data)
        self._newlines += data.count(b"\n")
        last = data.rfind(b"\n")
        if last < 0:
            self._open_line += len(data)
            return
        before = data.rfind(b"\n", 0, last)
        self._last_full_line = last - before - 1 if before >= 0 else self._open_line + last
        self._open_line = len(data) - last - 1

    def shown(self) -> Truncation:
        """The end of the output, within the limits for a model."""
        whole = self.total_bytes <= len(self._head) + len(self._tail)
        cut = truncate_tail(self._kept_end() if not whole else _text(self._kept()))
        if whole:
            return cut
        return replace(
            cut,
            truncated=True,
            truncated_by=cut.truncated_by or "bytes",
            total_lines=self.total_lines,
            total_bytes=self.total_bytes,
        )

    def for_programs(self) -> tuple[str, bool]:
        """Beginning and end, at most 1 MiB together, and whether something was left out."""
        kept = self._kept()
        left_out = self.total_bytes - 2 * _HALF
        if left_out <= 0:
            return _text(kept), False
        note = f"\n[... {left_out} bytes left out ...]\n"
        return _text(bytes(self._head)) + note + self._kept_end(), True

    def _kept(self) -> bytes:
        return bytes(self._head + self._tail)

    def _kept_end(self) -> str:
        end = bytes(self._tail[-_HALF:])
        start = 0
        while start < min(3, len(end)) and end[start] & 0xC0 == 0x80:
            start += 1  # the rest of a character that was cut in two
        return _text(end[start:])

    async def write_file(self) -> None:
        """Write the file, if there is to be one, as the output comes; runs until cancelled."""
        await self._spilling.wait()
        while self._spill is not None:
            await self._spill.pending.wait()
            with anyio.CancelScope(shield=True):
                await self._spill.flush()

    async def finish(self) -> None:
        """Nothing more is fed: write the rest and close the file. Not cut short by cancellation."""
        if self._spill is not None:
            with anyio.CancelScope(shield=True):
                await self._spill.flush()
                await run_blocking(self._spill.close)


class _Spill:
    """The file with the full output, and what waits for a thread that writes it."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.error: str | None = None
        self.pending = anyio.Event()
        self._fd = -1
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._waiting = 0
        self._taken = 0

    def feed(self, data: bytes) -> None:
        data = data[: FULL_OUTPUT_LIMIT - self._taken]
        if not data or self.error is not None:
            return
        self._pieces.append((self._taken, data))
        self._taken += len(data)
        self._waiting += len(data)
        self.pending.set()
        while self._fd >= 0 and self._waiting > _BACKLOG:
            # The threads cannot follow. Writing here stops everything, the command included, but
            # only for as long as the disk takes, and memory stays bounded.
            self._write(*self._next())

    async def flush(self) -> None:
        """Write everything that is waiting."""
        if self._fd < 0 and self.error is None:
            try:
                self._fd, self.path = await run_blocking(output_file)
            except OSError as error:
                self._fail(error)
        while self._pieces:
            await run_blocking(self._write, *self._next())
        self.pending = anyio.Event()

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        if self.error is not None and self.path is not None:
            self.path.unlink(missing_ok=True)
            self.path = None

    def _next(self) -> tuple[int, bytes]:
        """Take at most ``_PIECE`` bytes, and where they belong, from what is waiting."""
        offset, first = self._pieces.popleft()
        parts, size = [first], len(first)
        while self._pieces and size + len(self._pieces[0][1]) <= _PIECE:
            parts.append(self._pieces.popleft()[1])
            size += len(parts[-1])
        self._waiting -= size
        return offset, b"".join(parts)

    def _write(self, offset: int, data: bytes) -> None:
        if self.error is None:
            try:
                write_at(self._fd, data, offset)
            except OSError as error:
                self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.error = error.strerror or str(error)


class LiveOutput:
    """The new output since the last look, as text for a person; stops after ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self.omitted_bytes = 0
        """What came after the limit."""
        self.changed = anyio.Event()
        """Set when there is something to take."""
        self._told = 0
        self._room = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._strip = EscapeStripper()
        self._text: list[str] = []

    def feed(self, data: bytes) -> None:
        """Take what the command has written next."""
        taken = data[: self._room]
        self._room -= len(taken)
        self.omitted_bytes += len(data) - len(taken)
        if taken:
            self._text.append(self._strip(self._decoder.decode(taken)))
        self.changed.set()

    def finish(self) -> None:
        """Nothing more is fed: what looked like the beginning of a character was none."""
        if not self.omitted_bytes:
            self._text.append(self._strip(self._decoder.decode(b"", True)))

    def take(self) -> tuple[str, bool]:
        """The text since the last call, and whether more was omitted since then."""
        text = "".join(self._text)
        self._text.clear()
        self.changed = anyio.Event()
        omitted, self._told = self.omitted_bytes > self._told, self.omitted_bytes
        return text, omitted


_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC: titles, links
    r"|\x1b[ -/]+[0-~]"  # character sets
    r"|\x1b[0-OQ-WYZ\\`-~]"  # one more character
    r"|[\x1b\x80-\x9f]"  # what is left of others, and their eight-bit forms
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?\Z")
_LONGEST_ESCAPE = 4096


class EscapeStripper:
    """A function that removes terminal escape sequences from text that comes in pieces."""

    def __init__(self) -> None:
        self._rest = ""

    def __call__(self, text: str) -> str:
        text = self._rest + text
        self._rest = ""
        if "\x1b" in text:
            unfinished = _UNFINISHED.search(text, max(0, len(text) - _LONGEST_ESCAPE))
            if unfinished is not None:
                self._rest = unfinished.group()
                text = text[: unfinished.start()]
        return _ESCAPE.sub("", text)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
