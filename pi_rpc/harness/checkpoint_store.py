"""The shadow store: contents of files as they were, outside of every project.

Owns a folder with two kinds of things: contents, named by their SHA-256 and compressed where that
pays, and one journal of JSON lines per checkpoint. Owns damage found on reading, and when to prune.
Does not own how files are written (``pi_rpc.harness._checkpoint_files``), what goes when it is full
(``pi_rpc.harness._pruning``), what a checkpoint says (``pi_rpc.harness._checkpoint``) nor when one
is made (``pi_rpc.harness.checkpoints``). All calls block; they run in the file threads.

Several processes use one store at once. A content is written beside its place and renamed; one that
a journal names is looked at again after the journal was written, and put back if it was pruned in
between. Whoever prunes sets a content aside by renaming it and takes it back when somebody has
touched it since it began to look.

What ``confirm`` was called for survives a power cut. A temporary store does not: nobody would look
for it.
"""

import contextlib
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pi_rpc._os.files import fsync_file
from pi_rpc._os.locks import FileLock, LockHeldError
from pi_rpc._os.scratch import ScratchFolder
from pi_rpc.harness._checkpoint_files import (
    append,
    content_path,
    create,
    digest_of,
    is_digest,
    is_journal_name,
    journal_path,
    journals_in,
    private_folder,
    session_folder,
    sync_folder,
)
from pi_rpc.harness._pruning import MAX_JOURNAL, prune_store

