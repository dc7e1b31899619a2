"""A harness in somebody's own program: made of its parts, prompted, chosen for, closed."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_rpc.agent.events import (
    Abort,
    AgentEnd,
    AgentEvent,
    AgentSettled,
    EntryAppended,
    MessageEnd,
)
from pi_rpc.agent.messages import CustomMessage
from pi_rpc.agent.ports import ToolContext
from pi_rpc.agent.tool import AgentTool, ToolResult
from pi_rpc.harness.assembly import ExecutionEnv, Models
from pi_rpc.harness.branching import BranchRequest
from pi_rpc.harness.configuration import SessionConfiguration, custom_entry
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.harness import AgentHarness
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.prompt_templates import find_templates
from pi_rpc.harness.queue import QueuedMessage
from pi_rpc.harness.resources import Resources
from pi_rpc.harness.runs import Run
from pi_rpc.harness.skills import Place, find_skills
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, EventBatches, Provider, StreamOptions
from pi_rpc.llm.scripted import (
    ScriptedModel,
    scripted_model,
    scripted_stream_fn,
    text,
    tool_call,
)
from pi_rpc.llm.stream import MessageBuilder
from pi_rpc.session.memory import MemorySession
from pi_rpc.tools import LocalFiles, LocalShell
from tests.agent.stage import tool
from tests.harness.hall import DEADLINE_S, hall
from tests.harness.test_harness_runs import Gate, messages, settled

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def made(replies: Sequence[Any], **parts: Any) -> AgentHarness:
    parts.setdefault("session", MemorySession(Path.cwd()))
    return AgentHarness.create(
        model=parts.pop("model", scripted_model()), stream_fn=scripted_stream_fn(replies), **parts
    )


def test_the_example_of_the_page_prints_what_stands_below_it() -> None:
    (code,), (output,) = blocks("python"), blocks("text")
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ran.stderr.decode() == ""
    assert ran.stdout.decode() == output


async def test_the_page_names_every_part_and_every_code() -> None:
    import inspect
    from typing import get_args

    from pi_rpc.harness.errors import HarnessErrorCode

    harness = made([])
    parts = set(inspect.signature(AgentHarness.create).parameters)
    rows = "".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    assert parts | set(get_args(HarnessErrorCode)) <= set(re.findall(r"`(\w+)", rows))
    verbs = PAGE.split("## What it does")[1].split("\n\n")[1]
    for name in re.findall(r"^\| `(\w+)\(", verbs, re.MULTILINE):
        assert hasattr(harness, name), name


async def test_tools_are_given_the_environment_and_what_the_application_adds() -> None:
    given: list[Any] = []

    async def look(
        _id: str, _params: Any, _signal: Any, _update: Any, context: ToolContext
    ) -> ToolResult:
        given.append(context)
        return ToolResult.of_text("seen")

    env = ExecutionEnv(LocalFiles(), LocalShell())
    app = object()
    context = ToolContext(cwd=Path.cwd(), files=LocalFiles(), shell=LocalShell(), app=app)
    replies = [[tool_call("look")], [text("ok")]]
    looking = AgentTool(
        name="look", label="Look", description="d", parameters={"type": "object"}, execute=look
    )
    async with made(replies, env=env, tool_context=context, tools=[looking]) as harness:
        assert (await harness.prompt("go")).text == "ok"
    assert (given[0].files.inner, given[0].shell, given[0].app) == (env.files, env.shell, app)


async def test_requests_are_made_with_the_options_and_the_prompt_that_were_given() -> None:
    asked: list[Any] = []

    def reply(context: Any, options: StreamOptions) -> Any:
        asked.append((context.system_prompt, options.temperature, options.session_id))
        return [text("ok")]

    def prompt(choices: SessionConfiguration) -> str:
        assert choices.model is not None
        return f"You are {choices.model.id} at level {choices.level}."

    options = StreamOptions(temperature=0.5, session_id="no")
    async with made([reply], stream_options=options, system_prompt=prompt) as harness:
        await harness.prompt("go")
        ((system_prompt, temperature, session_id),) = asked
        assert system_prompt.startswith("You are scripted at level off.")
        assert (temperature, session_id) == (0.5, harness.session.session_id)


async def test_the_model_is_the_one_named_else_the_one_that_the_session_used_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PI_RPC_SCRIPT", str(tmp_path / "none.json"))
    models = Models(tmp_path)
    session = MemorySession(Path.cwd())
    named = AgentHarness.create(session=session, models=models, model="scripted:high")
    assert named.configuration.model == scripted_model()
    with pytest.raises(HarnessError) as refused:
        AgentHarness.create(session=session, models=models, model="no-such-model")
    assert (refused.value.kind, refused.value.code) == ("modelNotFound", "invalid_argument")
    other = next(each for each in models.registry.models() if each.provider != "scripted")
    await named.set_model(other)
    again = AgentHarness.create(session=session, models=models)
    assert again.configuration.model == other
    fresh = AgentHarness.create(session=MemorySession(Path.cwd()), models=models)
    assert fresh.configuration.model == scripted_model()


async def test_a_model_is_asked_with_the_variables_of_its_provider_s_own_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"AZURE_OPENAI_BASE_URL": "https://own", "AZURE_OPENAI_API_KEY": "sk-own"}
    entry = {"azure": {"type": "api_key", "env": own}}
    (tmp_path / "auth.json").write_text(json.dumps(entry))
    asked: list[StreamOptions] = []

    def provider(_api: str) -> Provider:
        async def stream(
            _model: Model, _context: Context, options: StreamOptions, builder: MessageBuilder
        ) -> EventBatches:
            asked.append(options)
            builder.stop_reason = "stop"
            yield []

        return stream

    monkeypatch.setattr("pi_rpc.harness.assembly.provider_for", provider)
    models = Models(tmp_path)
    azure = models.choose("azure/gpt-5").model
    given = StreamOptions(environment={"AZURE_OPENAI_BASE_URL": "https://given"})
    for options in (StreamOptions(), given):
        await models.stream(azure, Context(messages=[]), options).result()
    first, second = asked
    assert (first.api_key, dict(first.environment)) == ("sk-own", own)
    assert "sk-own" in first.secrets
    assert "sk-own" not in repr(StreamOptions(environment=own))
    assert second.environment["AZURE_OPENAI_BASE_URL"] == "https://given"


@pytest.mark.parametrize(("said", "expected"), [("", "short"), ("none", "none"), ("long", "long")])
async def test_the_environment_says_how_long_prompts_are_cached_unless_the_application_does(
    monkeypatch: pytest.MonkeyPatch, said: str, expected: str
) -> None:
    monkeypatch.setenv("PI_CACHE_RETENTION", said)
    assert made([]).configuration.stream_options.cache_retention == expected
    given = made([], stream_options=StreamOptions(cache_retention="short"))
    assert given.configuration.stream_options.cache_retention == "short"


async def test_the_tools_are_those_that_the_session_used_last() -> None:
    session = MemorySession(Path.cwd())
    async with made([[text("ok")]], session=session, tools=[tool("a"), tool("b")]) as harness:
        assert [each.name for each in harness.configuration.usable_tools()] == ["a", "b"]
        await harness.set_active_tools(["b"])
        await harness.prompt("go")
    again = made([], session=session, tools=[tool("b"), tool("c")])
    assert [each.name for each in again.configuration.usable_tools()] == ["b"]
    chosen = made([], session=session, tools=[tool("b"), tool("c")], active_tools=["c"])
    assert [each.name for each in chosen.configuration.usable_tools()] == ["c"]


async def test_summaries_are_asked_for_with_the_same_options() -> None:
    asked: list[Any] = []

    def reply(_context: Any, options: StreamOptions) -> Any:
        asked.append((options.headers, options.cache_retention))
        return [text("## Goal\n" + "ok " * 50)]

    options = StreamOptions(headers={"x-team": "a"})
    async with made([reply, reply], stream_options=options) as harness:
        await harness.prompt("go " * 50)
        await harness.branch(BranchRequest(None, summarize=True))
    assert asked == [({"x-team": "a"}, "short"), ({"x-team": "a"}, "none")]


async def test_what_is_refused_says_so_in_one_word() -> None:
    gate = Gate()
    harness = made([[gate.step, text("one")]], tools=[tool("look")])
    with pytest.raises(HarnessError, match="async with") as refused:
        harness.prompt("too early")
    assert refused.value.code == "invalid_state"
    async with harness:
        run = harness.prompt("go")
        await gate.reached.wait()
        for busy in (lambda: harness.prompt("no"), harness.continue_):
            with pytest.raises(HarnessError) as refused:
                busy()
            assert refused.value.code == "busy"
        with pytest.raises(HarnessError) as refused:
            await harness.skill("any")
        assert refused.value.code == "busy"
        with pytest.raises(HarnessError) as refused:
            harness.steer("  ")
        assert refused.value.code == "invalid_argument"
        with pytest.raises(HarnessError) as refused:
            await harness.set_active_tools(["look", "leap"])
        assert refused.value.code == "invalid_argument"
        gate.opened.set()
        await run
        with pytest.raises(HarnessError) as refused:
            harness.continue_()
        assert refused.value.code == "invalid_state"
        with pytest.raises(HarnessError) as refused:
            await harness.branch("nowhere")
        assert refused.value.code == "invalid_argument"
        with pytest.raises(HarnessError) as refused:
            await harness.compact()
        assert refused.value.code == "compaction"
        harness.configuration.model = None
        with pytest.raises(HarnessError) as refused:
            harness.prompt("with what?")
        assert refused.value.code == "invalid_state"
    harness.configuration.model = scripted_model()
    with pytest.raises(HarnessError, match="closed"):
        harness.prompt("too late")
    assert harness.phase == "idle"


async def test_idle_steering_and_follow_ups_start_runs_and_their_outcome_can_be_awaited() -> None:
    gate = Gate()
    async with made([[text("one")], [gate.step, text("two")], [text("three")]]) as harness:
        for said_now in (harness.steer("a"),):
            assert isinstance(said_now, Run)
            assert (await said_now).text == "one"
        run = harness.follow_up("b")
        await gate.reached.wait()
        queued, gone = harness.follow_up("c"), harness.steer("d")
        assert isinstance(queued, QueuedMessage)
        assert isinstance(gone, QueuedMessage)
        harness.withdraw(gone)
        gate.opened.set()
        outcome = await queued
        assert outcome is not None
        assert outcome is await run
        assert (outcome.text, outcome.message and outcome.message.stop_reason) == ("three", "stop")
        assert await gone is None


async def test_messages_for_the_next_turn_go_before_the_next_prompt_and_outlast_an_abort() -> None:
    gate = Gate()
    replies: list[Any] = [[gate.step], [text("on")], [text("ok")], [text("later")]]
    async with hall(replies) as here:
        harness = here.harness
        harness.prompt("first")
        await gate.reached.wait()
        harness.next_turn("one")
        harness.next_turn(PromptInput("two", client_message_id="c2"))
        harness.next_turn(
            CustomMessage(custom_type="note", content="three", display=True, timestamp=0)
        )
        assert harness.queue.snapshot().items == []
        with anyio.fail_after(DEADLINE_S):
            assert await harness.abort() == (True, harness.clear_queue())
        await settled(harness.continue_())
        assert messages(here)[-1] == "assistant: on"
        await settled(harness.steer("second"))
        assert messages(here)[-5:] == [
            "user: one",
            "user: two",
            "custom: three",
            "user: second",
            "assistant: ok",
        ]
        ends = here.of(MessageEnd)
        assert ends[-4].client_message_id == "c2"
        assert [each.id for each in harness.session.branch()][-5:] == [
            each.entry_id for each in ends[-5:]
        ]
        await settled(harness.prompt("third"))
        assert messages(here)[-3:] == ["assistant: ok", "user: third", "assistant: later"]


async def test_a_message_for_the_next_turn_that_could_not_be_delivered_waits_on() -> None:
    from tests.harness.test_persistence_order import Ledger

    ledger = Ledger()
    async with hall([[text("ok")]], session=ledger) as here:
        here.harness.next_turn("aside")
        ledger.fails_at = 2  # After the entry that says which model is asked.
        assert (await here.harness.prompt("go")).stop_reason == "error"
        ledger.fails_at = None
        await here.harness.prompt("again")
        assert messages(here) == ["user: aside", "user: again", "assistant: ok"]


async def test_an_abort_is_told_in_process_and_to_nobody_else() -> None:
    gate = Gate()
    async with hall([[gate.step]]) as here:
        wire: list[AgentEvent] = []
        here.harness.subscribe(wire.extend, in_process=False)
        here.harness.prompt("go")
        await gate.reached.wait()
        here.harness.steer("s")
        here.harness.follow_up("f")
        with anyio.fail_after(DEADLINE_S):
            await here.harness.abort()
        assert isinstance(here.heard[-2], AgentSettled)
        last = here.heard[-1]
        assert isinstance(last, Abort)
        assert [each.text for each in last.cleared_steer] == ["s"]
        assert [each.text for each in last.cleared_follow_up] == ["f"]
        assert wire == here.heard[:-1]
        await here.harness.wait_for_idle()


async def test_waiting_for_idle_includes_what_was_queued_at_the_last_moment() -> None:
    async with hall([[text("one")], [text("two")]]) as here:
        queued: list[Any] = []

        def follow(events: Sequence[AgentEvent]) -> None:
            if isinstance(events[-1], AgentEnd) and not queued:
                recording = here.harness.record(custom_entry("mine"))
                with pytest.raises(StopIteration):
                    recording.send(None)
            elif isinstance(events[-1], EntryAppended) and here.of(AgentEnd) and not queued:
                # The run is being wound up and takes nothing more.
                queued.append(here.harness.follow_up("more"))

        here.harness.subscribe(follow)
        here.harness.prompt("go")
        with anyio.fail_after(DEADLINE_S):
            await here.harness.wait_for_idle()
        assert messages(here) == ["user: go", "assistant: one", "user: more", "assistant: two"]
        assert isinstance(queued[0], QueuedMessage)
        assert (await queued[0]).text == "two"
        assert len(here.of(AgentSettled)) == 2


async def test_skills_and_templates_are_prompts_by_name(tmp_path: Path) -> None:
    (tmp_path / "fix.md").write_text("Fix $1 now.", encoding="utf-8")
    from pi_rpc.harness._selection import Selection

    place = Place(path=tmp_path, scope="user", selection=Selection((), tmp_path))
    folder = tmp_path / "skills" / "tidy"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: tidy\ndescription: Tidies.\n---\nTidy it.", encoding="utf-8"
    )
    skills = Place(path=tmp_path / "skills", scope="user", selection=Selection((), tmp_path))
    resources = Resources(
        prompt_templates=tuple(find_templates([place], [])),
        skills=tuple(find_skills([skills], [])),
    )
    async with hall([[text("a")], [text("b")]]) as here:
        here.harness.set_resources(resources)
        await (await here.harness.prompt_from_template("fix", "bugs"))
        await (await here.harness.skill("tidy", "the shed"))
        assert messages(here)[0] == "user: Fix bugs now."
        assert "Tidy it." in messages(here)[2]
        assert "the shed" in messages(here)[2]
        with pytest.raises(HarnessError, match="there is no /nothing") as refused:
            await here.harness.prompt_from_template("nothing")
        assert refused.value.code == "invalid_argument"


async def test_what_the_caller_raises_comes_out_as_it_is_and_leaves_nothing_running() -> None:
    gate = Gate()
    shown = ScriptedModel([[gate.step]])
    harness = AgentHarness.create(
        session=MemorySession(Path.cwd()), model=scripted_model(), stream_fn=shown
    )
    runs: list[Run] = []

    async def fail_midway() -> None:
        async with harness:
            runs.append(harness.prompt("go"))
            await gate.reached.wait()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_midway()
    assert runs[0].outcome is not None
    assert runs[0].outcome.aborted


async def test_a_caller_that_is_cancelled_ends_its_runs() -> None:
    gate = Gate()
    heard: list[AgentEvent] = []
    with anyio.fail_after(DEADLINE_S):
        with anyio.CancelScope() as scope:
            async with made([[gate.step]]) as harness:
                harness.subscribe(heard.extend)
                run = harness.prompt("go")
                await gate.reached.wait()
                scope.cancel()
                await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert run.outcome is not None
    assert isinstance(heard[-1], AgentSettled)
    assert heard[-1].aborted


def test_every_kind_of_refusal_has_a_code() -> None:
    from typing import get_args

    from pi_rpc.harness.errors import HarnessErrorKind

    codes = {kind: HarnessError(kind, "no").code for kind in get_args(HarnessErrorKind)}
    assert [kind for kind, code in codes.items() if code == "unknown"] == ["providerError"]
    assert HarnessError("providerError", "no", "compaction").code == "compaction"
