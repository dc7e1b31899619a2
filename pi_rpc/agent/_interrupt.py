"""How the loop waits for code it does not own, and how an abort ends the wait."""

import inspect
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, TypeVar, cast

import anyio

from pi_rpc.llm.abort import AbortSignal

T = TypeVar("T")


class AbortScope:
    """A block that ends ``grace_s`` seconds after the signal fires; 0 is at once.

    Code goes on after the block, so what it was to produce needs a value for that case."""

    def __init__(self, signal: AbortSignal, grace_s: float = 0.0) -> None:
        self._signal = signal
        self._grace_s = grace_s
        self._scope = anyio.CancelScope()
        self._unsubscribe: Callable[[], None] = lambda: None

    def __enter__(self) -> None:
        self._scope.__enter__()
        self._unsubscribe = self._signal.on_abort(self._stop)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._unsubscribe()
        return self._scope.__exit__(exc_type, exc, traceback)

    def _stop(self) -> None:
        if self._grace_s > 0:
            self._scope.deadline = anyio.current_time() + self._grace_s
        else:
            self._scope.cancel()


async def call_hook(hook: Callable[..., T | Awaitable[T]], *args: Any) -> T:
    """What the hook returns, awaited if it is a coroutine function."""
    result = hook(*args)
    return cast(T, await result if inspect.isawaitable(result) else result)
