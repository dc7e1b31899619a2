"""Hooks at work: what each can change in a session, and that none of them breaks one."""

from typing import Any

import anyio
import pytest

from pi_rpc.agent.events import CompactionEnd, Diagnostic, MessageEnd, ToolExecutionEnd
from pi_rpc.agent.messages import CustomMessage
from pi_rpc.agent.tool import ToolResult
from pi_rpc.harness import hook_payloads as h
from pi_rpc.harness.branch_summary import BranchSummaryResult
from pi_rpc.harness.branching import BranchRequest
from pi_rpc.harness.compaction import CompactionResult
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.runs import Run, RunOutcome
from pi_rpc.llm.messages import TextBlock, text_of
from pi_rpc.llm.provider import Context, StreamOptions
from pi_rpc.llm.scripted import text, tool_call
from pi_rpc.session.entries import BranchSummaryEntry, CompactionEntry
from tests.agent.stage import tool, user
from tests.harness.hall import DEADLINE_S, Hall, hall, said

pytestmark = pytest.mark.anyio


async def settled(here: Hall, prompt: str = "go") -> RunOutcome:
    run = here.harness.prompt(PromptInput(prompt))
    assert isinstance(run, Run)
    with anyio.fail_after(DEADLINE_S):
        return await run.wait()


class Asked:
    """Replies that remember what they were asked."""

    def __init__(self) -> None:
        self.contexts: list[Context] = []
        self.options: list[StreamOptions] = []

    def __call__(self, *steps: Any) -> Any:
        def reply(context: Context, options: StreamOptions) -> Any:
            self.contexts.append(context)
            self.options.append(options)
            return list(steps)

        return reply


def tool_texts(here: Hall) -> list[str]:
    return [text_of(each.result.content) for each in here.of(ToolExecutionEnd)]


async def test_before_agent_start_adds_messages_and_replaces_the_prompt_for_one_run() -> None:
    asked, seen = Asked(), []

    async with hall(
        [asked(tool_call("look")), asked(text("one")), asked(text("two"))], tools=[tool("look")]
    ) as here:

        def start(payload: h.BeforeAgentStart) -> h.BeforeAgentStartResult:
            seen.append(payload)
            note = CustomMessage(custom_type="note", content="mind this", display=True, timestamp=1)
            return h.BeforeAgentStartResult(messages=[note], system_prompt="Be a pirate.")

        remove = here.harness.on("before_agent_start", start)
        await settled(here, "first")
        remove()
        await settled(here, "second")
        assert said(each.message for each in here.of(MessageEnd))[:2] == [
            "user: first",
            "custom: mind this",
        ]
        assert [each.system_prompt == "Be a pirate." for each in asked.contexts] == [
            True,
            True,
            False,
        ]
        assert said(asked.contexts[0].messages) == ["user: first", "user: mind this"]
        assert [each.prompt for each in seen] == ["first"]
        assert seen[0].system_prompt == asked.contexts[2].system_prompt
        assert "custom_message" in [each.type for each in here.harness.session.entries()]


async def test_the_context_hook_changes_one_request_and_not_the_session() -> None:
    asked = Asked()
    async with hall([asked(text("one"))]) as here:
        here.harness.on("context", lambda _: h.ContextHookResult(messages=[user("instead")]))
        await settled(here)
        assert said(asked.contexts[0].messages) == ["user: instead"]
        assert here.harness.message_count == 2


async def test_a_tool_call_can_be_changed_or_blocked() -> None:
    ran: list[Any] = []

    async def execute(_id: str, params: Any, _signal: Any, _update: Any) -> ToolResult:
        ran.append(params)
        return ToolResult.of_text("done")

    replies = [
        [tool_call("work", {"n": 1}), tool_call("work", {"n": 2})],
        [text("ok")],
    ]
    async with hall(replies, tools=[tool("work", execute)]) as here:

        def decide(payload: h.ToolCallHook) -> h.ToolCallHookResult:
            if payload.input["n"] == 1:
                return h.ToolCallHookResult(block=True, reason="not the first")
            return h.ToolCallHookResult(input={"n": 20})

        here.harness.on("tool_call", decide)
        assert (await settled(here)).stop_reason == "stop"
        assert ran == [{"n": 20}]
        assert sorted(tool_texts(here)) == ["done", "not the first"]


async def test_a_tool_call_hook_that_raises_keeps_the_tool_from_running() -> None:
    ran: list[Any] = []

    async def execute(*arguments: Any) -> ToolResult:
        ran.append(arguments)
        return ToolResult.of_text("done")

    async with hall([[tool_call("work")], [text("ok")]], tools=[tool("work", execute)]) as here:

        def decide(_: h.ToolCallHook) -> None:
            raise RuntimeError("the policy is missing")

        here.harness.on("tool_call", decide)
        assert (await settled(here)).stop_reason == "stop"
        assert ran == []
        assert "the policy is missing" in tool_texts(here)[0]
        assert "the policy is missing" in here.of(Diagnostic)[0].message


async def test_hooks_are_asked_first_but_do_not_undo_what_the_permission_mode_refuses() -> None:
    seen: list[str] = []

    def allow(call: h.ToolCallHook) -> h.ToolCallHookResult:
        seen.append(call.tool_name)
        return h.ToolCallHookResult(decision="allow")

    async with hall([[tool_call("work")], [text("ok")]], tools=[tool("work")]) as here:
        here.harness.on("tool_call", allow)
        here.harness.on(
            "before_provider_request",
            lambda _: setattr(here.harness.configuration, "permission_mode", "readonly"),
        )
        await settled(here)
        assert seen == ["work"]
        assert "read-only" in tool_texts(here)[0]


