"""Sessions over the real process: several at once, on disk, reopened, contested, configured."""

import json
import os
from pathlib import Path

import pytest

from tests.e2e.editor import Refused, call, editor, hold, say, session_files, stored_messages

pytestmark = pytest.mark.anyio


def text_arrived(event: dict) -> bool:
    return (event.get("assistantMessageEvent") or {}).get("type") == "text_delta"


async def test_sessions_run_side_by_side_and_each_event_names_its_own(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("one"), hold()]]) as client:
        first = (await client.request("session/new", {"name": "first"}))["sessionId"]
        second = (await client.request("session/new"))["sessionId"]
        runs = {
            each: client.begin("prompt", {"sessionId": each, "message": "go"})
            for each in (first, second)
        }
        await client.until(text_arrived, count=2)
        await client.request("abort", {"sessionId": first})
        assert (await client.answer(runs[first]))["stopReason"] == "aborted"
        assert (await client.request("session/state", {"sessionId": second}))["isStreaming"]
        await client.request("abort", {"sessionId": second})
        for each in (first, second):
            numbers = [frame["seq"] for frame in client.frames if frame["sessionId"] == each]
            assert numbers == list(range(1, len(numbers) + 1))
            settled = [
                frame
                for frame in client.frames
                if frame["sessionId"] == each and frame["event"]["type"] == "agent_settled"
            ]
            assert len(settled) == 1


async def test_a_session_goes_on_after_it_was_closed_and_opened_again(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("one")], [say("two")]]) as client:
        state = await client.request("session/new", {"name": "my work"})
        session_id = state["sessionId"]
        await client.request("prompt", {"sessionId": session_id, "message": "first"})
        await client.request("session/close", {"sessionId": session_id})
        with pytest.raises(Refused) as refused:
            await client.request("session/state", {"sessionId": session_id})
        assert (refused.value.code, refused.value.kind) == (1001, "sessionNotFound")
        again = await client.request("session/open", {"sessionId": session_id})
        assert again["name"] == "my work"
        assert again["messageCount"] == 2
        assert again["epoch"] != state["epoch"]
        assert again["tokens"]["output"] > 0
        assert "interrupted" not in again
        result = await client.request("prompt", {"sessionId": session_id, "message": "second"})
        assert result["text"] == "two"
        page = await client.request("session/messages", {"sessionId": session_id})
        assert [message["role"] for message in page["messages"]] == ["user", "assistant"] * 2


async def test_messages_come_in_pages_from_the_newest(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say(f"answer {number}")] for number in range(3)]) as client:
        for number in range(3):
            await client.request("prompt", {"message": f"question {number}"})
        newest = await client.request("session/messages", {"limit": 4})
        assert newest["hasMore"] is True
        assert newest["messages"][0]["content"] == "question 1"
        assert newest["lastSeq"] == len(client.frames)
        before = {"limit": 4, "beforeEntryId": newest["entryIds"][0]}
        oldest = await client.request("session/messages", before)
        assert oldest["hasMore"] is False
        assert [each["role"] for each in oldest["messages"]] == ["user", "assistant"]
        whole = await client.request("session/messages")
        assert whole["entryIds"] == oldest["entryIds"] + newest["entryIds"]


async def test_long_messages_are_cut_in_pages_and_whole_in_their_entry(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("short")]]) as client:
        long = "x" * 20_000
        await client.request("prompt", {"message": long})
        page = await client.request("session/messages", {"maxBytesPerMessage": 1000})
        cut = page["messages"][0]
        assert cut["truncated"] is True
        assert cut["role"] == "user"
        assert len(json.dumps(cut)) <= 1000
        entry = await client.request("session/entry", {"entryId": page["entryIds"][0]})
        assert entry["entry"]["message"]["content"] == long


async def test_entries_are_listed_after_one_that_is_known(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("one")]]) as client:
        await client.request("prompt", {"message": "go"})
        everything = await client.request("session/entries")
        ids = [entry["id"] for entry in everything["entries"]]
        assert everything["leafId"] == ids[-1]
        rest = await client.request("session/entries", {"since": ids[0], "limit": 1})
        assert [entry["id"] for entry in rest["entries"]] == ids[1:2]
        assert rest["hasMore"] is True
        with pytest.raises(Refused) as refused:
            await client.request("session/entries", {"since": "nothing"})
        assert refused.value.kind == "entryNotFound"


