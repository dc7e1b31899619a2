"""What every method of a client's does in every circumstance: the table, and a stage to try it on.

What is the same for all methods follows from the METHODS table of the package; what is a method's
own stands in ``ROWS``. A method without a row is a missing cell, which fails.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pi_rpc.harness.permissions.remembered import RememberedAnswers
from pi_rpc.harness.permissions.rules import parse_rule
from pi_rpc.protocol.methods import METHODS, Method
from tests.protocol.exchanges import HOLD, call, say, settle, wishes
from tests.protocol.recorder import Conversation, Step

Params: TypeAlias = Mapping[str, Any]
Reply: TypeAlias = Sequence[Step]

HELD: Reply = [*say("Once upon a time"), HOLD]
FAILED: Reply = [{"usage": {"input": 31}}, {"error": {"message": "It is on fire", "status": 400}}]


class Stage:
    """A daemon whose default session has changed a file and said so.

    ``replies`` are what the model says after that. ``running``: a run goes on, and a message waits.
    """

    def __init__(self, home: Path, replies: Sequence[Reply] = (), *, running: bool = False) -> None:
        edit = {"oldText": "red", "newText": "green"}
        begun = [call("edit", path="valve.txt", edits=[edit]), say("The valve is green.")]
        settle(home, compaction={"keepRecentTokens": 5})
        self.client = Conversation(home, [*begun, *([HELD] if running else replies)])
        self.project = self.client.project
        (self.project / "valve.txt").write_text("The valve is red.\n")
        self._answers = RememberedAnswers(home / ".pi" / "agent")
        self.client.begin(wishes(permissionMode="full"))
        ask = self.client.request
        ask("prompt", {"message": "Paint the valve green."})
        self.entries: list[str] = ask("session/messages")["result"]["entryIds"]
        found = ask("checkpoint/list")["result"]["checkpoints"]
        self.checkpoint: str = found[0]["checkpointId"]
        self.stored = self.another()
        """A session that is not open."""
        ask("session/close", {"sessionId": self.stored})
        self.waiting = "q0"
        """A message in the queue."""
        if running:
            ask("prompt", {"message": "Tell me a story.", "wait": "accepted"})
            self.client.event("message_update")
            queued = ask("followUp", {"message": "And another."})
            self.waiting = queued["result"]["queue"]["items"][0]["id"]

    def another(self) -> str:
        """A further session, open."""
        return str(self.client.request("session/fork")["result"]["sessionId"])

    def remembered(self) -> str:
        """An answer that is remembered."""
        return self._answers.add(self.project, parse_rule("bash(make)", "allow")).id

    def new_file(self, suffix: str) -> Path:
        """A path in the project where nothing is."""
        return self.project / f"new{len(self.client.said)}.{suffix}"

    def times_answered(self, number: int) -> int:
        """How many answers a request has had when everything before a ``ping`` is answered."""
        self.client.request("ping")
        return sum(
            sender == "←" and frame.get("id") == number and "method" not in frame
            for sender, frame in self.client.said
        )


@dataclass(frozen=True)
class Row:
    """What is a method's own in the table."""

    params: Callable[[Stage], Params] = lambda stage: {}
    """Params it works with."""
    replies: Sequence[Reply] = (say("Fine."), say("The end."))
    """What the model says then."""
    after: tuple[str, Params] | None = None
    """A request that is made before it."""
    refused: str | None = None
    """The kind of error it always has after ``initialize``; None: it works."""
    refused_without_params: str | None = None
    """The same, in a session where nothing was said, without params though each is optional."""
    refused_while_running: str | None = None
    """The same, while a run goes on."""
    slow: "Slow | None" = None
    """How it takes long enough to be cancelled; None: it is too quick for that to matter."""


@dataclass(frozen=True)
class Slow:
    """A request that is cancelled while it is under way, and succeeds all the same."""

    says: Params
    """What its result has then."""
    under_way: str
    """The type of event that shows that it is."""
    replies: Sequence[Reply] = (HELD,)
    params: Callable[[Stage], Params] | None = None
    """Params in place of the row's."""


def _message(stage: Stage) -> Params:
    return {"message": "Tell me a story."}


