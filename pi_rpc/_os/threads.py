"""Blocking work, in at most four threads of this process's event loop; and code that may hang.

Owns the limit that all file work shares, so that a slow disk can occupy four threads and no more,
and threads for code that is not ours, which may never return. Does not own how large a piece of
work is: callers keep pieces at 256 KiB or a few system calls.
"""

import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

import anyio.to_thread
from anyio.lowlevel import RunVar

__all__ = ["FILE_THREADS", "from_any_thread", "run_abandonable", "run_blocking"]

_Result = TypeVar("_Result")
_Args = TypeVarTuple("_Args")
_Params = ParamSpec("_Params")

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


async def run_abandonable(
    limiter: anyio.CapacityLimiter, func: Callable[[*_Args], _Result], *args: *_Args
) -> _Result:
    """Call ``func(*args)`` in a thread of its own and return what it returns or raise what it does.

    A cancelled caller does not wait. The thread then goes on, with its place in ``limiter``, but
    keeps no process alive.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    done = anyio.Event()
    returned: list[_Result] = []
    raised: list[BaseException] = []
    borrower = object()
    context = contextvars.copy_context()

    def finish() -> None:
        limiter.release_on_behalf_of(borrower)
        done.set()

    def work() -> None:
        try:
            returned.append(context.run(func, *args))
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is waited for
            raised.append(error)
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            loop.call_soon_threadsafe(finish)

    await limiter.acquire_on_behalf_of(borrower)
    try:
        threading.Thread(target=work, name="pi-rpc user code", daemon=True).start()
    except RuntimeError:
        limiter.release_on_behalf_of(borrower)
        raise
    await done.wait()
    if raised:
        raise raised[0]
    return returned[0]


def from_any_thread(func: Callable[_Params, Any]) -> Callable[_Params, None]:
    """``func`` for callers in any thread: it always runs on the event loop of this call."""
    import asyncio

    loop = asyncio.get_running_loop()
    home = threading.get_ident()

    def call(*args: _Params.args, **kwargs: _Params.kwargs) -> None:
        if threading.get_ident() == home:
            func(*args, **kwargs)
            return
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody listens any more.
            loop.call_soon_threadsafe(lambda: func(*args, **kwargs))

    return call
