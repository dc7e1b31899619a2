"""Sessions as files for people and other programs.

Owns where an export goes, and that it is whole or not there. How it reads is
``pi_rpc.host.export_html``'s and ``pi_rpc.host.export_markdown``'s.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal, TypeAlias

import anyio.lowlevel

from pi_rpc._os.threads import run_blocking
from pi_rpc.harness.errors import HarnessError
from pi_rpc.host.export_html import html_page
from pi_rpc.host.export_markdown import markdown_page
from pi_rpc.session.entries import encode_header
from pi_rpc.session.storage import SessionStorage

__all__ = ["ExportFormat", "export_session"]

ExportFormat: TypeAlias = Literal["jsonl", "markdown", "html"]

_SUFFIXES: dict[ExportFormat, str] = {"jsonl": ".jsonl", "markdown": ".md", "html": ".html"}
_PIECE = 256 * 1024
_MOST_OF_A_NAME = 1000


async def export_session(
    session: SessionStorage,
    format: ExportFormat,
    path: Path | None,
    cwd: Path,
    *,
    overwrite: bool = False,
) -> Path:
    """Write the active branch of ``session``; the file, absolute.

    A relative ``path`` is ``cwd``'s; None makes a new file there. The file is readable by its owner
    only, as a session's is. Raises ``invalidParams`` for a path that cannot be, or exists and is
    not to be replaced, and ``storage`` where it cannot be written; then nothing has changed.
    """
    stem = f"pi-session-{session.session_id}"
    wanted = cwd / (path or f"{stem}{_SUFFIXES[format]}")
    own = session.path
    await run_blocking(_check, wanted, own, overwrite or path is None)
    try:
        temporary, file = await run_blocking(_new_file, wanted.parent)
        placed: Path | None = None
        try:
            with file:
                await _write(file, _pages(session, format))
            placed = await run_blocking(_place, temporary, wanted, path is None, overwrite)
        finally:
            if placed is None:
                with anyio.CancelScope(shield=True):
                    await run_blocking(_remove, temporary)
        return placed
    except FileExistsError:
        raise _exists(wanted) from None
    except OSError as error:
        raise HarnessError("storage", f"{wanted} could not be written: {error}") from None


def _pages(session: SessionStorage, format: ExportFormat) -> Iterator[bytes]:
    if format == "jsonl":
        yield encode_header(session.header) + b"\n"
        for stored in session.branch():
            yield stored.json + b"\n"
        return
    for text in html_page(session) if format == "html" else markdown_page(session):
        yield text.encode("utf-8", "replace")


async def _write(file: IO[bytes], pages: Iterator[bytes]) -> None:
    """In pieces: others have their turn between them."""
    waiting = bytearray()
    for page in pages:
        waiting += page
        while len(waiting) >= _PIECE:
            piece = bytes(waiting[:_PIECE])
            del waiting[:_PIECE]
            await run_blocking(file.write, piece)
        await anyio.lowlevel.checkpoint()
    await run_blocking(file.write, bytes(waiting))


# --- files; all of it blocks ---------------------------------------------------------------------


def _check(wanted: Path, own: Path | None, exists_ok: bool) -> None:
    try:
        if not wanted.parent.is_dir():
            raise _unfit(wanted, "expected a folder that exists")
        if wanted.is_dir():
            raise _unfit(wanted, "expected a file")
        if own is not None and wanted.resolve() == own.resolve():
            raise _unfit(wanted, "this is the session's own file")
        if not exists_ok and os.path.lexists(wanted):
            raise _exists(wanted)
    except (OSError, ValueError, RuntimeError):
        raise _unfit(wanted, "expected a path that can exist") from None


def _new_file(folder: Path) -> tuple[Path, IO[bytes]]:
    fd, name = tempfile.mkstemp(prefix=".pi-rpc-", suffix=".tmp", dir=folder)
    return Path(name), os.fdopen(fd, "wb")


def _place(temporary: Path, wanted: Path, is_new: bool, overwrite: bool) -> Path:
    """Give the file its name, in one step; a new one the first that is free."""
    if overwrite and not is_new:
        temporary.replace(wanted)
        return wanted
    for number in range(1, _MOST_OF_A_NAME):
        name = wanted if number == 1 else wanted.with_stem(f"{wanted.stem}-{number}")
        try:
            os.link(temporary, name)
        except FileExistsError:
            if not is_new:
                raise
            continue
        except OSError:
            # A file system without links: there is a moment in which somebody else may come.
            if os.path.lexists(name):
                continue
            temporary.replace(name)
            return name
        temporary.unlink()
        return name
    raise FileExistsError(str(wanted))


def _remove(temporary: Path) -> None:
    with suppress(FileNotFoundError):
        temporary.unlink()


def _exists(wanted: Path) -> HarnessError:
    return _unfit(wanted, "there is a file already, and overwrite was not given")


def _unfit(wanted: Path, why: str) -> HarnessError:
    text = str(wanted).encode("utf-8", "replace").decode()
    text = text if len(text) <= 200 else text[:199] + "…"
    return HarnessError("invalidParams", f"path: {why}: {text!r}", path="path")
