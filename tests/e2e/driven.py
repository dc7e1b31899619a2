"""A client that does anything at any moment, and remembers everything that was said.

Owns the writing and reading of a real daemon for the tests that drive it at random, and the account
that is settled at the end: one answer per request, one end per run, nothing lost, the file as it
was announced. Does not own what is done when (``test_any_order``).
"""

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tests.deadlines import DEADLINE_S
from tests.warm import start_daemon

Frame: TypeAlias = dict[str, Any]

PHASES = {
    "idle": {"turn", "compaction", "branch_summary"},
    "turn": {"idle", "compaction", "retry"},
    "compaction": {"idle", "turn", "retry"},
    "branch_summary": {"idle", "turn"},
    "retry": {"idle", "turn", "compaction"},
}
"""What may follow on a phase."""


class Driven:
    """A daemon with one session, and all frames."""

    def __init__(self, home: Path, replies: Sequence[Sequence[Frame]]) -> None:
        self.home = home
        project = home / "project"
        project.mkdir(parents=True)
        (project / "a.txt").write_text("a\n")
        agent = home / "agent"
        agent.mkdir()
        (agent / "settings.json").write_text(
            json.dumps(
                {
                    "compaction": {"keepRecentTokens": 20},
                    "retry": {"maxRetries": 1, "baseDelayMs": 20},
                }
            )
        )
        script = {"replies": [{"steps": list(steps)} for steps in replies], "repeat": True}
        (home / "script.json").write_text(json.dumps(script))
        self._process = start_daemon(
            ["--stdio", "--permission-mode", "full"],
            cwd=project,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "PYTHONPATH": str(Path(__file__).parents[2]),
                "PI_CODING_AGENT_DIR": str(agent),
                "PI_RPC_LOCAL_SERVERS": "off",
                "PI_RPC_SCRIPT": str(home / "script.json"),
            },
        )
        self.requests: dict[int, tuple[str, Frame]] = {}
        self.answers: dict[int, list[Frame]] = {}
        self.events: list[tuple[str, int, Frame]] = []
        """Session, number and event, as they came."""
        self.closed: set[int] = set()
        """Where in ``events`` the session was closed."""
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.session: str = ""
        self.call("initialize", {"capabilities": {"events": {"minIntervalMs": 0}}})
        state = self.call("session/state")["result"]
        self.session, self.path = state["sessionId"], Path(state["path"])

    # --- talking ---------------------------------------------------------------------------------

    def send(self, method: str, params: Frame | None = None) -> int:
        """Send a request; its id."""
        number = len(self.requests) + 1
        sent = {**({"sessionId": self.session} if self.session else {}), **(params or {})}
        self.requests[number] = (method, sent)
        self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": sent})
        return number

    def call(self, method: str, params: Frame | None = None) -> Frame:
        """Send a request and wait for the answer."""
        number = self.send(method, params)
        self.wait(lambda: number in self.answers, f"the answer to {method}")
        return self.answers[number][0]

    def cancel(self, number: int) -> None:
        """Take a request back."""
        params = {"id": number}
        self._write({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": params})

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Until it is so."""
        with self._changed:
            assert self._changed.wait_for(lambda: done() or self._ended, DEADLINE_S), what
            assert done(), f"the daemon ended before {what}"

    def next_event(self) -> None:
        """Until another event comes, or half a tenth of a second has gone by without one."""
        with self._changed:
            before = len(self.events)
            self._changed.wait_for(lambda: len(self.events) > before, 0.05)

    def end(self) -> None:
        """Close the input and wait for the end; whatever happens there is no process left."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(DEADLINE_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            self._process.stdout.close()

    def _write(self, frame: Frame) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(frame).encode() + b"\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            frame = json.loads(line)
            with self._changed:
                if frame.get("method") == "agent/event":
                    told = frame["params"]
                    self.events.append((told["sessionId"], told["seq"], told["event"]))
                elif "method" not in frame:
                    self.answers.setdefault(frame["id"], []).append(frame)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    # --- the account -----------------------------------------------------------------------------

    def settle(self) -> None:
        """Everything is answered and the session is idle; then the account is right."""
        # What waits in the queue is owed an answer until somebody takes it out.
        self.send("abort", {"clearQueue": True})
        self.wait(lambda: self.answers.keys() >= self.requests.keys(), "all answers")
        self.queue = self.call("session/state")["result"]["queue"]["items"]
        self.check_answers()
        self.check_numbers()
        self.check_runs()
        self.check_phases()
        self.check_messages()
        self.check_file()

    def check_answers(self) -> None:
        assert dict.fromkeys(self.requests, 1) == {
            number: len(answers) for number, answers in self.answers.items()
        }
        for number, (answer,) in self.answers.items():
            if error := answer.get("error"):
                assert error["data"]["kind"] in _ALLOWED, (self.requests[number], error)

    def check_numbers(self) -> None:
        """1, 2, 3, …; anew after the session was closed."""
        expected = 1
        for index, (_, seq, _event) in enumerate(self.events):
            if index in self.closed:
                expected = 1
            assert seq == expected, f"event {index} of {len(self.events)}"
            expected += 1

    def check_runs(self) -> None:
        started = [event["runId"] for event in self.of("agent_start")]
        settled = Counter(event["runId"] for event in self.of("agent_settled"))
        assert set(settled.values()) <= {1}
        assert set(started) <= set(settled)
        going = False
        for _, _, event in self.events:
            if event["type"] == "agent_settled":
                going = False
            elif event["type"] == "agent_start" and not going:
                going = True
            elif event["type"] in {"turn_start", "message_update", "tool_execution_start"}:
                assert going, event
        for (answer,) in self.answers.values():
            result = answer.get("result") or {}
            if result.get("disposition") == "completed" and "runId" in result:
                assert settled[result["runId"]] == 1

    def check_phases(self) -> None:
        phase = "idle"
        for index, (_, _, event) in enumerate(self.events):
            if index in self.closed:
                phase = "idle"
            if event["type"] == "session_changed" and (new := event.get("phase", phase)) != phase:
                assert new in PHASES[phase], f"{phase} became {new}"
                phase = new
        assert phase == "idle"

    def check_messages(self) -> None:
        """What was accepted was delivered, given back, or waits: each exactly once."""
        ended = [event for event in self.of("message_end") if event["message"]["role"] == "user"]
        places = Counter(event["clientMessageId"] for event in ended if "clientMessageId" in event)
        places.update(item["clientMessageId"] for item in self.queue)
        for number, (method, _) in self.requests.items():
            result = self.answers[number][0].get("result") or {}
            if method in {"abort", "queue/clear", "queue/remove"}:
                places.update(item["clientMessageId"] for item in result.get("items", []))
        assert set(places.values()) <= {1}
        for number, (method, params) in self.requests.items():
            (answer,) = self.answers[number]
            name = params.get("clientMessageId")
            if name is None:
                continue
            if "error" in answer:
                assert places[name] == 0, (method, answer)
            elif self.closed:
                continue  # what waits when a session is closed is discarded
            elif method != "prompt" or answer["result"].get("stopReason") != "aborted":
                assert places[name] == 1, (method, params, answer)

    def check_file(self) -> None:
        """Its entries are those that were announced, in that order."""
        announced = []
        for _, _, event in self.events:
            if event["type"] == "message_end" and "entryId" in event:
                announced.append(event["entryId"])
            elif event["type"] == "entry_appended":
                announced.append(event["entry"]["id"])
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        written = [json.loads(line)["id"] for line in lines[1:]]
        assert written == announced

    def of(self, kind: str) -> list[Frame]:
        """The events of a type."""
        return [event for _, _, event in self.events if event["type"] == kind]


_ALLOWED = {
    "entryNotFound",
    "invalidParams",
    "nothingToCompact",
    "nothingToContinue",
    "providerError",
    "requestCancelled",
    "sessionBusy",
}
"""What may be refused while everything is well."""
