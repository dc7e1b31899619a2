"""What a person has pi do from an editor that speaks LSP: code actions, commands, progress, hover,
questions and answers."""

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.editor import session_files, stored_messages
from tests.lsp.client import ABLE, FULL, Editor, call, command, command_of, hold, lsp, say
from tests.lsp.test_editing import DIAGNOSTIC, SOURCE, at

Frame = dict[str, Any]
LONG = "It doubles.\n\nAnd it does so by adding."
WAIT = call("bash", command="while [ ! -e told ]; do sleep 0.01; done")
"""Keeps a run going until there is a file ``told``."""


def titles(editor: Editor, uri: str, line: int = 1, **context: Any) -> list[str]:
    return [each["title"] for each in editor.actions(uri, line, **context)]


# --- code actions --------------------------------------------------------------------------------


def test_code_actions_are_offered_for_what_is_wrong_and_what_is_selected(tmp_path: Path) -> None:
    every = ["Fix with pi", "Explain with pi", "Ask pi…"]
    with lsp(tmp_path) as editor:
        uri = editor.open("app.py", SOURCE)
        found = editor.actions(uri, 1, diagnostics=[DIAGNOSTIC])
        assert [each["title"] for each in found] == every
        assert [each["kind"] for each in found] == ["quickfix", "source", "source"]
        assert found[0]["diagnostics"][0]["message"] == DIAGNOSTIC["message"]
        assert [each["title"] for each in editor.actions(uri, 0, to=1)] == every
        assert editor.actions(uri, 0, to=1)[0]["kind"] == "refactor.rewrite"
        # A lamp on every line would be no help.
        assert titles(editor, uri, triggerKind=2) == []
        assert titles(editor, uri, triggerKind=1) == every
        assert titles(editor, uri, only=["quickfix"], diagnostics=[DIAGNOSTIC]) == every[:1]
        assert titles(editor, uri, only=["refactor"]) == every[:1]
        assert titles(editor, uri, only=["source"]) == every[1:]
        assert titles(editor, uri, only=["source.organizeImports"]) == []


def test_an_editor_without_code_action_literals_is_given_commands(tmp_path: Path) -> None:
    with lsp(tmp_path, able={}) as editor:
        uri = editor.open("app.py", SOURCE)
        found = editor.actions(uri, 1, diagnostics=[DIAGNOSTIC])
        assert [each["command"] for each in found] == ["pi.fix", "pi.explain", "pi.ask"]


# --- answers -------------------------------------------------------------------------------------


def test_an_explanation_is_shown_as_a_document_that_only_its_reader_can_read(
    tmp_path: Path,
) -> None:
    with lsp(tmp_path, [[say(LONG)]]) as editor:
        uri = editor.open("app.py", SOURCE)
        accepted = editor.act("Explain with pi", uri, 1)
        assert list(accepted) == ["sessionId"]
        shown = editor.called("window/showDocument")
        path = Path(shown["uri"].removeprefix("file://"))
        assert path.read_text() == f"# Explain app.py:2\n\n{LONG}\n"
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        editor.end()
        assert not path.exists()


def test_answers_find_a_place_when_their_folder_was_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    with lsp(tmp_path, [[say(LONG)]] * 3) as editor:
        explain = {"text": "go", "wait": True}
        editor.command("pi.prompt", explain)
        shutil.rmtree(shown(editor)[-1].parent)
        editor.command("pi.prompt", explain)
        path = shown(editor)[-1]
        assert LONG in path.read_text()
        # And where there is no place at all, it is told.
        shutil.rmtree(tmp_path / "temporary")
        editor.command("pi.prompt", explain)
        assert editor.all("window/showMessage")[-1]["message"] == LONG


def shown(editor: Editor) -> list[Path]:
    uris = [each["uri"] for each in editor.all("window/showDocument")]
    return [Path(each.removeprefix("file://")) for each in uris]


