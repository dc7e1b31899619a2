"""Many sessions in one daemon: each hears its own, whole, whatever becomes of the others."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.e2e.editor import session_files
from tests.e2e.provider import MODEL
from tests.server.parrots import CALLING, DYING, parrots, reply_to
from tests.server.wire import Wire, wire

MANY = 100

BURST = """
import asyncio
from pi_rpc.agent.tool import AgentTool

async def burst(tool_call_id, params, signal, on_update):
    match params["how"]:
        case "error": raise RuntimeError("it burst")
        case "exit": raise SystemExit(3)
        case "interrupt": raise KeyboardInterrupt
        case "cancelled": raise asyncio.CancelledError
        case "depth": return await burst(tool_call_id, params, signal, on_update)

def setup(api):
    api.tool(AgentTool(name="burst", label="Burst", description="Bursts.",
                       parameters={"type": "object"}, execute=burst))
"""
BURSTS = ("error", "exit", "interrupt", "cancelled", "depth")


class Sessions:
    """A session for each of ``words``, in which they are said, all at once."""

    def __init__(self, client: Wire, words: Sequence[str]) -> None:
        self.client = client
        wanted = {"permissionMode": "full", "model": MODEL}
        self.words = {client.ask("session/new", wanted)["sessionId"]: each for each in words}
        self.prompts = {
            session: client.say("prompt", {"sessionId": session, "message": each})
            for session, each in self.words.items()
        }

    def until_all_talk(self) -> None:
        """Read on until every reply has begun."""
        silent = set(self.words)
        while silent:
            params = self.client.read().get("params", {})
            event = params.get("event", {})
            if event.get("type") in {"message_update", "tool_execution_end"}:
                silent.discard(params["sessionId"])

    def results(self) -> dict[str, dict[str, Any]]:
        """By the words, how each prompt ended."""
        answers = {each: self.client.answer(number) for each, number in self.prompts.items()}
        return {self.words[session]: each["result"] for session, each in answers.items()}

    def check(self, session: str) -> None:
        """What was heard of a session is gapless, whole and about nothing but itself."""
        words = self.words[session]
        numbered = self.client.numbered(session)
        numbers = [number for number, _ in numbered]
        assert numbers == list(range(1, len(numbers) + 1)), words
        events = [event for _, event in numbered]
        kinds = [each["type"] for each in events]
        assert kinds[-1] == "agent_settled"
        assert kinds.count("agent_settled") == kinds.count("agent_start") == 1
        ends = [each["message"] for each in events if each["type"] == "message_end"]
        assert [text(each) for each in ends] == [words, reply_to(words)]
        updates = [each.get("assistantMessageEvent", {}) for each in events]
        streamed = "".join(each["delta"] for each in updates if each.get("type") == "text_delta")
        assert streamed == reply_to(words)


def text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(each["text"] for each in content)


def test_a_hundred_sessions_that_stream_at_once_each_hear_their_own(tmp_path: Path) -> None:
    with parrots(tmp_path, MANY) as provider, wire(tmp_path) as client:
        sessions = Sessions(client, [f"say {number}" for number in range(MANY)])
        sessions.until_all_talk()
        provider.go_on.set()
        for words, result in sessions.results().items():
            assert result["stopReason"] == "stop", words
            assert result["text"] == reply_to(words)
        for session in sessions.words:
            sessions.check(session)
        stored = {path.stem.rpartition("_")[2]: path for path in session_files(tmp_path)}
        for session, words in sessions.words.items():
            assert stored[session].read_text().count(reply_to(words)) == 1
        assert client.end() == 0


def test_sessions_that_break_disturb_no_other(tmp_path: Path) -> None:
    extensions = tmp_path / "extensions-py"
    extensions.mkdir()
    (extensions / "burst.py").write_text(BURST)
    well = [f"say {number}" for number in range(8)]
    dying = [f"{DYING} {number}" for number in range(2)]
    calling = [f"{CALLING} {how}" for how in BURSTS]
    everybody = [*well[:4], *dying, *calling, "spoil 0", *well[4:]]
    with parrots(tmp_path, len(everybody)) as provider, wire(tmp_path) as client:
        sessions = Sessions(client, everybody)
        sessions.until_all_talk()
        (spoilt,) = [session for session, words in sessions.words.items() if words == "spoil 0"]
        (path,) = [each for each in session_files(tmp_path) if spoilt in each.name]
        os.truncate(path, 0)
        provider.go_on.set()
        results = sessions.results()
        for words in dying:
            assert results[words]["stopReason"] == "error", words
        assert results["spoil 0"]["stopReason"] == "error"
        for words in calling:
            assert results[words]["text"] == reply_to(words), words
        for session, words in sessions.words.items():
            if words in well:
                assert results[words]["text"] == reply_to(words)
                sessions.check(session)
        # What broke was a run, not the session: it goes on.
        again = [each for each, words in sessions.words.items() if words in (*dying, *calling)]
        provider.begin = type(provider.begin)(len(again))
        numbers = [
            client.say("prompt", {"sessionId": each, "message": "say more"}) for each in again
        ]
        for number in numbers:
            assert client.answer(number)["result"]["text"] == reply_to("say more")
        assert client.end() == 0
