"""Asking for permission over the pipes of a real daemon: each answer, and each way to have none."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.editor import call, say
from tests.server.wire import Frame, Wire, wire

PERMISSION = {"permission": True}
MESSAGES = {"window": {"showMessage": {"messageActionItem": {}}}}
DONE = [say("done")]
TOUCH = [call("bash", command="touch made")]


class Session:
    """A session in a project of its own, and a client that can be asked."""

    def __init__(self, client: Wire, project: Path, **options: Any) -> None:
        self.client = client
        self.project = project
        self.id = client.ask("session/new", {"cwd": str(project), **options})["sessionId"]

    def begin(self) -> int | None:
        return self.client.say("prompt", {"sessionId": self.id, "message": "go"})

    def question(self, method: str = "permission/request") -> Frame:
        return self.client.call(method)

    def ends(self, prompt: int | None) -> list[str]:
        """What the model read of its calls, once the run has settled."""
        self.client.answer(prompt)
        ends = self.client.events("tool_execution_end")
        return [each["result"]["content"][0]["text"] for each in ends]

    def requests(self) -> list[Frame]:
        state = {"sessionId": self.id, "include": ["live"]}
        found: list[Frame] = self.client.ask("session/state", state)["live"]["requests"]
        return found

    def asked(self) -> list[Frame]:
        names = {"permission/request", "window/showMessageRequest"}
        return [each for each in self.client.frames if each.get("method") in names]

    def made(self) -> bool:
        return (self.project / "made").exists()


@contextmanager
def session(
    tmp_path: Path,
    replies: Any,
    *arguments: str,
    features: Any = PERMISSION,
    settings: Any = None,
    extension: str = "",
    **options: Any,
) -> Iterator[Session]:
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir(exist_ok=True)
    home.mkdir(exist_ok=True)
    if settings is not None:
        (home / "settings.json").write_text(json.dumps({"piRpc": {"permissions": settings}}))
    if extension:
        (home / "extensions-py").mkdir()
        (home / "extensions-py" / "hook.py").write_text(extension)
    with wire(home, replies, *arguments, features=features) as client:
        yield Session(client, project, **options)


def kinds(question: Frame) -> list[str]:
    return [each["kind"] for each in question["params"]["options"]]


def option(question: Frame, kind: str) -> Frame:
    """The answer that takes the first option of a kind."""
    options = question["params"]["options"]
    return {"optionId": next(each["id"] for each in options if each["kind"] == kind)}


def told(client: Wire) -> list[str]:
    return [each["message"] for each in client.events("diagnostic")]


# --- answers --------------------------------------------------------------------------------------


def test_a_command_waits_for_the_answer_and_runs_when_it_is_allowed(tmp_path: Path) -> None:
    with session(tmp_path, [TOUCH, DONE]) as here:
        prompt = here.begin()
        question = here.question()
        # What it is about was sent before.
        assert here.client.events()[-1]["type"] == "tool_execution_start"
        assert not here.made()
        assert question["params"]["title"] == "$ touch made"
        assert "timeoutMs" not in question["params"]
        (live,) = here.requests()
        assert live["method"] == "permission/request"
        assert live["params"] == question["params"]
        here.client.reply(question, result=option(question, "allow_once"))
        here.ends(prompt)
        assert here.made()
        assert here.requests() == []


def test_a_rejection_is_read_by_the_model_and_the_run_goes_on(tmp_path: Path) -> None:
    with session(tmp_path, [TOUCH, DONE]) as here:
        prompt = here.begin()
        answer = {**option(question := here.question(), "reject_once"), "feedback": "Not today."}
        here.client.reply(question, result=answer)
        (text,) = here.ends(prompt)
        assert "rejected" in text
        assert text.endswith("Not today.")
        assert here.client.answer(prompt)["result"]["text"] == "done"
        assert not here.made()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"cancelled": True}, ""),
        ({"optionId": "allow", "cancelled": True}, ""),
        ({}, ""),
        (None, ""),
        ({"optionId": "anything"}, "'anything' is none of the options"),
        ({"optionId": 1}, "Expected `str`, got `int` - at `$.optionId`"),
        ("allow", "Expected `object`, got `str`"),
        ({"optionId": "allow", "edits": "all"}, "Expected `array`, got `str`"),
        (
            {"optionId": "allow", "edits": [{"uri": "file:///etc/passwd", "newText": "x"}]},
            "'file:///etc/passwd' was not asked about",
        ),
    ],
)
def test_what_is_no_answer_refuses_the_call_and_is_told(
    tmp_path: Path, answer: Any, why: str
) -> None:
    with session(tmp_path, [[call("write", path="made", content="x")], DONE]) as here:
        prompt = here.begin()
        here.client.reply(here.question(), result=answer)
        (text,) = here.ends(prompt)
        assert "did not answer" in text
        assert not here.made()
        assert [each for each in told(here.client) if why and why in each] == told(here.client)
        assert len(told(here.client)) == bool(why)


def test_an_edit_is_written_as_the_person_wants_it_and_the_model_is_told(tmp_path: Path) -> None:
    edit = call("edit", path="a.txt", edits=[{"oldText": "red", "newText": "green"}])
    with session(tmp_path, [[edit], DONE]) as here:
        (here.project / "a.txt").write_text("red\n")
        prompt = here.begin()
        question = here.question()
        (proposed,) = question["params"]["edits"]
        uri = (here.project / "a.txt").as_uri()
        assert proposed == {"uri": uri, "oldText": "red\n", "newText": "green\n"}
        changed = {"uri": uri, "newText": "blue\n"}
        answer = {**option(question, "allow_once"), "edits": [changed]}
        here.client.reply(question, result=answer)
        (text,) = here.ends(prompt)
        assert "blue" in text
        assert (here.project / "a.txt").read_text() == "blue\n"


def test_a_file_that_changed_while_it_was_asked_about_is_asked_about_again(tmp_path: Path) -> None:
    edit = call("edit", path="a.txt", edits=[{"oldText": "red", "newText": "green"}])
    with session(tmp_path, [[edit], DONE]) as here:
        path = here.project / "a.txt"
        path.write_text("red\n")
        prompt = here.begin()
        question = here.question()
        path.write_text("red\nand more\n")
        # It is asked about again although this would do for the next one.
        here.client.reply(question, result=option(question, "allow_session"))
        again = here.question()
        assert "has changed" in again["params"]["reason"]
        assert again["params"]["edits"][0]["oldText"] == "red\nand more\n"
        here.client.reply(again, result=option(again, "allow_once"))
        here.ends(prompt)
        assert path.read_text() == "green\nand more\n"


# --- for longer -----------------------------------------------------------------------------------


def test_edits_are_shown_as_far_as_they_are_small_enough(tmp_path: Path) -> None:
    """The old text goes first, then all of it, and the question says so."""
    edit = {"oldText": "END", "newText": "end"}
    replies = [[call("edit", path=name, edits=[edit]) for name in ("half", "large")], DONE]
    with session(tmp_path, replies) as asked:
        for name, characters in (("half", 5_000_000), ("large", 9_000_000)):
            (asked.project / name).write_text("0123456789\n" * (characters // 11) + "END\n")
        prompt = asked.begin()
        shown = {}
        for _ in range(2):
            question = asked.question()
            name = Path(question["params"]["locations"][0]["uri"]).name
            shown[name] = question["params"]
            asked.client.reply(question, result=option(question, "allow_once"))
        asked.ends(prompt)
        assert "oldText" not in shown["half"]["edits"][0]
        assert shown["half"]["edits"][0]["newText"].endswith("end\n")
        assert "edits" not in shown["large"]
        assert "too large to be shown" in shown["large"]["reason"]
        for name in ("half", "large"):
            assert (asked.project / name).read_text().endswith("end\n")


def test_an_answer_for_the_session_holds_in_it_and_in_no_other(tmp_path: Path) -> None:
    with session(tmp_path, [TOUCH, TOUCH, DONE]) as here:
        prompt = here.begin()
        question = here.question()
        here.client.reply(question, result=option(question, "allow_session"))
        assert len(here.ends(prompt)) == 2
        assert len(here.asked()) == 1
        (rule,) = here.client.ask("permission/list", {"cwd": str(here.project)})["rules"]
        assert (rule["source"], rule["sessionId"]) == ("session", here.id)
        # Each session plays the script from its beginning.
        other = Session(here.client, here.project)
        prompt = other.begin()
        for _ in range(2):
            other.client.reply(other.question(), result={"cancelled": True})
        other.ends(prompt)


def test_an_answer_for_always_outlasts_the_daemon_until_it_is_forgotten(tmp_path: Path) -> None:
    with session(tmp_path, [TOUCH, DONE]) as here:
        prompt = here.begin()
        question = here.question()
        here.client.reply(question, result=option(question, "allow_always"))
        here.ends(prompt)
    with session(tmp_path, [TOUCH, DONE, TOUCH, DONE]) as here:
        here.ends(here.begin())
        assert here.asked() == []
        (rule,) = here.client.ask("permission/list", {"cwd": str(here.project)})["rules"]
        assert (rule["effect"], rule["source"]) == ("allow", "remembered")
        assert here.client.ask("permission/list")["rules"] == []
        here.client.ask("permission/forget", {"id": rule["id"]})
        prompt = here.begin()
        question = here.question()
        # An answer that comes after the forgetting is an answer.
        here.client.reply(question, result=option(question, "allow_always"))
        here.ends(prompt)
        assert len(here.client.ask("permission/list", {"cwd": str(here.project)})["rules"]) == 1


def test_what_was_rejected_for_always_is_refused_unasked_in_every_mode(tmp_path: Path) -> None:
    with session(tmp_path, [TOUCH, DONE, TOUCH, DONE]) as here:
        prompt = here.begin()
        question = here.question()
        here.client.reply(question, result=option(question, "reject_always"))
        here.ends(prompt)
        here.client.ask("session/configure", {"sessionId": here.id, "permissionMode": "full"})
        here.ends(here.begin())
        assert len(here.asked()) == 1
        assert not here.made()


def test_a_forgotten_rule_that_is_none_is_refused(tmp_path: Path) -> None:
    with session(tmp_path, []) as here:
        answer = here.client.answer(here.client.say("permission/forget", {"id": "rule_0"}))
        assert answer["error"]["data"] == {"kind": "invalidParams", "path": "id"}


def test_rules_of_settings_and_of_a_project_are_listed_with_where_they_are_from(
    tmp_path: Path,
) -> None:
    settings = {"allow": ["bash(make *)"], "deny": ["edit(secret/**)"]}
    own = {"piRpc": {"permissions": {"deny": ["bash(rm *)"], "allow": ["bash(*)"]}}}
    with session(tmp_path, [], settings=settings) as here:
        (here.project / ".pi").mkdir()
        (here.project / ".pi" / "settings.json").write_text(json.dumps(own))
        cwd = {"cwd": str(here.project)}
        here.client.ask("trust/set", {**cwd, "trusted": True})
        rules = here.client.ask("permission/list", cwd)["rules"]
        assert [(each["effect"], each["rule"], each["source"]) for each in rules] == [
            ("allow", "bash(make *)", "settings"),
            ("deny", "edit(secret/**)", "settings"),
            ("deny", "bash(rm *)", "project"),
        ]
        assert all("id" not in each for each in rules)


# --- nobody answers -------------------------------------------------------------------------------


@pytest.mark.parametrize("features", [{}, {"ui": True}, {"window": {}}, {"window": None}])
def test_a_client_that_cannot_be_asked_is_not_and_the_model_reads_how_to_allow_it(
    tmp_path: Path, features: Any
) -> None:
    with session(tmp_path, [TOUCH, DONE], features=features) as here:
        (text,) = here.ends(here.begin())
        for way in ("--permission-mode", "session/new", "piRpc.permissions.allow", "touch made"):
            assert way in text
        assert here.asked() == []
        assert not here.made()


def test_a_client_that_does_not_know_the_question_is_not_asked_it_again(tmp_path: Path) -> None:
    with session(tmp_path, [TOUCH, TOUCH, DONE]) as here:
        prompt = here.begin()
        here.client.reply(here.question(), error={"code": -32601, "message": "what?"})
        first, second = here.ends(prompt)
        assert "did not answer" in first
        assert "Nobody can be asked" in second
        assert len(here.asked()) == 1


def test_the_time_limit_of_the_settings_ends_a_question(tmp_path: Path) -> None:
    with session(tmp_path, [TOUCH, DONE], settings={"timeoutSeconds": 0.05}) as here:
        prompt = here.begin()
        question = here.question()
        assert question["params"]["timeoutMs"] == 50
        resolved = here.question("request/resolved")["params"]
        assert resolved["reason"] == "timed_out"
        here.client.reply(question, result=option(question, "allow_once"))
        here.ends(prompt)
        assert not here.made()


@pytest.mark.parametrize("kind", ["allow_session", "allow_always"])
def test_an_answer_that_covers_other_questions_takes_them_back(tmp_path: Path, kind: str) -> None:
    names = ("a", "b", "made")
    with session(
        tmp_path, [[call("write", path=name, content="x") for name in names], DONE]
    ) as here:
        prompt = here.begin()
        questions = [here.question() for _ in names]
        wide = [
            {"optionId": each["id"]}
            for each in questions[1]["params"]["options"]
            if each["kind"] == kind and "all files" in each["rule"]
        ]
        here.client.reply(questions[1], result=wide[0])
        resolved = [here.question("request/resolved")["params"] for _ in names[1:]]
        assert {each["reason"] for each in resolved} == {"answered"}
        moot = {questions[index]["params"]["requestId"] for index in (0, 2)}
        assert {each["requestId"] for each in resolved} == moot
        here.ends(prompt)
        assert [(here.project / name).read_text() for name in names] == ["x", "x", "x"]


def test_a_rejection_for_always_takes_back_the_same_question_about_other_calls(
    tmp_path: Path,
) -> None:
    with session(tmp_path, [[*TOUCH_EDITS, *TOUCH_EDITS], DONE]) as here:
        prompt = here.begin()
        first, other = here.question(), None
        here.client.reply(first, result=option(first, "reject_always"))
        texts = here.ends(prompt)
        other = [each for each in here.asked() if each is not first]
        assert other == []
        assert len(texts) == 2
        assert not here.made()


TOUCH_EDITS = [call("write", path="made", content="x")]
TWO = [call("write", path=name, content="x") for name in ("a", "made")]


@pytest.mark.parametrize("how", ["abort", "$/cancelRequest", "session/close", "shutdown", "end"])
def test_questions_that_wait_when_the_run_is_stopped_are_moot_and_nothing_is_written(
    tmp_path: Path, how: str
) -> None:
    with session(tmp_path, [TWO, DONE]) as here:
        prompt = here.begin()
        questions = [here.question(), here.question()]
        match how:
            case "$/cancelRequest":
                here.client.say(how, {"id": prompt}, wants_answer=False)
            case "end":
                assert here.client.end() == 0
            case "shutdown":
                here.client.say(how)
            case _:
                here.client.say(how, {"sessionId": here.id})
        if how != "end":
            resolved = [here.question("request/resolved")["params"] for _ in questions]
            assert {each["requestId"] for each in resolved} == {
                each["params"]["requestId"] for each in questions
            }
            assert {each["reason"] for each in resolved} == {"aborted"}
            for question in questions:
                here.client.reply(question, result=option(question, "allow_always"))
        assert here.client.answer(prompt)["result"]["stopReason"] == "aborted"
        assert list(here.project.iterdir()) == []
        assert not (tmp_path / "home/pi-rpc/permissions.json").exists()


def test_a_session_that_became_readonly_while_it_asked_refuses_what_is_allowed_then(
    tmp_path: Path,
) -> None:
    replies = [TOUCH, [call("write", path="made", content="x")], DONE]
    with session(tmp_path, replies) as here:
        prompt = here.begin()
        for mode in ("readonly", "readonly"):
            question = here.question()
            change = {"sessionId": here.id, "permissionMode": mode}
            here.client.ask("session/configure", change)
            here.client.reply(question, result=option(question, "allow_once"))
            if len(here.asked()) == 1:
                here.client.until("tool_execution_end")
                here.client.ask("session/configure", {**change, "permissionMode": "ask"})
        here.ends(prompt)
        assert not here.made()


# --- hooks ----------------------------------------------------------------------------------------

HOOK = """
from pi_rpc.harness.hook_payloads import ToolCallHookResult