@pytest.mark.parametrize("answer", [{"success": False}, None])
def test_an_editor_that_shows_no_document_is_told_where_it_is(
    answer: Frame | None, tmp_path: Path
) -> None:
    able = ABLE if answer else {**ABLE, "window": {}}
    with lsp(tmp_path, [[say(LONG)]], able=able) as editor:
        editor.answers["window/showDocument"] = lambda params: answer
        editor.command("pi.prompt", "what", "is this?")
        text = editor.called("window/showMessage")["message"]
        assert text.startswith("It doubles.\nThe whole answer: ")
        assert LONG in Path(text.rpartition(": ")[2]).read_text()
        if answer is None:
            assert not editor.all("window/showDocument")


def test_a_question_is_written_in_a_document_and_sent_from_there(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("Yes.")]]) as editor:
        uri = editor.open("app.py", SOURCE)
        asked = editor.act("Ask pi…", uri, 0)["uri"]
        assert editor.called("window/showDocument")["uri"] == asked
        path = Path(asked.removeprefix("file://"))
        text = path.read_text() + "Is this right?\n"
        editor.open(str(path), path.read_text())
        assert titles(editor, asked, 0) == ["Send to pi"]
        editor.begin("workspace/executeCommand", command("pi.send", {"uri": asked}))
        assert "no question yet" in editor.called("window/showMessage")["message"]
        editor.change(asked, {"text": text}, text=text)
        editor.act("Send to pi", asked)
        editor.until(lambda each: each.get("params", {}).get("message") == "Yes.")
    (stored,) = session_files(tmp_path)
    said = json.dumps(stored_messages(stored)[0])
    assert "Is this right?" in said
    assert "def double(x):" in said
    assert "Write it here" not in said


def test_an_editor_that_shows_nothing_while_it_waits_is_answered_first(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("Yes.")]]) as editor:
        editor.answers["window/showDocument"] = lambda params: NotImplemented
        asked = editor.command("pi.ask")["uri"]
        assert editor.command("pi.prompt", {"text": "go", "wait": True})["text"] == "Yes."
        # Nothing has been given up in the meantime.
        assert [each["message"] for each in editor.all("window/showMessage")] == ["Yes."]
        assert editor.called("window/showDocument")["uri"] == asked


def test_a_question_is_sent_when_it_is_saved_by_an_editor_that_says_nothing_of_it(
    tmp_path: Path,
) -> None:
    with lsp(tmp_path, [[say("Yes.")]]) as editor:
        asked = editor.act("Ask pi…", editor.open("app.py", SOURCE), 0)["uri"]
        path = Path(asked.removeprefix("file://"))
        path.write_text(f"{path.read_text()}Is this right?\n")
        assert editor.called("window/showMessage")["message"] == "Yes."
        # Once.
        answer = editor.answer(
            editor.begin("workspace/executeCommand", command("pi.send", {"uri": asked}))
        )
        assert answer["error"]["code"] == -32602
        # One that is never written holds nothing up.
        assert editor.command("pi.ask")["uri"] != asked
        assert editor.end() == 0


def test_a_document_that_was_never_saved_is_asked_about_by_its_text(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("Yes.")]]) as editor:
        document = {"uri": "untitled:1", "languageId": "", "version": 1, "text": "what\nis this\n"}
        editor.tell("textDocument/didOpen", {"textDocument": document})
        editor.act("Explain with pi", "untitled:1", 1)
        assert editor.called("window/showMessage")["message"] == "Yes."
    (stored,) = session_files(tmp_path)
    assert "is this" in json.dumps(stored_messages(stored)[0])


def test_where_nothing_stands_in_a_document_without_a_file_all_of_it_is_asked_about(
    tmp_path: Path,
) -> None:
    with lsp(tmp_path, [[say("Yes.")]]) as editor:
        document = {"uri": "untitled:1", "languageId": "", "version": 1, "text": "what\nis this\n"}
        editor.tell("textDocument/didOpen", {"textDocument": document})
        editor.command("pi.explain", {"uri": "untitled:1", "range": at(2, 0, 0), "wait": True})
    (stored,) = session_files(tmp_path)
    assert "is this" in json.dumps(stored_messages(stored)[0])


