"""Sessions that nobody uses leave the memory, and come back as they were."""

import gc
import json
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.events import AgentEvent, SessionChanged
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.runs import Limits, Run
from pi_rpc.host.host import Host, HostedSession, SessionOptions
from pi_rpc.host.services import Services
from pi_rpc.llm.abort import AbortController
from pi_rpc.session.repo import JsonlSessionRepo
from pi_rpc.session.storage import SessionLockedError
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

HALF_AN_HOUR = 30 * 60.0


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def host(folder: Path, clock: Clock) -> AsyncIterator[Host]:
    async with anyio.create_task_group() as tasks:
        made = Host(Services(folder), SessionOptions(), folder, tasks, clock=clock)
        try:
            yield made
        finally:
            with anyio.fail_after(DEADLINE_S, shield=True):
                await made.aclose()
            tasks.cancel_scope.cancel()


async def settled(hosted: HostedSession, text: str = "go") -> None:
    run = hosted.harness.prompt(PromptInput(text))
    assert isinstance(run, Run)
    with anyio.fail_after(DEADLINE_S):
        await run.wait()


async def rest(host: Host, clock: Clock, seconds: float = HALF_AN_HOUR) -> None:
    clock.now += seconds
    with anyio.fail_after(DEADLINE_S):
        await host.unload_idle()


async def test_an_idle_session_leaves_the_memory_and_comes_back_as_it_was(
    tmp_path: Path, script: Any
) -> None:
    clock = Clock()
    other = tmp_path / "other"
    other.mkdir()
    async with host(tmp_path, clock) as it:
        hosted = await it.create(
            SessionOptions(
                permission_mode="full",
                additional_directories=(str(other),),
                append_system_prompt="Be brief.",
                limits=Limits(turns=7),
                tools=("read",),
            )
        )
        hosted.harness.configuration.auto_retry = False
        hosted.harness.queue.modes["steer"] = "all"
        await settled(hosted)
        session_id, epoch = hosted.id, hosted.epoch
        path, count = hosted.harness.session.path, hosted.harness.message_count
        harness = weakref.ref(hosted.harness)
        await rest(it, clock, HALF_AN_HOUR - 1)
        assert it.sessions == [hosted]
        del hosted
        await rest(it, clock, 1)
        assert it.sessions == []
        assert it.has(session_id)
        gc.collect()
        assert harness() is None

        again = await it.get(session_id)
        assert again.epoch != epoch
        assert again.harness.session.path == path
        assert again.harness.message_count == count
        choices = again.harness.configuration
        assert choices.permission_mode == "full"
        assert choices.additional_directories == [str(other)]
        assert choices.append_system_prompt == "Be brief."
        assert choices.limits == Limits(turns=7)
        assert [tool.name for tool in choices.usable_tools()] == ["read"]
        assert choices.auto_retry is False
        assert again.harness.queue.modes["steer"] == "all"
        await settled(again)
        assert again.harness.message_count == count + 2


async def test_the_first_event_of_a_session_that_came_back_names_its_epoch(
    tmp_path: Path, script: Any
) -> None:
    clock = Clock()
    events: list[AgentEvent] = []
    async with host(tmp_path, clock) as it:
        hosted = await it.create(SessionOptions())
        await settled(hosted)
        await rest(it, clock)
        it.on_open(lambda opened: opened.harness.subscribe(events.extend) and None)
        again = await it.get(hosted.id)
        assert isinstance(events[0], SessionChanged)
        assert events[0].changes == {"epoch": again.epoch}


async def test_others_may_write_the_file_meanwhile_and_what_they_wrote_is_there(
    tmp_path: Path, script: Any
) -> None:
    clock = Clock()
    async with host(tmp_path, clock) as it:
        hosted = await it.create(SessionOptions())
        await settled(hosted)
        count, path = hosted.harness.message_count, hosted.harness.session.path
        repo = JsonlSessionRepo(tmp_path)
        with pytest.raises(SessionLockedError):
            await repo.open(hosted.id)
        await rest(it, clock)
        theirs = await repo.open(hosted.id)
        with pytest.raises(HarnessError) as caught:
            await it.get(hosted.id)
        assert caught.value.kind == "sessionLocked"
        assert it.has(hosted.id)
        await theirs.aclose()
        assert path is not None
        lines = path.read_text().splitlines()
        last = json.loads(lines[-1])
        message = {"role": "user", "content": "from pi", "timestamp": 1}
        entry = {**last, "type": "message", "id": "abcdef01", "parentId": last["id"]}
        entry = {name: entry[name] for name in ("type", "id", "parentId", "timestamp")}
        with path.open("a") as file:
            file.write(json.dumps({**entry, "message": message}) + "\n")
        again = await it.get(hosted.id)
        assert again.harness.message_count == count + 1


