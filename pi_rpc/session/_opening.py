"""Reading a session's file from its start, and how the disk is reached at all.

Owns waiting for a file thread, the time limit of a disk, and bringing an old file to the current
version. Does not own the bytes (``_file``, ``_loading``) nor what is read them (``_tree``).
"""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.lowlevel
from msgspec import Struct

from pi_rpc._os.locks import FileLock
from pi_rpc._os.threads import run_blocking
from pi_rpc.session._file import SessionFile
from pi_rpc.session._loading import Loader
from pi_rpc.session._locking import lock_session
from pi_rpc.session._rewriting import rewrite
from pi_rpc.session._tree import EntryTree
from pi_rpc.session.entries import SessionHeader
from pi_rpc.session.storage import SessionNotFoundError, SessionStorageError
from pi_rpc.session.stored import EntryReader

_DISK_DEADLINE_S = 10.0
"""A disk that has not answered by then counts as failed."""

_Result = TypeVar("_Result")


class SlowDiskError(SessionStorageError):
    """The disk did not answer in time."""


async def on_disk(call: Callable[..., _Result], *args: object) -> _Result:
    """Run ``call`` in a file thread, to its end even when the caller is cancelled.

    A disk that hangs is given up on; the call may then still take effect.
    """
    deadline = anyio.current_time() + _DISK_DEADLINE_S
    try:
        with anyio.CancelScope(shield=True, deadline=deadline):
            return await run_blocking(lambda: call(*args), abandon_on_cancel=True)
    except OSError as error:
        way_on = "; put it back, or begin a new session" if error.errno == errno.ENOENT else ""
        raise SessionStorageError(f"the session file cannot be used: {error}{way_on}") from error
    raise SlowDiskError(f"the disk did not answer within {_DISK_DEADLINE_S:.0f} seconds")


def lock_existing(path: Path) -> FileLock:
    # Looked at first, because the lock would make the folder.
    if not path.exists():
        raise SessionNotFoundError(f"there is no session file {path}")
    return lock_session(path)


class Loaded(Struct, frozen=True):
    """A file that was read to its end; the header is None when it is empty."""

    file: SessionFile
    read_only: bool
    header: SessionHeader | None
    tree: EntryTree
    skipped: int


async def load(path: Path, reader: EntryReader, *, read_only: bool) -> Loaded:
    """Read a file from its start."""
    try:
        file = await on_disk(lambda: SessionFile.open(path, read_only=read_only))
    except SessionStorageError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise SessionNotFoundError(f"there is no session file {path}") from error
        raise
    try:
        loader = Loader(file, reader, None)
        tree = EntryTree(reader)
        tree.read_from(file.read_at)
        while await on_disk(_load_more, loader, tree):
            await anyio.lowlevel.checkpoint()
    except BaseException:
        file.close()
        raise
    return Loaded(file, read_only, loader.header, tree, loader.skipped)


async def renewed(path: Path, old: Loaded) -> tuple[Loaded, str | None, str | None]:
    """The file rewritten as the current version, and a note about it; or as it is, and why."""
    try:
        backup = await on_disk(rewrite, path)
    except SessionStorageError as error:
        return old, None, error.message
    old.file.close()
    new = await load(path, old.tree.reader, read_only=False)
    version = 0 if old.header is None else old.header.version
    note = f"The session file had the old version {version}; as it was it is now {backup}."
    return new, note, None


def _load_more(loader: Loader, tree: EntryTree) -> bool:
    found = loader.step()
    if found is not None:
        tree.take(found)
    return found is not None
