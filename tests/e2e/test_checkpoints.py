"""What runs changed, looked at and taken back with a client we did not write."""

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.deadlines import DEADLINE_S
from tests.e2e.buffers import ABILITIES, Buffers
from tests.e2e.editor import Editor, Refused, call, editor, hold, say

pytestmark = pytest.mark.anyio

FULL = {"capabilities": {}, "initializationOptions": {"session": {"permissionMode": "full"}}}


def edit(path: str, old: str, new: str) -> dict[str, Any]:
    return call("edit", path=path, edits=[{"oldText": old, "newText": new}])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode) for path in found
    }


async def newest(client: Editor, **session: str) -> dict[str, Any]:
    listed = await client.request("checkpoint/list", session)
    checkpoint: dict[str, Any] = listed["checkpoints"][0]
    return checkpoint


async def refused(client: Editor, method: str, params: dict[str, Any]) -> str:
    with pytest.raises(Refused) as error:
        await client.request(method, params)
    return error.value.kind


async def test_a_run_of_many_edits_is_taken_back_byte_for_byte_and_that_too(
    project: Path, home: Path
) -> None:
    (project / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    (project / "open end").write_bytes(b"no line break")
    (project / "empty").write_bytes(b"")
    (project / "run.sh").write_bytes(b"#!/bin/sh\n")
    (project / "run.sh").chmod(0o755)
    (project / "binary").write_bytes(bytes(range(256)))
    (project / "alias").symlink_to("crlf.txt")
    before = files(project)
    turns = [
        [edit("crlf.txt", "one", "1"), edit("open end", "no", "still no")],
        [call("write", path="empty", content="full"), edit("run.sh", "sh", "bash")],
        [call("write", path="binary", content="text"), edit("alias", "two", "2")],
        [call("write", path="new/deep/file", content="n"), edit("crlf.txt", "1", "uno")],
    ]
    async with editor(home, [*turns, [say("done")]], cwd=project, initialize=FULL) as client:
        await client.request("prompt", {"message": "Change\neverything"})
        after = files(project)
        assert len(after) == len(before) + 1
        settled = await client.until("agent_settled")
        checkpoint = await newest(client)
        assert checkpoint["checkpointId"] == settled["checkpointId"]
        assert (checkpoint["runId"], checkpoint["kind"]) == (settled["runId"], "run")
        assert checkpoint["text"] == "Change everything"
        page = await client.request("session/messages")
        assert checkpoint["entryId"] == page["entryIds"][0]
        assert settled["diff"].count("diff --git ") == len(checkpoint["files"]) == 6
        whole = await client.request("checkpoint/diff", {"checkpointId": settled["checkpointId"]})
        assert whole == {"diff": settled["diff"], "truncated": False}
        done = await client.request("checkpoint/restore", {"checkpointId": settled["checkpointId"]})
        assert done["conflicts"] == []
        assert files(project) == before
        assert not (project / "new").exists()
        assert (project / "alias").is_symlink()
        undo = {"checkpointId": done["checkpointId"]}
        assert (await newest(client))["kind"] == "restore"
        await client.request("checkpoint/restore", undo)
        assert files(project) == after


async def test_a_run_without_edits_has_no_diff_and_no_checkpoint(project: Path, home: Path) -> None:
    (project / "a").write_text("a")
    replies = [[call("read", path="a")], [say("seen")]]
    async with editor(home, replies, cwd=project, initialize=FULL) as client:
        await client.request("prompt", {"message": "look"})
        settled = await client.until("agent_settled")
        assert not {"diff", "checkpointId", "diffTruncated"} & set(settled)
        assert await client.request("checkpoint/list") == {"checkpoints": [], "hasMore": False}
    assert not (home / "pi-rpc").exists()


async def test_a_long_diff_is_cut_in_the_event_and_whole_on_request(
    project: Path, home: Path
) -> None:
    replies = [[call("write", path="long", content="0123456789\n" * 20_000)], [say("done")]]
    async with editor(home, replies, cwd=project, initialize=FULL) as client:
        await client.request("prompt", {"message": "go"})
        settled = await client.until("agent_settled")
        assert settled["diffTruncated"] is True
        assert len(settled["diff"]) < 66_000
        assert settled["diff"].splitlines()[-1].startswith("# pi-rpc: ")
        asked = {"checkpointId": settled["checkpointId"]}
        whole = await client.request("checkpoint/diff", asked)
        assert whole["truncated"] is False
        assert whole["diff"].count("\n+0123456789") == 20_000


async def test_named_files_alone_are_restored_and_others_refused(project: Path, home: Path) -> None:
    replies = [
        [call("write", path="a b", content="1"), call("write", path="c", content="2")],
        [say("done")],
    ]
    async with editor(home, replies, cwd=project, initialize=FULL) as client:
        await client.request("prompt", {"message": "go"})
        named = {"checkpointId": (await newest(client))["checkpointId"]}
        strange = {**named, "paths": [str(project / "c"), "/etc/passwd"]}
        with pytest.raises(Refused) as error:
            await client.request("checkpoint/restore", strange)
        assert error.value.data == {"kind": "invalidParams", "path": "paths[1]"}
        assert set(files(project)) == {"a b", "c"}
        only = {**named, "paths": [(project / "a b").as_uri()]}
        done = await client.request("checkpoint/restore", only)
        assert [each["path"] for each in done["restored"]] == [str(project / "a b")]
        assert set(files(project)) == {"c"}
        last = await client.request("checkpoint/restore", {**named, "paths": []})
        assert last == {"restored": [], "conflicts": []}


async def test_restoring_is_refused_while_a_run_goes_on_and_where_nothing_may_be_written(
    project: Path, home: Path
) -> None:
    replies = [[call("write", path="a", content="1")], [say("one")], [say("two"), hold()]]
    async with editor(home, replies, cwd=project, initialize=FULL) as client:
        await client.request("prompt", {"message": "go"})
        named = {"checkpointId": (await newest(client))["checkpointId"]}
        await client.request("prompt", {"message": "on", "wait": "accepted"})
        assert await refused(client, "checkpoint/restore", named) == "sessionBusy"
        await client.request("abort")
        await client.request("session/configure", {"permissionMode": "readonly"})
        assert await refused(client, "checkpoint/restore", named) == "permissionDenied"
        assert set(files(project)) == {"a"}
        assert (await newest(client))["checkpointId"] == named["checkpointId"]


async def test_what_an_aborted_run_changed_is_told_and_taken_back(
    project: Path, home: Path
) -> None:
    (project / "a").write_text("old")
    replies = [[edit("a", "old", "new")], [say("and"), hold()]]
    async with editor(home, replies, cwd=project, initialize=FULL) as client:
        await client.request("prompt", {"message": "go", "wait": "accepted"})
        await client.until("tool_execution_end")
        await client.request("abort")
        settled = await client.until("agent_settled")
        assert settled["aborted"] is True
        assert "-old\n" in settled["diff"]
        await client.request("checkpoint/restore", {"checkpointId": settled["checkpointId"]})
    assert (project / "a").read_text() == "old"


async def test_a_run_that_was_killed_is_taken_back_by_the_next_process(
    project: Path, home: Path
) -> None:
    (project / "a").write_text("old")
    before = files(project)
    replies = [[edit("a", "old", "new"), call("write", path="b", content="b")], [say("x"), hold()]]
    async with editor(home, replies, cwd=project, initialize=FULL) as client:
        await client.request("prompt", {"message": "go", "wait": "accepted"})
        await client.until("tool_execution_end", count=2)
        session = {"sessionId": (await client.request("session/state"))["sessionId"]}
        os.kill(client.process.pid, 9)
        await client.ended()
    assert (project / "a").read_text() == "new"
    async with editor(home, cwd=project, initialize=FULL) as client:
        # Looking does not take an open session, restoring does.
        checkpoint = await newest(client, **session)
        assert checkpoint["settled"] is False
        named = {**session, "checkpointId": checkpoint["checkpointId"]}
        assert "+new" in (await client.request("checkpoint/diff", named))["diff"]
        assert await refused(client, "checkpoint/restore", named) == "sessionNotFound"
        await client.request("session/open", session)
        await client.request("session/configure", {**session, "permissionMode": "full"})
        done = await client.request("checkpoint/restore", named)
        assert done["conflicts"] == []
    assert files(project) == before


async def test_a_deleted_session_leaves_no_contents_and_an_ephemeral_one_never_had_any(
    project: Path, home: Path
) -> None:
    (project / "a").write_text("secret")
    replies = [[edit("a", "secret", "public")], [say("done")]]
    async with editor(home, replies, cwd=project, initialize=FULL) as client:
        await client.request("prompt", {"message": "go"})
        store = home / "pi-rpc" / "checkpoints"
        assert files(store)
        assert store.stat().st_mode & 0o077 == 0
        session = {"sessionId": (await client.request("session/state"))["sessionId"]}
        await client.request("session/delete", session)
        assert files(store) == {}
        (project / "a").write_text("secret")
        params = {"cwd": str(project), "ephemeral": True, "permissionMode": "full"}
        own = {"sessionId": (await client.request("session/new", params))["sessionId"]}
        await client.request("prompt", {**own, "message": "go"})
        assert files(store) == {}
        named = {**own, "checkpointId": (await newest(client, **own))["checkpointId"]}
        await client.request("checkpoint/restore", named)
        assert (project / "a").read_text() == "secret"


async def test_what_an_ephemeral_session_of_a_killed_process_has_saved_goes_with_the_next_start(
    project: Path, home: Path, tmp_path: Path
) -> None:
    (project / "a").write_text("secret")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environ = {"TMPDIR": str(temporary)}
    replies = [[edit("a", "secret", "public")], [say("x"), hold()]]
    async with editor(home, replies, cwd=project, initialize=FULL, environ=environ) as client:
        params = {"cwd": str(project), "ephemeral": True, "permissionMode": "full"}
        own = {"sessionId": (await client.request("session/new", params))["sessionId"]}
        await client.request("prompt", {**own, "message": "go", "wait": "accepted"})
        await client.until("tool_execution_end")
        os.kill(client.process.pid, 9)
        await client.ended()
    (left,) = temporary.iterdir()
    assert files(left)
    os.utime(left, (0, 0))
    async with editor(home, cwd=project, initialize=FULL, environ=environ):
        with anyio.fail_after(DEADLINE_S):
            while left.exists():
                await anyio.sleep(0.01)


async def test_no_checkpoints_are_made_where_the_settings_leave_no_room(
    project: Path, home: Path
) -> None:
    home.mkdir()
    (home / "settings.json").write_text('{"piRpc": {"checkpointMegabytes": 0}}')
    replies = [[call("write", path="a", content="1")], [say("done")]]
    async with editor(home, replies, cwd=project, initialize=FULL) as client:
        await client.request("prompt", {"message": "go"})
        assert "diff" not in await client.until("agent_settled")
        assert (await client.request("checkpoint/list"))["checkpoints"] == []
        assert not [each for each in client.events if each["type"] == "diagnostic"]


async def test_pages_of_checkpoints_follow_each_other(project: Path, home: Path) -> None:
    replies = [
        step
        for number in range(3)
        for step in ([call("write", path="a", content=str(number))], [say("done")])
    ]
    async with editor(home, replies, cwd=project, initialize=FULL) as client:
        for number in range(3):
            await client.request("prompt", {"message": f"write {number}"})
        first = await client.request("checkpoint/list", {"limit": 2})
        assert [each["text"] for each in first["checkpoints"]] == ["write 2", "write 1"]
        assert first["hasMore"] is True
        last = {"limit": 2, "before": first["checkpoints"][-1]["checkpointId"]}
        rest = await client.request("checkpoint/list", last)
        assert [each["text"] for each in rest["checkpoints"]] == ["write 0"]
        assert rest["hasMore"] is False


async def test_what_the_person_had_typed_is_restored_in_the_editor_and_not_on_the_disk(
    project: Path, home: Path
) -> None:
    path = project / "a.txt"
    path.write_text("on disk\n")
    replies = [
        [call("read", path="a.txt")],
        [edit("a.txt", "typed", "edited")],
        [say("done")],
    ]
    wanted = {
        **FULL,
        "capabilities": {"experimental": {"pi": {"editor": dict.fromkeys(ABILITIES, True)}}},
    }
    async with editor(home, replies, cwd=project, initialize=wanted) as client:
        buffer = Buffers(client).show(path, typed="typed\n")
        await client.request("prompt", {"message": "go"})
        assert buffer.text == "edited\n"
        settled = await client.until("agent_settled")
        assert "-typed\n+edited\n" in settled["diff"]
        done = await client.request("checkpoint/restore", {"checkpointId": settled["checkpointId"]})
        assert done["conflicts"] == []
        assert buffer.text == "typed\n"
        assert buffer.dirty
    assert path.read_text() == "on disk\n"
