"""Whatever is done with a session, in a file and in memory it comes to the same, also reopened."""

import json
import operator
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pi_rpc.harness.branching import BranchRequest
from pi_rpc.harness.configuration import custom_entry
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.runs import Run
from pi_rpc.harness.settings import CompactionSettings, RetrySettings
from pi_rpc.llm.provider import Context, StreamOptions
from pi_rpc.llm.scripted import ScriptedReply, Step, error, scripted_model, text, tool_call, usage
from pi_rpc.session import (
    JsonlSession,
    MemorySession,
    SessionStorage,
    build_context,
    interrupted,
    transcript,
)
from pi_rpc.session.tree import session_stats, tree_page
from tests.agent.stage import tool
from tests.harness.hall import DEADLINE_S, Hall, hall

places = st.integers(0, 1000)
prompts = st.tuples(st.just("prompt"), st.sampled_from(["stop", "tool", "retry", "fail", "length"]))
anything = st.lists(
    st.one_of(
        prompts,
        st.tuples(st.just("compact"), st.booleans()),
        st.tuples(st.just("branch"), places, st.booleans(), st.booleans()),
        st.tuples(st.just("root"), st.booleans()),
        st.tuples(st.just("label"), places, st.none() | st.text("ab", min_size=1, max_size=3)),
        st.tuples(st.just("rename"), st.text("ab ", max_size=5)),
        st.tuples(st.just("think"), st.sampled_from(["off", "low", "high"])),
        st.tuples(st.just("model"), st.booleans()),
        st.tuples(st.just("tools"), st.booleans()),
        st.tuples(st.just("custom")),
        st.tuples(st.just("continue")),
        st.tuples(st.just("reopen")),
    ),
    min_size=1,
    max_size=10,
)
steps = st.builds(operator.add, st.lists(prompts, max_size=4), anything)
"""Most begin with something said, so that there is something to compact and to go back to."""

TIMES = ("timestamp", "durationMs")
OTHER = msgspec.structs.replace(scripted_model(), id="other")
OTHER = msgspec.structs.replace(scripted_model(), id="other")
REPLIES: dict[str, list[list[Step]]] = {
    "stop": [[text("a good answer " * 5)]],
    "tool": [[text("let me look"), tool_call("look")], [text("it is done " * 5)]],
    "retry": [[text("half"), error("busy", status=529)], [text("in the end " * 5)]],
    "fail": [[text("half"), error("no", status=400)]],
    "length": [[text("it is too long, said the provider"), error("prompt is too long", status=400)]]
    + [[text("short")]] * 2,
}


class Play:
    """One session, and what is done with it."""

    def __init__(self, session: SessionStorage) -> None:
        self.session = session
        self.replies: list[list[Step]] = []
        self.outcomes: list[Any] = []

    def reply(self, _: Context, options: StreamOptions) -> list[Step]:
        # What is estimated depends on how long things took.
        used = usage(input=100, output=10)
        if "#" in (options.session_id or ""):
            return [used, text("## Goal\nin short")]
        return [used, *(self.replies.pop(0) if self.replies else [text("and so on")])]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Hall]:
        replies: list[ScriptedReply] = [self.reply] * 200
        async with hall(replies, session=self.session, tools=[tool("look")]) as here:
            configuration = here.harness.configuration
            configuration.compaction = CompactionSettings(keep_recent_tokens=15)
            configuration.retries = RetrySettings(base_delay_ms=0)
            context = build_context(self.session.branch())
            configuration.thinking_level = context.thinking_level  # type: ignore[assignment]
            yield here

    def entry_at(self, number: int) -> str | None:
        entries = self.session.entries()
        return entries[number % len(entries)].id if entries else None

    async def do(self, here: Hall, step: tuple[Any, ...]) -> None:
        """Do one thing; what it comes to, or is refused with, is noted."""
        try:
            with anyio.fail_after(DEADLINE_S):
                self.outcomes.append(await self._do(here, step))
        except HarnessError as refused:
            self.outcomes.append(refused.kind)

    async def _do(self, here: Hall, step: tuple[Any, ...]) -> Any:
        harness = here.harness
        match step:
            case ("prompt", kind):
                self.replies = list(REPLIES[kind])
                return await finished(harness.prompt(PromptInput(f"please {kind} " * 5)))
            case ("continue",):
                self.replies = []
                return await finished(harness.continue_())
            case ("compact", instructed):
                made = await harness.compact("briefly" if instructed else None)
                return None if made is None else (made.summary, made.tokens_before)
            case ("branch", number, summarize, labelled):
                label = "left" if labelled else None
                request = BranchRequest(self.entry_at(number), summarize=summarize, label=label)
                outcome = await harness.branch(request)
                return outcome.editor_text, outcome.summary_entry is not None
            case ("root", summarize):
                outcome = await harness.branch(BranchRequest(None, summarize=summarize))
                return outcome.leaf_id is None
            case ("label", number, label):
                if (target := self.entry_at(number)) is not None:
                    await harness.label(target, label)
            case ("rename", name):
                await harness.rename(name)
            case ("think", level):
                await harness.set_thinking_level(level)
            case ("model", other):
                await harness.set_model(OTHER if other else scripted_model())
            case ("tools", none):
                await harness.set_active_tools([] if none else ["look"])
            case ("custom",):
                await harness.record(custom_entry("test"))
        return None


