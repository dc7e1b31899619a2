"""Hooks: code of applications and extensions that a session asks at certain points.

Owns the registry, the order of handlers, their time limits, and what becomes of one that fails.
Does not own the shapes (``pi_rpc.harness.hook_payloads``) nor when each hook is called.

Handlers are called in the order they were registered, one after the other, each with the same
payload; the last result that is not None wins. Three hooks chain instead, each handler seeing what
the one before it changed: the two that shape a provider's request, and ``tool_call``'s input.

A coroutine function runs on the event loop and must not block it. A plain function runs in a
thread of its own: it can be abandoned when its time is over, not stopped, and may go on unseen.

A handler that raises, returns the wrong type or outlasts its time limit is reported as a
``diagnostic`` and counts as having said nothing; except for ``tool_call``, where it blocks the
call, whatever other handlers say. An abort ends the wait for a handler at once.
"""

import copy
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias, cast

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pi_rpc._os.threads import run_abandonable
from pi_rpc.agent.events import Diagnostic
from pi_rpc.agent.foreign_code import is_our_cancellation, text_of_error
from pi_rpc.harness._hook_results import fault_of_result
from pi_rpc.harness.hook_payloads import (
    RESULTS,
    AfterProviderResponse,
    BeforeProviderPayload,
    BeforeProviderRequest,
    BeforeProviderRequestResult,
    HookType,
    On,
    ToolCallHook,
    ToolCallHookResult,
)
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import StreamOptions

__all__ = [
    "LONGEST_TEXT",
    "TIME_LIMIT_S",
    "Answer",
    "Hooks",
    "Threads",
    "asked",
    "checked_limit",
    "described",
    "shortened",
    "time_stands_still",
]

TIME_LIMIT_S = 10.0
LONGEST_TEXT = 4000
"""Characters of a message about a user's code, or from it."""
_THREADS = 4
_SHARED = (
    "signal",
    "model",
    "resources",
    "branch_entries",
    "entries",
    "compaction_entry",
    "summary_entry",
)


class _Clock:
    """The time limit of a handler that is being asked."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._left = 0.0
        self._stopped = 0
        """How many wait with the clock stopped: a handler may wait for several things at once."""

    def stop(self) -> None:
        if self._stopped == 0:
            self._left = self._scope.deadline - anyio.current_time()
            self._scope.deadline = float("inf")
        self._stopped += 1

    def go_on(self) -> None:
        self._stopped -= 1
        if self._stopped == 0:
            self._scope.deadline = anyio.current_time() + self._left


_limit: ContextVar[_Clock | None] = ContextVar("pi_rpc_hook_limit", default=None)


class Threads:
    """Where plain functions of users run: at most four at once, those abandoned included."""

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(_THREADS)

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call it and wait; when cancelled, leave it behind."""
        return await run_abandonable(self._limiter, function, *arguments)


class Answer(Struct, frozen=True):
    """What came of asking a user's function."""

    value: Any = None
    failure: str | None = None
    """Why there is no value, in words."""
    aborted: bool = False
    """An abort ended the wait."""


async def asked(
    threads: Threads,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    time_limit_s: float,
    *,
    signal: AbortSignal | None = None,
    grace_s: float = 0.0,
) -> Answer:
    """Call a user's function, plain or coroutine function. Never raises but for a cancellation.

    After an abort it is waited for ``grace_s`` seconds more.
    """
    with anyio.CancelScope() as scope:
        remove = (
            signal.on_abort(lambda: _end_within(scope, grace_s))
            if signal is not None
            else lambda: None
        )
        try:
            return await _limited(threads, function, arguments, time_limit_s)
        finally:
            remove()
    return Answer(aborted=True)


def _end_within(scope: anyio.CancelScope, seconds: float) -> None:
    if seconds > 0:
        scope.deadline = anyio.current_time() + seconds
    else:
        scope.cancel()


async def _limited(
    threads: Threads, function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float
) -> Answer:
    try:
        with anyio.move_on_after(seconds) as scope:
            token = _limit.set(_Clock(scope))
            try:
                return Answer(await _called(threads, function, arguments))
            finally:
                _limit.reset(token)
    except BaseException as error:
        if is_our_cancellation(error):
            raise
        if isinstance(error, anyio.get_cancelled_exc_class()):
            return Answer(failure="it was cancelled from inside")
        return Answer(failure=described(error))
    return Answer(failure=f"it took longer than its time limit of {seconds:g} s")


