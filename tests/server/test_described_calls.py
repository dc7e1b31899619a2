"""Tool calls that a client did not see begin: shown to it as to one that did."""

from pathlib import Path
from typing import Any

from tests.server.wire import wire

FIELDS = ("toolCallId", "kind", "title", "locations")


def shown(call: dict[str, Any]) -> dict[str, Any]:
    return {name: call[name] for name in FIELDS}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"toolCall": {"name": name, "arguments": arguments}}


def test_calls_of_earlier_messages_are_described_as_they_were_when_they_began(
    tmp_path: Path,
) -> None:
    (tmp_path / "notes.txt").write_text("a note\n")
    replies = [
        [call("read", path="notes.txt"), call("bash", command="echo  two  words")],
        [call("teleport", path="home")],
        [{"text": "Done."}],
    ]
    with wire(tmp_path, replies, "--permission-mode", "full") as client:
        client.ask("prompt", {"message": "go"})
        begun = [shown(each) for each in client.events("tool_execution_start")]
        whole = client.ask("session/messages")
        newest = client.ask("session/messages", {"limit": 3})
    assert begun[0]["title"] == "read notes.txt"
    assert whole["calls"] == begun
    assert newest["calls"] == begun[2:]


def test_a_page_without_calls_says_nothing_of_calls(tmp_path: Path) -> None:
    with wire(tmp_path, [[{"text": "Hello."}]]) as client:
        client.ask("prompt", {"message": "Hello?"})
        assert "calls" not in client.ask("session/messages")


def test_a_call_that_runs_is_described_to_a_client_that_comes_late(tmp_path: Path) -> None:
    steps = [call("bash", command="until [ -e go ]; do sleep 0.05; done")]
    with wire(tmp_path, [steps, [{"text": "Done."}]], "--permission-mode", "full") as client:
        asked = client.say("prompt", {"message": "go"})
        begun = client.until("tool_execution_start")
        (tool,) = client.ask("session/state", {"include": ["live"]})["live"]["tools"]
        (tmp_path / "go").touch()
        client.answer(asked)
    assert shown(tool) == shown(begun)
