"""``session/events`` over the pipes of a real daemon."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.editor import DEADLINE_S
from tests.server.wire import Frame, Wire, wire

EVERY = {"events": {"minIntervalMs": 0}}
NEWS = "assistantMessageEvent"
STORY = "Once upon a time there was a valve that would not close, "


def story(count: int = 20) -> list[Frame]:
    return [{"repeatText": STORY, "count": count}]


def repeated(client: Wire, since: int, **params: Any) -> Frame:
    found: Frame = client.ask("session/events", {"sinceSeq": since, **params})
    return found


def is_delta(event: Frame) -> bool:
    return "delta" in event.get(NEWS, {})


def deltas(sent: list[tuple[int, Frame]]) -> list[str]:
    return [event[NEWS]["delta"] for _, event in sent if is_delta(event)]


def caught_up(sent: list[tuple[int, Frame]], since: int) -> list[tuple[int, Frame]]:
    """What a client is to be given of finished messages: no deltas."""
    return [(seq, event) for seq, event in sent if seq > since and not is_delta(event)]


@contextmanager
def stalling(home: Path, words: Sequence[str]) -> Iterator[threading.Event]:
    """A model ``local/slow`` that says ``words`` and no more until the event is set."""
    go_on = threading.Event()

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for word in words:
                self.chunk({"delta": {"content": word}})
            go_on.wait(DEADLINE_S)
            self.chunk({"delta": {}, "finish_reason": "stop"})
            self.wfile.write(b"data: [DONE]\n\n")

        def chunk(self, choice: Frame) -> None:
            body = {"id": "c", "choices": [{"index": 0, **choice}]}
            self.wfile.write(b"data: %b\n\n" % json.dumps(body).encode())
            self.wfile.flush()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        provider = {
            "baseUrl": f"http://127.0.0.1:{server.server_port}/v1",
            "api": "openai-completions",
            "apiKey": "none",
            "models": [{"id": "slow", "name": "slow"}],
        }
        (home / "models.json").write_text(json.dumps({"providers": {"local": provider}}))
        try:
            yield go_on
        finally:
            go_on.set()
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("wishes", [{}, {"optOut": ["turn_start", "message_start"]}])
def test_a_client_is_given_what_it_was_sent_from_any_number_on(
    tmp_path: Path, wishes: dict[str, Any]
) -> None:
    features = {"events": {**EVERY["events"], **wishes}}
    with wire(tmp_path, [story()], features=features) as client:
        client.ask("prompt", {"message": "go"})
        sent = client.numbered()
        last = sent[-1][0]
        for since in range(last + 1):
            answer = repeated(client, since)
            assert answer["complete"] is True
            assert (answer["lastSeq"], answer["hasMore"]) == (last, False)
            got = [(each["seq"], each["event"]) for each in answer["events"]]
            assert got == caught_up(sent, since)
        assert not {event["type"] for _, event in got} & set(wishes.get("optOut", ()))


@pytest.mark.parametrize("form", ["delta", "snapshot"])
def test_deltas_of_a_block_that_is_still_open_come_as_one(tmp_path: Path, form: str) -> None:
    features = {"events": {"messageUpdate": form, "minIntervalMs": 0}}
    with (
        stalling(tmp_path, ["Once ", "upon ", "a "]) as go_on,
        wire(tmp_path, features=features) as client,
    ):
        session = client.ask("session/new", {"model": "local/slow"})["sessionId"]
        prompt = client.say("prompt", {"sessionId": session, "message": "go"})
        while deltas(client.numbered())[-1:] != ["a "]:
            client.read()
        first, second, last = (seq for seq, event in client.numbered() if is_delta(event))
        for since, text in ((0, "Once upon a "), (first, "upon a "), (second, "a ")):
            answer = repeated(client, since, sessionId=session)
            assert answer["complete"] is True
            (found,) = (each for each in answer["events"] if is_delta(each["event"]))
            assert (found["seq"], found["event"][NEWS]["delta"]) == (last, text)
            if form == "snapshot":
                assert found["event"]["message"]["content"][0]["text"] == "Once upon a "
        assert repeated(client, last, sessionId=session)["events"] == []
        go_on.set()
        client.answer(prompt)
        after = repeated(client, first, sessionId=session)["events"]
        assert after[0]["event"][NEWS]["content"] == "Once upon a "


def test_pages_add_up_to_the_whole(tmp_path: Path) -> None:
    with wire(tmp_path, [story()], features=EVERY) as client:
        client.ask("prompt", {"message": "go"})
        whole = repeated(client, 0)["events"]
        pages: list[Frame] = []
        while not pages or pages[-1]["hasMore"]:
            since = pages[-1]["events"][-1]["seq"] if pages else 0
            pages.append(repeated(client, since, limit=3))
            assert len(pages[-1]["events"]) <= 3
            assert pages[-1]["complete"] is True
        assert [each for page in pages for each in page["events"]] == whole


def test_numbers_of_another_epoch_or_not_yet_given_are_not_complete(tmp_path: Path) -> None:
    with wire(tmp_path, [story()], features=EVERY) as client:
        client.ask("prompt", {"message": "go"})
        state = client.ask("session/state")
        last = state["lastSeq"]
        assert repeated(client, last)["complete"] is True
        assert repeated(client, last + 1)["complete"] is False
        assert repeated(client, 0, epoch=state["epoch"])["events"]
        other = repeated(client, 0, epoch="another")
        assert (other["events"], other["complete"]) == ([], False)
        assert (other["epoch"], other["lastSeq"]) == (state["epoch"], last)
        client.ask("session/close", {"sessionId": state["sessionId"]})
        opened = client.ask("session/open", {"sessionId": state["sessionId"]})
        assert opened["epoch"] != state["epoch"]
        again = repeated(client, last, sessionId=state["sessionId"])
        assert (again["complete"], again["epoch"]) == (False, opened["epoch"])


def test_more_than_is_kept_is_not_complete_and_what_is_there_is_given(tmp_path: Path) -> None:
    replies = [story(1000) for _ in range(4)]
    with wire(tmp_path, replies, features=EVERY) as client:
        for _ in replies:
            client.ask("prompt", {"message": "go"})
        sent = client.numbered()
        answer = repeated(client, 0)
        assert answer["complete"] is False
        kept = [(each["seq"], each["event"]) for each in answer["events"]]
        assert kept
        first = kept[0][0]
        assert kept == caught_up(sent, first - 1)
        assert first > 1000
        assert repeated(client, first)["complete"] is True


@pytest.mark.parametrize(
    "params", [{}, {"sinceSeq": -1}, {"sinceSeq": "1"}, {"sinceSeq": 0, "limit": 0}]
)
def test_a_number_that_is_none_is_refused(tmp_path: Path, params: dict[str, Any]) -> None:
    with wire(tmp_path) as client:
        error = client.answer(client.say("session/events", params))["error"]
        assert error["data"]["kind"] == "invalidParams"
