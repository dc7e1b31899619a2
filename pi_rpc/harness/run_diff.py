"""One unified diff of many files, as git would write it.

Owns the order of the files, their headers, the limit on the whole, and that no comparison holds the
interpreter for long: what is the same at both ends is skipped without looking at lines, and what is
large between them is compared by a program of its own. Does not own the comparison of lines
(``pi_rpc.harness._line_diff``) nor where contents come from.

Paths inside the working directory are relative to it. Others are absolute, after ``a/`` and ``b/``
and therefore with two slashes. A file that is no UTF-8 text is named and not shown.
"""

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
from msgspec import Struct

from pi_rpc._os.files import private_temp_file
from pi_rpc._os.pipes import OutputPipe
from pi_rpc._os.processes import spawn
from pi_rpc._os.threads import run_blocking
from pi_rpc.harness import _line_diff

__all__ = [
    "MAX_DIFF_BYTES",
    "ChangedFile",
    "RunDiff",
    "cut_diff",
    "file_diff",
    "joined",
    "unknown_diff",
]

MAX_DIFF_BYTES = 1024 * 1024
"""The most that is kept of the diff of a run."""

_MAX_AT_HOME = 1024 * 1024  # bytes compared in this process
_MAX_COMPARED = 24 * 1024 * 1024
_PROGRAM_LIMIT_S = 8.0
_BLOCK = 64 * 1024


class ChangedFile(Struct, frozen=True):
    """A file, before and after; None where it was not there."""

    path: Path
    before: bytes | None
    after: bytes | None
    mode_before: int | None = None
    mode_after: int | None = None


class RunDiff(Struct, frozen=True):
    """A unified diff."""

    text: str
    truncated: bool
    """Something is missing from it, and it says so."""


class _Part(Struct, frozen=True):
    """The lines of two contents that are not the same at both ends, and three around them."""

    old: bytes
    new: bytes
    first_line: int


async def file_diff(file: ChangedFile, cwd: Path, limit: int = MAX_DIFF_BYTES) -> RunDiff:
    """What became of one file; empty where nothing did."""
    names = _names(file.path, cwd)
    header = _header(file)
    if header:
        header = _first_line(names) + header
    if (file.before or b"") == (file.after or b""):
        return RunDiff(header, truncated=False)
    header = header or _first_line(names)
    part = await run_blocking(_part, file.before or b"", file.after or b"")
    old = "/dev/null" if file.before is None else names[0]
    new = "/dev/null" if file.after is None else names[1]
    if part is None:
        return RunDiff(f"{header}Binary files {old} and {new} differ\n", truncated=False)
    hunks, cut = await _hunks(part, limit)
    if not hunks:
        return RunDiff(header + _note("too large to be compared"), truncated=True)
    text = f"{header}--- {old}\n+++ {new}\n{hunks.decode(errors='replace')}"
    return RunDiff(text + _note("the rest of this file is left out") if cut else text, cut)


def unknown_diff(path: Path, cwd: Path, problem: str) -> RunDiff:
    """What stands for a file that could not be compared."""
    note = _note(f"not compared: {problem}")
    return RunDiff(_first_line(_names(path, cwd)) + note, truncated=True)


def joined(diffs: Sequence[RunDiff], limit: int = MAX_DIFF_BYTES) -> RunDiff:
    """The diffs of several files as one."""
    text = "".join(diff.text for diff in diffs)
    whole = RunDiff(text, any(diff.truncated for diff in diffs))
    return cut_diff(whole, limit)


def cut_diff(diff: RunDiff, limit: int) -> RunDiff:
    """At most about ``limit`` bytes of a diff, in whole lines; the last line says what is gone."""
    data = diff.text.encode()
    if len(data) <= limit:
        return diff
    kept = data[: data.rfind(b"\n", 0, limit) + 1]
    note = _note(f"{len(data) - len(kept)} more bytes of the diff are left out")
    return RunDiff(kept.decode() + note, truncated=True)


async def _hunks(part: _Part, limit: int) -> tuple[bytes, bool]:
    size = len(part.old) + len(part.new)
    if size <= _MAX_AT_HOME or not (part.old and part.new):
        return await run_blocking(
            _line_diff.unified_hunks,
            # Of what was created or deleted, no more than can be shown is looked at.
            *_shortened(part, limit),
            part.first_line,
            limit,
        )
    if size > _MAX_COMPARED:
        return b"", True
    try:
        with anyio.fail_after(_PROGRAM_LIMIT_S):
            answer = await _by_program(part, limit)
    except (OSError, TimeoutError):
        return b"", True
    return (answer[1:], answer[:1] != b"\0") if answer else (b"", True)


def _shortened(part: _Part, limit: int) -> tuple[bytes, bytes]:
    if part.old and part.new:
        return part.old, part.new
    most = 2 * limit + _BLOCK
    return part.old[:most], part.new[:most]


