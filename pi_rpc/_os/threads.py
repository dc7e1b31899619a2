"""Blocking work, in at most four threads of this process's event loop.

Owns the limit that all file work shares, so that a slow disk can occupy four threads and no more.
Does not own how large a piece of work is: callers keep pieces at 256 KiB or a few system calls.
"""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import anyio.to_thread
from anyio.lowlevel import RunVar

__all__ = ["FILE_THREADS", "run_blocking"]

_Result = TypeVar("_Result")
_Args = TypeVarTuple("_Args")

FILE_THREADS = 4
"""How many threads blocking work may occupy at once."""

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("pi_rpc_file_threads")


async def run_blocking(
    func: Callable[[*_Args], _Result], *args: *_Args, abandon_on_cancel: bool = False
) -> _Result:
    """Call ``func(*args)`` in one of the file threads and return what it returns.

    A cancelled caller waits for the call to end, so that no half-done file work outlives its
    scope; with ``abandon_on_cancel`` it does not, and the thread's place stays taken until then.
    """
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(FILE_THREADS)
        _limiter.set(limiter)
    return await anyio.to_thread.run_sync(
        func, *args, abandon_on_cancel=abandon_on_cancel, limiter=limiter
    )
