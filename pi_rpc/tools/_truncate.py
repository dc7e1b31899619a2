"""Cutting text to what a model should be sent at once.

Owns the limits and the arithmetic of lines and bytes. Does not own the notes that tell the model
what was left out: those differ by tool. Pure functions; nothing here touches a file.

A line ends at ``\\n``. A trailing newline does not begin another line, so ``"a\\n"`` has one line
and ``""`` has none. Bytes are those of UTF-8.
"""

from typing import Any, Literal

from msgspec import Struct

__all__ = [
    "MAX_BYTES",
    "MAX_LINES",
    "Truncation",
    "format_size",
    "truncate_head",
    "truncate_tail",
]

MAX_LINES = 2000
MAX_BYTES = 51_200


class Truncation(Struct, frozen=True, kw_only=True):
    """A text cut to its limits, and what the cut left out."""

    content: str
    """At most ``max_lines`` lines and ``max_bytes`` bytes. A cut text has no trailing newline."""
    truncated: bool
    truncated_by: Literal["lines", "bytes"] | None
    """The limit that was met first."""
    total_lines: int
    total_bytes: int
    output_lines: int
    output_bytes: int
    last_line_partial: bool = False
    """``truncate_tail`` only: the last line alone was too long, and its end was kept."""
    first_line_exceeds_limit: bool = False
    """``truncate_head`` only: the first line alone was too long, and nothing was kept."""
    max_lines: int
    max_bytes: int

    def details(self) -> dict[str, Any]:
        """The JSON object that clients find under ``details.truncation``."""
        return {
            "content": self.content,
            "truncated": self.truncated,
            "truncatedBy": self.truncated_by,
            "totalLines": self.total_lines,
            "totalBytes": self.total_bytes,
            "outputLines": self.output_lines,
            "outputBytes": self.output_bytes,
            "lastLinePartial": self.last_line_partial,
            "firstLineExceedsLimit": self.first_line_exceeds_limit,
            "maxLines": self.max_lines,
            "maxBytes": self.max_bytes,
        }


def truncate_head(text: str, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Truncation:
    """Keep whole lines from the beginning, as many as both limits allow."""
    data = _encode(text)
    body = data.removesuffix(b"\n")
    total = _count_lines(data)
    if total <= max_lines and len(body) <= max_bytes:
        return _whole(text, data, total, max_lines, max_bytes)
    by_lines = _end_of_line(body, max_lines) if total > max_lines else len(body)
    if by_lines <= max_bytes:
        kept, lines, limit = body[:by_lines], max_lines, "lines"
    else:
        # The last newline that leaves at most max_bytes before it.
        end = body.rfind(b"\n", 0, max_bytes + 1)
        kept, limit = body[: max(end, 0)], "bytes"
        lines = kept.count(b"\n") + 1 if end >= 0 else 0
    return Truncation(
        content=_decode(kept),
        truncated=True,
        truncated_by="lines" if limit == "lines" else "bytes",
        total_lines=total,
        total_bytes=len(data),
        output_lines=lines,
        output_bytes=len(kept),
        first_line_exceeds_limit=lines == 0 and max_lines > 0,
        max_lines=max_lines,
        max_bytes=max_bytes,
    )


def truncate_tail(text: str, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Truncation:
    """Keep whole lines up to the end, as many as both limits allow.

    When the last line alone is too long, its last ``max_bytes`` are kept, less the rest of a
    character that would be cut in two.
    """
    data = _encode(text)
    body = data.removesuffix(b"\n")
    total = _count_lines(data)
    if total <= max_lines and len(body) <= max_bytes:
        return _whole(text, data, total, max_lines, max_bytes)
    by_lines = _start_of_last_lines(body, max_lines) if total > max_lines else 0
    partial = False
    if len(body) - by_lines <= max_bytes:
        kept, lines, limit = body[by_lines:], max_lines, "lines"
    else:
        limit = "bytes"
        # A newline right before the last max_bytes begins a line that just fits.
        newline = body.find(b"\n", max(len(body) - max_bytes - 1, 0))
        if newline >= 0:
            kept = body[newline + 1 :]
        else:
            partial = True
            start = len(body) - max_bytes
            while start < len(body) and body[start] & 0xC0 == 0x80:
                start += 1
            kept = body[start:]
        lines = kept.count(b"\n") + 1
    return Truncation(
        content=_decode(kept),
        truncated=True,
        truncated_by="lines" if limit == "lines" else "bytes",
        total_lines=total,
        total_bytes=len(data),
        output_lines=lines,
        output_bytes=len(kept),
        last_line_partial=partial,
        max_lines=max_lines,
        max_bytes=max_bytes,
    )


def format_size(size: int) -> str:
    """Bytes for people and models: ``512B``, ``50.0KB``, ``3.4MB``."""
    if size < 1024:
        return f"{size}B"
    if size < 1024 * 1024:
        return f"{size / 1024:.1f}KB"
    return f"{size / (1024 * 1024):.1f}MB"


def _whole(text: str, data: bytes, total: int, max_lines: int, max_bytes: int) -> Truncation:
    # A trailing newline that alone breaks the byte limit is dropped without calling it a cut.
    content = text if len(data) <= max_bytes else text[:-1]
    return Truncation(
        content=content,
        truncated=False,
        truncated_by=None,
        total_lines=total,
        total_bytes=len(data),
        output_lines=total,
        output_bytes=min(len(data), max_bytes),
        max_lines=max_lines,
        max_bytes=max_bytes,
    )


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _count_lines(data: bytes) -> int:
    return data.count(b"\n") + (1 if data and not data.endswith(b"\n") else 0)


def _end_of_line(body: bytes, line: int) -> int:
    """Where 1-based ``line`` ends, its newline not included. 0 for line 0."""
    end = -1
    for _ in range(line):
        end = body.index(b"\n", end + 1)
    return max(end, 0)


def _start_of_last_lines(body: bytes, lines: int) -> int:
    """Where the last ``lines`` lines begin."""
    start = len(body)
    for _ in range(lines):
        start = body.rindex(b"\n", 0, start)
    return min(start + 1, len(body)) if lines else start