ODD = [
    {**DIAGNOSTIC, "message": {"kind": "markdown", "value": "from LSP 3.18"}},
    {**DIAGNOSTIC, "message": "with a code of its own", "code": {"value": 7}, "severity": "high"},
    {**DIAGNOSTIC, "message": None},
    {"message": "nowhere"},
    3,
]


def test_diagnostics_of_other_servers_may_be_as_they_like(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("ok")]]) as editor:
        uri = editor.open("app.py", SOURCE)
        fix = editor.actions(uri, 1, diagnostics=[*ODD, DIAGNOSTIC])[0]
        assert fix["diagnostics"] == [*ODD, DIAGNOSTIC]
        editor.ask("workspace/executeCommand", {**command_of(fix), "workDoneToken": 1})
        editor.until_progress("end")
    (stored,) = session_files(tmp_path)
    said = json.dumps(stored_messages(stored)[0])
    for told in ("from LSP 3.18", "with a code of its own", "undefined name"):
        assert told in said
    assert "nowhere" not in said


def test_more_than_there_is_room_for_is_fixed_all_the_same(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("ok")]]) as editor:
        lines = 8000
        uri = editor.open("app.py", "x = a_name_that_is_rather_long\n" * lines)
        found = [
            {"range": at(line, 4, 5), "message": f"undefined, number {line}"}
            for line in range(lines)
        ]
        place = {"uri": uri, "range": {**at(0, 0, 0), "end": {"line": lines, "character": 0}}}
        done = editor.command("pi.fix", {**place, "diagnostics": found, "wait": True})
        assert done["stopReason"] == "stop"
    (stored,) = session_files(tmp_path)
    said = json.dumps(stored_messages(stored)[0])
    assert "undefined, number 0" in said
    assert f"undefined, number {lines - 1}" not in said
    assert said.count("rather_long") == 0


def test_a_model_that_fails_is_told(tmp_path: Path) -> None:
    failing = {"error": {"message": "it broke", "status": 400}}
    with lsp(tmp_path, [[failing]]) as editor:
        done = editor.command("pi.prompt", {"text": "go", "wait": True}, workDoneToken=1)
        assert done["stopReason"] == "error"
        (message,) = editor.all("window/showMessage")
        assert (message["type"], "it broke" in message["message"]) == (1, True)
        assert editor.until_progress("end")["value"]["message"].startswith("failed: ")


def test_a_session_without_a_model_refuses_and_says_so(tmp_path: Path) -> None:
    with lsp(tmp_path, (), "--model", "anthropic/none-such") as editor:
        answer = editor.answer(
            editor.begin("workspace/executeCommand", command("pi.prompt", "hello"))
        )
        assert answer["error"]["code"] in {-32602, -32803}
        assert answer["error"]["message"] == editor.called("window/showMessage")["message"]


# --- progress, and stopping ----------------------------------------------------------------------


def test_progress_says_what_is_done_and_ends_once(tmp_path: Path) -> None:
    with lsp(tmp_path, [[WAIT], [say("ok")]], *FULL) as editor:
        editor.command("pi.prompt", "go")
        # What is over before the editor has said that it shows progress has none.
        editor.until_progress("begin")
        (editor.project / "told").touch()
        token = editor.until_progress("end")["token"]
        assert editor.called("window/workDoneProgress/create") == {"token": token}
        values = editor.progress()
        assert values[0]["kind"] == "begin"
        assert (values[0]["title"], values[0]["cancellable"]) == ("pi: go", True)
        assert any("[ ! -e told ]" in each["message"] for each in values)
        assert values[-1] == {"kind": "end", "message": "done"}
        editor.end()
        kinds = [each["kind"] for each in editor.progress()]
        assert (kinds.count("begin"), kinds.count("end")) == (1, 1)


