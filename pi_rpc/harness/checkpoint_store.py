"""The shadow store: contents of files as they were, outside of every project.

Owns a folder with two kinds of things: contents, named by their SHA-256 and compressed where that
pays, and one journal of JSON lines per checkpoint. Owns their privacy (0700 and 0600), damage found
on reading, and pruning. Does not own what a checkpoint says (``pi_rpc.harness._checkpoint``) nor
when one is made (``pi_rpc.harness.checkpoints``). All calls block; they run in the file threads.

Several processes use one store at once. A content is written beside its place and renamed; one that
a journal names is looked at again after the journal was written, and put back if it was pruned in
between. Whoever prunes sets a content aside by renaming it and takes it back when somebody has
touched it since it began to look.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pi_rpc._os.locks import FileLock, LockHeldError

__all__ = ["MAX_FILE_BYTES", "MAX_STORE_BYTES", "CheckpointStore", "StoreError", "digest_of"]

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Larger files are not saved."""
MAX_STORE_BYTES = 1024 * 1024 * 1024
"""What all checkpoints may take up, unless the settings say otherwise."""

_COMPRESSED, _PLAIN = b"z", b"r"
_MAX_COMPRESSED = 8 * 1024 * 1024  # compressing more would keep a tool waiting
_MAX_JOURNAL = 64 * 1024 * 1024
_KEPT = 0.9  # of the limit, after pruning
_ASIDE = "~"
_DIGEST = re.compile(r"[0-9a-f]{64}").fullmatch
_JOURNAL = re.compile(r"cp_[0-9a-f]{17}").fullmatch
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}").fullmatch
_DIGESTS_IN = re.compile(rb'"([0-9a-f]{64})"').findall

Line = Mapping[str, Any]


class StoreError(Exception):
    """A content is gone or not what it was."""


def digest_of(data: bytes) -> str:
    """The name of a content."""
    return hashlib.sha256(data).hexdigest()


@dataclass(slots=True)
class _Journal:
    """What pruning knows of a checkpoint."""

    path: Path
    size: int
    digests: set[str]
    in_use: bool


@dataclass(slots=True)
class _Contents:
    """What pruning knows of the contents."""

    sizes: dict[str, int] = field(default_factory=dict)
    aside: list[Path] = field(default_factory=list)


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
        self._temporary: Path | None = None
        self._since_pruned: int | None = None

    @property
    def is_temporary(self) -> bool:
        """It ends with whoever made it."""
        return self._chosen is None

    def close(self) -> None:
        """Remove a temporary folder."""
        folder, self._temporary = self._temporary, None
        if folder is not None:
            import shutil

            shutil.rmtree(folder, ignore_errors=True)

    # --- contents --------------------------------------------------------------------------------

    def put(self, data: bytes) -> str:
        """Keep a content; returns its name. Raises ``OSError``."""
        digest = digest_of(data)
        path = self._content(self._made(), digest)
        if not path.exists():
            self._write(path, data)
        return digest

    def get(self, digest: str) -> bytes:
        """A content. Raises ``StoreError`` when it is gone or damaged."""
        folder = self._folder()
        if folder is None or not _DIGEST(digest):
            raise StoreError("the saved content is gone")
        try:
            stored = self._content(folder, digest).read_bytes()
        except FileNotFoundError:
            raise StoreError("the saved content is gone") from None
        except OSError as error:
            raise StoreError(f"the saved content cannot be read: {error.strerror}") from None
        data = _unpacked(stored, self.max_file_bytes)
        if data is None or digest_of(data) != digest:
            raise StoreError("the saved content is damaged")
        return data

    def confirm(self, contents: Mapping[str, bytes]) -> None:
        """Make sure that contents which a journal names now are there. Raises ``OSError``."""
        folder = self._made()
        for digest, data in contents.items():
            path = self._content(folder, digest)
            try:
                os.utime(path)
            except FileNotFoundError:
                self._write(path, data)

    def _write(self, path: Path, content: bytes) -> None:
        packed = _packed(content)
        mark, data = (_PLAIN, content) if packed is None else (_COMPRESSED, packed)
        _private_folder(path.parent)
        temp = path.with_name(f".{os.urandom(8).hex()}.tmp")
        try:
            _create(temp, mark, data)
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
        path = self._journal(self._made(), session_id, checkpoint_id)
        _private_folder(path.parent)
        text = "".join(f"\n{json.dumps(line)}\n" for line in lines)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        fd = os.open(path, flags, 0o600)
        try:
            _write_all(fd, text.encode())
        finally:
            os.close(fd)

    def journals(self, session_id: str) -> list[tuple[str, list[dict[str, Any]]]]:
        """Every checkpoint of a session: its id and the lines of its journal, oldest first."""
        folder = self._folder()
        if folder is None:
            return []
        found = sorted(_listed(folder / "sessions" / _folder_name(session_id)))
        named = [(path.stem, path) for path in found if _is_journal(path)]
        return [(name, _lines(path)) for name, path in named]

    def journal(self, session_id: str, checkpoint_id: str) -> list[dict[str, Any]] | None:
        """The lines of one checkpoint; None where there is none."""
        folder = self._folder()
        if folder is None or not _JOURNAL(checkpoint_id):
            return None
        path = self._journal(folder, session_id, checkpoint_id)
        return _lines(path) if path.exists() else None

    def drop(self, session_id: str, checkpoint_id: str) -> None:
        """Forget one checkpoint. Its contents go with the next pruning."""
        folder = self._folder()
        if folder is not None:
            path = self._journal(folder, session_id, checkpoint_id)
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # others are in it
                path.parent.rmdir()

    def forget(self, session_id: str) -> None:
        """Throw away every checkpoint of a session, and what only they needed."""
        folder = self._folder()
        if folder is None:
            return
        gone = folder / "sessions" / _folder_name(session_id)
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
        _private_folder(folder)
        lock = FileLock(folder / "prune.lock")
        try:
            lock.acquire()
        except LockHeldError:
            return False
        try:
            self._prune(folder, lock.path.stat().st_mtime_ns)
            self._since_pruned = 0
        finally:
            lock.release()
        return True

    def _prune(self, folder: Path, began_ns: int) -> None:
        # Contents are listed before journals are read: one that comes later is not looked at.
        contents = _contents(folder / "objects", began_ns)
        journals = [_journal(path) for path in _all_journals(folder / "sessions")]
        journals.sort(key=lambda each: each.path.name)
        needed: dict[str, int] = {}
        for journal in journals:
            for digest in journal.digests:
                needed[digest] = needed.get(digest, 0) + 1
        total = sum(contents.sizes.get(digest, 0) for digest in needed)
        total += sum(journal.size for journal in journals)
        target = self.max_bytes if total <= self.max_bytes else int(self.max_bytes * _KEPT)
        for journal in journals[:-1]:
            if total <= target:
                break
            if journal.in_use:
                continue
            journal.path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                journal.path.parent.rmdir()
            total -= journal.size
            for digest in journal.digests:
                needed[digest] -= 1
                if not needed[digest]:
                    del needed[digest]
                    total -= contents.sizes.get(digest, 0)
        for path in contents.aside:
            _take_back(path) if path.name.rstrip(_ASIDE) in needed else path.unlink(missing_ok=True)
        for digest in contents.sizes:
            if digest not in needed:
                _throw_away(self._content(folder, digest), began_ns)

    # --- places ----------------------------------------------------------------------------------

    def _folder(self) -> Path | None:
        return self._chosen or self._temporary

    def _made(self) -> Path:
        folder = self._folder()
        if folder is None:
            import tempfile

            folder = self._temporary = Path(tempfile.mkdtemp(prefix="pi-rpc-checkpoints-"))
        return folder

    def _content(self, folder: Path, digest: str) -> Path:
        return folder / "objects" / digest[:2] / digest

    def _journal(self, folder: Path, session_id: str, checkpoint_id: str) -> Path:
        return folder / "sessions" / _folder_name(session_id) / f"{checkpoint_id}.jsonl"


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