async def _by_program(part: _Part, limit: int) -> bytes:
    """What the program answers; nothing where it fails."""
    numbers = (len(part.old), len(part.new), part.first_line, limit)
    head = b"".join(number.to_bytes(8, "big") for number in numbers)
    fd = await run_blocking(_filled, head, part.old, part.new)
    try:
        with OutputPipe() as pipe:
            child = await spawn(
                [sys.executable, "-I", "-S", "-X", "utf8", str(Path(_line_diff.__file__))],
                cwd=Path("/"),
                env=os.environ,
                stdin=fd,
                stdout=pipe.write_fd,
            )
            async with child:
                pipe.close_write()
                pieces: list[bytes] = []
                while piece := await pipe.read():
                    pieces.append(piece)
                code = await child.wait()
    finally:
        os.close(fd)
    return b"".join(pieces) if code == 0 else b""


def _filled(*pieces: bytes) -> int:
    """A descriptor of a file that holds ``pieces`` and that nobody else can open."""
    fd, path = private_temp_file("pi-rpc-diff-")
    try:
        with contextlib.suppress(OSError):
            path.unlink()
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(fd, rest) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _part(old: bytes, new: bytes) -> _Part | None:
    """What has to be compared; None where one of the two is no text."""
    if not (_is_text(old) and _is_text(new)):
        return None
    start = _same_at_start(old, new)
    start = old.rfind(b"\n", 0, start) + 1
    end = _same_at_end(old, new, start)
    # Only whole lines are the same.
    while end and not _begins_line(old, len(old) - end, new, len(new) - end):
        after = old.find(b"\n", len(old) - end)
        end = len(old) - after - 1 if after >= 0 else 0
    for _ in range(_line_diff.CONTEXT):
        start = old.rfind(b"\n", 0, max(start - 1, 0)) + 1
        if end:
            after = old.find(b"\n", len(old) - end)
            end = len(old) - after - 1 if after >= 0 else 0
    first_line = old.count(b"\n", 0, start)
    return _Part(old[start : len(old) - end], new[start : len(new) - end], first_line)


def _begins_line(old: bytes, at: int, new: bytes, there: int) -> bool:
    return (at == 0 or old[at - 1 : at] == b"\n") and (
        there == 0 or new[there - 1 : there] == b"\n"
    )


def _is_text(data: bytes) -> bool:
    if data.find(b"\0", 0, 8192) >= 0:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _same_at_start(old: bytes, new: bytes) -> int:
    """How many bytes are the same at the start."""
    most = min(len(old), len(new))
    same = 0
    while same < most and old[same : same + _BLOCK] == new[same : same + _BLOCK]:
        same = min(same + _BLOCK, most)
    step = _BLOCK
    while step := step // 2:
        if same + step <= most and old[same : same + step] == new[same : same + step]:
            same += step
    return same


def _same_at_end(old: bytes, new: bytes, start: int) -> int:
    """How many bytes after ``start`` are the same at the end."""
    most = min(len(old), len(new)) - start
    same = 0
    step = _BLOCK
    while step:
        ends = len(old) - same, len(new) - same
        if same + step <= most and (old[ends[0] - step : ends[0]] == new[ends[1] - step : ends[1]]):
            same += step
        else:
            step //= 2
    return same


def _header(file: ChangedFile) -> str:
    if file.before is None and file.after is not None:
        return f"new file mode {_git_mode(file.mode_after)}\n"
    if file.after is None and file.before is not None:
        return f"deleted file mode {_git_mode(file.mode_before)}\n"
    modes = (_git_mode(file.mode_before), _git_mode(file.mode_after))
    if None not in (file.mode_before, file.mode_after) and modes[0] != modes[1]:
        return f"old mode {modes[0]}\nnew mode {modes[1]}\n"
    return ""


def _git_mode(mode: int | None) -> str:
    """All that git keeps of a mode."""
    return "100755" if mode is not None and mode & 0o100 else "100644"


def _first_line(names: tuple[str, str]) -> str:
    return f"diff --git {names[0]} {names[1]}\n"


def _names(path: Path, cwd: Path) -> tuple[str, str]:
    shown = path.relative_to(cwd) if path.is_relative_to(cwd) else path
    return _quoted(f"a/{shown}"), _quoted(f"b/{shown}")


def _quoted(name: str) -> str:
    """A name as git writes it: in quotes where it holds what a line of a diff cannot."""
    try:
        name.encode()
        plain = all(each.isprintable() and each not in '"\\' for each in name)
    except UnicodeEncodeError:
        plain = False
    if plain:
        return name
    out = []
    for byte in os.fsencode(name):
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        elif 0x20 <= byte < 0x7F:
            out.append(char)
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def _note(text: str) -> str:
    # git and patch pass over lines between files that they do not know.
    shown = "".join(each if each.isprintable() else " " for each in text)
    return f"# pi-rpc: {shown.encode(errors='replace').decode()}\n"