def test_cancelling_the_progress_stops_the_run(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("half"), hold()]]) as editor:
        editor.command("pi.prompt", "go")
        token = editor.until_doing()["token"]
        editor.tell("window/workDoneProgress/cancel", {"token": token})
        assert editor.until_progress("end")["value"]["message"] == "stopped"


def test_a_command_with_a_token_of_the_editors_is_answered_when_it_has_ended(
    tmp_path: Path,
) -> None:
    with lsp(tmp_path, [[say("fine")]]) as editor:
        done = editor.command("pi.prompt", "go", workDoneToken=7)
        assert (done["stopReason"], done["text"]) == ("stop", "fine")
        assert {each["token"] for each in editor.all("$/progress")} == {7}
        assert editor.progress()[-1]["kind"] == "end"
        assert not editor.all("window/workDoneProgress/create")


def test_cancelling_a_command_that_waits_stops_what_it_began(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("half"), hold()]]) as editor:
        request = editor.begin(
            "workspace/executeCommand", command("pi.prompt", {"text": "go", "wait": True})
        )
        editor.until_doing()
        editor.tell("$/cancelRequest", {"id": request})
        assert editor.answer(request)["result"]["stopReason"] == "aborted"


def test_stop_ends_what_goes_on_and_what_waits(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("half"), hold()], [say("never")]]) as editor:
        waiting = {"text": "go", "wait": True}
        first, second = (
            editor.begin("workspace/executeCommand", command("pi.prompt", waiting)) for _ in "ab"
        )
        editor.until_doing()
        editor.command("pi.stop")
        for request in (first, second):
            assert editor.answer(request)["result"]["stopReason"] == "aborted"
    (path,) = session_files(tmp_path)
    assert [each["role"] for each in stored_messages(path)] == ["user", "assistant"]


def test_stop_ends_also_what_a_session_does_that_was_replaced(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("half"), hold()]]) as editor:
        uri = editor.open("app.py", SOURCE)
        editor.act("Fix with pi", uri, 1)
        editor.until_doing()
        other = editor.command("pi.newSession")["sessionId"]
        assert editor.act("Stop pi", uri, 1) == {"sessionId": other}
        assert editor.until_progress("end")["value"]["message"] == "stopped"


def test_prompts_run_one_after_the_other_each_with_its_own_answer(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("one")], [say("two")]]) as editor:
        waiting = {"text": "go", "wait": True}
        begun = [
            editor.begin("workspace/executeCommand", command("pi.prompt", waiting)) for _ in "ab"
        ]
        assert [editor.answer(each)["result"]["text"] for each in begun] == ["one", "two"]


def test_steering_reaches_the_run_that_goes_on(tmp_path: Path) -> None:
    with lsp(tmp_path, [[WAIT], [say("steered")]], *FULL) as editor:
        request = editor.begin(
            "workspace/executeCommand", command("pi.prompt", {"text": "go", "wait": True})
        )
        editor.until_doing()
        editor.command("pi.steer", "this way")
        (editor.project / "told").touch()
        assert editor.answer(request)["result"]["text"] == "steered"
    (path,) = session_files(tmp_path)
    assert "this way" in json.dumps(stored_messages(path))


# --- hover ---------------------------------------------------------------------------------------


def hovered(editor: Editor, uri: str, line: int) -> str | None:
    params = {"textDocument": {"uri": uri}, "position": {"line": line, "character": 0}}
    found = editor.ask("textDocument/hover", params)
    return None if found is None else str(found["contents"]["value"])


def test_hover_on_a_running_region_says_what_goes_on_and_moves_with_it(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("hm"), hold()]]) as editor:
        uri = editor.open("app.py", SOURCE)
        assert hovered(editor, uri, 1) is None
        editor.act("Fix with pi", uri, 1)
        editor.until_doing()
        said = hovered(editor, uri, 1)
        assert said is not None
        assert said.startswith("pi · Fix app.py:2 · ")
        assert hovered(editor, uri, 0) is None
        editor.change(uri, {"range": at(0, 0, 0), "text": "\n\n"}, text=f"\n\n{SOURCE}")
        assert hovered(editor, uri, 1) is None
        assert hovered(editor, uri, 3) is not None
        assert titles(editor, uri, 3)[0] == "Stop pi"
        editor.act("Stop pi", uri, 3)
        editor.until_progress("end")
        assert hovered(editor, uri, 3) is None


