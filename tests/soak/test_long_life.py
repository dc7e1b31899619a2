"""Many prompts and many sessions in one process: it ends as it began.

``make soak`` does it at full size and holds memory to what was promised; the small size holds it to
what would be seen of a leak in every prompt, and everything else to the same.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from pi_rpc._os.threads import FILE_THREADS
from tests.e2e.editor import call, say
from tests.server.test_slow_clients import wait_until
from tests.server.test_slow_readers_of_tools import GIVES_BACK
from tests.server.wire import Wire, wire

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts come from /proc")

MB = 1024 * 1024
PROMPTS_EACH = 10
WATCHER = 1
"""The one child that a daemon keeps."""
FEW, MANY = 60, 1_000
"""Sessions."""

COUNTING = """
import asyncio, json, sys, threading
from pathlib import Path

# The interpreter's table of names doubles once, at some time; here at first.
if not hasattr(sys, "named"):
    sys.named = True
    for number in range(100_000):
        sys.intern(f"name {number}")

def setup(api):
    async def count(arguments):
        pooled = [each.name.startswith("AnyIO worker") for each in threading.enumerate()]
        tasks = len(asyncio.all_tasks())
        counts = {"tasks": tasks, "threads": pooled.count(False), "pooled": pooled.count(True)}
        Path(arguments).write_text(json.dumps(counts))
    api.command("count", "Counts the tasks and threads of the daemon", count)
"""
REPLIES = [
    [say("It is a valve. " * 40)],
    [call("read", path="valve.txt"), call("ls", path=".")],
    [say("Red.")],
    [call("write", path="new.txt", content="green\n"), call("edit", path="gone.txt", edits=[])],
    [{"thinking": "hm " * 50}, say("Green.")],
    [{"error": {"message": "it is on fire", "status": 400}}],
]


@dataclass(frozen=True)
class Taken:
    """What the daemon has taken up."""

    resident: int
    tasks: int
    threads: int
    """Those apart that wait for blocking work; they come and go."""
    fds: int


class Life:
    """A daemon's, as long as it is tested."""

    def __init__(self, client: Wire, home: Path) -> None:
        self.client = client
        self.process = psutil.Process(client.process.pid)
        self._home = home
        self._counter = client.ask("session/new", {"ephemeral": True})["sessionId"]

    def take(self) -> Taken:
        """When nothing goes on."""
        path = self._home / "counts"
        count = {"sessionId": self._counter, "message": f"/count {path}"}
        answer = self.client.ask("prompt", count)
        assert answer == {"disposition": "handled", "sessionId": self._counter}
        # A command that has just been cancelled may still be on its way out.
        wait_until(lambda: len(self.process.children(recursive=True)) <= WATCHER)
        counts = json.loads(path.read_text())
        # Beside those for files one that imports what is needed later.
        assert counts["pooled"] <= FILE_THREADS + 1
        return Taken(
            self.process.memory_info().rss,
            counts["tasks"],
            counts["threads"],
            self.process.num_fds(),
        )

    def session(self, number: int) -> None:
        """One comes, is used in all ways, goes, comes back and goes."""
        client = self.client
        session = {"sessionId": client.ask("session/new", {"permissionMode": "full"})["sessionId"]}
        for turn in range(PROMPTS_EACH - 2):
            client.ask("prompt", {**session, "message": f"What is valve {number} in turn {turn}?"})
        run = client.say("prompt", {**session, "message": "One more."})
        client.ask("steer", {**session, "message": "And quickly."})
        client.ask("abort", session)
        assert "result" in client.answer(run)
        command = client.say("bash", {**session, "command": "echo on; sleep 600"})
        client.until("bash_output")
        client.say("$/cancelRequest", {"id": command}, wants_answer=False)
        assert client.answer(command)["result"]["cancelled"]
        client.ask("session/messages", session)
        client.ask("session/events", {**session, "sinceSeq": 0})
        client.ask("session/close", session)
        client.ask("session/open", session)
        client.ask("prompt", {**session, "message": "Still there?"})
        client.ask("session/close" if number % 2 else "session/delete", session)
        client.frames.clear()


@contextmanager
def life(home: Path) -> Iterator[Life]:
    (home / "extensions-py").mkdir()
    (home / "extensions-py" / "counting.py").write_text(COUNTING)
    (home / "settings.json").write_text('{"retry": {"enabled": false}}')
    (home / "valve.txt").write_text("red\n")
    with wire(home, REPLIES, repeat=True, environ=GIVES_BACK, warm=False) as client:
        yield Life(client, home)
        assert client.end() == 0


def live(home: Path, sessions: int) -> tuple[Taken, Taken]:
    """What was taken up after the first tenth, and in the end."""
    with life(home) as daemon:
        for number in range(sessions // 10):
            daemon.session(number)
        early = daemon.take()
        for number in range(sessions // 10, sessions):
            daemon.session(number)
            if number % (sessions // 10) == 0:
                print(number, daemon.take())
        late = daemon.take()
    print(f"{sessions * PROMPTS_EACH} prompts in {sessions} sessions:", early, late)
    assert (late.tasks, late.threads, late.fds) == (early.tasks, early.threads, early.fds)
    return early, late


def test_a_daemon_that_has_done_much_holds_no_more_than_one_that_has_done_little(
    tmp_path: Path,
) -> None:
    early, late = live(tmp_path, FEW)
    assert late.resident - early.resident < 4 * MB


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_ten_thousand_prompts_in_a_thousand_sessions_leave_nothing_behind(tmp_path: Path) -> None:
    early, late = live(tmp_path, MANY)
    assert late.resident - early.resident < min(2 * MB, early.resident // 20)
