"""Documents that an editor has open: a stock client with buffers of its own."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.deadlines import DEADLINE_S
from tests.e2e.buffers import ABILITIES, Buffers, said
from tests.e2e.editor import Refused, Step, call, editor, say

pytestmark = pytest.mark.anyio

READ, EDIT, SAVE = "editor/readDocument", "workspace/applyEdit", "editor/saveDocument"


@asynccontextmanager
async def buffers(
    project: Path,
    *calls: Sequence[Step],
    encoding: str = "utf-16",
    abilities: Sequence[str] = ABILITIES,
    settings: dict[str, Any] | None = None,
) -> AsyncIterator[Buffers]:
    """An editor on ``project``, with a model that makes ``calls``, turn after turn."""
    home = project.parent / "home"
    home.mkdir(exist_ok=True)
    (home / "settings.json").write_text(json.dumps(settings or {}))
    wanted = {
        "capabilities": {
            "general": {"positionEncodings": [encoding]},
            "experimental": {"pi": {"editor": dict.fromkeys(abilities, True)}},
        },
        "initializationOptions": {"session": {"permissionMode": "full"}},
    }
    replies = [*calls, [say("done")], [say("done")]]
    async with editor(home, replies, cwd=project, initialize=wanted) as client:
        yield Buffers(client, encoding)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "pröject one"
    folder.mkdir()
    return folder


def edit(path: str, old: str, new: str) -> Step:
    return call("edit", path=path, edits=[{"oldText": old, "newText": new}])


async def test_what_the_person_has_typed_is_read_and_edited_and_left_unsaved(project: Path) -> None:
    path = project / "a b.txt"
    path.write_text("on disk\n")
    calls = [call("read", path="a b.txt")], [edit("a b.txt", "typed", "edited")]
    async with buffers(project, *calls) as shown:
        buffer = shown.show(path, typed="typed\nand kept\n")
        read, edited = await shown.prompt()
        assert said(read) == "typed\nand kept\n"
        assert buffer.text == "edited\nand kept\n"
        assert len(buffer.undo) == 2  # what the person did, and the edit
        assert "not saved" in said(edited)
        assert edited["result"]["details"]["unsaved"] is True
        assert SAVE not in shown.asked
    assert path.read_text() == "on disk\n"


async def test_a_document_that_was_saved_is_saved_after_each_edit(project: Path) -> None:
    path = project / "f.txt"
    path.write_text("one\ntwo\n")
    calls = [edit("f.txt", "one", "1")], [edit("f.txt", "two", "2"), edit("f.txt", "1\n", "0\n")]
    async with buffers(project, *calls) as shown:
        buffer = shown.show(path)
        for end in await shown.prompt():
            assert not end["isError"], end
            assert "not saved" not in said(end)
        assert buffer.text == path.read_text() == "0\n2\n"
        assert not buffer.dirty
        assert len(buffer.undo) == shown.asked.count(EDIT) == 3
        events = shown.editor.events
        told = [each for each in events if each["type"] == "files_changed"]
        assert [each["changes"] for each in told] == [
            [{"uri": path.as_uri(), "kind": "changed"}]
        ] * 3
        for each in told:
            ends = [e for e in events if e["type"] == "tool_execution_end"]
            (end,) = [e for e in ends if e["toolCallId"] == each["toolCallId"]]
            assert events.index(each) < events.index(end)


async def test_calls_at_once_on_one_document_do_not_get_in_each_others_way(project: Path) -> None:
    path = project / "f.txt"
    path.write_text("".join(f"<{n}>\n" for n in range(8)))
    calls = [edit("f.txt", f"<{n}>", f"[{n}]\nmore") for n in range(8)]
    async with buffers(project, calls) as shown:
        buffer = shown.show(path)
        assert not any(end["isError"] for end in await shown.prompt())
        assert buffer.text == path.read_text() == "".join(f"[{n}]\nmore\n" for n in range(8))
        assert len(buffer.undo) == 8


async def test_an_edit_of_a_document_that_moves_on_meanwhile_is_refused(project: Path) -> None:
    path = project / "f.txt"
    path.write_text("one\n")
    async with buffers(project, [edit("f.txt", "one", "1")]) as shown:
        buffer = shown.show(path)

        async def apply(params: Any) -> Any:
            if buffer.version == 1:
                buffer.change("typed by the person\none\n")
                shown.tell()
            return await shown.apply(params)

        shown.answers[EDIT] = apply
        (end,) = await shown.prompt()
        assert end["isError"]
        assert "was changed in the editor in the meantime" in said(end)
        assert end["result"]["details"]["code"] == "changed"
        assert buffer.text == "typed by the person\none\n"
        assert SAVE not in shown.asked
        assert not [each for each in shown.editor.events if each["type"] == "files_changed"]
    assert path.read_text() == "one\n"


async def test_what_the_person_types_after_a_read_must_be_read_before_it_is_changed(
    project: Path,
) -> None:
    path = project / "f.txt"
    path.write_text("one\n")
    calls = (
        [call("read", path="f.txt")],
        [say("seen")],
        [edit("f.txt", "one", "1"), call("write", path="f.txt", content="all new\n")],
        [call("read", path="f.txt")],
        [edit("f.txt", "one", "1")],
    )
    async with buffers(project, *calls) as shown:
        buffer = shown.show(path)
        await shown.prompt()
        buffer.change("one\nand more\n")
        shown.tell()
        edited, written, read, again = await shown.prompt()
        for end in (edited, written):
            assert end["isError"]
            assert "has changed since you last read it" in said(end)
        assert said(read) == "one\nand more\n"
        assert not again["isError"]
        assert buffer.text == "1\nand more\n"


async def test_a_file_that_changes_below_typed_text_must_be_read_before_it_is_edited(
    project: Path,
) -> None:
    path = project / "f.txt"
    path.write_text("one\n")
    calls = (
        [call("read", path="f.txt")],
        [say("seen")],
        [edit("f.txt", "typed", "edited")],
        [call("read", path="f.txt")],
        [edit("f.txt", "typed", "edited")],
    )
    async with buffers(project, *calls) as shown:
        buffer = shown.show(path, typed="typed\n")
        await shown.prompt()
        path.write_text("somebody else's\n")
        edited, read, again = await shown.prompt()
        assert edited["isError"]
        assert "has changed on disk since you last read it" in said(edited)
        assert edited["result"]["details"]["code"] == "changed"
        assert said(read) == "typed\n"
        assert not again["isError"]
        assert buffer.text == "edited\n"
    assert path.read_text() == "somebody else's\n"


async def test_typed_text_that_the_model_has_not_seen_is_not_replaced_as_a_whole(
    project: Path,
) -> None:
    path = project / "f.txt"
    path.write_text("one\n")
    async with buffers(project, [call("write", path="f.txt", content="all new\n")]) as shown:
        buffer = shown.show(path, typed="hours of work\n")
        (end,) = await shown.prompt()
        assert end["isError"]
        assert "unsaved changes that you have not seen" in said(end)
        assert buffer.text == "hours of work\n"
    assert path.read_text() == "one\n"


async def test_a_command_is_told_of_what_is_still_unsaved(project: Path) -> None:
    path, other = project / "f.txt", project / "unrelated.txt"
    path.write_text("one\n")
    other.write_text("x\n")
    calls = [edit("f.txt", "typed", "edited")], [call("bash", command="cat f.txt")]
    async with buffers(project, *calls, [say("now")], [call("bash", command="cat f.txt")]) as shown:
        buffer = shown.show(path, typed="typed\n")
        shown.show(other, typed="y\n")
        _, command = await shown.prompt()
        note = "[Not saved in the editor, so the command saw the older file on disk: f.txt]"
        assert said(command) == f"one\n\n{note}"
        assert command["result"]["structuredContent"]["output"] == "one\n"
        buffer.save()
        shown.tell()
        (command,) = await shown.prompt()
        assert said(command) == "edited\n"


@pytest.mark.parametrize("tool", ["grep", "find"])
async def test_a_search_is_told_of_what_is_unsaved_below_its_root(project: Path, tool: str) -> None:
    inside, beside = project / "src" / "f.txt", project / "g.txt"
    inside.parent.mkdir()
    inside.write_text("one\n")
    beside.write_text("one\n")
    search = call(tool, pattern="one" if tool == "grep" else "*.txt", path="src")
    async with buffers(project, [search], [say("now")], [search]) as shown:
        await shown.editor.request("session/configure", {"activeTools": [tool]})
        buffer = shown.show(inside, typed="one and typed\n")
        shown.show(beside, typed="typed\n")
        (found,) = await shown.prompt()
        assert said(found).startswith("f.txt")
        note = "[Not saved in the editor, so the older file on disk counts: src/f.txt.]"
        assert said(found).endswith(note)
        buffer.save()
        shown.tell()
        (found,) = await shown.prompt()
        assert "Not saved" not in said(found)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_positions_are_in_the_units_that_were_agreed_on(project: Path, encoding: str) -> None:
    path = project / "f.txt"
    path.write_text("ä😀 one 🧡 two\n😀 keep\nend 😀 é\n")
    edits = [
        {"oldText": "😀 one", "newText": "😀 1 é"},
        {"oldText": "end 😀", "newText": "fin\n🦊"},
    ]
    calls = [call("edit", path="f.txt", edits=edits)]
    async with buffers(project, calls, encoding=encoding) as shown:
        buffer = shown.show(path)
        (end,) = await shown.prompt()
        assert not end["isError"], end
        assert buffer.text == path.read_text() == "ä😀 1 é 🧡 two\n😀 keep\nfin\n🦊 é\n"
        assert len(buffer.undo) == 1


async def test_line_ends_of_the_file_stay(project: Path) -> None:
    path = project / "f.txt"
    path.write_bytes(b"one\r\ntwo\r\n")
    calls = (
        [call("read", path="f.txt")],
        [edit("f.txt", "two", "2\n3")],
        [call("write", path="f.txt", content="all\nnew\n")],
    )
    async with buffers(project, *calls) as shown:
        buffer = shown.show(path)
        ends = await shown.prompt()
        assert not any(end["isError"] for end in ends), ends
        assert buffer.text == "all\nnew\n"
    assert path.read_bytes() == b"all\r\nnew\r\n"


async def test_a_document_is_found_by_any_path_and_asked_for_as_the_editor_spells_it(
    project: Path,
) -> None:
    (project / "real").mkdir()
    (project / "link").symlink_to("real")
    path = project / "real" / "é 100%.txt"
    path.write_text("on disk\n")
    spelled = (project / "link").as_uri() + "/%C3%A9%20100%25.txt"
    calls = [call("read", path="real/é 100%.txt")], [edit("link/é 100%.txt", "typed", "edited")]
    async with buffers(project, *calls) as shown:
        buffer = shown.show(path, typed="typed\n", uri=spelled)
        read, edited = await shown.prompt()
        assert said(read) == "typed\n"
        assert not edited["isError"]
        assert buffer.text == "edited\n"
    assert path.read_text() == "on disk\n"


async def test_a_file_that_was_never_saved_is_there(project: Path) -> None:
    path = project / "new.txt"
    calls = [call("read", path="new.txt")], [edit("new.txt", "typed", "edited")]
    async with buffers(project, *calls) as shown:
        buffer = shown.show(path, typed="typed\n")
        read, edited = await shown.prompt()
        assert said(read) == "typed\n"
        assert not edited["isError"]
        assert buffer.text == "edited\n"
    assert not path.exists()


@pytest.mark.parametrize("method", [READ, EDIT])
async def test_an_editor_that_never_answers_keeps_its_unsaved_text(
    project: Path, method: str
) -> None:
    path = project / "f.txt"
    path.write_text("one\n")
    settings = {"piRpc": {"editorTimeoutSeconds": 0.3}}
    async with buffers(project, [edit("f.txt", "one", "1")], settings=settings) as shown:
        buffer = shown.show(path, typed="one and typed\n")

        async def never(_: Any) -> Any:
            await anyio.sleep_forever()

        shown.answers[method] = never
        (end,) = await shown.prompt()
        assert end["isError"]
        assert "answer" in said(end)
        assert buffer.text == "one and typed\n"
    assert path.read_text() == "one\n"


async def test_an_abort_does_not_wait_for_an_editor(project: Path) -> None:
    path = project / "f.txt"
    path.write_text("one\n")
    settings = {"piRpc": {"editorTimeoutSeconds": 0}}
    async with buffers(project, [edit("f.txt", "one", "1")], settings=settings) as shown:
        shown.show(path)
        begun = anyio.Event()

        async def never(_: Any) -> Any:
            begun.set()
            await anyio.sleep_forever()

        shown.answers[READ] = never
        prompt = shown.editor.begin("prompt", {"message": "go"})
        with anyio.fail_after(DEADLINE_S):
            await begun.wait()
        assert (await shown.editor.request("abort"))["aborted"]
        assert (await shown.editor.answer(prompt))["stopReason"] == "aborted"
    assert path.read_text() == "one\n"


@pytest.mark.parametrize(
    "garbage", [5, {"open": "perhaps"}, {"open": True, "text": "one\n"}, {"open": True}]
)
async def test_an_answer_that_is_none_counts_as_not_open_and_is_told(
    project: Path, garbage: Any
) -> None:
    path = project / "f.txt"
    path.write_text("one\n")
    calls = [call("read", path="f.txt")], [edit("f.txt", "one", "1")]
    async with buffers(project, *calls) as shown:
        shown.show(path)

        async def answer(_: Any) -> Any:
            return garbage

        shown.answers[READ] = answer
        read, edited = await shown.prompt()
        assert said(read) == "one\n"
        assert not edited["isError"]
        assert EDIT not in shown.asked
        (*_, told) = [each for each in shown.editor.events if each["type"] == "diagnostic"]
        assert READ in told["message"]
    assert path.read_text() == "1\n"


async def test_a_document_that_is_closed_by_now_is_the_file(project: Path) -> None:
    path = project / "f.txt"
    path.write_text("one\n")
    async with buffers(project, [edit("f.txt", "one", "1")]) as shown:
        shown.show(path, typed="thrown away\n")
        shown.open.clear()  # closed without saving; the editor says so when it is asked
        (end,) = await shown.prompt()
        assert not end["isError"]
    assert path.read_text() == "1\n"


async def test_an_editor_that_can_only_be_read_is_not_written_past(project: Path) -> None:
    path, saved = project / "f.txt", project / "saved.txt"
    path.write_text("one\n")
    saved.write_text("one\n")
    calls = [edit("f.txt", "one", "1"), edit("saved.txt", "one", "1")]
    async with buffers(project, calls, abilities=["readDocument"]) as shown:
        shown.show(path, typed="one and typed\n")
        shown.show(saved)
        refused, done = await shown.prompt()
        refused, done = sorted((refused, done), key=lambda end: -end["isError"])
        assert "cannot be asked to change it" in said(refused)
        assert not done["isError"]
        assert EDIT not in shown.asked
    assert path.read_text() == "one\n"
    assert saved.read_text() == "1\n"


async def test_an_editor_that_cannot_save_is_left_with_the_edit(project: Path) -> None:
    path = project / "f.txt"
    path.write_text("one\n")
    calls = [edit("f.txt", "one", "1")], [call("bash", command="cat f.txt")]
    async with buffers(project, *calls, abilities=["readDocument", "applyEdit"]) as shown:
        buffer = shown.show(path)
        edited, command = await shown.prompt()
        assert "this editor cannot be asked to save it" in said(edited)
        assert "the older file on disk: f.txt" in said(command)
        assert buffer.text == "1\n"
    assert path.read_text() == "one\n"


async def test_a_client_without_these_abilities_is_asked_nothing(project: Path) -> None:
    path = project / "f.txt"
    path.write_text("one\n")
    async with buffers(project, [edit("f.txt", "one", "1")], abilities=[]) as shown:
        shown.show(path)
        (end,) = await shown.prompt()
        assert not end["isError"]
        assert shown.asked == []
    assert path.read_text() == "1\n"


async def test_what_the_editor_shows_never_reaches_the_model(project: Path) -> None:
    async with buffers(project) as shown:
        secret = "nobody-asked-for-this"
        shown.editor.notify(
            "editor/didChange",
            {
                "activeDocument": f"file:///{secret}",
                "selection": {"text": secret},
                "openDocuments": [{"uri": f"file:///{secret}", "version": 1, "dirty": True}],
                "diagnostics": [{"uri": "file:///x", "diagnostics": [{"message": secret}]}],
            },
        )
        await shown.prompt()
        messages = await shown.editor.request("session/messages")
        assert secret not in json.dumps(messages)
        assert shown.asked == []


async def test_a_notification_of_the_wrong_shape_changes_nothing(project: Path) -> None:
    path = project / "f.txt"
    path.write_text("one\n")
    async with buffers(project, [call("read", path="f.txt")]) as shown:
        shown.show(path, typed="typed\n")
        for wrong in ({"openDocuments": 5}, {"openDocuments": [{"dirty": True}]}, [1], "x"):
            shown.editor.notify("editor/didChange", wrong)
        shown.editor.notify("editor/didChange", {"activeDocument": path.as_uri()})
        (read,) = await shown.prompt()
        assert said(read) == "typed\n"


async def test_commands_of_the_person_tell_what_they_change(project: Path) -> None:
    (project / "gone.txt").write_text("x")
    async with buffers(project) as shown:
        client = shown.editor
        await client.request("bash", {"command": "echo new > 'a b.txt'; rm gone.txt"})
        told = await client.until("files_changed")
        assert told["changes"] == [
            {"uri": (project / "a b.txt").as_uri(), "kind": "created"},
            {"uri": (project / "gone.txt").as_uri(), "kind": "deleted"},
        ]
        assert "toolCallId" not in told
        await client.request("bash", {"command": "cat 'a b.txt'"})
        with pytest.raises(Refused):
            await client.request("bash", {"command": "ls", "cwd": "nowhere"})
        assert client.types.count("files_changed") == 1