def setup(api):
    api.on("tool_call", lambda call: ToolCallHookResult({result}))
"""


def test_a_hook_can_spare_the_person_the_question(tmp_path: Path) -> None:
    hook = HOOK.format(result='decision="allow"')
    with session(tmp_path, [TOUCH, DONE], extension=hook, features={}) as here:
        here.ends(here.begin())
        assert here.made()


@pytest.mark.parametrize(
    ("mode", "settings"), [("readonly", {}), ("full", {"deny": ["bash(touch *)"]})]
)
def test_a_hook_cannot_allow_what_is_refused(tmp_path: Path, mode: str, settings: Any) -> None:
    hook = HOOK.format(result='decision="allow"')
    options = {"permissionMode": mode, "tools": ["bash"], "settings": settings}
    with session(tmp_path, [TOUCH, DONE], extension=hook, **options) as here:
        here.ends(here.begin())
        assert here.asked() == []
        assert not here.made()


def test_a_hook_can_have_the_person_asked_in_full_and_nothing_is_remembered_of_it(
    tmp_path: Path,
) -> None:
    hook = HOOK.format(result='decision="ask"')
    with session(tmp_path, [TOUCH, DONE], extension=hook, permissionMode="full") as here:
        prompt = here.begin()
        question = here.question()
        assert kinds(question) == ["allow_once", "reject_once"]
        here.client.reply(question, result=option(question, "reject_once"))
        here.ends(prompt)
        assert not here.made()


def test_what_a_hook_made_of_the_arguments_is_what_is_asked_about(tmp_path: Path) -> None:
    hook = HOOK.format(result='input={"command": "touch made"}')
    replies = [[call("bash", command="true")], DONE]
    with session(tmp_path, replies, extension=hook, settings={"allow": ["bash(true)"]}) as here:
        prompt = here.begin()
        question = here.question()
        assert question["params"]["args"] == {"command": "touch made"}
        here.client.reply(question, result=option(question, "reject_once"))
        here.ends(prompt)
        assert not here.made()


# --- clients that show messages -------------------------------------------------------------------


def titles(question: Frame) -> list[str]:
    return [each["title"] for each in question["params"]["actions"]]


@pytest.mark.parametrize(("place", "runs"), [(0, True), (1, True), (-2, False), (-1, False)])
def test_a_client_that_shows_messages_answers_with_the_title_of_an_action(
    tmp_path: Path, place: int, runs: bool
) -> None:
    with session(tmp_path, [TOUCH, DONE], features=MESSAGES) as here:
        prompt = here.begin()
        question = here.question("window/showMessageRequest")
        assert len(set(titles(question))) == len(titles(question))
        assert "$ touch made" in question["params"]["message"]
        here.client.reply(question, result={"title": titles(question)[place]})
        here.ends(prompt)
        assert here.made() == runs


@pytest.mark.parametrize(
    ("answer", "complaints"), [(None, 0), ({}, 0), ({"title": "Yes"}, 1), ({"title": 1}, 1)]
)
def test_what_is_none_of_the_actions_refuses_the_call(
    tmp_path: Path, answer: Any, complaints: int
) -> None:
    with session(tmp_path, [TOUCH, DONE], features=MESSAGES) as here:
        prompt = here.begin()
        here.client.reply(here.question("window/showMessageRequest"), result=answer)
        here.ends(prompt)
        assert not here.made()
        assert len(told(here.client)) == complaints


def test_a_message_hides_nothing_and_offers_what_is_long_only_once(tmp_path: Path) -> None:
    command = "echo \u202e" + "x" * 600 + "\n\x1b[2Krm made"
    replies = [[call("bash", command=command)], DONE]
    with session(tmp_path, replies, features=MESSAGES) as here:
        prompt = here.begin()
        question = here.question("window/showMessageRequest")
        message = question["params"]["message"]
        assert titles(question) == ["Allow", "Reject"]
        assert all(char.isprintable() or char == "\n" for char in message)
        assert "\\u202e" in message
        assert "\\n\\x1b[2Krm made" in message
        here.client.reply(question, result={"title": "Reject"})
        here.ends(prompt)


def test_a_message_about_an_edit_shows_what_would_be_written_and_says_what_is_left_out(
    tmp_path: Path,
) -> None:
    new = [
        "same",
        "\u202erm \u3164",
        *(f"line {n}" for n in range(30)),
        "x" * 500 + " hidden",
        "end",
    ]
    replies = [[call("write", path="made", content="\n".join(new))], DONE]
    with session(tmp_path, replies, features=MESSAGES) as here:
        (here.project / "made").write_text("same\nold\nend")
        prompt = here.begin()
        question = here.question("window/showMessageRequest")
        lines = question["params"]["message"].split("\n")
        assert "- old" in lines
        assert "+ \\u202erm \\u3164" in lines
        assert "[… 12 lines left out …]" in lines
        assert not {"- same", "+ same", "+ end"} & set(lines)
        (long,) = [line for line in lines if "characters left out" in line]
        assert long.endswith(" hidden")
        here.client.reply(question, result={"title": "Reject"})
        here.ends(prompt)


def test_a_client_that_knows_permission_only_by_name_is_asked_by_message_the_next_time(
    tmp_path: Path,
) -> None:
    features = {**PERMISSION, **MESSAGES}
    with session(tmp_path, [TOUCH, TOUCH, DONE], features=features) as here:
        prompt = here.begin()
        here.client.reply(here.question(), error={"code": -32601, "message": "what?"})
        question = here.question("window/showMessageRequest")
        here.client.reply(question, result={"title": "Allow"})
        here.ends(prompt)
        assert here.made()


# --- what a person asks for -----------------------------------------------------------------------


def test_a_checkpoint_is_not_restored_where_a_rule_denies_changing_the_file(
    tmp_path: Path,
) -> None:
    replies = [[call("write", path="made", content="x")], DONE]
    with session(tmp_path, replies, permissionMode="full") as here:
        here.ends(here.begin())
        named = {"sessionId": here.id}
        (found,) = here.client.ask("checkpoint/list", named)["checkpoints"]
        (tmp_path / "home/pi-rpc/permissions.json").write_text(
            json.dumps(
                {str(here.project): [{"id": "rule_1", "effect": "deny", "rule": "edit(made)"}]}
            )
        )
        restore = {**named, "checkpointId": found["checkpointId"]}
        refused = here.client.answer(here.client.say("checkpoint/restore", restore))
        assert refused["error"]["data"]["kind"] == "permissionDenied"
        assert here.made()
        here.client.ask("permission/forget", {"id": "rule_1"})
        here.client.ask("checkpoint/restore", restore)
        assert not here.made()
