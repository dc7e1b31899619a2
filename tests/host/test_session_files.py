"""What a host does to whole sessions, open or not: forks, deletion, visits; and its own repo."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_rpc.agent.events import AgentSettled, Diagnostic
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.runs import Limits
from pi_rpc.host.host import Host, HostedSession, SessionOptions
from pi_rpc.host.services import Services
from pi_rpc.session import JsonlSessionRepo, MemorySessionRepo
from tests.host.test_host import (
    DEADLINE_S,
    EPHEMERAL,
    HOLD_MS,
    host,
    refused,
    settled,
)

pytestmark = pytest.mark.anyio


def said(hosted: HostedSession) -> list[str]:
    """The entries of the active branch that are messages: who says them."""
    return [each.role or "" for each in hosted.harness.session.branch() if each.type == "message"]


def message_ids(hosted: HostedSession) -> list[str]:
    return [each.id for each in hosted.harness.session.branch() if each.type == "message"]


def file_of(hosted: HostedSession) -> Path:
    path = hosted.harness.session.path
    assert path is not None
    return path


# --- forks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("opened", [True, False])
async def test_a_clone_holds_what_the_other_holds_and_goes_its_own_way(
    tmp_path: Path, script: Any, opened: bool
) -> None:
    async with host(tmp_path) as it:
        source = await it.create(SessionOptions(name="first"))
        await settled(source)
        if not opened:
            await it.close(source.id)
        before = file_of(source).read_bytes()
        fork = await it.fork(source.id)
        assert fork.written is None
        assert said(fork.hosted) == ["user", "assistant"]
        assert fork.hosted.harness.configuration.name == "first"
        assert fork.hosted in it.sessions
        assert (source in it.sessions) == opened
        header = json.loads(file_of(fork.hosted).read_text().splitlines()[0])
        assert header["parentSession"] == str(file_of(source))
        await settled(fork.hosted)
        assert said(fork.hosted) == ["user", "assistant"] * 2
        assert file_of(source).read_bytes() == before


async def test_a_fork_before_a_message_gives_it_back_as_it_was_sent(
    tmp_path: Path, script: Any
) -> None:
    attachment = {"type": "text", "name": "log", "text": "0 1 2"}
    async with host(tmp_path) as it:
        source = await it.create(SessionOptions())
        await settled(source, "one")
        run = source.harness.prompt(PromptInput("two", attachments=[attachment]))
        await run.wait()  # type: ignore[union-attr]
        second = message_ids(source)[2]
        fork = await it.fork(source.id, second)
        assert fork.written is not None
        assert (fork.written.text, fork.written.attachments) == ("two", (attachment,))
        assert said(fork.hosted) == ["user", "assistant"]
        kept = await it.fork(source.id, second, position="at")
        assert kept.written is None
        assert said(kept.hosted) == ["user", "assistant", "user"]


async def test_a_fork_takes_over_the_choices_of_an_open_session(
    tmp_path: Path, script: Any
) -> None:
    options = SessionOptions(
        additional_directories=(str(tmp_path),),
        permission_mode="edits",
        tools=("read", "bash"),
        system_prompt="be brief",
        append_system_prompt="and kind",
        limits=Limits(turns=3),
    )
    async with host(tmp_path) as it:
        source = await it.create(options)
        await settled(source)
        await source.harness.set_thinking_level("high")
        source.harness.steering_mode = "all"
        source.harness.configuration.auto_compaction = False
        fork = (await it.fork(source.id, message_ids(source)[1], position="at")).hosted
        own, theirs = fork.harness.configuration, source.harness.configuration
        for name in (
            *("cwd", "model", "thinking_level", "permission_mode", "named_tools", "limits"),
            *("additional_directories", "system_prompt", "append_system_prompt"),
            *("auto_compaction", "auto_retry"),
        ):
            assert getattr(own, name) == getattr(theirs, name), name
        assert fork.harness.steering_mode == "all"
        own.additional_directories.append("/")
        assert theirs.additional_directories == [str(tmp_path)]


async def test_a_fork_of_a_running_session_holds_what_was_stored_so_far(
    tmp_path: Path, script: Any
) -> None:
    script([{"text": "half"}, {"delayMs": HOLD_MS}])
    async with host(tmp_path) as it:
        source = await it.create(SessionOptions())
        run = source.harness.prompt(PromptInput("go"))
        with anyio.fail_after(DEADLINE_S):
            while said(source) != ["user"]:
                await anyio.lowlevel.checkpoint()
            fork = (await it.fork(source.id)).hosted
        assert said(fork) == ["user"]
        assert fork.harness.phase == "idle"
        assert source.harness.phase == "turn"
        source.harness.stop()
        await run.wait()  # type: ignore[union-attr]
        assert said(source) == ["user", "assistant"]
        assert said(fork) == ["user"]


async def test_a_fork_of_an_ephemeral_session_is_ephemeral(tmp_path: Path, script: Any) -> None:
    async with host(tmp_path) as it:
        source = await it.create(EPHEMERAL)
        await settled(source)
        fork = (await it.fork(source.id, message_ids(source)[0])).hosted
        assert fork.harness.session.path is None
        assert fork.ephemeral
        assert said(fork) == []
        await settled(fork)
        assert said(fork) == ["user", "assistant"]
    assert not (tmp_path / "sessions").exists()


async def test_a_fork_of_an_empty_session_is_empty_and_begins_with_its_first_entry(
    tmp_path: Path, script: Any
) -> None:
    async with host(tmp_path) as it:
        source = await it.create(SessionOptions())
        fork = (await it.fork(source.id)).hosted
        assert not file_of(fork).exists()
        await settled(fork)
        assert file_of(fork).exists()
        assert not file_of(source).exists()


async def test_a_session_that_another_writes_can_be_forked(tmp_path: Path, script: Any) -> None:
    async with host(tmp_path) as one, host(tmp_path) as other:
        source = await one.create(SessionOptions())
        await settled(source)
        fork = (await other.fork(source.id)).hosted
        assert said(fork) == ["user", "assistant"]
        assert other.sessions == [fork]
        await settled(fork)
        assert said(fork) == ["user", "assistant"] * 2


async def test_what_cannot_be_forked_is_refused_and_leaves_nothing_behind(
    tmp_path: Path, script: Any
) -> None:
    async with host(tmp_path) as it:
        source = await it.create(SessionOptions())
        await settled(source)
        answer = message_ids(source)[1]
        files = sorted(tmp_path.rglob("*.jsonl"))
        for arguments, kind in (
            (("nobody",), "sessionNotFound"),
            ((source.id, "ffffffff"), "entryNotFound"),
            ((source.id, answer), "invalidParams"),
        ):
            error = await refused(it.fork(*arguments))
            assert error.kind == kind
        assert error.fields == {"path": "entryId"}
        assert (await refused(it.fork(source.id, position="before"))).kind == "invalidParams"
        assert it.sessions == [source]
        assert sorted(tmp_path.rglob("*.jsonl")) == files


async def test_a_fork_that_cannot_be_opened_is_in_no_list(
    tmp_path: Path, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with host(tmp_path) as it:
        source = await it.create(SessionOptions())
        await settled(source)

        def broken() -> Any:
            raise RuntimeError("no extensions today")

        monkeypatch.setattr(it.services, "extensions", broken)
        with pytest.raises(RuntimeError):
            await it.fork(source.id)
        assert it.sessions == [source]
        page = await it.stored.page(cwd=None, query=None, limit=9, cursor=None)
        assert [each.session_id for each in page.sessions] == [source.id]


# --- deletion -----------------------------------------------------------------------------------


@pytest.mark.parametrize("opened", [True, False])
async def test_a_deleted_session_is_in_the_trash(tmp_path: Path, script: Any, opened: bool) -> None:
    async with host(tmp_path) as it:
        hosted = await it.create(SessionOptions())
        await settled(hosted)
        if not opened:
            await it.close(hosted.id)
        path = file_of(hosted)
        content = path.read_bytes()
        await it.delete(hosted.id)
        assert it.sessions == []
        assert list(path.parent.iterdir()) == []
        (kept,) = (tmp_path / "sessions" / ".trash").rglob("*.jsonl")
        assert kept.read_bytes().startswith(content)
        assert (await refused(it.delete(hosted.id))).kind == "sessionNotFound"
        assert (await refused(it.open(session_id=hosted.id))).kind == "sessionNotFound"


async def test_deleting_a_running_session_ends_its_run_first(tmp_path: Path, script: Any) -> None:
    script([{"text": "half"}, {"delayMs": HOLD_MS}])
    async with host(tmp_path) as it:
        hosted = await it.create(SessionOptions())
        events: list[Any] = []
        hosted.harness.subscribe(events.extend)
        run = hosted.harness.prompt(PromptInput("go"))
        with anyio.fail_after(DEADLINE_S):
            while said(hosted) != ["user"]:
                await anyio.lowlevel.checkpoint()
            await it.delete(hosted.id)
        assert (await run.wait()).aborted  # type: ignore[union-attr]
        assert isinstance(events[-1], AgentSettled)
        (kept,) = (tmp_path / "sessions" / ".trash").rglob("*.jsonl")
        assert '"stopReason":"aborted"' in kept.read_text()


@pytest.mark.parametrize("options", [EPHEMERAL, SessionOptions()])
async def test_deleting_a_session_without_a_file_closes_it(
    tmp_path: Path, script: Any, options: SessionOptions
) -> None:
    async with host(tmp_path) as it:
        hosted = await it.create(options)
        await it.delete(hosted.id)
        assert it.sessions == []
    assert not (tmp_path / "sessions").exists()


async def test_a_session_that_another_writes_is_not_deleted_and_stays_open_to_look_at(
    tmp_path: Path, script: Any
) -> None:
    async with host(tmp_path) as one, host(tmp_path) as other:
        hosted = await one.create(SessionOptions())
        await settled(hosted)
        assert (await refused(other.delete(hosted.id))).kind == "sessionLocked"
        seen = await other.open(session_id=hosted.id, read_only=True)
        assert (await refused(other.delete(hosted.id))).kind == "sessionLocked"
        assert other.sessions == [seen]
        await one.close(hosted.id)
        await other.delete(hosted.id)
        assert other.sessions == []
        assert not file_of(hosted).exists()


# --- visits -------------------------------------------------------------------------------------


async def test_a_visit_to_an_open_session_is_to_that_session(tmp_path: Path, script: Any) -> None:
    async with host(tmp_path) as it:
        hosted = await it.create(SessionOptions())
        async with it.visit(hosted.id) as visited:
            assert visited is hosted
        assert it.sessions == [hosted]


async def test_a_visit_opens_a_session_for_the_moment_and_tells_nobody(
    tmp_path: Path, script: Any
) -> None:
    met: list[HostedSession] = []
    async with host(tmp_path) as it, host(tmp_path) as other:
        hosted = await it.create(SessionOptions())
        await settled(hosted)
        await it.close(hosted.id)
        it.on_open(met.append)
        it.on_close(met.append)
        async with it.visit(hosted.id) as visited:
            await visited.harness.rename("while it was closed")
            assert (await refused(other.open(session_id=hosted.id))).kind == "sessionLocked"
        assert (it.sessions, met) == ([], [])
        again = await other.open(session_id=hosted.id)
        assert again.harness.configuration.name == "while it was closed"
        with pytest.raises(Exception, match="being written") as caught:
            async with it.visit(hosted.id):
                pass
        assert getattr(caught.value, "kind", None) == "sessionLocked"


async def test_who_opens_a_session_during_a_visit_waits_for_its_end(
    tmp_path: Path, script: Any
) -> None:
    async with host(tmp_path) as it:
        hosted = await it.create(SessionOptions())
        await settled(hosted)
        await it.close(hosted.id)
        async with anyio.create_task_group() as tasks, it.visit(hosted.id) as visited:
            tasks.start_soon(lambda: it.open(session_id=hosted.id))
            await anyio.wait_all_tasks_blocked()
            await visited.harness.rename("first")
        (opened,) = it.sessions
        assert opened.harness.configuration.name == "first"


# --- where a session works, and what it comes from ----------------------------------------------


@pytest.mark.parametrize("wrong", ["relative", "", "/nowhere/at/all", "/a\0b", "/" + "x" * 5000])
async def test_further_directories_that_are_none_are_refused(
    tmp_path: Path, script: Any, wrong: str
) -> None:
    async with host(tmp_path) as it:
        options = SessionOptions(additional_directories=(str(tmp_path), wrong))
        error = await refused(it.create(options))
        assert error.kind == "invalidParams"
        assert error.fields == {"path": "additionalDirectories[1]"}
        assert len(error.message) < 400
        assert it.sessions == []


async def test_a_parent_is_named_by_id_or_by_file_and_must_be_a_session(
    tmp_path: Path, script: Any
) -> None:
    (tmp_path / "no.jsonl").write_text("this is no session\n")
    async with host(tmp_path) as it:
        parent = await it.create(SessionOptions())
        await settled(parent)
        path = file_of(parent)

        async def noted(named: str) -> object:
            made = await it.create(SessionOptions(parent_session=named))
            return made.harness.session.header.parent_session

        assert await noted(parent.id) == str(path)
        await it.close(parent.id)
        for named in (parent.id, str(path), str(path.relative_to(tmp_path))):
            assert await noted(named) == str(path)
        count = len(it.sessions)
        for named in ("nobody", "gone.jsonl", "no.jsonl", "/a/b", "a\0b.jsonl", "../x", "x" * 999):
            error = await refused(it.create(SessionOptions(parent_session=named)))
            assert (error.kind, error.fields) == ("invalidParams", {"path": "parentSession"}), named
        assert len(it.sessions) == count
    assert (tmp_path / "no.jsonl").read_text() == "this is no session\n"


async def test_a_session_can_be_opened_to_work_somewhere_else(tmp_path: Path, script: Any) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    gone = tmp_path / "gone"
    gone.mkdir()
    async with host(tmp_path) as it:
        hosted = await it.create(SessionOptions(cwd=gone))
        await settled(hosted)
        await it.close(hosted.id)
        gone.rmdir()
        for wrong in ("relative", "/nowhere/at/all"):
            error = await refused(it.open(session_id=hosted.id, cwd=Path(wrong)))
            assert (error.kind, error.fields) == ("invalidParams", {"path": "cwd"})
        events: list[Any] = []
        it.on_open(lambda opened: opened.harness.subscribe(events.extend) and None)
        await it.open(session_id=hosted.id)
        assert f"The working directory {gone} is gone" in events[0].message
        await it.close(hosted.id)
        moved = await it.open(session_id=hosted.id, cwd=elsewhere)
        assert not any(isinstance(each, Diagnostic) for each in events[1:])
        assert moved.harness.configuration.cwd == elsewhere.resolve()
        fork = (await it.fork(hosted.id)).hosted
        assert fork.harness.configuration.cwd == elsewhere.resolve()
        assert fork.harness.session.cwd == str(elsewhere.resolve())


@pytest.mark.parametrize("name", ["a\0b.jsonl", "x" * 5000 + ".jsonl"])
async def test_a_file_that_cannot_be_is_refused(tmp_path: Path, script: Any, name: str) -> None:
    async with host(tmp_path) as it:
        error = await refused(it.open(path=Path(name)))
        assert error.kind in {"invalidParams", "storage", "sessionNotFound"}


# --- whose repo it is ---------------------------------------------------------------------------


async def test_a_host_keeps_sessions_where_it_is_told_to(tmp_path: Path, script: Any) -> None:
    repo = MemorySessionRepo()
    async with anyio.create_task_group() as tasks:
        it = Host(Services(tmp_path), SessionOptions(), tmp_path, tasks, repo=repo)
        hosted = await it.create(SessionOptions(name="kept"))
        await settled(hosted)
        await it.close(hosted.id)
        again = await it.open(session_id=hosted.id)
        assert (await settled(again)).text == "again"
        fork = (await it.fork(hosted.id)).hosted
        assert not fork.ephemeral
        page = await it.stored.page(cwd=None, query=None, limit=9, cursor=None)
        assert {each.session_id for each in page.sessions} == {hosted.id, fork.id}
        await it.delete(hosted.id)
        assert await repo.most_recent(cwd=tmp_path) is not None
        page = await it.stored.page(cwd=None, query=None, limit=9, cursor=None)
        assert [each.session_id for each in page.sessions] == [fork.id]
        await it.aclose()
        tasks.cancel_scope.cancel()
    assert not (tmp_path / "sessions").exists()


async def test_sessions_are_made_and_found_in_the_folder_a_person_chose(
    tmp_path: Path, script: Any
) -> None:
    flat = tmp_path / "flat"
    (tmp_path / "settings.json").write_text(json.dumps({"sessionDir": str(flat)}))
    old = await JsonlSessionRepo(tmp_path).create(tmp_path)
    async with host(tmp_path) as it:
        hosted = await it.create(SessionOptions())
        await settled(hosted)
        assert file_of(hosted).parent == flat
        await it.close(hosted.id)
        assert (await it.open(session_id=hosted.id)).id == hosted.id
        assert (await refused(it.open(session_id=old.session_id))).kind == "sessionNotFound"