def test_what_a_model_runs_is_no_markdown_in_a_hover(tmp_path: Path) -> None:
    tells = "![](https://example.org/secret)"
    with lsp(tmp_path, [[call("bash", command=f"cat # {tells}")]]) as editor:
        editor.answers["window/showMessageRequest"] = lambda params: NotImplemented
        uri = editor.open("app.py", SOURCE)
        editor.act("Fix with pi", uri, 1)
        editor.until(lambda each: tells in json.dumps(each.get("params", {}).get("value")))
        place = {"textDocument": {"uri": uri}, "position": {"line": 1, "character": 0}}
        contents = editor.ask("textDocument/hover", place)["contents"]
        assert (contents["kind"], tells in contents["value"]) == ("plaintext", True)


# --- questions -----------------------------------------------------------------------------------

ASKING = """
def setup(api):
    async def ask(arguments):
        sure = await api.ui.confirm("Really?")
        which = await api.ui.choose("Which?", ["a", "b"])
        named = await api.ui.enter("Name?")
        api.ui.notify(f"{sure} {which} {named}", "warning")
    api.command("ask", "Asks", ask)
"""


@pytest.mark.parametrize(("button", "made"), [("Allow", True), ("Reject", False)])
def test_permission_is_asked_for_in_a_message(button: str, made: bool, tmp_path: Path) -> None:
    with lsp(tmp_path, [[call("bash", command="touch made")], [say("ok")]]) as editor:
        offered: list[str] = []

        def first(params: Frame) -> Frame:
            offered.extend(each["title"] for each in params["actions"])
            wanted = [e for e in params["actions"] if e["title"].startswith(button)]
            return dict(wanted[0])

        editor.answers["window/showMessageRequest"] = first
        editor.command("pi.prompt", {"text": "go", "wait": True})
        asked = editor.called("window/showMessageRequest")
        assert (asked["type"], "$ touch made" in asked["message"]) == (2, True)
        assert len(offered) >= 2
        assert (editor.project / "made").exists() is made


def test_an_editor_that_asks_nobody_permits_nothing(tmp_path: Path) -> None:
    with lsp(tmp_path, [[call("bash", command="touch made")], [say("ok")]]) as editor:
        editor.command("pi.prompt", {"text": "go", "wait": True})
        assert not (editor.project / "made").exists()
        assert len(editor.all("window/showMessageRequest")) == 1


def test_what_an_extension_asks_is_asked_in_messages(tmp_path: Path) -> None:
    (tmp_path / "extensions-py").mkdir()
    (tmp_path / "extensions-py" / "asking.py").write_text(ASKING)
    with lsp(tmp_path, [[say("ok")]]) as editor:
        editor.answers["window/showMessageRequest"] = lambda params: params["actions"][0]
        editor.command("pi.prompt", {"text": "/ask", "wait": True})
        said = [each["message"] for each in editor.all("window/showMessage")]
        assert said == ["True a None"]


# --- the session ---------------------------------------------------------------------------------


def test_a_model_is_picked_by_name_or_from_a_message(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("ok")]]) as editor:
        editor.answers["window/showMessageRequest"] = lambda params: params["actions"][0]
        wait = {"wait": True}
        picked = editor.command("pi.pickModel", wait)
        assert picked["model"].startswith("scripted/")
        assert editor.command("pi.pickModel", picked["model"])["model"] == picked["model"]
        editor.answers["window/showMessageRequest"] = lambda params: None
        assert editor.command("pi.pickModel", wait) is None