async def test_a_session_that_another_daemon_writes_is_locked_but_can_be_read(
    tmp_path: Path,
) -> None:
    async with editor(tmp_path, [[say("mine")]]) as owner:
        await owner.request("prompt", {"message": "go"})
        state = await owner.request("session/state")
        name = {"sessionId": state["sessionId"]}
        async with editor(tmp_path, [[say("x")]]) as other:
            with pytest.raises(Refused) as refused:
                await other.request("session/open", name)
            assert (refused.value.code, refused.value.kind) == (1003, "sessionLocked")
            assert refused.value.data["pid"] == owner.process.pid
            listed = await other.request("session/list")
            assert listed["sessions"][0]["lockedPid"] == owner.process.pid
            seen = await other.request("session/open", {**name, "readOnly": True})
            assert seen["messageCount"] == 2
            with pytest.raises(Refused) as refused:
                await other.request("prompt", {**name, "message": "no"})
            assert refused.value.kind == "storage"


async def test_a_lock_goes_with_the_daemon_that_held_it(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("mine"), hold()]]) as owner:
        await owner.request("prompt", {"message": "go", "wait": "accepted"})
        await owner.until(text_arrived)
        session_id = (await owner.request("session/state"))["sessionId"]
        owner.process.kill()
        await owner.ended()
    async with editor(tmp_path, [[say("taken over")]]) as other:
        state = await other.request("session/open", {"sessionId": session_id})
        assert state["interrupted"] is True
        name = {"sessionId": session_id}
        result = await other.request("continue", name)
        assert result["text"] == "taken over"
        assert "interrupted" not in await other.request("session/state", name)


async def test_continue_answers_the_tool_calls_that_a_crash_left_open(tmp_path: Path) -> None:
    replies = [[call("bash", command="echo started; sleep 60")], [say("going on")]]
    start = {"capabilities": {}, "initializationOptions": {"session": {"permissionMode": "full"}}}
    async with editor(tmp_path, replies, initialize=start) as client:
        await client.request("prompt", {"message": "go", "wait": "accepted"})
        await client.until("tool_execution_update", count=2)
        session_id = (await client.request("session/state"))["sessionId"]
        client.process.kill()
        await client.ended()
    async with editor(tmp_path, [[say("going on")]]) as client:
        state = await client.request("session/open", {"sessionId": session_id})
        assert state["interrupted"] is True
        result = await client.request("continue", {"sessionId": session_id})
        assert result["text"] == "going on"
    (path,) = session_files(tmp_path)
    stored = stored_messages(path)
    assert [each["role"] for each in stored] == ["user", "assistant", "toolResult", "assistant"]
    assert stored[2]["isError"] is True


async def test_what_pi_wrote_while_we_were_idle_is_taken_in(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("one")], [say("two")]]) as client:
        await client.request("prompt", {"message": "go"})
        (path,) = session_files(tmp_path)
        leaf = (await client.request("session/state"))["leafId"]
        foreign = {
            "type": "message",
            "id": "f0f0f0f0",
            "parentId": leaf,
            "timestamp": "2026-01-01T00:00:00.000Z",
            "message": {"role": "user", "content": "from elsewhere", "timestamp": 1},
        }
        with path.open("a") as file:
            file.write(json.dumps(foreign) + "\n")
        await client.request("prompt", {"message": "and now"})
        note = next(each for each in client.events if each["type"] == "diagnostic")
        assert "another program" in note["message"]
        page = await client.request("session/messages")
        said = [each["content"] for each in page["messages"] if each["role"] == "user"]
        assert said == ["go", "from elsewhere", "and now"]


async def test_what_another_program_writes_during_a_run_ends_the_run(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("one"), {"delayMs": 2000}]]) as client:
        run = client.begin("prompt", {"message": "go"})
        await client.until(text_arrived)
        (path,) = session_files(tmp_path)
        with path.open("a") as file:
            file.write('{"type":"label","id":"f0f0f0f0","parentId":null,"targetId":"x"}\n')
        result = await client.answer(run)
        assert result["stopReason"] == "error"
        assert client.types.count("agent_settled") == 1
        assert client.types.count("agent_end") == client.types.count("agent_start") == 1
        again = await client.request("session/state")
        assert again["phase"] == "idle"


