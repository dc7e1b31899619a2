"""Who hears an agent's events, and how each wants to be called."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from pi_rpc.agent.events import LoopEvent
from pi_rpc.llm.abort import AbortSignal

Listener: TypeAlias = (
    Callable[[LoopEvent], Awaitable[None] | None]
    | Callable[[LoopEvent, AbortSignal], Awaitable[None] | None]
)
BatchListener: TypeAlias = (
    Callable[[Sequence[LoopEvent]], Awaitable[None] | None]
    | Callable[[Sequence[LoopEvent], AbortSignal], Awaitable[None] | None]
)


class Listeners:
    """Listeners of one kind, in the order they came."""

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[Callable[..., Awaitable[None] | None], bool]] = {}

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def add(self, listener: Callable[..., Awaitable[None] | None]) -> Callable[[], None]:
        """Add a listener; returns its removal, which may be called more than once."""
        key = object()
        self._listeners[key] = (listener, _wants_signal(listener))
        return lambda: (self._listeners.pop(key, None), None)[1]

    async def tell_until_one_raises(self, news: object, signal: AbortSignal) -> None:
        """Call each in turn and wait for it; after one that raises nobody hears of it."""
        for listener in list(self._listeners.values()):
            await _call(*listener, news, signal)

    async def tell(self, news: object, signal: AbortSignal) -> None:
        """Call each in turn and wait for it; what the first one raised is raised at the end."""
        problem: Exception | None = None
        for listener in list(self._listeners.values()):
            try:
                await _call(*listener, news, signal)
            except Exception as error:  # noqa: BLE001 - raised below, when everybody has heard
                problem = problem or error
        if problem is not None:
            raise problem


async def _call(
    listener: Callable[..., Awaitable[None] | None],
    wants_signal: bool,
    news: object,
    signal: AbortSignal,
) -> None:
    answer = listener(news, signal) if wants_signal else listener(news)
    if inspect.isawaitable(answer):
        await answer


def _wants_signal(listener: Callable[..., object]) -> bool:
    """It has a second positional parameter that must be given, or one named ``signal``."""
    try:
        parameters = list(inspect.signature(listener).parameters.values())
    except (TypeError, ValueError):  # some builtins have no signature
        return False
    positional = [
        each
        for each in parameters
        if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}
    ]
    if len(positional) < 2:
        return False
    return positional[1].default is inspect.Parameter.empty or positional[1].name == "signal"
