"""Every method of a client's in every circumstance: no cell is missing, each is as it must be."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pi_rpc.protocol.errors import COMMON_ERRORS, ERRORS
from tests.protocol.conformance import NOTIFICATIONS, ROWS, Row, Stage, methods
from tests.protocol.recorder import Conversation, Frame

REQUESTS = methods(requests=True)

each_request = pytest.mark.parametrize("name", REQUESTS)
each_notification = pytest.mark.parametrize("name", methods(requests=False))

QUICK = [
    name
    for name, row in ROWS.items()
    if row.slow is None and name not in {"shutdown", "steer", "followUp", "abort", "queue/clear"}
]
"""What can be tried in one session after the other: no run begins or ends with it."""

NO_PARAMS = {"shutdown", "ping", "server/stats"}
"""They read none, so none can be missing or of the wrong type."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conversation]:
    """A daemon where nothing has happened yet, for what changes little. It has a model, installed
    or not."""
    with Conversation(tmp_path_factory.mktemp("idle"), [[{"text": "never"}]]) as client:
        client.begin()
        yield client


@pytest.fixture(scope="module")
def ungreeted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conversation]:
    """A daemon that waits for ``initialize``."""
    with Conversation(tmp_path_factory.mktemp("ungreeted")) as client:
        yield client
        check_result("initialize", client.request("initialize", {}))


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conversation]:
    """A daemon that was told to shut down."""
    with Conversation(tmp_path_factory.mktemp("ended")) as client:
        client.begin()
        check_result("shutdown", client.request("shutdown"))
        yield client
        client.notify("exit")
        assert client.end() == 0


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A session in which something has happened, for what is quick."""
    made = Stage(tmp_path_factory.mktemp("stage"))
    with made.client:
        yield made


def on_stage(home: Path, row: Row, *, running: bool = False) -> Stage:
    made = Stage(home, row.replies, running=running)
    if row.after is not None and not running:
        made.client.request(*row.after)
    return made


def check_result(name: str, answer: Frame) -> None:
    """It is the method's result, to the letter."""
    assert "result" in answer, (name, answer)
    result = REQUESTS[name].result
    if result is None:
        assert answer["result"] is None
    else:
        msgspec.json.decode(msgspec.json.encode(answer["result"]), type=result)


def check_refused(name: str, answer: Frame, kind: str, says: str = "") -> None:
    """It is an error of this kind, which the method declares."""
    assert "error" in answer, (name, answer)
    assert answer["error"]["data"]["kind"] == kind, (name, answer)
    assert answer["error"]["code"] == ERRORS[kind].code
    assert kind in (*COMMON_ERRORS, *REQUESTS[name].errors), f"{name} does not declare {kind}"
    assert says in answer["error"]["message"]


def check(name: str, answer: Frame, refused: str | None) -> None:
    if refused is None:
        check_result(name, answer)
    else:
        check_refused(name, answer, refused)


def fields(name: str) -> tuple[msgspec.structs.FieldInfo, ...]:
    params = REQUESTS[name].params
    return () if params is None else msgspec.structs.fields(params)


GIVEN = {
    "command": "true",
    "apiKeyEnv": "SOME_KEY",
    "checkpointId": "cp_0",
    "entryId": "ffffffff",
    "format": "jsonl",
    "id": "q0",
    "message": "x",
    "provider": "openai",
    "query": "x",
    "sessionId": "nowhere",
    "sinceSeq": 0,
    "trusted": True,
}
"""Something of the right type for every field that a method needs."""


def required(name: str) -> list[str]:
    return [field.encode_name for field in fields(name) if field.required]


# --- no cell is missing --------------------------------------------------------------------------


def test_every_method_has_a_row_and_every_row_a_method() -> None:
    assert set(ROWS) == set(REQUESTS)
    assert set(NOTIFICATIONS) == set(methods(requests=False))


def test_only_methods_that_read_no_params_are_left_out_where_params_are_bad() -> None:
    assert {name for name in REQUESTS if REQUESTS[name].params is None} == NO_PARAMS


# --- requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_method_works(name: str, stage: Stage) -> None:
    row = ROWS[name]
    check(name, stage.client.request(name, row.params(stage)), row.refused)


@pytest.mark.parametrize("name", [name for name in ROWS if name not in QUICK])
def test_a_method_that_begins_or_ends_something_works(name: str, tmp_path: Path) -> None:
    row = ROWS[name]
    stage = on_stage(tmp_path, row)
    with stage.client:
        check(name, stage.client.request(name, row.params(stage)), row.refused)