def _private_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, for nobody else to look into."""
    if folder.is_dir():
        return
    missing = [folder]
    while not missing[-1].parent.is_dir():
        missing.append(missing[-1].parent)
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def _create(path: Path, *pieces: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    fd = os.open(path, flags, 0o600)
    try:
        for piece in pieces:
            _write_all(fd, piece)
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _folder_name(session_id: str) -> str:
    """A session's id may be any text; a folder's name may not."""
    if _PLAIN_NAME(session_id):
        return session_id
    return "_" + digest_of(session_id.encode("utf-8", "surrogatepass"))


def _is_journal(path: Path) -> bool:
    return path.suffix == ".jsonl" and _JOURNAL(path.stem) is not None


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_JOURNAL)
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


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _contents(folder: Path, began_ns: int) -> _Contents:
    """The contents there are. Leftovers of writers that were killed are removed."""
    found = _Contents()
    for group in _listed(folder):
        for path in _listed(group):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                if path.name.endswith(_ASIDE):
                    found.aside.append(path)
                elif _DIGEST(path.name):
                    found.sizes[path.name] = status.st_size
                elif status.st_mtime_ns < began_ns - 3600 * 10**9:
                    path.unlink()
    return found


def _all_journals(folder: Path) -> Iterator[Path]:
    for session in _listed(folder):
        for path in _listed(session):
            if _is_journal(path):
                yield path


def _journal(path: Path) -> _Journal:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_JOURNAL)
    except OSError:
        return _Journal(path, 0, set(), in_use=False)
    digests = {digest.decode() for digest in _DIGESTS_IN(text)}
    lines = [line for line in text.split(b"\n") if line.strip()]
    in_use = False
    if lines and b'"end"' not in lines[-1]:
        with contextlib.suppress(ValueError, AttributeError, RecursionError):
            in_use = _is_alive(json.loads(lines[0]).get("pid"))
    return _Journal(path, len(text), digests, in_use)


def _is_alive(pid: object) -> bool:
    if not isinstance(pid, int) or pid <= 0 or os.name != "posix":
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError as error:
        return error.errno == errno.EPERM
    return True


def _throw_away(path: Path, began_ns: int) -> None:
    """Remove a content, unless somebody has touched it since the journals were read."""
    aside = path.with_name(path.name + _ASIDE)
    try:
        path.rename(aside)
        if aside.stat().st_mtime_ns >= began_ns:
            _take_back(aside)
        else:
            aside.unlink()
    except FileNotFoundError:
        return  # somebody else did it


def _take_back(aside: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        aside.rename(aside.with_name(aside.name.rstrip(_ASIDE)))