def test_which_model_is_asked_once_the_command_is_answered(tmp_path: Path) -> None:
    with lsp(tmp_path) as editor:
        editor.answers["window/showMessageRequest"] = lambda params: NotImplemented
        assert list(editor.command("pi.pickModel")) == ["sessionId"]
        editor.called("window/showMessageRequest")
        asked = editor.frames[-1]
        editor.send(id=asked["id"], result=asked["params"]["actions"][0])
        assert editor.called("window/showMessage")["message"].startswith("pi uses ")


def test_a_new_session_begins_with_nothing_and_compacting_nothing_says_so(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("one")], [say("two")]]) as editor:
        first = editor.command("pi.prompt", {"text": "go", "wait": True})["sessionId"]
        second = editor.command("pi.newSession")["sessionId"]
        assert second != first
        assert editor.command("pi.prompt", {"text": "go", "wait": True})["sessionId"] == second
        done = editor.command("pi.compact", {"wait": True})
        assert done["stopReason"] == "error"
        assert editor.all("window/showMessage")[-1]["message"] == done["errorMessage"]
    assert len(session_files(tmp_path)) == 2


def test_the_conversation_is_compacted(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"compaction": {"keepRecentTokens": 5}}')
    replies = [[say("Well, one.")], [say("And a two.")], [say("A summary.")]]
    with lsp(tmp_path, replies) as editor:
        for _ in range(2):
            editor.command("pi.prompt", {"text": "go", "wait": True})
        done = editor.command("pi.compact", {"wait": True})
        assert done["stopReason"] == "stop"
        assert "A summary." in done["text"]


def test_what_only_may_matter_is_logged(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("one")], [say("two")]]) as editor:
        editor.command("pi.prompt", {"text": "go", "wait": True})
        (path,) = session_files(tmp_path)
        last = json.loads(path.read_text().splitlines()[-1])
        entry = {**last, "id": "0a1b2c3d", "parentId": last["id"], "type": "session_info"}
        with path.open("a") as file:
            file.write(json.dumps({**entry, "name": "renamed"}) + "\n")
        editor.command("pi.prompt", {"text": "go", "wait": True})
        logged = editor.called("window/logMessage")
        assert (logged["type"], "another program" in logged["message"]) == (4, True)


def test_with_drain_everything_that_was_accepted_is_finished(tmp_path: Path) -> None:
    replies = [[{"delayMs": 100}, say("one")], [say("two")]]
    with lsp(tmp_path, replies, "--drain") as editor:
        for _ in "ab":
            editor.command("pi.prompt", "go")
        assert editor.end() == 0
        said = [each["message"] for each in editor.all("window/showMessage")]
        assert said == ["one", "two"]
    (path,) = session_files(tmp_path)
    assert [each["role"] for each in stored_messages(path)] == ["user", "assistant"] * 2


def test_folders_that_the_editor_opens_later_are_those_of_later_sessions(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with lsp(tmp_path, [[call("ls", path=str(other))], [say("ok")]]) as editor:
        folder = {"uri": other.as_uri(), "name": "other"}
        changes = {"added": [folder], "removed": [{"uri": "file:///nowhere", "name": "n"}]}
        editor.tell("workspace/didChangeWorkspaceFolders", {"event": changes})
        editor.answers["window/showMessageRequest"] = lambda params: None
        editor.command("pi.prompt", {"text": "go", "wait": True})
        assert not editor.all("window/showMessageRequest")
        changes = {"added": [], "removed": [folder]}
        editor.tell("workspace/didChangeWorkspaceFolders", {"event": changes})
        assert editor.command("pi.newSession")


def test_a_folder_that_is_not_there_is_none(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("ok")]]) as editor:
        uris = ["file:///no/such/folder", "untitled:1", "file:///a%00b"]
        changes = {"added": [{"uri": each, "name": each} for each in uris], "removed": []}
        editor.tell("workspace/didChangeWorkspaceFolders", {"event": changes})
        assert editor.command("pi.prompt", {"text": "go", "wait": True})["text"] == "ok"