async def test_configuring_changes_what_the_next_turn_uses_and_says_so(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("one")]]) as client:
        changes = {
            "name": "renamed",
            "thinkingLevel": "high",
            "steeringMode": "all",
            "activeTools": ["read", "bash"],
            "limits": {"turns": 3},
        }
        state = await client.request("session/configure", changes)
        assert {name: state[name] for name in changes} == changes
        told = [each for each in client.events if each["type"] == "session_changed"]
        assert {name for each in told for name in each} >= set(changes)
        read_only = await client.request("session/configure", {"permissionMode": "readonly"})
        assert read_only["activeTools"] == ["read"]
        lifted = await client.request("session/configure", {"limits": {}, "name": ""})
        assert "limits" not in lifted
        assert "name" not in lifted
        cleared = [name for each in client.events for name in each.get("removed", [])]
        assert cleared == ["limits", "name"]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"model": "nobody/nothing"}, "modelNotFound"),
        ({"activeTools": ["read", "fly"]}, "invalidParams"),
        ({"thinkingLevel": "extreme"}, "invalidParams"),
    ],
)
async def test_a_change_that_cannot_be_made_is_refused_and_changes_nothing(
    tmp_path: Path, change: dict, kind: str
) -> None:
    async with editor(tmp_path, [[say("one")]]) as client:
        before = await client.request("session/state")
        with pytest.raises(Refused) as refused:
            await client.request("session/configure", {"name": "never", **change})
        assert refused.value.kind == kind
        assert await client.request("session/state") == before


async def test_a_readonly_session_refuses_to_run_what_the_model_asks_for(tmp_path: Path) -> None:
    replies = [[call("write", path="new.txt", content="x")], [say("I could not")]]
    start = {
        "capabilities": {},
        "initializationOptions": {
            "session": {"permissionMode": "readonly", "tools": ["read", "write", "bash"]}
        },
    }
    async with editor(tmp_path, replies, initialize=start) as client:
        assert (await client.request("session/state"))["activeTools"] == ["read"]
        await client.request("prompt", {"message": "write it"})
        end = next(each for each in client.events if each["type"] == "tool_execution_end")
        assert end["isError"] is True
        assert not (tmp_path / "new.txt").exists()


async def test_by_default_a_session_offers_the_usual_tools(tmp_path: Path) -> None:
    async with editor(tmp_path) as client:
        tools = (await client.request("tool/list"))["tools"]
        assert {tool["name"]: tool["active"] for tool in tools} == {
            "read": True,
            "bash": True,
            "edit": True,
            "write": True,
            "grep": False,
            "find": False,
            "ls": False,
        }


@pytest.mark.parametrize("cwd", ["/gone/for/good", "/" + "x" * 5000, "/a\0b", "relative", "."])
async def test_a_working_directory_that_is_none_is_refused(tmp_path: Path, cwd: str) -> None:
    async with editor(tmp_path) as client:
        with pytest.raises(Refused) as refused:
            await client.request("session/new", {"cwd": cwd})
        assert refused.value.kind == "invalidParams"
        assert refused.value.data["path"] == "cwd"


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("broken.jsonl", "this is no session\n", "sessionCorrupt"),
        ("notes.txt", "hello", "invalidParams"),
        ("missing.jsonl", None, "sessionNotFound"),
    ],
)
async def test_a_file_that_is_no_session_is_refused_and_left_as_it_is(
    tmp_path: Path, name: str, content: str | None, kind: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    async with editor(tmp_path) as client:
        with pytest.raises(Refused) as refused:
            await client.request("session/open", {"path": str(path)})
        assert refused.value.kind == kind
    assert (path.read_text() if path.exists() else None) == content


async def test_an_ephemeral_session_leaves_no_file(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("gone")]]) as client:
        state = await client.request("session/new", {"ephemeral": True})
        assert "path" not in state
        await client.request("prompt", {"sessionId": state["sessionId"], "message": "hi"})
    assert session_files(tmp_path) == []


