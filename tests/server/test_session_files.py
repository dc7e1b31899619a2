"""Forking, deleting, naming and labelling sessions, open or not, at the raw pipe."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.server.wire import Frame, Wire, wire

GONE = {"sessionId": "nobody"}


def say(text: str) -> list[Frame]:
    return [{"text": text}]


HOLD: list[Frame] = [{"text": "half"}, {"delayMs": 60_000}]


def error_of(connected: Wire, method: str, params: Any) -> Frame:
    """What a request is refused with."""
    error: Frame = connected.answer(connected.say(method, params))["error"]
    return error


def kind_of(connected: Wire, method: str, params: Any) -> str:
    kind: str = error_of(connected, method, params)["data"]["kind"]
    return kind


def stored(path: str) -> list[Frame]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_fork_answers_with_what_was_said_and_the_old_session_stays(tmp_path: Path) -> None:
    image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    text = {"type": "text", "name": "log", "text": "0 1 2"}
    with wire(tmp_path, [say("one"), say("two")]) as client:
        client.ask("prompt", {"message": "first"})
        client.ask("prompt", {"message": "second", "images": [image], "attachments": [text]})
        before = client.ask("session/messages")
        state = client.ask("session/state")
        fork = client.ask("session/fork", {"entryId": before["entryIds"][2]})
        assert (fork["text"], fork["images"], fork["attachments"]) == ("second", [image], [text])
        new = {"sessionId": fork["sessionId"]}
        page = client.ask("session/messages", new)
        assert page["entryIds"] == before["entryIds"][:2]
        assert stored(fork["path"])[0]["parentSession"] == state["path"]
        assert client.ask("session/messages") == before
        assert client.ask("session/state")["sessionId"] == state["sessionId"]
        assert client.ask("session/state", new)["path"] == fork["path"]


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        ({}, 4),
        ({"entryId": None, "position": None}, 4),
        ({"entryId": 1, "position": "at"}, 2),
        ({"entryId": 2, "position": "at"}, 3),
        ({"entryId": 0, "position": "before"}, 0),
    ],
)
def test_a_fork_ends_where_it_is_told_to(tmp_path: Path, params: dict[str, Any], kept: int) -> None:
    with wire(tmp_path, [say("one"), say("two")]) as client:
        client.ask("prompt", {"message": "first"})
        client.ask("prompt", {"message": "second"})
        ids = client.ask("session/messages")["entryIds"]
        if isinstance(place := params.get("entryId"), int):
            params = {**params, "entryId": ids[place]}
        fork = client.ask("session/fork", params)
        assert (
            client.ask("session/messages", {"sessionId": fork["sessionId"]})["entryIds"]
            == (ids[:kept])
        )
        assert ("text" in fork) == (params.get("position") == "before")


def test_a_fork_that_cannot_be_is_refused_by_its_kind(tmp_path: Path) -> None:
    with wire(tmp_path, [say("one")]) as client:
        client.ask("prompt", {"message": "first"})
        answer = client.ask("session/messages")["entryIds"][1]
        for params, kind, path in (
            (GONE, "sessionNotFound", None),
            ({"entryId": "ffffffff"}, "entryNotFound", None),
            ({"entryId": answer}, "invalidParams", "entryId"),
            ({"position": "before"}, "invalidParams", "entryId"),
            ({"position": "after"}, "invalidParams", "position"),
            ({"entryId": 5}, "invalidParams", "entryId"),
        ):
            error = error_of(client, "session/fork", params)
            assert (error["data"]["kind"], error["data"].get("path")) == (kind, path), params
        assert len(client.ask("session/list")["sessions"]) == 1


def test_a_file_that_is_no_session_any_more_is_not_found_and_left_as_it_is(tmp_path: Path) -> None:
    with wire(tmp_path, [say("one")]) as client:
        client.ask("prompt", {"message": "first"})
        state = client.ask("session/state")
        name = {"sessionId": state["sessionId"]}
        client.ask("session/close", name)
        Path(state["path"]).write_text("this is no session\n")
        for method in ("session/fork", "session/delete"):
            assert kind_of(client, method, name) == "sessionNotFound"
        assert Path(state["path"]).read_text() == "this is no session\n"


def test_a_session_is_forked_while_its_run_goes_on(tmp_path: Path) -> None:
    with wire(tmp_path, [HOLD]) as client:
        run = client.say("prompt", {"message": "go"})
        client.until("message_update")
        fork = client.ask("session/fork")
        new = {"sessionId": fork["sessionId"]}
        state = client.ask("session/state", new)
        assert (state["phase"], state["messageCount"]) == ("idle", 1)
        assert client.ask("session/state")["phase"] == "turn"
        client.ask("abort")
        assert client.answer(run)["result"]["stopReason"] == "aborted"
        assert client.ask("session/state", new)["messageCount"] == 1


def test_a_fork_of_an_ephemeral_session_has_no_path(tmp_path: Path) -> None:
    with wire(tmp_path, [say("one")]) as client:
        name = {"sessionId": client.ask("session/new", {"ephemeral": True})["sessionId"]}
        client.ask("prompt", {**name, "message": "first"})
        fork = client.ask("session/fork", name)
        assert list(fork) == ["sessionId"]
        assert client.ask("session/state", fork)["messageCount"] == 2
    assert not (tmp_path / "sessions").exists()


def test_a_clone_works_as_the_other_did(tmp_path: Path) -> None:
    with wire(tmp_path, [say("one")]) as client:
        wanted = {
            "permissionMode": "edits",
            "thinkingLevel": "high",
            "additionalDirectories": [str(tmp_path)],
            "limits": {"turns": 2},
            "steeringMode": "all",
            "autoRetry": False,
            "activeTools": ["read", "edit"],
        }
        client.ask("session/configure", wanted)
        client.ask("prompt", {"message": "first"})
        old = client.ask("session/state")
        new = client.ask("session/state", {"sessionId": client.ask("session/fork")["sessionId"]})
        its_own = ("sessionId", "path", "epoch", "lastSeq")
        assert {name: new[name] for name in new if name not in its_own} == {
            name: old[name] for name in old if name not in its_own
        }


def test_a_fork_or_deletion_that_is_cancelled_is_done_or_never_was(tmp_path: Path) -> None:
    with wire(tmp_path, [say("one")]) as client:
        client.ask("prompt", {"message": "first"})
        source = client.ask("session/state")["sessionId"]
        forks: set[str] = set()

        def cancelled(method: str, session_id: str) -> Frame | None:
            begun = client.say(method, {"sessionId": session_id})
            client.say("$/cancelRequest", {"id": begun}, wants_answer=False)
            answer = client.answer(begun)
            if "result" in answer:
                return answer["result"]  # type: ignore[no-any-return]
            assert answer["error"]["data"]["kind"] == "requestCancelled"
            return None

        for _ in range(3):
            if fork := cancelled("session/fork", source):
                forks.add(fork["sessionId"])
            for each in list(forks):
                if cancelled("session/delete", each) is not None:
                    forks.remove(each)
            listed = {each["sessionId"] for each in client.ask("session/list")["sessions"]}
            assert listed == {source, *forks}


def test_a_deleted_default_session_gives_way_to_a_new_one(tmp_path: Path) -> None:
    with wire(tmp_path, [say("one"), say("two")]) as client:
        client.ask("prompt", {"message": "first"})
        old = client.ask("session/state")
        assert client.ask("session/delete", {"sessionId": old["sessionId"]}) == {}
        assert not Path(old["path"]).exists()
        new = client.ask("session/state")
        assert new["sessionId"] != old["sessionId"]
        assert new["messageCount"] == 0
        assert kind_of(client, "session/delete", {"sessionId": old["sessionId"]}) == (
            "sessionNotFound"
        )
        assert kind_of(client, "session/delete", {}) == "invalidParams"


def test_a_running_session_that_is_deleted_settles_before_the_answer(tmp_path: Path) -> None:
    with wire(tmp_path, [HOLD]) as client:
        run = client.say("prompt", {"message": "go"})
        client.until("message_update")
        session_id = client.frames[-1]["params"]["sessionId"]
        assert client.ask("session/delete", {"sessionId": session_id}) == {}
        assert client.answer(run)["result"]["stopReason"] == "aborted"
        assert [each["type"] for each in client.events()][-1] == "agent_settled"
        (kept,) = (tmp_path / "sessions" / ".trash").rglob("*.jsonl")
        roles = [each["message"]["role"] for each in stored(str(kept)) if "message" in each]
        assert roles == ["user", "assistant"]


def test_a_session_that_is_not_open_is_named_and_labelled(tmp_path: Path) -> None:
    with wire(tmp_path, [say("one")]) as client:
        client.ask("prompt", {"message": "first"})
        open_state = client.ask("session/state")
        name = {"sessionId": open_state["sessionId"]}
        ids = client.ask("session/messages")["entryIds"]
        client.ask("session/close", name)
        heard = len(client.events())
        state = client.ask("session/configure", {**name, "name": " a  name "})
        assert (state["name"], state["lastSeq"], state["messageCount"]) == ("a name", 0, 2)
        assert state.keys() - {"name"} == open_state.keys()
        assert client.ask("session/label", {**name, "entryId": ids[0], "label": "here"}) == {}
        assert kind_of(client, "session/label", {**name, "entryId": "ffffffff", "label": "x"}) == (
            "entryNotFound"
        )
        assert len(client.events()) == heard
        assert kind_of(client, "session/state", name) == "sessionNotFound"
        lines = stored(open_state["path"])
        assert [each["type"] for each in lines[-2:]] == ["session_info", "label"]
        (listed,) = client.ask("session/list")["sessions"]
        assert (listed["name"], "open" in listed, "lockedPid" in listed) == ("a name", False, False)
        again = client.ask("session/open", name)
        assert again["name"] == "a name"
        labels = [each.get("label") for each in client.ask("session/tree", name)["nodes"]]
        assert labels.count("here") == 1
        client.ask("session/close", name)
        assert "name" not in client.ask("session/configure", {**name, "name": ""})


@pytest.mark.parametrize(
    "change", [{}, {"thinkingLevel": "high"}, {"name": "x", "permissionMode": "full"}]
)
def test_of_a_session_that_is_not_open_nothing_but_the_name_can_be_changed(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    with wire(tmp_path, [say("one")]) as client:
        client.ask("prompt", {"message": "first"})
        state = client.ask("session/state")
        name = {"sessionId": state["sessionId"]}
        client.ask("session/close", name)
        before = Path(state["path"]).read_bytes()
        assert kind_of(client, "session/configure", {**name, **change}) == "sessionNotFound"
        assert Path(state["path"]).read_bytes() == before


def test_what_another_daemon_writes_can_be_forked_but_not_changed(tmp_path: Path) -> None:
    with wire(tmp_path, [say("one")]) as owner, wire(tmp_path, [say("two")]) as other:
        owner.ask("prompt", {"message": "first"})
        state = owner.ask("session/state")
        name = {"sessionId": state["sessionId"]}
        entry = owner.ask("session/messages")["entryIds"][0]
        for method, params in (
            ("session/delete", name),
            ("session/configure", {**name, "name": "mine"}),
            ("session/label", {**name, "entryId": entry, "label": "x"}),
        ):
            error = error_of(other, method, params)
            assert error["code"] == 1003
            assert error["data"] == {"kind": "sessionLocked", "pid": owner.process.pid}
        fork = other.ask("session/fork", name)
        assert other.ask("session/state", {"sessionId": fork["sessionId"]})["messageCount"] == 2
        listed = {each["sessionId"]: each for each in other.ask("session/list")["sessions"]}
        assert listed[state["sessionId"]]["lockedPid"] == owner.process.pid
        assert "open" not in listed[state["sessionId"]]
        assert listed[fork["sessionId"]]["open"] is True
        assert "lockedPid" not in listed[fork["sessionId"]]
        for method in ("session/delete", "session/configure", "session/label"):
            params = {**GONE, "name": "x", "entryId": entry}
            assert kind_of(other, method, params) == "sessionNotFound"


def test_a_session_is_listed_with_what_it_does_and_when_it_was_last_used(tmp_path: Path) -> None:
    with wire(tmp_path, [say("one"), HOLD]) as client:
        client.ask("prompt", {"message": "first"})
        client.ask("session/configure", {"name": "later than the last message"})
        path = client.ask("session/state")["path"]
        said = [each["timestamp"] for each in stored(path) if each["type"] == "message"]
        (listed,) = client.ask("session/list")["sessions"]
        assert (listed["modified"], listed["phase"]) == (said[-1], "idle")
        client.say("prompt", {"message": "second"})
        client.until("message_update")
        (listed,) = client.ask("session/list")["sessions"]
        assert (listed["phase"], listed["open"]) == ("turn", True)
        assert "lockedPid" not in listed


BAD_DIRECTORIES = ["relative", "", "a/b", "/nowhere/at/all", "/a\0b", "~"]


@pytest.mark.parametrize("wrong", BAD_DIRECTORIES)
def test_further_directories_must_be_there(tmp_path: Path, wrong: str) -> None:
    params = {"additionalDirectories": [str(tmp_path), wrong]}
    with wire(tmp_path) as client:
        before = client.ask("session/state")
        for method in ("session/new", "session/configure"):
            error = error_of(client, method, {**params, "name": "never"})
            assert error["code"] == -32602
            assert error["data"] == {"kind": "invalidParams", "path": "additionalDirectories[1]"}
        assert client.ask("session/state") == before
        fine = {"additionalDirectories": [str(tmp_path)]}
        assert client.ask("session/configure", fine)["additionalDirectories"] == [str(tmp_path)]
        assert (
            client.ask("session/configure", {"additionalDirectories": []})["additionalDirectories"]
            == []
        )


@pytest.mark.parametrize("wrong", ["nobody", "gone.jsonl", "script.json", "/a\0b.jsonl", "../.."])
def test_a_parent_must_be_a_session(tmp_path: Path, wrong: str) -> None:
    with wire(tmp_path, [say("one")]) as client:
        client.ask("prompt", {"message": "first"})
        error = error_of(client, "session/new", {"parentSession": wrong})
        assert error["data"] == {"kind": "invalidParams", "path": "parentSession"}
        parent = client.ask("session/state")
        for named in (parent["sessionId"], parent["path"]):
            made = client.ask("session/new", {"parentSession": named, "name": "child"})
            assert stored(made["path"])[0]["parentSession"] == parent["path"]
