"""Questions to the client over the pipes of a real daemon: each way in which one can end."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.editor import call, say
from tests.server.wire import Frame, Wire, wire

ASKS = """
import json
from pathlib import Path

import anyio

from pi_rpc.agent.ports import Choice
from pi_rpc.agent.tool import AgentTool, ToolResult
from pi_rpc.harness.hook_payloads import ToolCallHookResult

OPTIONS = ["a", Choice("b", "Beta", "the second")]

def setup(api):
    ui = api.ui
    questions = {
        "select": lambda **more: ui.choose("Which?", OPTIONS, **more),
        "confirm": lambda **more: ui.confirm("Sure?", "Really?", **more),
        "input": lambda **more: ui.enter("Name?", "a name", prefill="me", **more),
        "editor": lambda **more: ui.edit("Text?", "as it was", **more),
    }

    async def ask(kind):
        api.notify(json.dumps(await questions[kind]()))

    async def soon(kind):
        api.notify(json.dumps(await questions[kind](timeout_s=0.01)))

    async def both(_):
        async def one(kind):
            api.notify(json.dumps([kind, await questions[kind]()]))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, "confirm")
            tasks.start_soon(one, "input")

    async def empty(_):
        await ui.choose("Which?", [])

    def tell(text):
        ui.status("job", "going on")
        ui.notify(text, "warning")
        ui.status("job", None)

    async def decide(call):
        if not await ui.confirm("Run it?", call.tool_name):
            return ToolCallHookResult(block=True, reason="the person said no")

    async def execute(tool_call_id, params, signal, on_update):
        return ToolResult.of_text(str(await ui.enter("Who?")))

    api.command("ask", "", ask)
    api.command("soon", "", soon)
    api.command("both", "", both)
    api.command("empty", "", empty)
    api.command("tell", "", tell)
    api.tool(AgentTool(name="who", label="Who", description="Who?", execute=execute,
                       parameters={"type": "object"}))
    api.on("tool_call", decide)