async def _called(
    threads: Threads, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    called = getattr(function, "__call__", None)  # noqa: B004 - an object may have an async __call__
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called):
        return await function(*arguments)
    value = await threads.run(function, *arguments)
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise TypeError("it is a generator function: calling it runs nothing of it")
    return await value if inspect.isawaitable(value) else value


def described(error: BaseException) -> str:
    """A failure of a user's code in words, of at most some thousand characters."""
    name, text = type(error).__name__, text_of_error(error)
    return shortened(text if text == name else f"{name}: {text}")


def shortened(text: str) -> str:
    """``text`` as a diagnostic can hold it: its beginning, where there is more than people read."""
    left_out = len(text) - LONGEST_TEXT
    return text if left_out <= 0 else f"{text[:LONGEST_TEXT]}... ({left_out} more characters)"


def checked_limit(seconds: Any) -> float:
    """A time limit as users write it. Raises ``TypeError`` and ``ValueError``."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"a time limit is a number of seconds, not {seconds!r}")
    if not seconds > 0:
        raise ValueError(f"a time limit is more than 0 seconds, not {seconds!r}")
    return seconds


@contextmanager
def time_stands_still() -> Iterator[None]:
    """Within the block the time limit of the handler that is being asked does not run.

    For what takes as long as it takes, such as a person's answer.
    """
    clock = _limit.get()
    if clock is None:
        yield
        return
    clock.stop()
    try:
        yield
    finally:
        clock.go_on()


class _Registered(Struct, frozen=True, eq=False):
    call: Callable[[Any], Any]
    time_limit_s: float | None
    source: str


Report: TypeAlias = Callable[[Diagnostic], None]


class Hooks:
    """The hooks of one session."""

    def __init__(self, report: Report, *, time_limit_s: float = TIME_LIMIT_S) -> None:
        """``report`` tells what went wrong; ``time_limit_s`` holds where no other was given."""
        self.time_limit_s = time_limit_s
        self.threads = Threads()
        self.on: On = cast(On, self.register)
        self._report = report
        self._handlers: dict[HookType, tuple[_Registered, ...]] = {}

    def register(
        self,
        type: HookType,
        handler: Callable[[Any], Any],
        *,
        time_limit_s: float | None = None,
        source: str | None = None,
    ) -> Callable[[], None]:
        """As ``on``; ``source`` is what diagnostics name, otherwise the function's own name."""
        if type not in RESULTS:
            raise ValueError(f"there is no hook {type!r}; there are: {', '.join(RESULTS)}")
        if not callable(handler):
            raise TypeError(f"the handler of {type} is no function but {handler!r}")
        limit = None if time_limit_s is None else checked_limit(time_limit_s)
        registered = _Registered(handler, limit, source or _name_of(handler))
        self._handlers[type] = (*self._handlers.get(type, ()), registered)

        def remove() -> None:
            kept = tuple(each for each in self._handlers[type] if each is not registered)
            self._handlers[type] = kept

        return remove

    def has(self, type: HookType) -> bool:
        """Somebody wants to be asked."""
        return bool(self._handlers.get(type))

    async def last(
        self, type: HookType, payload: Any, signal: AbortSignal, grace_s: float = 0.0
    ) -> Any:
        """Ask every handler; the last result, or None."""
        result = None
        for handler in self._handlers.get(type, ()):
            answer = await self._ask(type, handler, _picture(payload), signal, grace_s)
            if answer.aborted:
                break
            if answer.value is not None:
                result = answer.value
        return result

    async def decide(self, payload: ToolCallHook, signal: AbortSignal) -> ToolCallHookResult | None:
        """Whether a tool may run: fails closed."""
        decision: ToolCallHookResult | None = None
        arguments: dict[str, Any] | None = None
        permission: Literal["allow", "ask"] | None = None
        for handler in self._handlers.get("tool_call", ()):
            current = payload.input if arguments is None else arguments
            seen = replace(payload, input=copy.deepcopy(current))
            answer = await self._ask("tool_call", handler, seen, signal)
            if answer.aborted:
                return ToolCallHookResult(block=True, reason="The call was stopped.")
            if answer.failure is not None:
                reason = (
                    f"This call was blocked: the hook that decides about it failed"
                    f" ({handler.source}: {answer.failure})."
                )
                return ToolCallHookResult(block=True, reason=reason)
            if answer.value is not None:
                decision = answer.value
                if answer.value.input is not None:
                    arguments = answer.value.input
                    permission = None if permission == "allow" else permission
                if permission != "ask":
                    permission = answer.value.decision or permission
        if decision is None:
            return None
        return replace(decision, input=arguments, decision=permission)

    async def patched(
        self, model: Model, options: StreamOptions, signal: AbortSignal
    ) -> StreamOptions:
        """``options`` as the provider's hooks want them, themselves put in place."""
        for handler in self._handlers.get("before_provider_request", ()):
            payload = BeforeProviderRequest(
                model=model,
                session_id=options.session_id,
                stream_options=replace(options, api_key=None, headers=dict(options.headers)),
                signal=signal,
            )
            answer = await self._ask("before_provider_request", handler, payload, signal)
            if answer.aborted:
                return options
            if answer.value is not None:
                options = _changed(options, answer.value)
        changes: dict[str, Any] = {}
        if self.has("before_provider_payload"):
            changes["on_payload"] = lambda body, model: self._payload(body, model, signal)
        if self.has("after_provider_response"):
            changes["on_response"] = lambda status, headers: self._response(status, headers, signal)
        return replace(options, **changes) if changes else options

    async def _payload(
        self, body: dict[str, Any], model: Model, signal: AbortSignal
    ) -> dict[str, Any] | None:
        for handler in self._handlers.get("before_provider_payload", ()):
            payload = BeforeProviderPayload(model=model, payload=copy.deepcopy(body), signal=signal)
            answer = await self._ask("before_provider_payload", handler, payload, signal)
            if answer.aborted:
                break
            if answer.value is not None:
                body = answer.value.payload
        return body

    async def _response(self, status: int, headers: Mapping[str, str], signal: AbortSignal) -> None:
        payload = AfterProviderResponse(status=status, headers=dict(headers), signal=signal)
        await self.last("after_provider_response", payload, signal)

    async def _ask(
        self,
        type: HookType,
        handler: _Registered,
        payload: Any,
        signal: AbortSignal,
        grace_s: float = 0.0,
    ) -> Answer:
        limit = self.time_limit_s if handler.time_limit_s is None else handler.time_limit_s
        answer = await asked(
            self.threads, handler.call, (payload,), limit, signal=signal, grace_s=grace_s
        )
        if (fault := fault_of_result(type, answer.value)) is not None:
            answer = Answer(failure=shortened(fault))
        if answer.failure is not None:
            consequence = "the call was blocked" if type == "tool_call" else "it was ignored"
            message = f"{handler.source}: the hook {type} failed, {consequence}: {answer.failure}"
            self._report(Diagnostic(severity="error", message=message, source=handler.source))
        return answer


def _picture(payload: Any) -> Any:
    """A copy that its reader may change; what cannot be changed, and stored entries, are shared."""
    shared = [getattr(payload, name) for name in _SHARED if hasattr(payload, name)]
    if hasattr(payload, "preparation"):
        shared.append(payload.preparation.roles)
    return copy.deepcopy(payload, {id(each): each for each in shared})


def _changed(options: StreamOptions, patch: BeforeProviderRequestResult) -> StreamOptions:
    headers = dict(options.headers)
    for name, value in patch.headers.items():
        for known in [each for each in headers if each.lower() == name.lower()]:
            del headers[known]
        if value is not None:
            headers[name] = value
    names = ("max_tokens", "temperature", "cache_retention", "idle_timeout_s")
    changes = {name: value for name in names if (value := getattr(patch, name)) is not None}
    return replace(options, headers=headers, **changes)


def _name_of(handler: Callable[..., Any] | Awaitable[Any]) -> str:
    named = handler if hasattr(handler, "__qualname__") else type(handler)
    return f"{named.__module__}.{named.__qualname__}"
