"""LineWindow: some lines of a file that is read piece by piece.

Owns the counting. Keeps no more of the file than can be shown at once.
"""

from pi_rpc.tools._truncate import MAX_BYTES

__all__ = ["LineWindow"]

# Enough that truncation sees that the text goes on: a newline, and part of a character.
_KEEP = MAX_BYTES + 8


class LineWindow:
    """Counts all lines and keeps the beginning of those that were asked for."""

    def __init__(self, first: int, limit: int | None) -> None:
        self.first = first
        """The first line that was asked for, counted from 1."""
        self.selected_lines = 0
        """Lines of the file among those that were asked for, kept or not."""
        self.selected_bytes = 0
        """Their bytes, newlines included."""
        self.first_line_bytes = 0
        """Bytes of the first of them, without its newline."""
        self._end = None if limit is None else first + limit
        self._newlines = 0  # passed so far: the current line is this number + 1
        self._ends_in_newline = True
        self._kept = bytearray()
        self._first_line_ended = False
        self._selection_ended_in_newline = True

    @property
    def total_lines(self) -> int:
        """Lines seen so far; a trailing newline begins no further line."""
        return self._newlines + (0 if self._ends_in_newline else 1)

    @property
    def newlines(self) -> int:
        """Newlines seen so far."""
        return self._newlines

    def selected(self) -> bytes:
        """The beginning of the lines that were asked for: all, if it is within the limits."""
        return bytes(self._kept)

    def feed(self, piece: bytes) -> None:
        """Take the next, non-empty piece of the file."""
        newlines = piece.count(b"\n")
        last = self._newlines + newlines  # the line after the piece, less one
        if last >= self.first - 1 and not self._is_past():
            start = self._start_of_line(piece, self.first)
            end = len(piece)
            if self._end is not None and last >= self._end - 1:
                end = self._start_of_line(piece, self._end)
            self._select(piece, start, end)
        self._newlines = last
        self._ends_in_newline = piece.endswith(b"\n")

    @property
    def needs_no_more(self) -> bool:
        """What follows only has to be counted (``skip``): what can be shown is there."""
        return self._is_past() or (self._end is None and len(self._kept) >= _KEEP)

    def skip(self, newlines: int, size: int, *, ends_in_newline: bool) -> None:
        """Take ``size`` bytes that hold so many newlines without seeing them.

        Either they end before the first line that was asked for, at a line's end; or nothing more
        is needed, and they are the rest of the file.
        """
        if size and self.needs_no_more and not self._is_past():
            begun_before = not self._selection_ended_in_newline
            self.selected_lines += newlines + (0 if ends_in_newline else 1) - begun_before
            self.selected_bytes += size
            self._selection_ended_in_newline = ends_in_newline
        if size:
            self._newlines += newlines
            self._ends_in_newline = ends_in_newline

    def _is_past(self) -> bool:
        return self._end is not None and self._newlines >= self._end - 1

    def _start_of_line(self, piece: bytes, line: int) -> int:
        """Where ``line`` begins in ``piece``, which it does, or began before it."""
        start = 0
        for _ in range(line - 1 - self._newlines):
            start = piece.index(b"\n", start) + 1
        return start

    def _select(self, piece: bytes, start: int, end: int) -> None:
        if start >= end:
            return
        if not self._first_line_ended:
            newline = piece.find(b"\n", start, end)
            self._first_line_ended = newline >= 0
            self.first_line_bytes += (newline if newline >= 0 else end) - start
        # A line counts as soon as it has begun: the one cut at the piece's end is counted by the
        # piece that begins it.
        begun_before = self.selected_bytes > 0 and not self._selection_ended_in_newline
        newlines = piece.count(b"\n", start, end)
        self._selection_ended_in_newline = piece[end - 1] == 0x0A
        self.selected_lines += newlines + (0 if self._selection_ended_in_newline else 1)
        if begun_before:
            self.selected_lines -= 1
        self.selected_bytes += end - start
        if len(self._kept) < _KEEP:
            self._kept += memoryview(piece)[start:end][: _KEEP - len(self._kept)]
