"""Sessions in files: one JSON line per entry, append-only.

Owns creating, opening and appending, the lock between writers, and what happens when somebody else
wrote to the file. Does not own the bytes (``_file``, ``_loading``), the tree (``_tree``) nor what
the entries mean (``context``).

Writers of this project lock a sidecar file; pi does not lock at all, so before every write the file
is compared with what is known of it.
"""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import anyio
import anyio.lowlevel
from msgspec import UNSET

from pi_rpc._os.locks import FileLock
from pi_rpc.agent.messages import MessageRoles
from pi_rpc.session._file import FileChangedError, SessionFile
from pi_rpc.session._loading import Loader
from pi_rpc.session._locking import lock_session
from pi_rpc.session._opening import Loaded, SlowDiskError, load, lock_existing, on_disk, renewed
from pi_rpc.session._tree import EntryTree
from pi_rpc.session._tree_session import TreeSession
from pi_rpc.session.entries import (
    SESSION_VERSION,
    Entry,
    SessionHeader,
    encode_header,
    iso_now,
)
from pi_rpc.session.naming import check_session_id, new_session_id, session_file_name, session_id_in
from pi_rpc.session.storage import (
    Change,
    ForeignChangeError,
    SessionReadOnlyError,
    SessionStorageError,
)
from pi_rpc.session.stored import EntryReader, StoredEntry

__all__ = ["JsonlSession"]