async def finished(run: Any) -> Any:
    assert isinstance(run, Run)
    outcome = await run.wait()
    return outcome.stop_reason, outcome.text, outcome.error_message


async def picture(session: SessionStorage) -> Any:
    branch = session.branch()
    return (
        session.leaf_id,
        [stored.raw for stored in session.entries()],
        [stored.id for stored in branch],
        build_context(branch),
        [(item.entry_id, item.message) for item in transcript(branch)],
        interrupted(branch),
        await session_stats(session),
        (await tree_page(session)).nodes,
        dict(session.labels),
        session.name,
        session.message_count,
    )


async def shape(session: SessionStorage) -> Any:
    """The same without what differs from session to session: ids and times."""
    numbers = {stored.id: f"#{place}" for place, stored in enumerate(session.entries())}

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items() if key not in TIMES}
        if isinstance(value, list):
            return [plain(each) for each in value]
        return numbers.get(value, value) if isinstance(value, str) else value

    context = build_context(session.branch())
    return (
        [plain(json.loads(stored.raw)) for stored in session.entries()],
        [numbers[stored.id] for stored in session.branch()],
        [numbers[entry_id] for entry_id in context.entry_ids],
        (context.model, context.thinking_level, context.active_tools),
        {numbers[target]: label.text for target, label in session.labels.items()},
        (session.name, session.message_count, session.usage_totals()),
        None if session.leaf_id is None else numbers[session.leaf_id],
    )


async def check_file(session: JsonlSession) -> None:
    """The file says what the session that wrote it does."""
    if session.entries():
        again = await JsonlSession.open(session.path, read_only=True)
        assert await picture(again) == await picture(session)
        await again.aclose()


async def perform(folder: Path, todo: list[tuple[Any, ...]]) -> None:
    parts: list[list[tuple[Any, ...]]] = [[]]
    for step in todo:
        if step == ("reopen",):
            parts.append([])
        else:
            parts[-1].append(step)
    filed = await JsonlSession.create(folder, folder, session_id="s")
    kept = MemorySession(folder, session_id="s")
    one, two = Play(filed), Play(kept)
    for part in parts:
        async with one.open() as here, two.open() as there:
            for step in part:
                await one.do(here, step)
                await two.do(there, step)
                assert one.outcomes == two.outcomes
                assert await shape(filed) == await shape(kept)
                await check_file(filed)
            assert here.harness.totals.usage == there.harness.totals.usage
            assert [type(each) for each in here.heard] == [type(each) for each in there.heard]
        before = await picture(filed)
        if not filed.entries():
            return
        filed = await JsonlSession.open(filed.path)
        assert filed.notes == []
        assert await picture(filed) == before
        lines = [stored.raw for stored in kept.entries()]
        kept = MemorySession(folder, session_id="s")
        kept.restore(lines)
        one.session, two.session = filed, kept
    await filed.aclose()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_a_session_comes_to_the_same_in_a_file_in_memory_and_reopened(
    todo: list[tuple[Any, ...]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(perform, Path(folder), todo)
