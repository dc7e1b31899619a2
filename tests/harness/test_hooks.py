"""The registry of hooks: order, results, time limits, failures."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from msgspec import UNSET

from pi_rpc.agent.events import Diagnostic
from pi_rpc.harness.hook_payloads import (
    RESULTS,
    BeforeProviderPayloadResult,
    BeforeProviderRequestResult,
    ContextHook,
    ContextHookResult,
    ToolCallHook,
    ToolCallHookResult,
)
from pi_rpc.harness.hooks import Hooks, time_stands_still
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.provider import StreamOptions
from pi_rpc.llm.scripted import scripted_model
from tests.agent.stage import user
from tests.harness.hall import DEADLINE_S

pytestmark = pytest.mark.anyio

STOP = AbortController().signal
SHORT_S = 0.25


class Desk:
    """Hooks and what was reported of them."""

    def __init__(self) -> None:
        self.told: list[Diagnostic] = []
        self.hooks = Hooks(self.told.append)
        self.on = self.hooks.on

    async def context(self, signal: Any = STOP, grace_s: float = 0.0) -> Any:
        payload = ContextHook(messages=(user("hi"),), signal=signal)
        with anyio.fail_after(DEADLINE_S):
            return await self.hooks.last("context", payload, signal, grace_s)

    async def decide(self, signal: Any = STOP, **arguments: Any) -> ToolCallHookResult | None:
        payload = ToolCallHook(tool_call_id="1", tool_name="bash", input=arguments, signal=signal)
        with anyio.fail_after(DEADLINE_S):
            return await self.hooks.decide(payload, signal)


def saying(text: str) -> ContextHookResult:
    return ContextHookResult(messages=[user(text)])


async def test_handlers_run_in_order_and_the_last_result_that_is_not_none_wins() -> None:
    desk, order = Desk(), []

    def first(payload: ContextHook) -> ContextHookResult:
        order.append("first")
        return saying("first")

    async def second(payload: ContextHook) -> ContextHookResult:
        order.append("second")
        return saying("second")

    def third(payload: ContextHook) -> None:
        order.append("third")

    for handler in (first, second, third):
        desk.on("context", handler)
    assert await desk.context() == saying("second")
    assert order == ["first", "second", "third"]
    assert desk.told == []


async def test_a_handler_that_was_taken_out_is_not_asked_again() -> None:
    desk = Desk()
    remove = desk.on("context", lambda _: saying("never"))
    assert desk.hooks.has("context")
    remove()
    remove()
    assert not desk.hooks.has("context")
    assert await desk.context() is None


async def test_a_plain_function_runs_in_a_thread_and_a_coroutine_function_on_the_loop() -> None:
    desk, where = Desk(), []

    class Callable_:
        async def __call__(self, payload: ContextHook) -> None:
            where.append(threading.current_thread())

    async def coroutine(payload: ContextHook) -> None:
        where.append(threading.current_thread())

    def gives_a_coroutine(payload: ContextHook) -> Any:
        return coroutine(payload)

    desk.on("context", lambda _: where.append(threading.current_thread()))
    desk.on("context", coroutine)
    desk.on("context", Callable_())
    desk.on("context", gives_a_coroutine)
    await desk.context()
    assert where[0] is not threading.main_thread()
    assert where[1:] == [threading.current_thread()] * 3


def _raises(_: Any) -> None:
    raise RuntimeError("no such luck")


def _exits(_: Any) -> None:
    raise SystemExit(3)


async def _cancels_itself(_: Any) -> None:
    raise anyio.get_cancelled_exc_class()


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def _says_nothing_of_itself(_: Any) -> None:
    raise _Mute


def _raises_what_is_no_exception(_: Any) -> None:
    raise KeyboardInterrupt


async def _raises_what_is_no_exception_later(_: Any) -> None:
    raise GeneratorExit


def _yields(_: Any) -> Iterator[None]:
    yield


async def _groups(_: Any) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(_raise_later)


async def _raise_later() -> None:
    raise RuntimeError("in a group")


FAILURES: list[tuple[Callable[[Any], Any], str]] = [
    (_raises, "RuntimeError: no such luck"),
    (_exits, "SystemExit: 3"),
    (_cancels_itself, "cancelled from inside"),
    (_groups, "ExceptionGroup: in a group"),
    (lambda _: {"block": True}, "it returned dict instead of"),
    (lambda _: next(iter(())), "StopIteration"),
    (_says_nothing_of_itself, "Mute"),
    (_raises_what_is_no_exception, "KeyboardInterrupt"),
    (_raises_what_is_no_exception_later, "GeneratorExit"),
    (_yields, "it is a generator function"),
    (lambda _: 1 / 0, "ZeroDivisionError"),
]


@pytest.mark.parametrize(("handler", "said"), FAILURES)
async def test_a_handler_that_fails_is_reported_and_counts_as_having_said_nothing(
    handler: Callable[[Any], Any], said: str
) -> None:
    desk = Desk()
    desk.on("context", lambda _: saying("kept"))
    desk.on("context", handler)
    assert await desk.context() == saying("kept")
    (told,) = desk.told
    assert said in told.message
    assert "the hook context failed, it was ignored" in told.message
    assert (told.severity, told.source) == ("error", f"{__name__}.{handler.__qualname__}")


@pytest.mark.parametrize(("handler", "said"), FAILURES)
async def test_the_hook_that_decides_about_tools_blocks_when_it_fails(
    handler: Callable[[Any], Any], said: str
) -> None:
    desk, asked = Desk(), []
    desk.on("tool_call", handler)
    desk.on("tool_call", asked.append)
    decision = await desk.decide(command="ls")
    assert decision is not None
    assert decision.block
    assert said in (decision.reason or "")
    assert "the call was blocked" in desk.told[0].message
    assert asked == []


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ([{}], None),
        ([{"decision": "allow"}], "allow"),
        ([{"decision": "allow"}, {}], "allow"),
        ([{"decision": "ask"}, {"decision": "allow"}], "ask"),
        ([{"decision": "allow"}, {"decision": "ask"}], "ask"),
        # What it was allowed for is not what will run.
        ([{"decision": "allow"}, {"input": {"command": "rm"}}], None),
        ([{"decision": "ask"}, {"input": {"command": "rm"}}], "ask"),
        ([{"input": {"command": "rm"}, "decision": "allow"}], "allow"),
    ],
)
async def test_hooks_together_say_whether_the_person_is_asked(
    said: list[dict[str, Any]], heard: str | None
) -> None:
    desk = Desk()
    for each in said:
        result = ToolCallHookResult(**each)
        desk.on("tool_call", lambda _, result=result: result)
    decision = await desk.decide(command="ls")
    assert decision is not None
    assert decision.decision == heard


async def test_a_hook_that_outlasts_its_time_limit_is_left_behind() -> None:
    desk, release, left = Desk(), threading.Event(), threading.Event()

    def hangs(_: Any) -> None:
        release.wait(DEADLINE_S)
        left.set()

    desk.on("context", hangs, time_limit_s=SHORT_S)
    desk.on("context", lambda _: saying("later"))
    assert await desk.context() == saying("later")
    assert f"longer than its time limit of {SHORT_S} s" in desk.told[0].message
    assert not left.is_set()
    release.set()
    assert left.wait(DEADLINE_S)


async def test_a_decision_that_takes_too_long_blocks_the_call() -> None:
    desk = Desk()
    desk.hooks.time_limit_s = SHORT_S

    async def hangs(_: Any) -> None:
        await anyio.sleep_forever()

    desk.on("tool_call", hangs)
    decision = await desk.decide()
    assert decision is not None
    assert decision.block
    assert "time limit" in (decision.reason or "")


async def test_plain_functions_that_hang_cannot_use_up_threads_without_end() -> None:
    desk, release = Desk(), threading.Event()
    desk.hooks.time_limit_s = SHORT_S
    started: list[int] = []

    def hangs(_: Any) -> None:
        started.append(1)
        release.wait(DEADLINE_S)

    desk.on("context", hangs)
    for _ in range(6):
        await desk.context()
    assert len(started) == 4
    assert len(desk.told) == 6
    release.set()


async def test_an_abort_ends_the_wait_for_a_handler_and_asks_no_other() -> None:
    desk, stop, asked = Desk(), AbortController(), []

    async def hangs(_: Any) -> None:
        stop.abort()
        await anyio.sleep_forever()

    desk.on("context", hangs)
    desk.on("context", lambda _: asked.append(1))
    assert await desk.context(stop.signal) is None
    assert (asked, desk.told) == ([], [])


async def test_an_abort_during_a_decision_does_not_let_the_call_run() -> None:
    desk, stop = Desk(), AbortController()

    async def hangs(_: Any) -> None:
        stop.abort()
        await anyio.sleep_forever()

    desk.on("tool_call", hangs)
    decision = await desk.decide(stop.signal)
    assert decision is not None
    assert decision.block


async def test_a_handler_with_grace_still_answers_after_an_abort() -> None:
    desk, stop = Desk(), AbortController()
    stop.abort()
    desk.on("context", lambda _: saying("still"))
    assert await desk.context(stop.signal, DEADLINE_S) == saying("still")


async def test_time_that_a_person_takes_does_not_count() -> None:
    desk = Desk()

    async def asks(_: Any) -> ContextHookResult:
        with time_stands_still():
            await anyio.sleep(3 * SHORT_S)
        return saying("answered")

    desk.on("context", asks, time_limit_s=SHORT_S)
    assert await desk.context() == saying("answered")
    assert desk.told == []


async def test_changed_arguments_are_seen_by_later_handlers_and_by_nobody_else() -> None:
    desk, seen = Desk(), []

    def change(payload: ToolCallHook) -> ToolCallHookResult:
        payload.input["command"] = "not this way"
        return ToolCallHookResult(input={"command": "ls -l"})

    def look(payload: ToolCallHook) -> ToolCallHookResult:
        seen.append(payload.input)
        return ToolCallHookResult(block=False)

    desk.on("tool_call", change)
    desk.on("tool_call", look)
    arguments = {"command": "ls"}
    decision = await desk.decide(**arguments)
    assert decision == ToolCallHookResult(input={"command": "ls -l"})
    assert seen == [{"command": "ls -l"}]
    assert arguments == {"command": "ls"}


async def test_request_hooks_chain_and_take_headers_away() -> None:
    desk, seen = Desk(), []

    def first(payload: Any) -> BeforeProviderRequestResult:
        return BeforeProviderRequestResult(headers={"X-One": "1", "gone": None}, max_tokens=7)

    def second(payload: Any) -> BeforeProviderRequestResult:
        seen.append(payload.stream_options)
        return BeforeProviderRequestResult(headers={"x-one": "2"}, temperature=0.5)

    desk.on("before_provider_request", first)
    desk.on("before_provider_request", second)
    options = StreamOptions(api_key="secret", headers={"Gone": "x", "kept": "y"})
    patched = await desk.hooks.patched(scripted_model(), options, STOP)
    assert patched.headers == {"kept": "y", "x-one": "2"}
    assert (patched.max_tokens, patched.temperature, patched.api_key) == (7, 0.5, "secret")
    assert (seen[0].api_key, seen[0].headers["X-One"]) == (None, "1")
    assert patched.on_payload is None
    assert patched.on_response is None


async def test_payload_hooks_chain_and_response_hooks_see_status_and_headers() -> None:
    desk, seen = Desk(), []

    def add(name: str) -> Callable[[Any], BeforeProviderPayloadResult]:
        return lambda hook: BeforeProviderPayloadResult(payload={**hook.payload, name: 1})

    desk.on("before_provider_payload", add("one"))
    desk.on("before_provider_payload", add("two"))
    desk.on("after_provider_response", lambda hook: seen.append((hook.status, hook.headers)))
    options = await desk.hooks.patched(scripted_model(), StreamOptions(), STOP)
    assert options.on_payload is not None
    assert options.on_response is not None
    assert await options.on_payload({"a": 0}, scripted_model()) == {"a": 0, "one": 1, "two": 1}
    await options.on_response(200, {"server": "x"})
    assert seen == [(200, {"server": "x"})]


async def test_without_hooks_a_request_keeps_its_options() -> None:
    options = StreamOptions(headers={"a": "b"})
    assert await Desk().hooks.patched(scripted_model(), options, STOP) is options


def test_what_is_no_hook_or_no_function_is_refused() -> None:
    desk = Desk()
    with pytest.raises(ValueError, match="there is no hook 'turn'"):
        desk.hooks.register("turn", print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no function"):
        desk.hooks.register("context", UNSET)  # type: ignore[arg-type]
    assert len(RESULTS) == 11
