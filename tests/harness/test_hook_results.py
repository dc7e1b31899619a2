"""What a hook returned is looked at before anything is done with it."""

from typing import Any

import anyio
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from pi_rpc.agent.messages import OpaqueMessage
from pi_rpc.harness import hook_payloads as h
from pi_rpc.harness._hook_results import fault_of_result
from pi_rpc.harness.branch_summary import BranchSummaryResult
from pi_rpc.harness.compaction import CompactionResult
from pi_rpc.harness.hook_payloads import RESULTS, HookType
from pi_rpc.harness.hooks import LONGEST_TEXT, Hooks
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.runs import Run
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import TextBlock, ToolResultMessage, UserMessage
from pi_rpc.llm.scripted import text
from tests.agent.stage import user
from tests.harness.hall import DEADLINE_S, hall

pytestmark = pytest.mark.anyio

ANY: Any = object()
"""What the type checker would refuse."""
COMPACTION = CompactionResult(
    summary="s", first_kept_entry_id=None, tokens_before=1, estimated_tokens_after=1
)


def _compaction(**fields: Any) -> Any:
    return h.SessionBeforeCompactResult(compaction=replace(COMPACTION, **fields))


def _start(*messages: Any) -> Any:
    return h.BeforeAgentStartResult(messages=messages)


def _request(**fields: Any) -> Any:
    return h.BeforeProviderRequestResult(**fields)


UNUSABLE: list[tuple[HookType, Any]] = [
    ("before_agent_start", {"messages": []}),
    ("before_agent_start", _start("hi")),
    ("before_agent_start", _start(TextBlock(text="no role"))),
    ("before_agent_start", _start(UserMessage(content=3, timestamp=0))),  # type: ignore[arg-type]
    ("before_agent_start", _start(UserMessage(content=ANY, timestamp=0))),
    ("before_agent_start", h.BeforeAgentStartResult(messages=None)),  # type: ignore[arg-type]
    ("before_agent_start", h.BeforeAgentStartResult(system_prompt=3)),  # type: ignore[arg-type]
    ("context", h.ContextHookResult(messages=["hi"])),  # type: ignore[list-item]
    ("context", h.ContextHookResult(messages=None)),  # type: ignore[arg-type]
    ("tool_call", h.ToolCallHookResult(block="yes")),  # type: ignore[arg-type]
    ("tool_call", h.ToolCallHookResult(block=True, reason=3)),  # type: ignore[arg-type]
    ("tool_call", h.ToolCallHookResult(input="ls")),  # type: ignore[arg-type]
    ("tool_call", h.ToolCallHookResult(input={"a": ANY})),
    ("tool_call", h.ToolCallHookResult(decision="deny")),  # type: ignore[arg-type]
    ("tool_call", h.ToolCallHookResult(decision=True)),  # type: ignore[arg-type]
    ("tool_result", h.ToolResultHookResult(content="text")),  # type: ignore[arg-type]
    ("tool_result", h.ToolResultHookResult(content=["text"])),  # type: ignore[list-item]
    ("tool_result", h.ToolResultHookResult(details=ANY)),
    ("tool_result", h.ToolResultHookResult(is_error=None)),  # type: ignore[arg-type]
    ("session_before_compact", h.SessionBeforeCompactResult(cancel="yes")),  # type: ignore[arg-type]
    ("session_before_compact", h.SessionBeforeCompactResult(compaction={})),  # type: ignore[arg-type]
    ("session_before_compact", _compaction(summary=3)),
    ("session_before_compact", _compaction(tokens_before="many")),
    ("session_before_compact", _compaction(details=ANY)),
    ("session_before_tree", h.SessionBeforeTreeResult(summary="text")),  # type: ignore[arg-type]
    ("session_before_tree", h.SessionBeforeTreeResult(summary=BranchSummaryResult(3))),  # type: ignore[arg-type]
    ("session_before_tree", h.SessionBeforeTreeResult(label=3)),  # type: ignore[arg-type]
    ("before_provider_request", _request(headers=None)),
    ("before_provider_request", _request(headers={"a": 3})),
    ("before_provider_request", _request(max_tokens="all")),
    ("before_provider_request", _request(max_tokens=0)),
    ("before_provider_request", _request(temperature=float("nan"))),
    ("before_provider_request", _request(idle_timeout_s=float("inf"))),
    ("before_provider_request", _request(cache_retention="forever")),
    ("before_provider_payload", h.BeforeProviderPayloadResult(payload=None)),  # type: ignore[arg-type]
    ("before_provider_payload", h.BeforeProviderPayloadResult(payload={"a": ANY})),
    ("session_compact", 3),
    ("session_tree", True),
    ("after_provider_response", "fine"),
]