async def test_the_permission_mode_decides_which_tools_there_are_unless_they_were_named(
    tmp_path: Path,
) -> None:
    async with editor(tmp_path) as client:

        async def active(**changes: object) -> list[str]:
            return (await client.request("session/configure", changes))["activeTools"]

        every = ["read", "bash", "edit", "write"]
        assert await active(permissionMode="full") == every
        assert await active(permissionMode="ask") == every
        assert await active(permissionMode="readonly") == ["read", "grep", "find", "ls"]
        assert await active(permissionMode="edits") == every
        assert await active(activeTools=["bash"]) == ["bash"]
        assert await active(permissionMode="full") == ["bash"]
        assert await active(permissionMode="readonly") == []


async def test_a_session_that_is_open_is_found_by_any_spelling_of_its_path(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("one")]]) as client:
        await client.request("prompt", {"message": "go"})
        state = await client.request("session/state")
        path = Path(state["path"])
        link = tmp_path / "link.jsonl"
        link.symlink_to(path)
        relative = path.relative_to(tmp_path)
        for spelling in (link, relative, path.parent / ".." / path.parent.name / path.name):
            again = await client.request("session/open", {"path": str(spelling)})
            assert again["sessionId"] == state["sessionId"]


async def test_a_session_that_cannot_be_named_is_not_left_open(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.write_text("this is no folder")
    async with editor(tmp_path, [[say("one")]]) as client:
        with pytest.raises(Refused) as refused:
            await client.request("session/new", {"name": "x"})
        assert refused.value.kind == "storage"
        fresh = await client.request("session/state")
        with pytest.raises(Refused) as refused:
            await client.request("prompt", {"message": "go", "sessionId": "nobody"})
        assert refused.value.kind == "sessionNotFound"
        assert fresh["phase"] == "idle"
        result = await client.request("prompt", {"message": "go"})
        assert result["stopReason"] == "error"
        folder.unlink()
        again = await client.request("prompt", {"message": "go"})
        assert again["text"] == "one"


async def test_a_name_that_is_no_unicode_spoils_neither_lists_nor_sessions(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(bytes(tmp_path / "w") + b"\xff"))
    odd.mkdir()
    async with editor(tmp_path, [[say("one")]], cwd=odd) as client:
        await client.request("prompt", {"message": "go"})
        state = await client.request("session/state")
        assert state["cwd"].endswith("w\ufffd")
        (listed,) = (await client.request("session/list"))["sessions"]
        assert listed["sessionId"] == state["sessionId"]


async def test_a_file_that_became_another_session_is_not_gone_on_with(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("one")]]) as client:
        await client.request("prompt", {"message": "go"})
        (path,) = session_files(tmp_path)
        header = json.loads(path.read_text().splitlines()[0])
        path.unlink()
        path.write_text(json.dumps({**header, "id": "another"}) + "\n")
        begun = len(client.frames)
        result = await client.request("prompt", {"message": "again"})
        assert result["stopReason"] == "error"
        assert "another session" in result["errorMessage"]
        kinds = [
            each["type"] for each in client.events[begun:] if each["type"] != "session_changed"
        ]
        assert kinds == ["agent_start", "agent_end", "agent_settled"]


async def test_more_than_a_frame_holds_comes_in_pages(tmp_path: Path) -> None:
    long = "\x01" * (4 * 1024 * 1024)  # 24 MiB of JSON
    async with editor(tmp_path, [[say("one")], [say("two")]]) as client:
        for _ in range(2):
            await client.request("prompt", {"message": long})
        newest = await client.request("session/messages")
        assert newest["hasMore"] is True
        before = {"beforeEntryId": newest["entryIds"][0]}
        oldest = await client.request("session/messages", before)
        assert len(oldest["messages"]) + len(newest["messages"]) == 4
        first = await client.request("session/entries")
        assert first["hasMore"] is True
        rest = await client.request("session/entries", {"since": first["entries"][-1]["id"]})
        assert rest["hasMore"] is False


async def test_chosen_tools_are_in_the_file_and_a_reopened_session_has_them_again(
    tmp_path: Path,
) -> None:
    async with editor(tmp_path, [[say("one")]]) as client:
        chosen = {"activeTools": ["bash", "read", "bash"]}
        state = await client.request("session/configure", chosen)
        stored = (await client.request("session/entries"))["entries"][-1]
        assert (stored["type"], stored["activeToolNames"]) == (
            "active_tools_change",
            ["bash", "read"],
        )
        assert [each["entry"] for each in client.events if each["type"] == "entry_appended"] == [
            stored
        ]
    async with editor(tmp_path) as client:
        session = {"sessionId": state["sessionId"]}
        opened = await client.request("session/open", session)
        assert opened["activeTools"] == ["bash", "read"]
        named = await client.request("session/fork", session)
        fork = await client.request("session/state", {"sessionId": named["sessionId"]})
        assert fork["activeTools"] == ["bash", "read"]