@each_request
def test_params_that_are_missing_are_named(name: str, daemon: Conversation) -> None:
    if name in {"initialize", "shutdown"}:
        return  # what they say without params is said in the other circumstances
    for absent in (None, [], [None], {}):
        answer = daemon.request(name, absent)
        if required(name):
            check_refused(name, answer, "invalidParams", required(name)[0])
        else:
            check(name, answer, ROWS[name].refused_without_params)


@each_request
def test_params_of_the_wrong_type_are_named(name: str, daemon: Conversation) -> None:
    if name == "initialize":
        return  # of a client's first words much is let pass; see test_handshake
    for value in () if name in NO_PARAMS else ("text", 5):
        check_refused(name, daemon.request(name, value), "invalidParams")
    given = {each: GIVEN[each] for each in required(name)}
    for field in [each.encode_name for each in fields(name) if each.type is not Any]:
        values: list[Any] = [{"no": {"such": "value"}}, [[[]]], True]
        answers = [daemon.request(name, {**given, field: value}) for value in values]
        refused = [each for each in answers if each.get("error", {}).get("code") == -32602]
        assert refused, f"{name} takes anything as {field}"
        blamed = {re.split(r"[.\[]", each["error"]["data"].get("path", ""))[0] for each in refused}
        assert field in blamed
        assert blamed <= {field, ""}, blamed


@each_request
def test_a_session_that_is_unknown_is_said_to_be(name: str, daemon: Conversation) -> None:
    names_one = "sessionId" in {field.encode_name for field in fields(name)}
    assert names_one == ("sessionNotFound" in REQUESTS[name].errors)
    if names_one:
        given = {each: GIVEN[each] for each in required(name)}
        answer = daemon.request(name, {**given, "sessionId": "nowhere"})
        check_refused(name, answer, "sessionNotFound", "nowhere")


@each_request
def test_before_initialize_there_is_only_initialize(name: str, ungreeted: Conversation) -> None:
    if name != "initialize":
        check_refused(name, ungreeted.request(name, {}), "serverNotInitialized")


@each_request
def test_after_shutdown_everything_is_refused(name: str, ended: Conversation) -> None:
    check_refused(name, ended.request(name, {}), "invalidRequest", "shutting down")


@each_request
def test_a_quick_request_that_is_cancelled_is_answered_once(name: str, stage: Stage) -> None:
    row = ROWS[name]
    if row.slow is not None or name == "shutdown":
        return
    number = stage.client.send(name, row.params(stage))
    stage.client.notify("$/cancelRequest", {"id": number})
    answer = stage.client.answer(number)
    if answer.get("error", {}).get("code") != ERRORS["requestCancelled"].code:
        check(name, answer, row.refused)
    assert stage.times_answered(number) == 1


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.slow is not None])
def test_a_slow_request_that_is_cancelled_succeeds_with_what_it_has(
    name: str, tmp_path: Path
) -> None:
    slow = ROWS[name].slow
    assert slow is not None
    row = Row(slow.params or ROWS[name].params, slow.replies, ROWS[name].after)
    stage = on_stage(tmp_path, row)
    with stage.client:
        number = stage.client.send(name, row.params(stage))
        stage.client.event(slow.under_way)
        stage.client.notify("$/cancelRequest", {"id": number})
        answer = stage.client.answer(number)
        check_result(name, answer)
        assert slow.says.items() <= answer["result"].items()
        assert stage.times_answered(number) == 1


@each_request
def test_while_a_run_goes_on_a_method_works_or_says_that_it_does_not(
    name: str, tmp_path: Path
) -> None:
    row = ROWS[name]
    stage = on_stage(tmp_path, row, running=True)
    with stage.client:
        answer = stage.client.request(name, row.params(stage))
        check(name, answer, row.refused or row.refused_while_running)


# --- notifications -------------------------------------------------------------------------------


@each_notification
def test_a_notification_is_never_answered(name: str, tmp_path: Path) -> None:
    """Whatever it says, before and after ``initialize``; but ``exit`` is the end."""
    sent = [NOTIFICATIONS[name], None, [], 5, {"unknown": True}]
    with Conversation(tmp_path) as client:
        if name == "exit":
            client.request("initialize", {})
            client.notify(name)
            assert client.end() == 1
            return
        for params in sent:
            client.notify(name, params)
        client.request("initialize", {})
        for params in sent:
            client.notify(name, params)
        check_result("ping", client.request("ping"))
        answered = [frame.get("id") for sender, frame in client.said if sender == "←"]
    assert [number for number in answered if number is not None] == [1, 2]
