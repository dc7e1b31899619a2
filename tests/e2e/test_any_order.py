"""Any verb at any moment: a machine drives the real daemon, and the account comes out even."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from tests.e2e.driven import Driven, Frame

SAYS: Frame = {"text": "Well then.", "pieces": 4}
PAUSE: Frame = {"delayMs": 30}

REPLIES: list[list[Frame]] = [
    [SAYS],
    [SAYS, PAUSE, SAYS],
    [{"toolCall": {"name": "read", "arguments": {"path": "a.txt"}}}],
    [{"thinking": "Hm."}, PAUSE, SAYS],
    [{"toolCall": {"name": "bash", "arguments": {"command": "sleep 0.05; echo on"}}}],
    [SAYS, {"error": {"message": "overloaded", "status": 529}}],
    [SAYS, {"delayMs": 400}],
    [{"error": {"message": "no such thing", "status": 400}}],
    [
        {"toolCall": {"name": "bash", "arguments": {"command": "sleep 30"}}},
        {"toolCall": {"name": "read", "arguments": {"path": "missing"}}},
    ],
    [SAYS],
    [PAUSE, {"error": {"message": "connection reset by peer"}}],
]
"""What the model does in turn: answers, calls tools, is slow, fails for good and for now."""


class AnyOrder(RuleBasedStateMachine):
    """Verbs at random moments."""

    daemon: Driven
    folder: "tempfile.TemporaryDirectory[str]"

    @initialize(first=st.integers(0, len(REPLIES) - 1))
    def begin(self, first: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.daemon = Driven(Path(self.folder.name) / "home", REPLIES[first:] + REPLIES[:first])
        self.names = 0
        self.sent: list[int] = []

    def say(self, method: str, **params: Any) -> None:
        self.names += 1
        named = {"message": f"Message {self.names}", "clientMessageId": f"m{self.names}"}
        self.sent.append(self.daemon.send(method, {**named, **params}))

    @rule(behavior=st.sampled_from([None, "steer", "followUp"]), settled=st.booleans())
    def prompt(self, behavior: str | None, settled: bool) -> None:
        extra = {} if behavior is None else {"streamingBehavior": behavior}
        self.say("prompt", wait="settled" if settled else "accepted", **extra)

    @rule(method=st.sampled_from(["steer", "followUp"]))
    def queue(self, method: str) -> None:
        self.say(method)

    @rule(clear=st.booleans())
    def abort(self, clear: bool) -> None:
        self.sent.append(self.daemon.send("abort", {"clearQueue": clear}))

    @rule(method=st.sampled_from(["continue", "compact", "queue/clear", "session/state"]))
    def other(self, method: str) -> None:
        self.sent.append(self.daemon.send(method))

    @rule(which=st.integers(0, 50), summarize=st.booleans())
    def branch(self, which: int, summarize: bool) -> None:
        entries = [e["entryId"] for e in self.daemon.of("message_end") if "entryId" in e]
        entry = entries[which % len(entries)] if entries else "root"
        params = {"entryId": entry, "summarize": summarize}
        self.sent.append(self.daemon.send("branch", params))

    @rule(back=st.integers(1, 4))
    def cancel(self, back: int) -> None:
        if len(self.sent) >= back:
            self.daemon.cancel(self.sent[-back])

    @rule(events=st.integers(1, 12))
    def look_on(self, events: int) -> None:
        for _ in range(events):
            self.daemon.next_event()

    @rule()
    def close_and_open(self) -> None:
        if not self.daemon.path.exists():
            return  # nothing was said that a file would hold
        self.daemon.call("session/close")
        self.daemon.closed.add(len(self.daemon.events))
        self.daemon.call("session/open")

    def teardown(self) -> None:
        if not hasattr(self, "daemon"):
            return
        try:
            self.daemon.settle()
        finally:
            self.daemon.end()
            self.folder.cleanup()


def drive(examples: int, steps: int, *, by_chance: bool) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        AnyOrder,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=not by_chance,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.timeout(300)
def test_any_verb_at_any_moment_leaves_nothing_unanswered_lost_or_undone() -> None:
    drive(12, 25, by_chance=False)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_the_same_for_an_hour() -> None:
    drive(600, 60, by_chance=True)
