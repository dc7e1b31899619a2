"""A client that does anything at any moment: then every request has exactly one answer, every turn
a stop reason, every tool call an end, and the session can be loaded as it was heard."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.acp.client import Client, acp, call, said, say, text

REPLIES = [
    [say("Just words.")],
    [{"thinking": "hm"}, say("A command. "), call("bash", command="echo hi")],
    [say("Slowly: "), {"delayMs": 30}, say("done.")],
    [call("read", path="a.txt"), call("bash", command="sleep 0.05")],
    [{"error": {"message": "it broke", "status": 400}}],
]
REASONS = {"end_turn", "cancelled", "max_tokens"}
ALLOWED = {"sessionBusy", "nothingToCompact", "providerError", "invalidParams", "entryNotFound"}


class Anything:
    """One client with two sessions, and what it has asked."""

    def __init__(self, client: Client, seed: int) -> None:
        self.client = client
        self.random = random.Random(seed)
        self.sessions = [client.new(), client.new()]
        for session in self.sessions:
            client.prompt(session, "hi")  # A session is stored with its first message.
        self.begun: list[tuple[int, str]] = []
        client.answers["session/request_permission"] = self.permit

    def permit(self, params: dict[str, Any]) -> Any:
        """As people do: mostly, or not, or by closing the question, or not at all."""
        wanted = self.random.choice(["allow_once", "allow_once", "reject_once", "cancelled", ""])
        if wanted == "cancelled":
            return {"outcome": {"outcome": "cancelled"}}
        ids = [each["optionId"] for each in params["options"] if each["kind"] == wanted]
        return {"outcome": {"outcome": "selected", "optionId": ids[0]}} if ids else None

    def act(self) -> None:
        session = self.random.choice(self.sessions)
        where = {"sessionId": session}
        match self.random.randrange(15):
            case 0 | 1 | 2 | 3 | 4:
                self.ask("session/prompt", **where, prompt=text("go"))
            case 5:
                self.client.tell("session/cancel", **where)
            case 6:
                number, method = self.random.choice(self.begun)
                # Where that is taken back, there is nothing open to go on with.
                if method != "session/resume":
                    self.client.tell("$/cancel_request", requestId=number)
            case 7:
                self.ask("_pi/steer", **where, prompt=text("more"))
            case 8:
                mode = self.random.choice(["ask", "edits", "full"])
                self.ask("session/set_mode", **where, modeId=mode)
            case 9:
                cwd = str(self.client.project)
                self.ask("session/load", **where, cwd=cwd, mcpServers=[])
            case 10:
                self.ask("_pi/compact", **where)
            case 11:
                self.ask("_pi/followUp", **where, prompt=text("and then"))
            case 12:
                self.ask("_pi/branch", **where, entryId="none")
            case 13:
                self.ask("session/close", **where)
                cwd = str(self.client.project)
                self.ask("session/resume", **where, cwd=cwd, mcpServers=[])
            case _:
                self.client.read()

    def ask(self, method: str, **params: Any) -> None:
        self.begun.append((self.client.begin(method, **params), method))


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_done_is_answered_once_and_ends(seed: int, tmp_path: Path) -> None:
    with acp(tmp_path, REPLIES, repeat=True) as client:
        (client.project / "a.txt").write_text("a\n")
        anything = Anything(client, seed)
        for _ in range(40):
            # Something is always owed, so that reading never waits in vain.
            anything.ask("session/list")
            anything.act()
        for session in anything.sessions:
            client.tell("session/cancel", sessionId=session)
        for number, method in anything.begun:
            answer = client.answer(number)
            if "error" in answer:
                assert answer["error"]["data"]["kind"] in {*ALLOWED, "requestCancelled"}, method
                assert answer["error"]["data"]["kind"] != "requestCancelled" or method not in {
                    *("session/prompt", "_pi/compact")
                }
            elif method == "session/prompt":
                assert answer["result"]["stopReason"] in REASONS
        for session in anything.sessions:
            # What was steered into a run of its own is no answer's; this waits for it.
            client.ask("session/close", sessionId=session)
            last = [each for each in client.updates(session) if each.get("status")]
            states = {each["toolCallId"]: each["status"] for each in last}
            assert set(states.values()) <= {"completed", "failed"}
            begun = len(client.frames)
            cwd = str(client.project)
            client.ask("session/load", sessionId=session, cwd=cwd, mcpServers=[])
            replayed = client.updates(session, begun)
            assert said(replayed).startswith("Just words.")
        client.end()
        for number, _ in anything.begun:
            assert client.count(number) == 1