USABLE: list[tuple[HookType, Any]] = [
    *((hook, None) for hook in RESULTS),
    *(
        (hook, made())
        for hook, made in RESULTS.items()
        if made and hook.endswith(("start", "call"))
    ),
    ("before_agent_start", _start(user("hi"), OpaqueMessage("far", b'{"role":"far"}'))),
    ("before_agent_start", _start(UserMessage(content="\udcff", timestamp=0))),
    ("context", h.ContextHookResult(messages=())),
    ("tool_result", h.ToolResultHookResult(content=[TextBlock(text="\ud800")], details=None)),
    ("tool_result", h.ToolResultHookResult(content=UNSET, is_error=False, terminate=True)),
    ("session_before_compact", _compaction(details={"n": 1})),
    ("session_before_tree", h.SessionBeforeTreeResult(summary=BranchSummaryResult("s"))),
    ("before_provider_request", _request(headers={"a": None}, max_tokens=1, temperature=0)),
    ("before_provider_payload", h.BeforeProviderPayloadResult(payload={"a": [1, None]})),
]


@pytest.mark.parametrize(("hook", "result"), UNUSABLE)
def test_what_could_not_be_used_has_a_fault_in_words(hook: HookType, result: Any) -> None:
    fault = fault_of_result(hook, result)
    assert fault is not None
    assert fault.startswith("it returned")


@pytest.mark.parametrize(("hook", "result"), USABLE)
def test_what_the_types_allow_has_none(hook: HookType, result: Any) -> None:
    assert fault_of_result(hook, result) is None


async def test_a_run_goes_on_as_if_a_hook_with_an_unusable_result_had_said_nothing() -> None:
    async with hall([[text("fine")]]) as here:
        here.harness.on("before_agent_start", lambda _: _start("hi"))
        here.harness.on("before_provider_request", lambda _: _request(headers=None))
        run = here.harness.prompt(PromptInput("go"))
        assert isinstance(run, Run)
        with anyio.fail_after(DEADLINE_S):
            assert (await run.wait()).text == "fine"


async def test_a_handler_that_changes_what_it_is_given_changes_nothing_for_anybody() -> None:
    held = ToolResultMessage(
        tool_call_id="1",
        tool_name="t",
        content=[TextBlock(text="kept")],
        is_error=False,
        timestamp=0,
        details={"a": 1},
    )
    hooks, seen, signal = Hooks(lambda _: None), [], AbortController().signal

    def change(payload: Any) -> None:
        (message,) = payload.messages
        seen.append((len(message.content), dict(message.details), payload.signal is signal))
        message.content.clear()
        message.details.clear()

    for _ in range(2):
        hooks.on("context", change)
    await hooks.last("context", h.ContextHook(messages=(held,), signal=signal), signal)
    assert seen == [(1, {"a": 1}, True)] * 2
    assert (held.content, held.details) == ([TextBlock(text="kept")], {"a": 1})


async def test_what_a_failing_hook_says_is_cut_to_what_people_read() -> None:
    told: list[Any] = []
    hooks, signal = Hooks(told.append), AbortController().signal

    def fail(_: Any) -> None:
        raise RuntimeError("x" * 10_000_000)

    hooks.on("context", fail)
    await hooks.last("context", h.ContextHook(messages=(), signal=signal), signal)
    assert LONGEST_TEXT < len(told[0].message) < 2 * LONGEST_TEXT


@pytest.mark.parametrize("limit", [0, -1, float("nan"), "10", True])
def test_what_is_no_time_limit_is_refused(limit: Any) -> None:
    hooks = Hooks(lambda _: None)
    with pytest.raises((TypeError, ValueError), match="a time limit is"):
        hooks.on("context", lambda _: None, time_limit_s=limit)
    assert not hooks.has("context")