ROWS: dict[str, Row] = {
    "initialize": Row(refused="invalidRequest"),
    "shutdown": Row(),
    "prompt": Row(
        _message,
        refused_while_running="sessionBusy",
        slow=Slow({"stopReason": "aborted"}, "message_update"),
    ),
    "steer": Row(_message),
    "followUp": Row(_message),
    "continue": Row(
        replies=(FAILED, say("Once upon a time.")),
        after=("prompt", {"message": "Tell me a story."}),
        refused_without_params="nothingToContinue",
        refused_while_running="sessionBusy",
        slow=Slow({"stopReason": "aborted"}, "message_update", (FAILED, HELD)),
    ),
    "abort": Row(),
    "compact": Row(
        refused_without_params="nothingToCompact",
        refused_while_running="sessionBusy",
        slow=Slow({"cancelled": True}, "compaction_start"),
    ),
    "branch": Row(
        lambda stage: {"entryId": stage.entries[0]},
        refused_while_running="sessionBusy",
        slow=Slow(
            {"cancelled": True},
            "session_changed",
            params=lambda stage: {"entryId": stage.entries[0], "summarize": True},
        ),
    ),
    "queue/clear": Row(),
    "queue/remove": Row(lambda stage: {"id": stage.waiting}),
    "session/new": Row(lambda stage: {"cwd": str(stage.project), "name": "another"}),
    "session/open": Row(
        lambda stage: {"sessionId": stage.stored}, refused_without_params="invalidParams"
    ),
    "session/list": Row(lambda stage: {"limit": 5}),
    "session/state": Row(lambda stage: {"include": ["live"]}),
    "session/configure": Row(lambda stage: {"name": "Valves", "thinkingLevel": "high"}),
    "session/messages": Row(lambda stage: {"limit": 2}),
    "session/entry": Row(lambda stage: {"entryId": stage.entries[0]}),
    "session/entries": Row(lambda stage: {"limit": 2}),
    "session/tree": Row(lambda stage: {"limit": 2}),
    "session/stats": Row(),
    "session/label": Row(lambda stage: {"entryId": stage.entries[0], "label": "start"}),
    "session/fork": Row(lambda stage: {"entryId": stage.entries[0]}),
    "session/events": Row(lambda stage: {"sinceSeq": 0}),
    "session/close": Row(lambda stage: {"sessionId": stage.another()}),
    "session/delete": Row(lambda stage: {"sessionId": stage.another()}),
    "checkpoint/list": Row(),
    "checkpoint/diff": Row(lambda stage: {"checkpointId": stage.checkpoint}),
    "checkpoint/restore": Row(
        lambda stage: {"checkpointId": stage.checkpoint}, refused_while_running="sessionBusy"
    ),
    "model/list": Row(),
    "tool/list": Row(),
    "command/list": Row(),
    "file/search": Row(lambda stage: {"query": "valve"}),
    "bash": Row(
        lambda stage: {"command": "echo on"},
        slow=Slow(
            {"cancelled": True},
            "bash_output",
            params=lambda stage: {"command": "echo on; sleep 600"},
        ),
    ),
    "permission/list": Row(),
    "permission/forget": Row(lambda stage: {"id": stage.remembered()}),
    "server/stats": Row(),
    "session/export": Row(lambda stage: {"format": "markdown", "path": str(stage.new_file("md"))}),
    "trust/get": Row(),
    "trust/set": Row(lambda stage: {"trusted": True}),
    "auth/status": Row(),
    "auth/set": Row(lambda stage: {"provider": "openai", "apiKeyEnv": "SOME_KEY"}),
    "auth/remove": Row(lambda stage: {"provider": "openai"}),
    "ping": Row(lambda stage: {"any": "thing"}),
}

NOTIFICATIONS: dict[str, Params] = {
    "initialized": {},
    "exit": {},
    "editor/didChange": {"openDocuments": []},
    "$/cancelRequest": {"id": 12345},
    "$/cancel_request": {"requestId": 12345},
    "$/setTrace": {"value": "off"},
}
"""What a client sends and is never answered."""


def methods(*, requests: bool) -> dict[str, Method]:
    """What a client may send: the requests, or the notifications."""
    return {
        name: method
        for name, method in METHODS.items()
        if method.sender == "client" and method.is_request is requests
    }
