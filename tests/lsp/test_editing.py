"""Edits through an editor that speaks LSP and nothing else: its documents are what counts."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from pi_rpc.lsp.documents import Documents
from tests.e2e.editor import session_files, stored_messages
from tests.lsp.client import ABLE, FULL, call, lsp, say

Frame = dict[str, Any]
DIAGNOSTIC = {
    "range": {"start": {"line": 1, "character": 11}, "end": {"line": 1, "character": 12}},
    "message": "undefined name 'y'",
    "severity": 1,
    "source": "pyflakes",
    "codeDescription": None,
}
SOURCE = "def double(x):\n    return y\n"
FIXED = "def double(x):\n    return 2 * x\n"


def replaces(old: str, new: str, name: str = "app.py") -> list[list[Frame]]:
    edits = [{"oldText": old, "newText": new}]
    return [[call("edit", path=name, edits=edits)], [say("It was a typo.")]]


FIXING = replaces("return y", "return 2 * x")


def told(home: Path) -> str:
    """What the tools have told the model."""
    (path,) = session_files(home)
    # Not its lines as Python sees them: some end within a text.
    entries = [json.loads(line) for line in path.read_text().split("\n") if line]
    messages = [each["message"] for each in entries if each["type"] == "message"]
    results = [each for each in messages if each["role"] == "toolResult"]
    return "\n".join(block["text"] for each in results for block in each["content"])


def at(line: int, start: int, end: int) -> Frame:
    return {
        "start": {"line": line, "character": start},
        "end": {"line": line, "character": end},
    }


def test_fix_with_pi_lands_in_an_unsaved_buffer(tmp_path: Path) -> None:
    with lsp(tmp_path, FIXING, *FULL) as editor:
        uri = editor.open("app.py", SOURCE)
        editor.act("Fix with pi", uri, 1, diagnostics=[DIAGNOSTIC])
        assert editor.until_progress("end")["value"]["message"] == "done"
        assert editor.buffers[uri] == (2, FIXED)
        assert (editor.project / "app.py").read_text() == SOURCE
        assert editor.called("window/showMessage")["message"] == "It was a typo."
        (edit,) = editor.all("workspace/applyEdit")
        (change,) = edit["edit"]["documentChanges"]
        assert change["textDocument"] == {"uri": uri, "version": 1}
        assert editor.end() == 0
    (path,) = session_files(tmp_path)
    said = json.dumps(stored_messages(path)[0])
    assert "undefined name 'y'" in said
    assert "app.py:2" in said
    assert "    return y" in said


def test_what_is_typed_and_not_saved_is_what_the_model_reads_and_edits(tmp_path: Path) -> None:
    replies = [[call("read", path="app.py")], *FIXING]
    with lsp(tmp_path, replies, *FULL) as editor:
        uri = editor.open("app.py", SOURCE, on_disk="old\n")
        editor.change(uri, {"range": at(0, 0, 0), "text": "# typed\n"}, text=f"# typed\n{SOURCE}")
        editor.command("pi.prompt", {"text": "go", "wait": True})
        assert editor.buffers[uri] == (3, f"# typed\n{FIXED}")
        assert (editor.project / "app.py").read_text() == "old\n"
    assert "# typed" in told(tmp_path)


def test_a_change_that_comes_after_the_answer_is_waited_for(tmp_path: Path) -> None:
    with lsp(tmp_path, FIXING, *FULL) as editor:
        uri = editor.open("app.py", SOURCE)

        def late(params: Frame) -> Any:
            (frame,) = (e for e in editor.frames if e.get("method") == "workspace/applyEdit")
            editor.send(id=frame["id"], result={"applied": True})
            # It has heard that by now, and nothing else.
            assert editor.actions(uri)
            editor.apply(params)
            return NotImplemented

        editor.answers["workspace/applyEdit"] = late
        done = editor.command("pi.prompt", {"text": "go", "wait": True})
        assert done["text"] == "It was a typo."
        assert editor.buffers[uri] == (2, FIXED)
    assert "Successfully replaced" in told(tmp_path)


def test_an_edit_that_the_document_does_not_show_did_not_happen(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"piRpc": {"editorTimeoutSeconds": 0.3}}')
    with lsp(tmp_path, FIXING, *FULL) as editor:
        editor.open("app.py", SOURCE)
        editor.answers["workspace/applyEdit"] = lambda params: {"applied": True}
        editor.command("pi.prompt", {"text": "go", "wait": True})
    assert "though it says that it did" in told(tmp_path)


@pytest.mark.parametrize("answer", [None, {"applied": False, "failureReason": "no way"}])
def test_an_edit_that_is_refused_is_told(answer: Any, tmp_path: Path) -> None:
    with lsp(tmp_path, FIXING, *FULL) as editor:
        editor.open("app.py", SOURCE)
        editor.answers["workspace/applyEdit"] = lambda params: answer
        editor.command("pi.prompt", {"text": "go", "wait": True})
        assert (editor.project / "app.py").read_text() == SOURCE
    assert ("no way" if answer else "it gave no reason") in told(tmp_path)


def test_a_document_that_is_closed_in_the_middle_of_an_edit_is_not_taken_for_edited(
    tmp_path: Path,
) -> None:
    with lsp(tmp_path, FIXING, *FULL) as editor:
        uri = editor.open("app.py", SOURCE)

        def closing(params: Frame) -> Frame:
            editor.tell("textDocument/didClose", {"textDocument": {"uri": uri}})
            return {"applied": True}

        editor.answers["workspace/applyEdit"] = closing
        editor.command("pi.prompt", {"text": "go", "wait": True})
    assert "it is not known whether it did" in told(tmp_path)


def test_what_the_person_types_meanwhile_is_kept_and_the_model_is_told(tmp_path: Path) -> None:
    with lsp(tmp_path, FIXING, *FULL) as editor:
        uri = editor.open("app.py", SOURCE)

        def typing(params: Frame) -> Frame:
            editor.change(uri, {"text": "mine\n"}, text="mine\n")
            return editor.apply(params)

        editor.answers["workspace/applyEdit"] = typing
        editor.command("pi.prompt", {"text": "go", "wait": True})
        assert editor.buffers[uri] == (2, "mine\n")
    assert "was changed in the editor in the meantime" in told(tmp_path)


def test_nothing_is_written_below_unsaved_changes_of_an_editor_that_applies_no_edits(
    tmp_path: Path,
) -> None:
    able = {**ABLE, "workspace": {}}
    with lsp(tmp_path, FIXING, *FULL, able=able) as editor:
        editor.open("app.py", SOURCE, on_disk="old\n")
        editor.command("pi.prompt", {"text": "go", "wait": True})
        assert (editor.project / "app.py").read_text() == "old\n"
        assert not editor.all("workspace/applyEdit")
    assert "cannot be asked to change it" in told(tmp_path)


def test_an_editor_without_versions_in_edits_is_given_plain_ones(tmp_path: Path) -> None:
    able = {**ABLE, "workspace": {"applyEdit": True}}
    with lsp(tmp_path, FIXING, *FULL, able=able) as editor:
        uri = editor.open("app.py", SOURCE)

        def apply(params: Frame) -> Frame:
            edits = params["edit"]["changes"][uri]
            document = {"uri": uri, "version": 1}
            change = {"textDocument": document, "edits": edits}
            return editor.apply({"edit": {"documentChanges": [change]}})

        editor.answers["workspace/applyEdit"] = apply
        editor.command("pi.prompt", {"text": "go", "wait": True})
        assert editor.buffers[uri][1] == FIXED


def test_a_closed_document_is_the_files_again(tmp_path: Path) -> None:
    with lsp(tmp_path, FIXING, *FULL) as editor:
        uri = editor.open("app.py", "something else\n", on_disk=SOURCE)
        editor.tell("textDocument/didClose", {"textDocument": {"uri": uri}})
        editor.command("pi.prompt", {"text": "go", "wait": True})
        assert (editor.project / "app.py").read_text() == FIXED
        assert not editor.all("workspace/applyEdit")


def test_a_document_that_can_not_be_followed_counts_as_closed(tmp_path: Path) -> None:
    with lsp(tmp_path, FIXING, *FULL) as editor:
        uri = editor.open("app.py", "something else\n", on_disk=SOURCE)
        editor.tell(
            "textDocument/didChange",
            {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": 3}]},
        )
        editor.command("pi.prompt", {"text": "go", "wait": True})
        assert (editor.project / "app.py").read_text() == FIXED


@pytest.mark.parametrize(
    "part", [at(0, 3, 1), at(-1, 0, 1), at(0, -1, 1), {"start": {"line": 0}}], ids=json.dumps
)
def test_a_range_that_is_none_does_not_spoil_the_text(part: Frame, tmp_path: Path) -> None:
    with lsp(tmp_path, FIXING, *FULL) as editor:
        uri = editor.open("app.py", SOURCE)
        editor.change(uri, {"range": part, "text": "x"}, text="?")
        editor.command("pi.prompt", {"text": "go", "wait": True})
        assert (editor.project / "app.py").read_text() == FIXED


def test_a_document_may_be_spelled_in_two_ways(tmp_path: Path) -> None:
    with lsp(tmp_path, replaces("return y", "return 2 * x", "a+b.py"), *FULL) as editor:
        uri = editor.open("a+b.py", SOURCE, on_disk="old\n")
        other = uri.replace("+", "%2B") if "+" in uri else uri.replace("%2B", "+")
        editor.tell("textDocument/didClose", {"textDocument": {"uri": other}})
        (editor.project / "a+b.py").write_text(SOURCE)
        editor.command("pi.prompt", {"text": "go", "wait": True})
        assert (editor.project / "a+b.py").read_text() == FIXED


TANGLED = "a😀b\u2028c\fd\x85e ä\r\nsecond 😀 line\r\nlast 😀ä"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_positions_are_where_the_editor_means_them(encoding: str, tmp_path: Path) -> None:
    able = {**ABLE, "general": {"positionEncodings": ["what", encoding, "utf-16"]}}
    replies = [[call("read", path="app.py")], *replaces("line", "LINE")]
    with lsp(tmp_path, replies, *FULL, able=able) as editor:
        assert editor.initialized["capabilities"]["positionEncoding"] == encoding
        editor.encoding = encoding
        uri = editor.open("app.py", TANGLED)
        sizes = {"utf-8": 4, "utf-16": 2, "utf-32": 1}
        units = sizes[encoding]

        def change(part: Frame, text: str) -> None:
            edit = {"range": part, "newText": text}
            now = editor.edited(editor.buffers[uri][1], edit)
            editor.change(uri, {"range": part, "text": text}, text=now)

        change(at(0, 1, 1 + units), "😎😎")  # the first emoji
        change(at(1, 7 + units, 7 + units), "!")  # behind that of the second line
        change({"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 0}}, "x\r\n")
        end = {"line": 3, "character": 9999}
        before = editor.buffers[uri][1]
        editor.change(
            uri, {"range": {"start": end, "end": end}, "text": " end"}, text=f"{before} end"
        )
        editor.command("pi.prompt", {"text": "go", "wait": True})
        expected = "a😎😎b\u2028c\fd\x85e ä\r\nx\r\nsecond 😀! LINE\r\nlast 😀ä end"
        assert editor.buffers[uri][1] == expected
    assert expected.replace("LINE", "line").splitlines()[-1] in told(tmp_path)


def test_an_editor_that_hides_carriage_returns_is_edited_without_them(tmp_path: Path) -> None:
    replies = [[call("read", path="app.py")], *FIXING]
    with lsp(tmp_path, replies, *FULL) as editor:
        uri = editor.open("app.py", SOURCE, on_disk=SOURCE.replace("\n", "\r\n"))
        editor.command("pi.prompt", {"text": "go", "wait": True})
        assert editor.buffers[uri][1] == FIXED
    assert "Successfully replaced" in told(tmp_path)


def test_saving_makes_a_document_clean_again(tmp_path: Path) -> None:
    replies = [[call("bash", command="cat app.py")], [say("ok")]]
    with lsp(tmp_path, replies, *FULL) as editor:
        uri = editor.open("app.py", "a\n")
        editor.change(uri, {"text": "b\n"}, text="b\n")
        (editor.project / "app.py").write_text("b\n")
        editor.tell("textDocument/didSave", {"textDocument": {"uri": uri}})
        editor.command("pi.prompt", {"text": "go", "wait": True})
    assert "unsaved" not in told(tmp_path)


def test_changes_anywhere_are_where_the_editor_means_them_whatever_was_touched_before() -> None:
    documents = Documents("utf-16", [])
    uri, text, chance = "file:///app.py", "one\ntwo\r\n\nfour", random.Random(4)
    document = {"uri": uri, "version": 1, "languageId": "", "text": text}
    documents.opened(raw({"textDocument": document}))
    for version in range(2, 2000):
        start, end = sorted((chance.randrange(9), chance.randrange(5)) for _ in "ab")
        part = {"start": place(*start), "end": place(*end)}
        new = chance.choice(["", "", "x", "\n", "é😀\n", "a\nb\nc", "\r\n"])
        if chance.random() < 0.02:
            part, text = None, new
        else:
            text = text[: index(text, *start)] + new + text[index(text, *end) :]
        change = {"textDocument": {**document, "version": version}}
        documents.changed(raw({**change, "contentChanges": [{"range": part, "text": new}]}))
        assert documents.text_in(uri, None) == text


def place(line: int, character: int) -> Frame:
    return {"line": line, "character": character}


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def index(text: str, line: int, units: int) -> int:
    """As slow and as plain as can be."""
    lines = text.split("\n")
    if line >= len(lines):
        return len(text)
    here = lines[line] if line == len(lines) - 1 else lines[line].removesuffix("\r")
    before = here.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "ignore")
    return sum(len(each) + 1 for each in lines[:line]) + len(before)


def test_a_thousand_changes_at_once_are_one_document(tmp_path: Path) -> None:
    with lsp(tmp_path, [[call("read", path="app.py")], [say("ok")]], *FULL) as editor:
        text = "x\n" * 1000
        uri = editor.open("app.py", text)
        changes = [{"range": at(line, 0, 1), "text": "y"} for line in range(1000)]
        editor.change(uri, *changes, text="y\n" * 1000)
        editor.command("pi.prompt", {"text": "go", "wait": True})
    assert "x" not in told(tmp_path).split("[")[0]