async def test_chosen_tools_are_recorded_again_on_a_branch_that_does_not_have_them(
    tmp_path: Path,
) -> None:
    async with editor(tmp_path, [[say("one")], [say("two")]]) as client:
        await client.request("prompt", {"message": "go"})
        state = await client.request("session/configure", {"activeTools": []})
        await client.request("branch", {"entryId": "root"})
        await client.request("prompt", {"message": "again"})
    async with editor(tmp_path) as client:
        opened = await client.request("session/open", {"sessionId": state["sessionId"]})
        assert opened["activeTools"] == []


async def test_tools_of_the_command_line_come_before_those_of_the_file_and_are_not_recorded(
    tmp_path: Path,
) -> None:
    async with editor(tmp_path, [[say("one")]]) as client:
        state = await client.request("session/configure", {"activeTools": ["bash"]})
    session = {"sessionId": state["sessionId"]}
    async with editor(tmp_path, [[say("one")]], "--tools", "read") as client:
        opened = await client.request("session/open", session)
        assert opened["activeTools"] == ["read"]
        await client.request("prompt", {**session, "message": "go"})
    async with editor(tmp_path) as client:
        opened = await client.request("session/open", session)
        assert opened["activeTools"] == ["bash"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/label", {"entryId": "the leaf", "label": "here"}),
        ("session/configure", {"name": "Engine"}),
        ("session/configure", {"thinkingLevel": "high"}),
        ("session/configure", {"activeTools": []}),
        ("branch", {"entryId": "root"}),
    ],
)
async def test_what_pi_wrote_is_taken_in_before_whatever_is_stored(
    tmp_path: Path, method: str, params: dict
) -> None:
    async with editor(tmp_path, [[say("one")]]) as client:
        await client.request("prompt", {"message": "go"})
        (path,) = session_files(tmp_path)
        leaf = (await client.request("session/state"))["leafId"]
        with path.open("a") as file:
            file.write(json.dumps(user_entry("f0f0f0f0", leaf, "from elsewhere")) + "\n")
        named = {name: leaf if value == "the leaf" else value for name, value in params.items()}
        await client.request(method, named)
        (note,) = [each for each in client.events if each["type"] == "diagnostic"]
        assert "another program" in note["message"]
        ids = [each["id"] for each in (await client.request("session/entries"))["entries"]]
        assert ids[-2] == "f0f0f0f0"
    assert [json.loads(line)["id"] for line in path.read_bytes().splitlines()][1:] == ids


async def test_a_compaction_takes_in_what_pi_wrote(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("one")], [say("what was said")]]) as client:
        await client.request("prompt", {"message": "go"})
        (path,) = session_files(tmp_path)
        leaf = (await client.request("session/state"))["leafId"]
        with path.open("a") as file:
            for entry_id in ("f0f0f0f0", "f1f1f1f1"):
                long = user_entry(entry_id, leaf, "from elsewhere " * 8_000)
                file.write(json.dumps(long) + "\n")
                leaf = entry_id
        result = await client.request("compact")
        assert result["summary"].startswith("what was said")


async def test_a_choice_that_cannot_be_stored_is_not_made(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("one")]]) as client:
        await client.request("prompt", {"message": "go"})
        (path,) = session_files(tmp_path)
        before = await client.request("session/state")
        os.truncate(path, 0)
        for change in ({"name": "Engine"}, {"thinkingLevel": "high"}, {"activeTools": []}):
            with pytest.raises(Refused) as refused:
                await client.request("session/configure", change)
            assert refused.value.kind == "storage"
        after = await client.request("session/state")
        assert "name" not in after
        same = ("thinkingLevel", "activeTools", "messageCount", "leafId")
        assert [after[name] for name in same] == [before[name] for name in same]


def user_entry(entry_id: str, parent_id: str, text: str) -> dict:
    return {
        "type": "message",
        "id": entry_id,
        "parentId": parent_id,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": {"role": "user", "content": text, "timestamp": 1},
    }