def test_a_plugin_that_asks_for_events_hears_the_native_ones(tmp_path: Path) -> None:
    options = {"agentEvents": True, "session": {"permissionMode": "full"}}
    with lsp(tmp_path, [[call("ls")], [say("ok")]], options=options) as editor:
        done = editor.command("pi.prompt", {"text": "go", "wait": True})
        editor.end()
        told = editor.all("agent/event")
        assert {each["sessionId"] for each in told} == {done["sessionId"]}
        assert [each["seq"] for each in told] == list(range(1, len(told) + 1))
        types = [each["event"]["type"] for each in told]
        assert types.count("agent_settled") == 1
        assert {"tool_execution_start", "message_update", "message_end"} <= set(types)


def test_nobody_else_hears_them(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("ok")]]) as editor:
        editor.command("pi.prompt", {"text": "go", "wait": True})
        editor.end()
        assert not editor.all("agent/event")


SENSELESS = [
    command("pi.what"),
    command("pi.prompt"),
    command("pi.prompt", ""),
    command("pi.prompt", 3),
    command("pi.prompt", {"text": 3}),
    command("pi.fix"),
    command("pi.fix", {"uri": "untitled:1"}),
    command("pi.send", {"uri": "file:///none"}),
    {"command": 3},
]


def test_commands_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("ok")]]) as editor:
        begun = [editor.begin("workspace/executeCommand", each) for each in SENSELESS]
        codes = [editor.answer(each)["error"]["code"] for each in begun]
        assert codes == [-32602] * len(SENSELESS)
        assert not session_files(tmp_path)


def test_what_a_person_can_not_ask_about_is_told(tmp_path: Path) -> None:
    with lsp(tmp_path) as editor:
        editor.begin("workspace/executeCommand", command("pi.fix", {"uri": "jdt://a/b"}))
        told = editor.called("window/showMessage")
        assert (told["type"], told["message"]) == (1, "`jdt://a/b` is no file and not open")


def test_an_editor_that_refuses_progress_is_shown_none(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("ok")]]) as editor:
        del editor.answers["window/workDoneProgress/create"]
        editor.command("pi.prompt", {"text": "go", "wait": True})
        editor.end()
        assert not editor.all("$/progress")


def test_a_question_that_has_become_moot_is_taken_back(tmp_path: Path) -> None:
    with lsp(tmp_path, [[call("bash", command="touch made")], [say("ok")]]) as editor:
        editor.answers["window/showMessageRequest"] = lambda params: NotImplemented
        request = editor.begin(
            "workspace/executeCommand", command("pi.prompt", {"text": "go", "wait": True})
        )
        asked = editor.until(lambda each: each.get("method") == "window/showMessageRequest")
        editor.command("pi.stop")
        assert editor.called("$/cancelRequest") == {"id": asked["id"]}
        # Too late, and nobody's button.
        editor.send(id=asked["id"], result={"title": "Allow"})
        assert editor.answer(request)["result"]["stopReason"] == "aborted"
        assert not (editor.project / "made").exists()


def test_an_answer_that_was_not_offered_permits_nothing(tmp_path: Path) -> None:
    with lsp(tmp_path, [[call("bash", command="touch made")], [say("ok")]]) as editor:
        editor.answers["window/showMessageRequest"] = lambda params: {"title": "Sure"}
        editor.command("pi.prompt", {"text": "go", "wait": True})
        assert not (editor.project / "made").exists()


def test_more_commands_than_there_is_room_for_are_each_answered_once(tmp_path: Path) -> None:
    with lsp(tmp_path, [[hold()]]) as editor:
        waiting = command("pi.prompt", {"text": "go", "wait": True})
        begun = [editor.begin("workspace/executeCommand", waiting) for _ in range(300)]
        assert editor.answer(begun[-1])["error"]["code"] == 1301
        assert editor.ask("shutdown") is None
        editor.tell("exit")
        assert editor.end() == 0
        answers = [each["id"] for each in editor.frames if "method" not in each]
        assert sorted(each for each in answers if each in begun) == begun
