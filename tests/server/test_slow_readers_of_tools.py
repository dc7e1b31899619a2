"""A client that does not read while tools and commands have much to say: what that costs."""

from collections import Counter
from pathlib import Path

import psutil

from pi_rpc.tools.command_runs import LIVE_OUTPUT_LIMIT
from tests.e2e.editor import call, say
from tests.server.test_slow_clients import MB, wait_until, wait_until_it_rests
from tests.server.wire import Wire, wire

TALKING = """
import anyio
from pathlib import Path
from pi_rpc.agent.tool import AgentTool, ToolResult

async def talk(tool_call_id, params, signal, on_update, context):
    text = "x" * 100_000
    for number in range(params["updates"]):
        if params["whole"]:
            on_update(ToolResult.of_text(f"{number} {text}"))
        else:
            on_update(ToolResult(content=[], delta=f"{number} {text}\\n"))
        await anyio.lowlevel.checkpoint()
    on_update(ToolResult(content=[], delta="last words"))
    (context.cwd / f"done-{tool_call_id}").touch()
    return ToolResult.of_text("done")

def setup(api):
    api.tool(AgentTool(name="talk", label="Talk", description="Talks.",
                       parameters={"type": "object"}, execute=talk))
"""
PRINTED = 20_000_000
LOUD = f"head -c {PRINTED} /dev/zero | tr '\\0' 'x'; touch done"
SESSION_LIMIT = 8 * MB
GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": "16384", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""Has the C library give back to the system what is free: what is left is what is held."""
COMMAND_COST = 4 * MB
"""What a command costs while it runs, read or not: its beginning, its end, what it says now."""


def talking(home: Path) -> None:
    extensions = home / "extensions-py"
    extensions.mkdir()
    (extensions / "talking.py").write_text(TALKING)


def drawn(client: Wire, name: str) -> list[str]:
    """What a client draws of each call of a tool, in the order of the calls."""
    calls: dict[str, str] = {}
    for event in client.events("tool_execution_update"):
        if event["toolName"] == name:
            partial, call_id = event["partialResult"], event["toolCallId"]
            if "delta" in partial:
                calls[call_id] = calls.get(call_id, "") + partial["delta"]
            else:
                calls[call_id] = "".join(block["text"] for block in partial["content"])
    return list(calls.values())


def done(home: Path) -> int:
    return len(list(home.glob("done-*")))


def test_not_reading_what_tools_say_holds_no_tool_up_and_costs_a_session_little(
    tmp_path: Path,
) -> None:
    talking(tmp_path)
    calls = [
        call("talk", whole=True, updates=300),
        call("talk", whole=False, updates=300),
        call("bash", command="yes | head -c 1000000; touch done-bash"),
    ]
    replies = [calls, [say("read")], calls, [say("unread")]]
    with wire(
        tmp_path, replies, environ={"TMPDIR": str(tmp_path), **GIVES_BACK}, warm=False
    ) as client:
        client.ask("session/configure", {"permissionMode": "full"})
        # What the tools themselves need is needed by the first run too, which is read.
        assert client.ask("prompt", {"message": "go"})["text"] == "read"
        for path in tmp_path.glob("done-*"):
            path.unlink()
        client.frames.clear()
        daemon = psutil.Process(client.process.pid)
        before = daemon.memory_info().rss
        run = client.say("prompt", {"message": "go"})
        wait_until(lambda: done(tmp_path) == len(calls))
        wait_until_it_rests(daemon)
        assert daemon.memory_info().rss - before < SESSION_LIMIT
        assert client.answer(run)["result"]["text"] == "unread"
    whole, added = drawn(client, "talk")
    assert whole.startswith("299 ")
    assert whole.endswith("last words")
    assert added.endswith("last words")
    (printed,) = drawn(client, "bash")
    assert printed == "y\n" * (LIVE_OUTPUT_LIMIT // 2)
    # Few updates, but every call began and ended, one after the other.
    kinds = Counter(event["type"] for event in client.events())
    assert kinds["tool_execution_start"] == kinds["tool_execution_end"] == len(calls)
    assert kinds["tool_execution_update"] < 100
    numbers = [number for number, _ in client.numbered()]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_not_reading_what_commands_print_holds_no_command_up_and_costs_a_session_little(
    tmp_path: Path,
) -> None:
    commands = [LOUD.replace("done", f"done-{n}") for n in range(3)]
    with wire(tmp_path, environ={"TMPDIR": str(tmp_path), **GIVES_BACK}, warm=False) as client:
        client.ask("session/configure", {"permissionMode": "full"})
        for command in commands:
            client.ask("bash", {"command": command})
        for path in tmp_path.glob("done-*"):
            path.unlink()
        client.frames.clear()
        daemon = psutil.Process(client.process.pid)
        before = daemon.memory_info().rss
        ids = [client.say("bash", {"command": each, "token": each}) for each in commands]
        wait_until(lambda: done(tmp_path) == len(commands))
        wait_until_it_rests(daemon)
        assert daemon.memory_info().rss - before < SESSION_LIMIT + len(commands) * COMMAND_COST
        assert all(client.answer(each)["result"]["truncated"] for each in ids)
    for command in commands:
        mine = [each for each in client.events("bash_output") if each["token"] == command]
        assert "".join(each["delta"] for each in mine) == "x" * LIVE_OUTPUT_LIMIT
        assert mine[-1]["omittedBytes"] == PRINTED - LIVE_OUTPUT_LIMIT
