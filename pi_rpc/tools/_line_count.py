"""Counting the lines of large files: with ``wc``, which is faster at it than we can be.

Owns getting to some lines of a file whose beginning has been read, without looking at all that is
before and behind them. Without ``wc`` nothing here is done, and the file is read through.
"""

import shutil
from pathlib import Path

from pi_rpc._os.pipes import OutputPipe
from pi_rpc._os.processes import spawn
from pi_rpc._os.threads import run_blocking
from pi_rpc.tools._lines import LineWindow
from pi_rpc.tools._local_files import PIECE, LocalOpenFile

__all__ = ["skip_to_lines"]

_FROM_THE_END = 64 * PIECE
"""Bytes at the end of a file in which lines are looked for backwards."""


async def skip_to_lines(file: LocalOpenFile, read: int, window: LineWindow) -> bool:
    """Feed ``window`` what it needs of a file, of which it has had the first ``read`` bytes.

    It either needs no more, or has not reached the line before the first that it needs. Returns
    whether it has all; else nothing was done, and the file is still at ``read``.
    """
    start = read
    counted = await _count(file)
    if counted is None:
        await file.seek(read)
        return False
    newlines, end = counted
    ends_in_newline = end > start and await _bytes(file, end - 1, end) == b"\n"
    if window.needs_no_more:
        window.skip(newlines, end - start, ends_in_newline=ends_in_newline or end == start)
        return True
    # Lines are numbered by the newlines before them.
    wanted = window.newlines + newlines - (window.first - 1)
    at = await _line_from_end(file, read, end, wanted) if wanted >= 0 else end
    if at is None:
        await file.seek(read)
        return False
    skipped = newlines - max(wanted, 0)
    window.skip(skipped, at - start, ends_in_newline=ends_in_newline if at == end else True)
    await file.seek(at)
    left = end - at
    while left and (piece := await file.read(min(PIECE, left))):
        window.feed(piece)
        left -= len(piece)
    return True


async def _count(file: LocalOpenFile) -> tuple[int, int] | None:
    """The newlines from where ``file`` stands to its end, and where that end was."""
    program = await run_blocking(shutil.which, "wc")
    if program is None or not Path(program).is_absolute():
        return None
    output = b""
    try:
        with OutputPipe() as pipe:
            child = await spawn(
                [program, "-l"],
                cwd=Path("/"),
                env={"LC_ALL": "C"},
                stdin=file.fileno(),
                stdout=pipe.write_fd,
            )
            try:
                pipe.close_write()
                while data := await pipe.read():
                    output += data
                code = await child.wait()
            finally:
                await child.end_tree(0)
    except OSError:  # no programs on this system, or no descriptors left: then we count ourselves
        return None
    if code != 0 or not output.strip().isdigit():
        return None
    # The program reads through our descriptor's position, which tells how far it came.
    return int(output), await file.tell()


async def _line_from_end(file: LocalOpenFile, start: int, end: int, newlines: int) -> int | None:
    """Where the text begins, up to ``end``, that holds so many newlines and begins a line; None
    when it begins too far from the end."""
    at = end
    least = max(start, end - _FROM_THE_END)
    while at > least:
        piece_start = max(least, at - PIECE)
        piece = await _bytes(file, piece_start, at)
        found = piece.count(b"\n")
        if found > newlines:
            place = len(piece)
            for _ in range(newlines + 1):
                place = piece.rindex(b"\n", 0, place)
            return piece_start + place + 1
        newlines -= found
        at = piece_start
    return None


async def _bytes(file: LocalOpenFile, start: int, end: int) -> bytes:
    await file.seek(start)
    data = b""
    while len(data) < end - start and (piece := await file.read(end - start - len(data))):
        data += piece
    return data