async def test_a_tool_result_can_be_replaced() -> None:
    asked = Asked()
    replies = [[tool_call("work")], asked(text("ok"))]
    async with hall(replies, tools=[tool("work")]) as here:
        here.harness.on(
            "tool_result",
            lambda payload: h.ToolResultHookResult(
                content=[TextBlock(text=text_of(list(payload.content)).upper())], is_error=True
            ),
        )
        await settled(here)
        result = asked.contexts[0].messages[-1]
        assert said([result]) == ["toolResult: WORK DONE"]
        assert result.is_error  # type: ignore[union-attr]


async def test_request_hooks_reach_the_provider_of_replies_and_of_summaries() -> None:
    asked = Asked()
    summary = asked(text("## Goal\nx"))
    replies = [[text("one")], [text("two")], summary, summary]
    async with hall(replies) as here:
        here.harness.configuration.compaction = _keep_little()
        await settled(here, "a" * 400)
        await settled(here, "b" * 400)
        here.harness.on(
            "before_provider_request",
            lambda _: h.BeforeProviderRequestResult(headers={"x-team": "blue"}),
        )
        here.harness.on("after_provider_response", lambda _: None)
        assert await here.harness.compact() is not None
        assert asked.options[0].headers == {"x-team": "blue"}
        assert asked.options[0].on_response is not None


def _keep_little() -> Any:
    from pi_rpc.harness.settings import CompactionSettings

    return CompactionSettings(keep_recent_tokens=1)


async def test_a_hook_can_cancel_a_compaction_or_write_it() -> None:
    async with hall([[text("one")], [text("two")]]) as here:
        here.harness.configuration.compaction = _keep_little()
        await settled(here, "a" * 400)
        await settled(here, "b" * 400)
        seen: list[Any] = []
        cancel = here.harness.on(
            "session_before_compact", lambda _: h.SessionBeforeCompactResult(cancel=True)
        )
        assert await here.harness.compact() is None
        assert here.of(CompactionEnd)[-1].aborted is True
        cancel()

        def write(payload: h.SessionBeforeCompact) -> h.SessionBeforeCompactResult:
            plan = payload.preparation
            result = CompactionResult("mine", plan.first_kept_entry_id, plan.tokens_before, 1)
            return h.SessionBeforeCompactResult(compaction=result)

        here.harness.on("session_before_compact", write)
        here.harness.on("session_compact", seen.append)
        summary = await here.harness.compact("briefly")
        assert summary is not None
        assert summary.summary == "mine"
        (payload,) = seen
        assert payload.from_hook
        entry = payload.compaction_entry.entry
        assert isinstance(entry, CompactionEntry)
        assert (entry.summary, entry.from_hook) == ("mine", True)


async def test_a_compaction_that_keeps_from_nowhere_is_reported_and_a_model_is_asked() -> None:
    async with hall([[text("one")], [text("two")], *2 * [[text("## Goal\nx")]]]) as here:
        here.harness.configuration.compaction = _keep_little()
        await settled(here, "a" * 400)
        await settled(here, "b" * 400)
        wrong = CompactionResult("mine", "nowhere", 1, 1)
        here.harness.on(
            "session_before_compact", lambda _: h.SessionBeforeCompactResult(compaction=wrong)
        )
        summary = await here.harness.compact()
        assert summary is not None
        assert summary.summary.startswith("## Goal")
        assert "'nowhere', which is not on the branch" in here.of(Diagnostic)[0].message


async def test_a_hook_can_keep_the_session_from_moving_or_write_what_is_left() -> None:
    async with hall([[text("one")], [text("two")]]) as here:
        await settled(here, "first")
        await settled(here, "second")
        harness = here.harness
        start = harness.session.branch()[0].id
        old_leaf = harness.session.leaf_id
        seen: list[Any] = []
        cancel = harness.on("session_before_tree", lambda _: h.SessionBeforeTreeResult(cancel=True))
        outcome = await harness.branch(BranchRequest(start))
        assert (outcome.cancelled, harness.session.leaf_id) == (True, old_leaf)
        cancel()

        def write(payload: h.SessionBeforeTree) -> h.SessionBeforeTreeResult:
            seen.append(len(payload.entries))
            return h.SessionBeforeTreeResult(
                summary=BranchSummaryResult("what was left"), label="tried"
            )

        harness.on("session_before_tree", write)
        harness.on("session_tree", seen.append)
        outcome = await harness.branch(BranchRequest(start))
        assert outcome.summary_entry is not None
        entry = outcome.summary_entry.entry
        assert isinstance(entry, BranchSummaryEntry)
        assert (entry.summary, entry.from_hook) == ("what was left", True)
        left, after = seen
        assert left > 0
        assert (after.old_leaf_id, after.from_hook) == (old_leaf, True)
        assert after.new_leaf_id == harness.session.leaf_id
        assert [each.type for each in harness.session.entries()][-1] == "label"


async def test_an_abort_while_a_hook_is_asked_settles_the_run() -> None:
    async with hall([[text("never")]]) as here:
        reached = anyio.Event()

        async def hangs(_: h.ContextHook) -> None:
            reached.set()
            await anyio.sleep_forever()

        here.harness.on("context", hangs)
        run = here.harness.prompt(PromptInput("go"))
        assert isinstance(run, Run)
        with anyio.fail_after(DEADLINE_S):
            await reached.wait()
            await here.harness.abort()
            assert (await run.wait()).stop_reason == "aborted"
