"""Whether a file is still what a model believes it to be.

Owns what names a content, and the texts that say it is another one, or where it stands. Does not
own the memory of what was seen (``pi_rpc.agent.seen_files``).

Small files are told apart by a digest of what they hold, so that saving a buffer, touching a file
or switching a branch there and back changes nothing; large ones by size and time.
"""

from collections.abc import Hashable, Sequence
from pathlib import Path

import anyio

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.ports import FileStat, FileSystem, PortError, ToolContext, Written
from pi_rpc.agent.seen_files import SeenFiles
from pi_rpc.agent.tool import ToolFailure
from pi_rpc.tools._bases import Base
from pi_rpc.tools._paths import display_path

__all__ = [
    "DIGEST_LIMIT",
    "ContentMark",
    "differs",
    "disk_mark",
    "mark_of",
    "note_written",
    "refuse_changed",
    "refuse_changed_below",
    "unsaved_names",
    "unsaved_note",
    "unseen_changes",
    "written_note",
]

DIGEST_LIMIT = 8 * 1024 * 1024
"""Bytes up to which a content is named by its digest."""

_SMALL = 256 * 1024  # bytes that are digested on the event loop
_BOM = b"\xef\xbb\xbf"
_MOST_NAMES = 10


class ContentMark:
    """The name of a content that is read in pieces, from its beginning to its end."""

    def __init__(self) -> None:
        import hashlib

        self._digest = hashlib.sha1(usedforsecurity=False)
        self._size = 0

    def feed(self, piece: bytes) -> None:
        """Take the next piece."""
        # Editors show a text without its byte order mark.
        data = piece.removeprefix(_BOM) if self._size == 0 else piece
        self._size += len(piece)
        if self._size <= DIGEST_LIMIT:
            self._digest.update(data)

    def mark(self, stat: FileStat) -> Hashable:
        """The content's name; ``stat`` is the file as it was before it was read."""
        return _of_stat(stat) if self._size > DIGEST_LIMIT else self._digest.digest()


def mark_of(data: bytes, stat: FileStat) -> Hashable:
    """The name of ``data``, the content of a file with this ``stat``. Blocks while it computes."""
    content = ContentMark()
    content.feed(data)
    return content.mark(stat)


def differs(known: Hashable, data: bytes | None, stat: FileStat) -> bool:
    """The content is not the ``known`` one; ``data`` is None when it is too large to be read.

    Blocks while it computes.
    """
    if isinstance(known, tuple):
        return known != _of_stat(stat)
    return data is None or known != mark_of(data, stat)


_NO_STAT = FileStat("file", -1, -1, 0)


def _of_stat(stat: FileStat) -> Hashable:
    return (stat.size, stat.mtime_ns)


async def disk_mark(
    files: FileSystem, path: Path, *, exact: bool = False
) -> tuple[Hashable, bytes | None]:
    """The name of what a file holds, and its content unless there is none or it is large."""
    data = None
    try:
        stat = await files.stat(path, exact=exact)
        if stat.size <= DIGEST_LIMIT:
            data = await files.read(path, limit=DIGEST_LIMIT, exact=exact)
    except PortError as error:
        return error.code, None
    if data is None:
        return _of_stat(stat), None
    return await run_blocking(mark_of, data, stat), data


async def note_written(
    context: ToolContext, real_path: Path, base: Base, data: bytes, written: Written
) -> None:
    """The model knows the file now as what it has written. Not cut short by cancellation."""
    content = data if written.content is None else written.content
    disk = written.disk
    if written.unsaved and base.document is not None:
        disk = base.document.disk
    if len(content) <= min(_SMALL, DIGEST_LIMIT):
        context.seen.note(real_path, mark_of(content, _NO_STAT), disk)
        return
    with anyio.CancelScope(shield=True):
        try:
            stat = await context.files.stat(real_path, exact=True)
        except PortError:  # taken away at once: as what was written, it is not there any more
            stat = _NO_STAT
        context.seen.note(real_path, await run_blocking(mark_of, content, stat), disk)


async def refuse_changed(seen: SeenFiles, real_path: Path, base: Base, shown: str) -> None:
    """Fail if the file is not what the model believes it to be."""
    known = seen.mark_of(real_path)
    if known is None or base.stat is None:
        return
    if await run_blocking(differs, known, base.data, base.stat):
        raise ToolFailure(
            f"{shown} has changed since you last read it, on disk or in the editor, so it was left "
            "alone. Read it again and repeat what is still needed.",
            {"code": "changed"},
        )
    refuse_changed_below(seen.disk_of(real_path), base, shown)


def refuse_changed_below(known_disk: Hashable | None, base: Base, shown: str) -> None:
    """Fail if the file on the disk is another than ``known_disk``, below a document that an editor
    shows and would sooner or later save over it."""
    document = base.document
    if document is None or document.is_saved or known_disk in {None, document.disk}:
        return
    raise ToolFailure(
        f"{shown} has changed on disk since you last read it, below what the editor shows of it, "
        "so it was left alone. Look at the file on disk with a command, read it again for what the "
        "editor shows, and repeat what is still needed; only the person can say which of the two "
        "is to stay.",
        {"code": "changed"},
    )


def unseen_changes(shown: str) -> PortError:
    """What the person has typed would be replaced unseen."""
    return PortError(
        "changed",
        f"{shown} is open in the editor with unsaved changes that you have not seen, so it was "
        "left alone. Read it first.",
    )


def written_note(written: Written, shown: str) -> str:
    """What is to be said of a write beside that it happened; empty: nothing."""
    notes = []
    if written.altered:
        notes.append(
            f"The editor has changed {shown} further; read it again before you change more of it."
        )
    if written.unsaved:
        notes.append(
            f"It is not saved: {shown} is open in the editor, where it shows the new text, because "
            f"{written.unsaved}. Commands see the older file until the person saves it."
        )
    return " ".join(notes)


def unsaved_note(paths: Sequence[Path], cwd: Path) -> str:
    """What a model must know about the output of a command that ran while these were unsaved."""
    names = unsaved_names(paths, cwd)
    return f"[Not saved in the editor, so the command saw the older file on disk: {names}]"


def unsaved_names(paths: Sequence[Path], cwd: Path) -> str:
    """The names of files, the first of many."""
    names = [display_path(path, cwd) for path in paths[:_MOST_NAMES]]
    if len(paths) > _MOST_NAMES:
        names.append(f"{len(paths) - _MOST_NAMES} more")
    return ", ".join(names)