async def test_a_session_in_which_something_goes_on_stays(tmp_path: Path, script: Any) -> None:
    script([{"text": "half"}, {"delayMs": 60_000}])
    clock = Clock()
    async with host(tmp_path, clock) as it:
        hosted = await it.create(SessionOptions(permission_mode="full"))
        run = hosted.harness.prompt(PromptInput("go"))
        assert isinstance(run, Run)
        await rest(it, clock)
        assert it.sessions == [hosted]
        with anyio.fail_after(DEADLINE_S):
            await hosted.harness.abort()
        # It has been idle for no time at all.
        await rest(it, clock, HALF_AN_HOUR - 1)
        assert it.sessions == [hosted]

        # What a command left in the background is the session's.
        shell = hosted.harness._loop.tool_context.shell
        await shell.run(
            "sleep 60 > /dev/null 2>&1 &",
            cwd=tmp_path,
            env={},
            timeout_s=None,
            on_output=lambda data: None,
            signal=AbortController().signal,
        )
        await rest(it, clock)
        assert it.sessions == [hosted]

        it.keep_while(lambda each: each is hosted)
        await shell.aclose()
        await rest(it, clock)
        assert it.sessions == [hosted]


async def test_what_is_kept_nowhere_stays(tmp_path: Path, script: Any) -> None:
    clock = Clock()
    async with host(tmp_path, clock) as it:
        ephemeral = await it.create(SessionOptions(ephemeral=True))
        await settled(ephemeral)
        empty = await it.create(SessionOptions())
        await rest(it, clock)
        assert it.sessions == [ephemeral, empty]


async def test_zero_minutes_keep_every_session_loaded(tmp_path: Path, script: Any) -> None:
    (tmp_path / "settings.json").write_text('{"piRpc": {"idleUnloadMinutes": 0}}')
    clock = Clock()
    async with host(tmp_path, clock) as it:
        hosted = await it.create(SessionOptions())
        await settled(hosted)
        await rest(it, clock, 1e9)
        assert it.sessions == [hosted]


async def test_an_unloaded_session_is_opened_visited_forked_closed_and_deleted_by_its_name(
    tmp_path: Path, script: Any
) -> None:
    script(*[[{"text": "hello"}]] * 5)
    clock = Clock()
    async with host(tmp_path, clock) as it:
        hosted = await it.create(SessionOptions(permission_mode="edits"))
        await settled(hosted)
        path = hosted.harness.session.path

        async def is_back() -> bool:
            back = [each.id for each in it.sessions] == [hosted.id]
            await rest(it, clock)
            assert it.sessions == []
            return back

        await rest(it, clock)
        await it.open(session_id=hosted.id)
        assert await is_back()
        await it.open(path=path)
        assert await is_back()
        async with it.visit(hosted.id) as visited:
            assert visited.id == hosted.id
        assert await is_back()
        async with it.reading(hosted.id) as session:
            assert session.session_id == hosted.id
            assert it.sessions == []
        fork = await it.fork(hosted.id)
        assert fork.hosted.harness.configuration.permission_mode == "edits"
        await rest(it, clock)
        await it.close(fork.hosted.id)
        assert not it.has(fork.hosted.id)
        assert it.has(hosted.id)
        await it.delete(hosted.id)
        assert not it.has(hosted.id)
        assert path is not None
        assert not await run_blocking(path.exists)


async def test_many_who_ask_at_once_get_one_session(tmp_path: Path, script: Any) -> None:
    clock = Clock()
    async with host(tmp_path, clock) as it:
        hosted = await it.create(SessionOptions())
        await settled(hosted)
        await rest(it, clock)
        got: list[HostedSession] = []

        async def ask() -> None:
            got.append(await it.get(hosted.id))

        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(ask)
        assert len(set(map(id, got))) == 1
        assert it.sessions == [got[0]]