__all__ = ["MAX_FILE_BYTES", "MAX_STORE_BYTES", "CheckpointStore", "StoreError", "digest_of"]

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Larger files are not saved."""
MAX_STORE_BYTES = 1024 * 1024 * 1024
"""What all checkpoints may take up, unless the settings say otherwise."""

_COMPRESSED, _PLAIN = b"z", b"r"
_MAX_COMPRESSED = 8 * 1024 * 1024  # compressing more would keep a tool waiting

Line = Mapping[str, Any]


class StoreError(Exception):
    """A content is gone or not what it was."""


class CheckpointStore:
    """The checkpoints of all sessions of an agent directory.

    ``folder`` need not exist; None: a temporary one, made when it is first needed and removed by
    ``close``. ``max_bytes`` is what all of it may take up; with 0 nothing is saved at all.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        max_bytes: int = MAX_STORE_BYTES,
        max_file_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        self.max_bytes = max_bytes
        self.max_file_bytes = min(max_file_bytes, max_bytes)
        self._chosen = folder
        self._temporary: ScratchFolder | None = None
        self._since_pruned: int | None = None

    @property
    def is_temporary(self) -> bool:
        """It ends with whoever made it."""
        return self._chosen is None

    def close(self) -> None:
        """Remove a temporary folder."""
        folder, self._temporary = self._temporary, None
        if folder is not None:
            folder.remove()

    # --- contents --------------------------------------------------------------------------------

    def put(self, data: bytes) -> str:
        """Keep a content; returns its name. Raises ``OSError``."""
        digest = digest_of(data)
        path = content_path(self._made(), digest)
        if not path.exists():
            self._write(path, data)
        return digest

    def get(self, digest: str) -> bytes:
        """A content. Raises ``StoreError`` when it is gone or damaged."""
        folder = self._folder()
        if folder is None or not is_digest(digest):
            raise StoreError("the saved content is gone")
        try:
            stored = content_path(folder, digest).read_bytes()
        except FileNotFoundError:
            raise StoreError("the saved content is gone") from None
        except OSError as error:
            raise StoreError(f"the saved content cannot be read: {error.strerror}") from None
        data = _unpacked(stored, self.max_file_bytes)
        if data is None or digest_of(data) != digest:
            raise StoreError("the saved content is damaged")
        return data

    def confirm(self, session_id: str, checkpoint_id: str, contents: Mapping[str, bytes]) -> None:
        """Make sure that contents which a journal names now are there, and that they and the
        journal outlast a power cut. Raises ``OSError``."""
        folder = self._made()
        journal = journal_path(folder, session_id, checkpoint_id)
        for digest, data in contents.items():
            path = content_path(folder, digest)
            try:
                os.utime(path)
            except FileNotFoundError:
                self._write(path, data)
        if not self.is_temporary:
            fsync_file(journal)
            # Most file systems have done it with the journal by now.
            for each in {journal.parent, *(content_path(folder, one).parent for one in contents)}:
                sync_folder(each)

    def _write(self, path: Path, content: bytes) -> None:
        packed = _packed(content)
        mark, data = (_PLAIN, content) if packed is None else (_COMPRESSED, packed)
        durable = not self.is_temporary
        private_folder(path.parent, durable=durable)
        temp = path.with_name(f".{os.urandom(8).hex()}.tmp")
        try:
            # On the disk before it has its name: a name stands for a whole content.
            create(temp, mark, data, durable=durable)
            temp.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temp.unlink()
            raise
        if self._since_pruned is not None:
            self._since_pruned += len(data)

    # --- journals --------------------------------------------------------------------------------

    def append(self, session_id: str, checkpoint_id: str, lines: Sequence[Line]) -> None:
        """Add to a checkpoint's journal, which the first call begins. Raises ``OSError``.

        What was cut off by a full disk or a crash is a line of its own, and ignored.
        """
        path = journal_path(self._made(), session_id, checkpoint_id)
        private_folder(path.parent, durable=not self.is_temporary)
        append(path, "".join(f"\n{json.dumps(line)}\n" for line in lines).encode())

    def journals(self, session_id: str) -> list[tuple[str, list[dict[str, Any]]]]:
        """Every checkpoint of a session: its id and the lines of its journal, oldest first."""
        folder = self._folder()
        if folder is None:
            return []
        found = journals_in(session_folder(folder, session_id))
        return [(path.stem, _lines(path)) for path in found]

    def journal(self, session_id: str, checkpoint_id: str) -> list[dict[str, Any]] | None:
        """The lines of one checkpoint; None where there is none."""
        folder = self._folder()
        if folder is None or not is_journal_name(checkpoint_id):
            return None
        path = journal_path(folder, session_id, checkpoint_id)
        return _lines(path) if path.exists() else None

    def drop(self, session_id: str, checkpoint_id: str) -> None:
        """Forget one checkpoint. Its contents go with the next pruning."""
        folder = self._folder()
        if folder is not None:
            path = journal_path(folder, session_id, checkpoint_id)
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # others are in it
                path.parent.rmdir()

    def forget(self, session_id: str) -> None:
        """Throw away every checkpoint of a session, and what only they needed."""
        folder = self._folder()
        if folder is None:
            return
        gone = session_folder(folder, session_id)
        if gone.is_dir():
            import shutil

            shutil.rmtree(gone, ignore_errors=True)
            self.prune()

    # --- pruning ---------------------------------------------------------------------------------

    def prune_if_due(self) -> None:
        """Prune when this process has not yet, or has added a good part of the limit since."""
        if self._since_pruned is None or self._since_pruned > self.max_bytes // 64:
            self.prune()

    def prune(self) -> bool:
        """Throw away contents that no checkpoint needs, and, above the limit, the oldest
        checkpoints of all sessions. False when somebody else is at it. Raises ``OSError``.

        Checkpoints of runs that go on stay, and so does the newest one.
        """
        folder = self._folder()
        if folder is None:
            return True
        private_folder(folder, durable=not self.is_temporary)
        lock = FileLock(folder / "prune.lock")
        try:
            lock.acquire()
        except LockHeldError:
            return False
        try:
            prune_store(folder, self.max_bytes, lock.path.stat().st_mtime_ns)
            self._since_pruned = 0
        finally:
            lock.release()
        return True

    # --- places ----------------------------------------------------------------------------------

    def _folder(self) -> Path | None:
        return self._chosen or (self._temporary.path if self._temporary is not None else None)

    def _made(self) -> Path:
        folder = self._folder()
        if folder is None:
            self._temporary = ScratchFolder()
            folder = self._temporary.path
        return folder


def _packed(data: bytes) -> bytes | None:
    """It compressed, where that pays."""
    if len(data) > _MAX_COMPRESSED:
        return None
    packed = zlib.compress(data, 1)
    return packed if len(packed) < len(data) * 0.9 else None


def _unpacked(stored: bytes, limit: int) -> bytes | None:
    """The content; None where it is damaged, or larger than anything that was ever saved."""
    if stored[:1] == _PLAIN:
        return stored[1:]
    if stored[:1] != _COMPRESSED:
        return None
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(stored[1:], max(limit, _MAX_COMPRESSED) + 1)
    except zlib.error:
        return None
    return data if inflater.eof else None


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_JOURNAL)
    except OSError:
        return []  # pruned at this moment, or not ours to read: no checkpoint either way
    lines: list[dict[str, Any]] = []
    for line in text.split(b"\n"):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            lines.append(value)
    return lines
