"""Every session of a process: how they begin, are found again, and end."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_rpc.agent.events import AgentEvent, AgentSettled, Diagnostic, SessionChanged
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.runs import Limits, Run
from pi_rpc.host.host import Host, HostedSession, SessionOptions
from pi_rpc.host.services import Services
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

HOLD_MS = 60_000
EPHEMERAL = SessionOptions(ephemeral=True)


@asynccontextmanager
async def host(folder: Path, **defaults: Any) -> AsyncIterator[Host]:
    async with anyio.create_task_group() as tasks:
        made = Host(Services(folder), SessionOptions(**defaults), folder, tasks)
        try:
            yield made
        finally:
            with anyio.fail_after(DEADLINE_S, shield=True):
                await made.aclose()
            tasks.cancel_scope.cancel()


async def settled(hosted: HostedSession, text: str = "go") -> Any:
    run = hosted.harness.prompt(PromptInput(text))
    assert isinstance(run, Run)
    with anyio.fail_after(DEADLINE_S):
        return await run.wait()


async def refused(awaitable: Any) -> HarnessError:
    with pytest.raises(HarnessError) as caught:
        await awaitable
    return caught.value


async def test_a_session_takes_what_it_names_and_the_rest_from_the_defaults(
    tmp_path: Path, script: Any
) -> None:
    defaults = {"model": "scripted/scripted", "permission_mode": "full", "tools": ("read", "bash")}
    async with host(tmp_path, **defaults) as it:
        plain = (await it.create(EPHEMERAL)).harness.configuration
        assert plain.model is not None
        assert plain.model.ref == "scripted/scripted"
        assert plain.permission_mode == "full"
        assert plain.named_tools == ["read", "bash"]
        assert plain.cwd == tmp_path.resolve()
        named = SessionOptions(
            ephemeral=True,
            permission_mode="readonly",
            tools=(),
            limits=Limits(turns=2),
            system_prompt="be brief",
            append_system_prompt="and kind",
            additional_directories=("/tmp",),
        )
        own = (await it.create(named)).harness.configuration
        assert own.permission_mode == "readonly"
        assert own.named_tools == []
        assert own.limits == Limits(turns=2)
        assert (own.system_prompt, own.append_system_prompt) == ("be brief", "and kind")
        assert own.additional_directories == ["/tmp"]


async def test_the_oldest_session_comes_first_and_each_has_an_epoch_of_its_own(
    tmp_path: Path, script: Any
) -> None:
    async with host(tmp_path) as it:
        made = [await it.create(EPHEMERAL) for _ in range(3)]
        assert it.sessions == made
        assert len({each.id for each in made}) == len({each.epoch for each in made}) == 3
        assert await it.get(made[1].id) is made[1]
        with pytest.raises(HarnessError) as caught:
            await it.get("nobody")
        assert caught.value.kind == "sessionNotFound"


@pytest.mark.parametrize("cwd", ["relative", "/nowhere/at/all", "a-file"])
async def test_a_directory_that_is_none_is_refused_and_leaves_no_session(
    tmp_path: Path, script: Any, cwd: str
) -> None:
    (tmp_path / "a-file").touch()
    wrong = tmp_path / cwd if cwd == "a-file" else Path(cwd)
    async with host(tmp_path) as it:
        error = await refused(it.create(SessionOptions(cwd=wrong)))
        assert error.kind == "invalidParams"
        assert error.fields == {"path": "cwd"}
        assert it.sessions == []
    assert not (tmp_path / "sessions").exists()


@pytest.mark.parametrize(
    ("options", "kind"),
    [({"model": "nobody/nothing"}, "modelNotFound"), ({"tools": ("fly",)}, "invalidParams")],
)
async def test_options_that_cannot_be_met_leave_no_session_behind(
    tmp_path: Path, script: Any, options: dict[str, Any], kind: str
) -> None:
    async with host(tmp_path) as it:
        assert (await refused(it.create(SessionOptions(**options)))).kind == kind
        assert it.sessions == []
        assert [each for each in tmp_path.rglob("*.jsonl*") if each.is_file()] == []


async def test_listeners_meet_a_session_before_its_first_event_and_after_its_last(
    tmp_path: Path, script: Any
) -> None:
    (tmp_path / "settings.json").write_text("{not json")
    lives: list[tuple[str, Any]] = []
    events: list[AgentEvent] = []

    def opened(hosted: HostedSession) -> None:
        lives.append(("open", hosted))
        hosted.harness.subscribe(events.extend)

    def closed(hosted: HostedSession) -> None:
        lives.append(("close", hosted))
        events.append(Diagnostic(severity="info", message="closed"))

    script([{"text": "half"}, {"delayMs": HOLD_MS}])
    async with host(tmp_path) as it:
        it.on_open(opened)
        it.on_close(closed)
        hosted = await it.create(SessionOptions(name="a name"))
        assert isinstance(events[0], Diagnostic)
        assert "settings.json" in events[0].message
        assert any(
            isinstance(each, SessionChanged) and each.changes["name"] == "a name"
            for each in events
            if isinstance(each, SessionChanged) and "name" in each.changes
        )
        hosted.harness.prompt(PromptInput("go"))
        with anyio.fail_after(DEADLINE_S):
            await it.close(hosted.id)
        assert isinstance(events[-2], AgentSettled)
        assert lives == [("open", hosted), ("close", hosted)]
        assert it.sessions == []
        assert (await refused(it.close(hosted.id))).kind == "sessionNotFound"


async def test_a_session_that_has_begun_to_close_is_closed_though_its_caller_is_cancelled(
    tmp_path: Path, script: Any
) -> None:
    script([{"text": "One."}], [{"text": "half"}, {"delayMs": HOLD_MS}])
    closed: list[tuple[HostedSession, Run | None]] = []
    async with host(tmp_path) as it:
        it.on_close(lambda each: closed.append((each, each.harness.run)))
        hosted = await it.create(SessionOptions())
        await settled(hosted)
        hosted.harness.prompt(PromptInput("go on"))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await it.close(hosted.id)
        assert closed == [(hosted, None)]
        assert (await it.open(session_id=hosted.id)).id == hosted.id


async def test_a_session_that_is_open_is_found_by_id_and_by_any_name_of_its_file(
    tmp_path: Path, script: Any
) -> None:
    async with host(tmp_path) as it:
        hosted = await it.create(SessionOptions())
        await settled(hosted)
        path = hosted.harness.session.path
        assert path is not None
        link = tmp_path / "link.jsonl"
        link.symlink_to(path)
        assert await it.open(session_id=hosted.id) is hosted
        for name in (path, path.relative_to(tmp_path), link):
            assert await it.open(path=name) is hosted
        assert it.sessions == [hosted]


async def test_a_session_from_disk_goes_on_with_what_it_had(tmp_path: Path, script: Any) -> None:
    async with host(tmp_path) as it:
        first = await it.create(SessionOptions(name="kept"))
        await settled(first)
        await it.close(first.id)
        with anyio.fail_after(DEADLINE_S):
            opened: list[HostedSession] = []

            async def open_it() -> None:
                opened.append(await it.open(session_id=first.id))

            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(open_it)
        assert len({id(each) for each in opened}) == 1
        (again,) = it.sessions
        assert again.id == first.id
        assert again.epoch != first.epoch
        assert again.harness.configuration.name == "kept"
        assert again.harness.message_count == 2
        assert (await settled(again)).text == "again"


async def test_a_session_of_another_host_is_locked_until_that_lets_go(
    tmp_path: Path, script: Any
) -> None:
    async with host(tmp_path) as one, host(tmp_path) as other:
        hosted = await one.create(SessionOptions())
        await settled(hosted)
        assert (await refused(other.open(session_id=hosted.id))).kind == "sessionLocked"
        seen = await other.open(session_id=hosted.id, read_only=True)
        with pytest.raises(HarnessError) as caught:
            seen.harness.prompt(PromptInput("no"))
        assert caught.value.kind == "storage"
        await other.close(seen.id)
        await one.close(hosted.id)
        assert (await other.open(session_id=hosted.id)).harness.message_count == 2


async def test_what_names_no_session_is_refused(tmp_path: Path, script: Any) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "bad.jsonl").write_text("this is no session\n")
    async with host(tmp_path) as it:
        assert (await refused(it.open())).kind == "invalidParams"
        assert (await refused(it.open(session_id="nobody"))).kind == "sessionNotFound"
        assert (await refused(it.open(path=Path("gone.jsonl")))).kind == "sessionNotFound"
        assert (await refused(it.open(path=Path("notes.txt")))).kind == "invalidParams"
        assert (await refused(it.open(path=Path("bad.jsonl")))).kind == "sessionCorrupt"
        assert it.sessions == []
    assert (tmp_path / "bad.jsonl").read_text() == "this is no session\n"


async def test_runs_settle_after_stop_all_and_none_begins_any_more(
    tmp_path: Path, script: Any
) -> None:
    script([{"text": "half"}, {"delayMs": HOLD_MS}])
    async with host(tmp_path) as it:
        made = [await it.create(EPHEMERAL) for _ in range(3)]
        for each in made:
            each.harness.prompt(PromptInput("go"))
        assert it.is_running
        it.stop_all()
        with anyio.fail_after(DEADLINE_S):
            await it.settled()
        assert not it.is_running
        assert (await settled(made[0])).aborted
        late = await it.create(EPHEMERAL)
        assert (await settled(late)).aborted


async def test_closing_everything_is_bounded_though_one_session_hangs(
    tmp_path: Path, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with host(tmp_path) as it:
        stuck = await it.create(EPHEMERAL)
        other = await it.create(SessionOptions())
        await settled(other)
        monkeypatch.setattr(stuck.harness, "aclose", anyio.sleep_forever)
        with anyio.fail_after(DEADLINE_S):
            await it.aclose()
        assert it.sessions == []
        async with host(tmp_path) as next_one:
            assert (await next_one.open(session_id=other.id)).id == other.id


async def test_a_model_that_is_gone_gives_way_to_the_default(
    tmp_path: Path, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = {
        "providers": {
            "mine": {
                "baseUrl": "http://127.0.0.1:1/v1",
                "apiKey": "k",
                "api": "openai-completions",
                "models": [{"id": "small"}],
            }
        }
    }
    (tmp_path / "models.json").write_text(json.dumps(mine))
    async with host(tmp_path) as it:
        hosted = await it.create(SessionOptions())
        await settled(hosted)
        registry = it.models
        await hosted.harness.set_model(registry.find({"provider": "mine", "id": "small"}))
        await it.close(hosted.id)
    async with host(tmp_path) as it:
        model = (await it.open(session_id=hosted.id)).harness.configuration.model
        assert model is not None
        assert model.ref == "mine/small"
    (tmp_path / "models.json").unlink()
    async with host(tmp_path) as it:
        model = (await it.open(session_id=hosted.id)).harness.configuration.model
        assert model is None or model.ref != "mine/small"


async def test_tools_know_their_session_and_nothing_of_keys(
    tmp_path: Path, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a secret")
    command = 'echo "$PI_SESSION_ID $PI_SESSION_FILE [$ANTHROPIC_API_KEY]"'
    script([{"toolCall": {"name": "bash", "arguments": {"command": command}}}], [{"text": "ok"}])
    async with host(tmp_path, permission_mode="full", model="scripted/scripted") as it:
        hosted = await it.create(SessionOptions())
        await settled(hosted)
        path = hosted.harness.session.path
        assert path is not None
        assert f"{hosted.id} {path} []" in path.read_text()


@pytest.mark.parametrize(("said", "expected"), [("", "short"), ("long", "long")])
async def test_the_environment_says_how_long_the_prompts_of_a_session_are_cached(
    tmp_path: Path, script: Any, monkeypatch: pytest.MonkeyPatch, said: str, expected: str
) -> None:
    monkeypatch.setenv("PI_CACHE_RETENTION", said)
    async with host(tmp_path) as it:
        configuration = (await it.create(EPHEMERAL)).harness.configuration
        assert configuration.stream_options.cache_retention == expected