class JsonlSession(TreeSession):
    """A session in a ``.jsonl`` file. Made by ``create`` and ``open``. See ``SessionStorage``."""

    def __init__(self, path: Path, header: SessionHeader, tree: EntryTree) -> None:
        super().__init__(header, tree)
        self._path = path
        self._file: SessionFile | None = None
        self._lock: FileLock | None = None
        self._read_only_because: str | None = None
        self._note: str | None = None
        self._skipped = 0
        self._turn = anyio.Lock(fast_acquire=True)

    # --- making one ------------------------------------------------------------------------------

    @classmethod
    async def create(
        cls,
        directory: Path,
        cwd: str | Path,
        *,
        session_id: str | None = None,
        parent_session: str | None = None,
        roles: MessageRoles | None = None,
    ) -> "JsonlSession":
        """A new session in ``directory``.

        The file is made with the first entry: whoever appends one may announce it.
        ``parent_session`` is the path of the file it was forked from; ``roles`` are the message
        roles of the application. Raises ``ValueError`` for a ``session_id`` that is none.
        """
        header = SessionHeader(
            version=SESSION_VERSION,
            id=new_session_id() if session_id is None else check_session_id(session_id),
            timestamp=iso_now(),
            cwd=_text(cwd),
            parent_session=UNSET if parent_session is None else _text(parent_session),
        )
        path = directory / session_file_name(header.id, header.timestamp)
        return cls(path, header, EntryTree(EntryReader(roles)))

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        read_only: bool = False,
        cwd: str | Path | None = None,
        roles: MessageRoles | None = None,
    ) -> "JsonlSession":
        """Open an existing file.

        An empty file is given a header, with ``cwd`` (default: the process's). A file of an older
        version is rewritten, and the old one kept beside it as ``.bak``; where that cannot be, and
        for a file of a newer version, it is opened read-only. ``notes`` says so. Raises
        ``SessionNotFoundError``, ``SessionCorruptError``, ``SessionLockedError`` (never with
        ``read_only``) and ``SessionStorageError``.
        """
        lock = None if read_only else await on_disk(lock_existing, path)
        try:
            loaded = await load(path, EntryReader(roles), read_only=read_only)
            note, failure = None, None
            if not read_only and loaded.header and loaded.header.version < SESSION_VERSION:
                loaded, note, failure = await renewed(path, loaded)
            header = loaded.header
            if header is None:
                header = SessionHeader(
                    version=SESSION_VERSION,
                    id=session_id_in(path.name) or new_session_id(),
                    timestamp=iso_now(),
                    cwd=_text(Path.cwd() if cwd is None else cwd),
                )
            session = cls(path, header, loaded.tree)
            await session._take(loaded, header)
            session._lock, lock = lock, None
            session._note = note
            session._check_version(failure)
            return session
        finally:
            if lock is not None:
                lock.release()

    async def _take(self, loaded: Loaded, header: SessionHeader) -> None:
        """Go on with what was read; an empty file is given ``header`` if it may be written."""
        if loaded.header is None and not loaded.read_only:
            try:
                await on_disk(loaded.file.append, encode_header(header) + b"\n")
            except BaseException:
                loaded.file.close()
                raise
        if self._file is not None:
            self._file.close()
        self._header = header
        self._file, self._tree, self._skipped = loaded.file, loaded.tree, loaded.skipped

    def _check_version(self, failure: str | None = None) -> None:
        version = self._header.version
        if self._lock is None:
            self._read_only_because = "it was opened read-only"
        if version > SESSION_VERSION:
            self._read_only_because = f"its file has version {version}, made by a newer program"
        elif version < SESSION_VERSION:
            why = "" if failure is None else f" and cannot be rewritten: {failure}"
            self._read_only_because = f"its file has the old version {version}{why}"
        if self._read_only_because is not None and self._lock is not None:
            self._lock.release()
            self._lock = None

    @classmethod
    async def write(
        cls,
        directory: Path,
        cwd: str | Path,
        lines: Iterable[bytes],
        *,
        session_id: str | None = None,
        parent_session: str | None = None,
        roles: MessageRoles | None = None,
    ) -> "JsonlSession":
        """A new session that holds ``lines``, entries in JSON, from the start.

        The file appears whole. ``lines`` is gone through in another thread. Raises as ``create``
        and ``open`` do.
        """
        new = await cls.create(
            directory, cwd, session_id=session_id, parent_session=parent_session, roles=roles
        )
        data = (line + b"\n" for line in chain([encode_header(new.header)], lines))
        file = await on_disk(SessionFile.create, new.path, data)
        file.close()
        return await cls.open(new.path, roles=roles)

    # --- what is known of it ---------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The file; it may not exist yet."""
        return self._path

    @property
    def read_only(self) -> bool:
        """Nothing can be appended."""
        return self._read_only_because is not None

    @property
    def notes(self) -> list[str]:
        """What a person should know about the file."""
        notes = [] if self._note is None else [self._note]
        if self._read_only_because is not None:
            notes.append(f"The session is read-only: {self._read_only_because}.")
        if self._skipped:
            notes.append(f"{self._skipped} lines of {self._path} cannot be read and were skipped.")
        return notes

    # --- what touches the disk -------------------------------------------------------------------

    async def append_many(
        self, entries: Iterable[Entry], *, strict: bool = True
    ) -> list[StoredEntry]:
        """``append`` for several entries, in one write: all of them or none."""
        async with self._turn:
            self._check_writable()
            if not strict:
                await self._refresh()
                self._check_writable()
            staged = self._tree.stage(entries)
            if staged:
                offset = await self._write(staged)
                for stored in staged:
                    size = len(stored.raw)
                    self._tree.append(stored, offset)
                    offset += size + 1
            return staged

    async def _write(self, staged: list[StoredEntry]) -> int:
        """Where the first of them begins.

        Returns without a checkpoint after the write, so that memory follows in any case.
        """
        lines = _as_lines(staged)
        if self._file is not None:
            return await self._append_to(self._file, lines)
        head = encode_header(self._header) + b"\n"
        lock = await on_disk(lock_session, self._path)
        try:
            file = await on_disk(SessionFile.create, self._path, [head + lines])
        except BaseException:
            lock.release()
            raise
        self._lock = lock
        self._use(file)
        return len(head)

    def _use(self, file: SessionFile) -> None:
        self._file = file
        self._tree.read_from(file.read_at)

    async def _append_to(self, file: SessionFile, data: bytes) -> int:
        try:
            return await on_disk(file.append, data)
        except FileChangedError as error:
            raise ForeignChangeError(
                f"another program changed {self._path} ({error.change})", error.change
            ) from None
        except SlowDiskError:
            file.disturbed = True
            raise

    def _check_writable(self) -> None:
        if self._closed:
            raise SessionReadOnlyError("the session is closed")
        if self._read_only_because is not None:
            raise SessionReadOnlyError(f"the session is read-only: {self._read_only_because}")

    async def sync(self) -> None:
        """Flush what was appended to the disk itself."""
        async with self._turn:
            if self._file is not None:
                await on_disk(self._file.sync)

    async def refresh(self) -> Change:
        """Take over what other programs did to the file. See ``SessionStorage``."""
        async with self._turn:
            return await self._refresh()

    async def _refresh(self) -> Change:
        if self._file is None:
            return "unchanged"
        change = await on_disk(self._file.look)
        old_version = self._header.version < SESSION_VERSION  # read as a whole or not at all
        if change == "replaced" or self._file.disturbed or (change == "grown" and old_version):
            await self._read_anew()
        elif change == "grown":
            loader = Loader(self._file, self._tree.reader, self._header)
            before = len(self._tree)
            while (found := await on_disk(loader.step)) is not None:
                self._tree.take(found)
            self._skipped += loader.skipped
            # Another program may just have ended the last line.
            return "grown" if len(self._tree) > before else "unchanged"
        return change

    async def _read_anew(self) -> None:
        loaded = await load(self._path, self._tree.reader, read_only=self._lock is None)
        if loaded.header is None and len(self._tree):
            # To begin afresh would forget, without a word, what was announced.
            loaded.file.close()
            raise SessionStorageError(
                f"another program emptied {self._path}; put its content back, or close this"
                " session and open the file to begin afresh"
            )
        loaded.tree.reserve_from(self._tree)
        await self._take(loaded, self._header if loaded.header is None else loaded.header)
        self._check_version()

    async def aclose(self) -> None:
        """Let go of the file, which stays readable while it is there. May be called twice."""
        with anyio.CancelScope(shield=True):
            async with self._turn:
                self._closed = True
                if self._file is not None:
                    self._file.close()
                    self._file = None
                if self._lock is not None:
                    self._lock.release()
                    self._lock = None


def _as_lines(entries: Iterable[StoredEntry]) -> bytes:
    return b"".join(stored.raw + b"\n" for stored in entries)


def _text(path: str | Path) -> str:
    """A path as JSON can carry it."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
