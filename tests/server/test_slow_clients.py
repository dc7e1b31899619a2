"""A client that does not read, or asks too much, costs bounded memory and nobody their answers."""

import itertools
import json
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.editor import DEADLINE_S, hold, say, session_files
from tests.server.wire import Wire, wire

FLOOD: dict[str, Any] = {"repeatText": "ab ", "count": 100_000}
LONG: dict[str, Any] = {"repeatText": "ab ", "count": 20_000}
"""Much more than may wait, with every delta sent."""
EVERY_DELTA = {"events": {"minIntervalMs": 0}}
MB = 1024 * 1024
IN_FLIGHT = 256
"""So many requests may be unanswered."""


def wait_until(condition: Any) -> None:
    """Poll: nothing may be read here that would tell."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_until_it_rests(process: psutil.Process) -> None:
    """Return once the daemon has nothing more that it could do; one that only waits for its turn
    on a busy machine could."""
    still, spent = 0, -1.0

    def rests() -> bool:
        nonlocal still, spent
        now = sum(process.cpu_times()[:2])
        still, spent = (still + 1 if now == spent and threads_sleep(process) else 0), now
        return still >= 10

    wait_until(rests)


def threads_sleep(process: psutil.Process) -> bool:
    """No thread of it runs, may run or waits for a disk; elsewhere than on Linux: the first."""
    try:
        states = [
            stat.read_text().rpartition(") ")[2][0]
            for stat in Path(f"/proc/{process.pid}/task").glob("*/stat")
        ]
    except OSError:
        return False  # one has just ended
    return {*states} == {"S"} if states else process.status() == psutil.STATUS_SLEEPING


def stored(home: Path, session_id: str) -> list[dict[str, Any]]:
    paths = [each for each in session_files(home) if session_id in each.name]
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def replies_of(home: Path, session_id: str) -> list[dict[str, Any]]:
    messages = [each["message"] for each in stored(home, session_id) if each["type"] == "message"]
    return [each for each in messages if each["role"] == "assistant"]


def told(client: Wire, session_id: str) -> list[tuple[str, str]]:
    """Each reply as it was streamed and as it was said to have been."""
    pairs: list[tuple[str, str]] = []
    streamed = ""
    for _, event in client.numbered(session_id):
        update = event.get("assistantMessageEvent", {})
        if event["type"] == "message_end" and event["message"]["role"] == "assistant":
            pairs.append((streamed, "".join(b["text"] for b in event["message"]["content"])))
            streamed = ""
        elif update.get("type") == "text_delta":
            streamed += update["delta"]
    return pairs


@pytest.mark.parametrize("way", ["$/cancelRequest", "abort"])
def test_while_a_client_does_not_read_a_run_is_held_and_everything_else_goes_on(
    tmp_path: Path, way: str
) -> None:
    with wire(tmp_path, [[say("warm")], [FLOOD]], features=EVERY_DELTA, warm=False) as client:
        one = client.ask("prompt", {"message": "go"})["sessionId"]
        other = client.ask("session/new")["sessionId"]
        assert client.ask("prompt", {"message": "go", "sessionId": other})["text"] == "warm"
        daemon = psutil.Process(client.process.pid)
        before = daemon.memory_info().rss

        run = client.say("prompt", {"message": "flood"})
        wait_until_it_rests(daemon)
        assert len(replies_of(tmp_path, one)) == 1, "the run was not held"
        held = daemon.memory_info().rss

        client.say("session/configure", {"sessionId": other, "name": "still served"})
        wait_until(lambda: stored(tmp_path, other)[-1].get("name") == "still served")
        if way == "abort":
            stop = client.say("abort")
        else:
            stop = client.say(way, {"id": run}, wants_answer=False)
        wait_until(lambda: len(replies_of(tmp_path, one)) == 2)
        wait_until_it_rests(daemon)
        assert max(held, daemon.memory_info().rss) - before < 16 * MB

        result = client.answer(run)["result"]
        assert result["stopReason"] == "aborted"
        if stop is not None:
            assert client.answer(stop)["result"]["aborted"] is True
        assert client.end() == 0

        for session in (one, other):
            numbers = [number for number, _ in client.numbered(session)]
            assert numbers == list(range(1, len(numbers) + 1))
        pairs = told(client, one)
        assert len(pairs) == 2
        for streamed, whole in pairs:
            assert streamed == whole
        assert result["text"] == pairs[1][1] == replies_of(tmp_path, one)[1]["content"][0]["text"]
        assert 0 < len(result["text"]) < 3 * FLOOD["count"]
        mine = [frame for frame in client.frames if is_about(frame, one, run)]
        settled, answered = mine[-2:]
        assert settled["params"]["event"]["type"] == "agent_settled"
        assert answered["id"] == run


def is_about(frame: dict[str, Any], session_id: str, run: int | None) -> bool:
    return frame.get("id") == run or frame.get("params", {}).get("sessionId") == session_id


def test_sessions_that_say_little_go_on_while_another_has_filled_the_pipe(tmp_path: Path) -> None:
    little: dict[str, Any] = {"repeatText": "ab ", "count": 500}
    with wire(tmp_path, [[little], [FLOOD]], features=EVERY_DELTA, warm=False) as client:
        loud = client.ask("prompt", {"message": "go"})["sessionId"]
        daemon = psutil.Process(client.process.pid)
        others = [client.ask("session/new")["sessionId"] for _ in range(3)]
        before = daemon.memory_info().rss

        flood = client.say("prompt", {"message": "flood"})
        wait_until_it_rests(daemon)
        runs = [client.say("prompt", {"message": "go", "sessionId": each}) for each in others]
        wait_until(lambda: all(len(replies_of(tmp_path, each)) == 1 for each in others))
        assert len(replies_of(tmp_path, loud)) == 1, "the run was not held"

        # One that says much is held as well, as soon as it has its share of what waits.
        wait_until_it_rests(daemon)  # A reply is stored before its run has settled.
        late = client.say("prompt", {"message": "flood", "sessionId": others[0]})
        wait_until_it_rests(daemon)
        assert len(replies_of(tmp_path, others[0])) == 1, "the run was not held"
        assert daemon.memory_info().rss - before < 16 * MB

        for run in (flood, *runs, late):
            assert client.answer(run)["result"]["stopReason"] == "stop"
        for session in (loud, *others):
            numbers = [number for number, _ in client.numbered(session)]
            assert numbers == list(range(1, len(numbers) + 1))
            assert all(streamed == whole for streamed, whole in told(client, session))
        assert told(client, loud)[1][1] == told(client, others[0])[1][1] == "ab " * FLOOD["count"]


def test_whoever_reads_on_after_a_long_pause_gets_the_whole_picture(tmp_path: Path) -> None:
    with wire(tmp_path, [[say("warm")], [FLOOD]], features=EVERY_DELTA) as client:
        client.ask("prompt", {"message": "go"})
        client.say("prompt", {"message": "flood"})
        wait_until_it_rests(psutil.Process(client.process.pid))
        state = client.ask("session/state", {"include": ["live"]})
        heard = client.numbered()
        assert state["phase"] == "turn"
        assert [number for number, _ in heard] == list(range(1, state["lastSeq"] + 1))
        streamed = [
            event["assistantMessageEvent"]["delta"]
            for event in client.events("message_update")
            if event["assistantMessageEvent"]["type"] == "text_delta"
        ]
        shown = state["live"]["message"]["content"][0]["text"]
        assert "warm" + shown == "".join(streamed)
        assert 0 < len(shown) < len("ab ") * FLOOD["count"]

        repeated = client.ask("session/events", {"sinceSeq": 0})
        page = client.ask("session/messages")
        assert repeated["epoch"] == state["epoch"]
        assert [each["role"] for each in page["messages"]] == ["user", "assistant", "user"]
        client.ask("abort")
        numbers = [number for number, _ in client.numbered()]
        assert numbers == list(range(1, len(numbers) + 1))
        whole = client.ask("session/messages")["messages"][-1]
        assert whole["stopReason"] == "aborted"
        assert whole["content"][0]["text"].startswith(shown)


def test_a_client_that_reads_late_still_gets_a_long_reply_whole(tmp_path: Path) -> None:
    with wire(tmp_path, [[LONG]], features=EVERY_DELTA) as client:
        run = client.say("prompt", {"message": "flood"})
        wait_until_it_rests(psutil.Process(client.process.pid))
        assert client.answer(run)["result"]["stopReason"] == "stop"
        assert client.end() == 0
    (session,) = {frame["params"]["sessionId"] for frame in client.frames if "method" in frame}
    numbers = [number for number, _ in client.numbered()]
    assert numbers == list(range(1, len(numbers) + 1))
    whole = "ab " * LONG["count"]
    assert told(client, session) == [(whole, whole)]
    assert replies_of(tmp_path, session)[0]["content"] == [{"type": "text", "text": whole}]


def test_with_drain_a_reader_that_comes_late_misses_nothing(tmp_path: Path) -> None:
    with wire(tmp_path, [[LONG]], "--drain", features=EVERY_DELTA) as client:
        run = client.say("prompt", {"message": "flood"})
        assert client.process.stdin is not None
        client.process.stdin.close()
        wait_until_it_rests(psutil.Process(client.process.pid))
        assert client.process.poll() is None
        assert client.answer(run)["result"]["stopReason"] == "stop"
        assert client.process.stdout is not None
        assert client.process.stdout.read() == b""
        assert client.process.wait(DEADLINE_S) == 0
    (session,) = {frame["params"]["sessionId"] for frame in client.frames if "method" in frame}
    assert told(client, session) == [("ab " * LONG["count"],) * 2]


def test_requests_beyond_those_that_may_be_in_flight_are_told_to_come_again(
    tmp_path: Path,
) -> None:
    with wire(tmp_path, [[say("half"), hold()], [say("after")]]) as client:
        first = client.say("prompt", {"message": "go"})
        client.until("message_update")
        more = {"message": "and", "streamingBehavior": "followUp"}
        ids = [first, *(client.say("prompt", more) for _ in range(299))]
        beyond = [client.answer(each) for each in ids[IN_FLIGHT:]]
        for frame in beyond:
            assert frame["error"]["data"]["kind"] == "overloaded"
            assert frame["error"]["data"]["retryAfterMs"] > 0
        assert not any(frame.get("id") in ids[:IN_FLIGHT] for frame in client.frames)
        # What makes room still gets through.
        client.say("$/cancelRequest", {"id": ids[5]}, wants_answer=False)
        assert client.answer(ids[5])["result"]["stopReason"] == "aborted"
        assert client.ask("ping") == {}
        assert client.end() == 0
    answered = [frame["id"] for frame in client.frames if "id" in frame and "method" not in frame]
    assert sorted(answered) == sorted({*answered})
    assert set(ids) <= set(answered)
    for each in ids[:IN_FLIGHT]:
        assert client.answer(each)["result"]["stopReason"] == "aborted"


@pytest.mark.parametrize("way", ["abort", "queue/clear", "shutdown"])
def test_when_too_many_are_in_flight_what_ends_them_is_still_taken(
    tmp_path: Path, way: str
) -> None:
    with wire(tmp_path, [[say("half"), hold()], [say("after")]]) as client:
        first = client.say("prompt", {"message": "go"})
        client.until("message_update")
        more = {"message": "and", "streamingBehavior": "followUp"}
        queued = [client.say("prompt", more) for _ in range(IN_FLIGHT - 1)]
        while len(client.until("queue_update")["items"]) < len(queued):
            pass
        beyond = client.say("ping")
        assert client.answer(beyond)["error"]["data"]["kind"] == "overloaded"
        assert "result" in client.answer(client.say(way))
        for each in queued:
            assert client.answer(each)["result"]["stopReason"] == "aborted"
        if way == "queue/clear":
            client.ask("abort")
        assert client.answer(first)["result"]["stopReason"] == "aborted"


def test_cheap_requests_sent_all_at_once_are_all_answered_once(tmp_path: Path) -> None:
    with wire(tmp_path) as client:
        ids = [
            client.say(method)
            for method in itertools.islice(
                itertools.cycle(["ping", "session/state", "model/list"]), 300
            )
        ]
        assert client.end() == 0
    answers = [frame for frame in client.frames if frame.get("id") in ids]
    assert sorted(frame["id"] for frame in answers) == ids
    for frame in answers:
        assert "result" in frame or frame["error"]["data"]["kind"] == "overloaded"
