"""A client that stops reading while many sessions talk: what it costs, and that nothing is lost."""

import time
from pathlib import Path

import psutil
import pytest

from tests.e2e.editor import say
from tests.server.test_slow_clients import (
    EVERY_DELTA,
    LONG,
    MB,
    replies_of,
    told,
    wait_until,
    wait_until_it_rests,
)
from tests.server.wire import wire

SESSION_LIMIT = 8 * MB
FEW, MANY = 6, 40
"""Sessions."""
MINUTE_S = 60.0


def pause(home: Path, sessions: int, seconds: float) -> None:
    """``sessions`` say more than there is room for, and for ``seconds`` nobody listens."""
    with wire(home, [[say("warm")], [LONG]], features=EVERY_DELTA, warm=False) as client:
        names = [client.ask("session/new")["sessionId"] for _ in range(sessions)]
        for each in names:
            client.ask("prompt", {"sessionId": each, "message": "go"})
        daemon = psutil.Process(client.process.pid)
        before = daemon.memory_info().rss
        runs = [client.say("prompt", {"sessionId": each, "message": "more"}) for each in names]
        wait_until_it_rests(daemon)
        time.sleep(seconds)
        held = daemon.memory_info().rss - before
        print(f"{sessions} sessions unread for {seconds:.0f} s: {held / MB / sessions:.2f} MB each")
        assert held < SESSION_LIMIT * sessions
        assert any(len(replies_of(home, each)) == 1 for each in names), "no run was held"

        cancelled, *others = runs
        client.say("$/cancelRequest", {"id": cancelled}, wants_answer=False)
        wait_until(lambda: len(replies_of(home, names[0])) == 2)

        reasons = [client.answer(each)["result"]["stopReason"] for each in runs]
        assert reasons == ["aborted", *["stop"] * len(others)]
        for each in names:
            numbers = [number for number, _ in client.numbered(each)]
            assert numbers == list(range(1, len(numbers) + 1))
            assert all(streamed == whole for streamed, whole in told(client, each))
        for each in names[1:]:
            assert told(client, each)[-1][1] == "ab " * LONG["count"]
        assert client.end() == 0


def test_a_pause_costs_each_session_little_and_loses_nothing(tmp_path: Path) -> None:
    pause(tmp_path, FEW, seconds=0)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_minute_costs_each_of_many_sessions_little_and_loses_nothing(tmp_path: Path) -> None:
    pause(tmp_path, MANY, MINUTE_S)
