"""What the file tools do between their steps: fail well, stop on abort, wait for one another.

Owns the order of changes to a file: the calls of this process that write or edit the same file run
one after the other, in the order in which they were made. Does not own the changes themselves.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeAlias, TypeVar
from weakref import WeakValueDictionary

import anyio
from anyio.lowlevel import RunVar

from pi_rpc.agent.ports import FileSystem, PortError
from pi_rpc.agent.tool import ToolFailure
from pi_rpc.llm.abort import AbortSignal

__all__ = ["encoded", "exclusive_change", "port_failures", "stop_if_aborted", "until_aborted"]

_T = TypeVar("_T")

_Locks: TypeAlias = "WeakValueDictionary[tuple[str, Path], anyio.Lock]"

_ABORTED = "Aborted."

# Locks belong to an event loop; a process may run several, one after the other or side by side.
_locks: RunVar[_Locks] = RunVar("pi_rpc_file_changes")


@contextmanager
def port_failures(doing: str = "") -> Iterator[None]:
    """A ``PortError`` becomes the tool's failure; ``doing`` introduces its text."""
    try:
        yield
    except PortError as error:
        raise ToolFailure(f"{doing}{error.message}", {"code": error.code}) from error


def stop_if_aborted(signal: AbortSignal) -> None:
    """Fail if the run was aborted."""
    if signal.aborted:
        raise ToolFailure(_ABORTED)


async def until_aborted(signal: AbortSignal, work: Callable[[], Awaitable[_T]]) -> _T:
    """What ``work`` gives; fails at once if the run is aborted while it waits."""
    with signal.cancel_scope():
        return await work()
    raise ToolFailure(_ABORTED)


def encoded(text: str, name: str) -> bytes:
    """``text``, called ``name``, in UTF-8; fails where it holds half of a surrogate pair."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolFailure(
            f"{name} holds half of a surrogate pair at character {error.start}, "
            "which no file can store. Write the character itself."
        ) from None


@asynccontextmanager
async def exclusive_change(
    files: FileSystem, path: Path, signal: AbortSignal
) -> AsyncIterator[Path]:
    """Hold the right to change a file, and know its real path; other calls wait their turn, first
    come, first served.

    Files are told apart by their real path; a file that does not exist yet by where it would be.
    An abort that has happened, or happens while waiting, is a ``ToolFailure``.
    """
    # The real path comes out of a thread, and two calls could change places there. The first lock
    # is taken before anything is awaited, so calls that name a file alike keep their order.
    async with _held(_lock("name", path), signal):
        real = await files.real_path(path)
        async with _held(_lock("file", real), signal):
            yield real


@asynccontextmanager
async def _held(lock: anyio.Lock, signal: AbortSignal) -> AsyncIterator[None]:
    with signal.cancel_scope() as scope:
        await lock.acquire()
    if scope.cancelled_caught:
        raise ToolFailure(_ABORTED)
    try:
        yield
    finally:
        lock.release()


def _lock(kind: str, path: Path) -> anyio.Lock:
    try:
        locks = _locks.get()
    except LookupError:
        locks = WeakValueDictionary()
        _locks.set(locks)
    lock = locks.get((kind, path))
    if lock is None:
        lock = locks[kind, path] = anyio.Lock()
    return lock