"""
UI = {"ui": True}


@contextmanager
def asking(home: Path, replies: Any = (), *arguments: str, features: Any = UI) -> Iterator[Wire]:
    folder = home / "extensions-py"
    folder.mkdir()
    (folder / "asks.py").write_text(ASKS)
    mode = ("--permission-mode", "full")
    with wire(home, replies, *mode, *arguments, features=features) as client:
        yield client


def told(client: Wire) -> list[str]:
    return [each["message"] for each in client.events("diagnostic")]


def methods(client: Wire) -> list[str]:
    return [
        frame["method"]
        for frame in client.frames
        if frame.get("method") != "agent/event"
        if "method" in frame
    ]


SHAPES = {
    "select": {
        "title": "Which?",
        "options": [
            {"value": "a", "label": "a"},
            {"value": "b", "label": "Beta", "description": "the second"},
        ],
    },
    "confirm": {"title": "Sure?", "message": "Really?"},
    "input": {"title": "Name?", "placeholder": "a name", "prefill": "me"},
    "editor": {"title": "Text?", "prefill": "as it was"},
}


@pytest.mark.parametrize(
    ("kind", "answer", "heard"),
    [
        ("select", {"value": "b"}, "b"),
        ("select", {"cancelled": True}, None),
        ("confirm", {"confirmed": True}, True),
        ("confirm", {"confirmed": False}, False),
        ("confirm", {"confirmed": True, "cancelled": True}, False),
        ("input", {"value": ""}, ""),
        ("input", {"value": "you", "cancelled": False}, "you"),
        ("input", {"value": "you", "cancelled": True}, None),
        ("editor", {"value": "as it is\n", "more": [1]}, "as it is\n"),
        # What Lua makes of nil, and of a table with nothing in it.
        ("editor", {}, None),
        ("select", [], None),
        ("input", None, None),
        ("input", {"value": None}, None),
        ("confirm", None, False),
    ],
)
def test_a_question_is_asked_as_its_code_asks_it_and_answered_as_the_person_answers(
    tmp_path: Path, kind: str, answer: Any, heard: Any
) -> None:
    with asking(tmp_path) as client:
        session = client.ask("session/state")["sessionId"]
        prompt = client.say("prompt", {"message": f"/ask {kind}"})
        question = client.call(f"ui/{kind}")
        expected = {"requestId": "q1", "sessionId": session, **SHAPES[kind]}
        assert question["params"] == expected
        live = client.ask("session/state", {"include": ["live"]})["live"]["requests"]
        assert live == [{"requestId": "q1", "method": f"ui/{kind}", "params": expected}]
        client.reply(question, result=answer)
        assert client.answer(prompt)["result"]["disposition"] == "handled"
        assert told(client) == [json.dumps(heard)]
        assert client.ask("session/state", {"include": ["live"]})["live"]["requests"] == []
        assert methods(client) == [f"ui/{kind}"]


@pytest.mark.parametrize(
    ("kind", "answer", "why"),
    [
        ("select", {"value": "c"}, "'c' is not among the options"),
        ("select", {"value": 1}, "Expected `str`, got `int` - at `$.value`"),
        ("confirm", {"confirmed": "yes"}, "Expected `bool`, got `str` - at `$.confirmed`"),
        ("input", "you", "Expected `object`, got `str`"),
        ("editor", [1], "Expected `object`, got `array`"),
    ],
)
def test_an_answer_to_another_question_counts_as_cancelled_and_is_told(
    tmp_path: Path, kind: str, answer: Any, why: str
) -> None:
    with asking(tmp_path) as client:
        prompt = client.say("prompt", {"message": f"/ask {kind}"})
        client.reply(client.call(f"ui/{kind}"), result=answer)
        client.answer(prompt)
        complaint, heard = told(client)
        assert complaint.startswith(f"the client's answer to ui/{kind} counts as cancelled: ")
        assert why in complaint
        assert heard == ("false" if kind == "confirm" else "null")


def test_a_client_that_does_not_know_a_question_is_not_asked_that_again(tmp_path: Path) -> None:
    with asking(tmp_path) as client:
        prompt = client.say("prompt", {"message": "/ask confirm"})
        unknown = {"code": -32601, "message": "what?"}
        client.reply(client.call("ui/confirm"), error=unknown)
        client.answer(prompt)
        client.ask("prompt", {"message": "/ask confirm"})
        prompt = client.say("prompt", {"message": "/ask input"})
        client.reply(client.call("ui/input"), result={"value": "you"})
        client.answer(prompt)
        assert methods(client) == ["ui/confirm", "ui/input"]
        complaint, first, second, third = told(client)
        assert "ui/confirm" in complaint
        assert "does not know the method" in complaint
        assert (first, second, third) == ("false", "false", '"you"')


@pytest.mark.parametrize(("code", "is_told"), [(-32603, True), (-32800, False), (1302, True)])
def test_an_error_counts_as_cancelled_and_the_question_may_be_asked_again(
    tmp_path: Path, code: int, is_told: bool
) -> None:
    with asking(tmp_path) as client:
        for _ in range(2):
            prompt = client.say("prompt", {"message": "/ask input"})
            error = {"code": code, "message": "the screen is broken"}
            client.reply(client.call("ui/input"), error=error)
            client.answer(prompt)
        assert told(client).count("null") == 2
        assert any("the screen is broken" in each for each in told(client)) == is_told


@pytest.mark.parametrize(
    "features", [{}, {"ui": False}, {"pi": {}, "ui": True}, {"permission": True}]
)
def test_a_client_that_has_declared_nothing_is_sent_nothing(tmp_path: Path, features: Any) -> None:
    with asking(tmp_path, features=features) as client:
        for kind in SHAPES:
            client.ask("prompt", {"message": f"/ask {kind}"})
        client.ask("prompt", {"message": "/tell it"})
        assert methods(client) == []
        assert told(client) == ["null", "false", "null", "null"]


def test_a_question_whose_time_is_over_is_moot_and_a_late_answer_is_ignored(tmp_path: Path) -> None:
    with asking(tmp_path) as client:
        prompt = client.say("prompt", {"message": "/soon input"})
        question = client.call("ui/input")
        assert question["params"]["timeoutMs"] == 10
        cancel = client.read()
        assert (cancel["method"], cancel["params"]) == ("$/cancelRequest", {"id": question["id"]})
        resolved = client.read()
        assert resolved["method"] == "request/resolved"
        assert resolved["params"] == {
            "requestId": question["params"]["requestId"],
            "sessionId": question["params"]["sessionId"],
            "reason": "timed_out",
        }
        client.answer(prompt)
        assert told(client) == ["null"]
        client.reply(question, result={"value": "too late"})
        client.reply(question, error={"code": -32800, "message": "cancelled"})
        client.reply(question)
        frames = len(client.frames)
        client.ask("ping")
        assert len(client.frames) == frames + 1


def moot(client: Wire, question: Frame, reason: str = "aborted") -> None:
    """The client is told right away that a question is moot."""
    resolved = client.call("request/resolved")
    assert client.frames[-2]["method"] == "$/cancelRequest"
    assert client.frames[-2]["params"] == {"id": question["id"]}
    assert resolved["params"]["requestId"] == question["params"]["requestId"]
    assert resolved["params"]["reason"] == reason


def test_cancelling_the_command_that_asks_takes_the_question_back(tmp_path: Path) -> None:
    with asking(tmp_path) as client:
        prompt = client.say("prompt", {"message": "/ask confirm"})
        question = client.call("ui/confirm")
        client.say("$/cancelRequest", {"id": prompt}, wants_answer=False)
        moot(client, question)
        assert client.answer(prompt)["result"]["stopReason"] == "aborted"


def test_closing_the_session_takes_its_questions_back(tmp_path: Path) -> None:
    with asking(tmp_path) as client:
        session = client.ask("session/new")["sessionId"]
        prompt = client.say("prompt", {"sessionId": session, "message": "/ask confirm"})
        question = client.call("ui/confirm")
        assert question["params"]["sessionId"] == session
        client.ask("session/close", {"sessionId": session})
        moot(client, question)
        assert client.answer(prompt)["result"]["disposition"] == "handled"


def test_a_hook_waits_for_the_person_after_the_start_of_its_call_was_sent(tmp_path: Path) -> None:
    replies = [[call("who")], [say("done")]]
    with asking(tmp_path, replies) as client:
        prompt = client.say("prompt", {"message": "go"})
        question = client.call("ui/confirm")
        assert client.events()[-1]["type"] == "tool_execution_start"
        client.reply(question, result={"confirmed": True})
        client.reply(client.call("ui/input"), result={"value": "Ada"})
        assert client.answer(prompt)["result"]["text"] == "done"
        (end,) = client.events("tool_execution_end")
        assert (end["isError"], end["result"]["content"][0]["text"]) == (False, "Ada")


@pytest.mark.parametrize("answer", [{"confirmed": False}, {"cancelled": True}, {}])
def test_a_no_goes_into_the_run_and_the_run_goes_on(tmp_path: Path, answer: Frame) -> None:
    replies = [[call("who")], [say("then not")]]
    with asking(tmp_path, replies) as client:
        prompt = client.say("prompt", {"message": "go"})
        client.reply(client.call("ui/confirm"), result=answer)
        assert client.answer(prompt)["result"]["text"] == "then not"
        (end,) = client.events("tool_execution_end")
        assert "the person said no" in end["result"]["content"][0]["text"]


@pytest.mark.parametrize("at", ["ui/confirm", "ui/input"])
@pytest.mark.parametrize("how", ["abort", "$/cancelRequest"])
def test_aborting_the_run_takes_its_question_back_before_the_run_has_settled(
    tmp_path: Path, at: str, how: str
) -> None:
    replies = [[call("who")], [say("never said")]]
    with asking(tmp_path, replies) as client:
        prompt = client.say("prompt", {"message": "go"})
        question = client.call("ui/confirm")
        if at != "ui/confirm":
            client.reply(question, result={"confirmed": True})
            question = client.call(at)
        if how == "abort":
            client.say("abort")
        else:
            client.say(how, {"id": prompt}, wants_answer=False)
        moot(client, question)
        assert not client.events("agent_settled")
        assert client.answer(prompt)["result"]["stopReason"] == "aborted"
        assert client.events("agent_settled")
        assert client.ask("session/state", {"include": ["live"]})["live"]["requests"] == []


def test_several_questions_of_a_session_are_open_at_once(tmp_path: Path) -> None:
    with asking(tmp_path) as client:
        prompt = client.say("prompt", {"message": "/both"})
        questions = [client.read(), client.read()]
        live = client.ask("session/state", {"include": ["live"]})["live"]["requests"]
        assert [each["requestId"] for each in live] == ["q1", "q2"]
        answers = {"ui/confirm": {"confirmed": True}, "ui/input": {"value": "you"}}
        for question in reversed(questions):
            client.reply(question, result=answers[question["method"]])
        client.answer(prompt)
        assert sorted(told(client)) == ['["confirm", true]', '["input", "you"]']


def test_questions_of_a_session_are_in_the_state_of_no_other(tmp_path: Path) -> None:
    with asking(tmp_path) as client:
        prompt = client.say("prompt", {"message": "/ask confirm"})
        question = client.call("ui/confirm")
        other = client.ask("session/new")["sessionId"]
        state = client.ask("session/state", {"sessionId": other, "include": ["live"]})
        assert state["live"]["requests"] == []
        client.reply(question, result={"confirmed": True})
        client.answer(prompt)


def test_what_is_shown_reaches_the_client_in_order_from_any_thread(tmp_path: Path) -> None:
    with asking(tmp_path) as client:
        session = client.ask("session/state")["sessionId"]
        client.ask("prompt", {"message": "/tell watch out"})
        shown = [frame for frame in client.frames if frame.get("method", "").startswith("ui/")]
        assert [(each["method"], each["params"]) for each in shown] == [
            ("ui/status", {"sessionId": session, "key": "job", "text": "going on"}),
            ("ui/notify", {"sessionId": session, "level": "warning", "message": "watch out"}),
            ("ui/status", {"sessionId": session, "key": "job"}),
        ]


def test_nothing_to_choose_from_is_the_mistake_of_who_asks(tmp_path: Path) -> None:
    with asking(tmp_path) as client:
        result = client.ask("prompt", {"message": "/empty"})
        assert "nothing to choose from" in result["errorMessage"]
        assert methods(client) == []


def test_a_client_that_goes_away_leaves_no_question_behind(tmp_path: Path) -> None:
    replies = [[call("who")], [say("never said")]]
    with asking(tmp_path, replies) as client:
        prompt = client.say("prompt", {"message": "go"})
        client.call("ui/confirm")
        assert client.end() == 0
        assert client.answer(prompt)["result"]["stopReason"] == "aborted"
        (end,) = client.events("tool_execution_end")
        assert end["isError"] is True


def test_what_is_drained_asks_nobody_and_goes_on(tmp_path: Path) -> None:
    replies = [[call("who")], [say("then not")]]
    with asking(tmp_path, replies, "--drain") as client:
        prompt = client.say("prompt", {"message": "go"})
        client.call("ui/confirm")
        assert client.end() == 0
        assert client.answer(prompt)["result"]["text"] == "then not"


def test_after_shutdown_nobody_is_asked(tmp_path: Path) -> None:
    with asking(tmp_path, [[call("who")]]) as client:
        prompt = client.say("prompt", {"message": "go"})
        question = client.call("ui/confirm")
        assert client.answer(client.say("shutdown"))["result"] is None
        moot(client, question)
        assert client.answer(prompt)["result"]["stopReason"] == "aborted"
