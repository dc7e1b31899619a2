"""However the door ends, whatever goes on behind it: the native door's table, through this one.

The same ends and the same going on, less what the protocol does not have: a process of the client's
to watch, and ``exit``. What both doors share below them is not multiplied out again: every end is
tried on a command, and everything that may go on is ended by the end of input.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from tests.acp.client import DEADLINE_S, Client, call, hold, say, text
from tests.server import test_table_of_ends as native
from tests.warm import start_daemon

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="watched over on Linux alone")

ALLOW = {"outcome": {"outcome": "selected", "optionId": "allow"}}
CAPABILITIES = {"elicitation": {"form": {}}}


class Ending:
    """An agent that is to end."""

    def __init__(self, client: Client, session: str) -> None:
        self.client = client
        self.session = session
        self.process = psutil.Process(client.process.pid)

    def begin(self, words: str) -> None:
        self.client.begin("session/prompt", sessionId=self.session, prompt=text(words))


def idle(ending: Ending) -> None:
    assert ending.client.ask("session/list")["sessions"]


def command(ending: Ending) -> None:
    ending.client.answers["session/request_permission"] = lambda params: ALLOW
    ending.begin("go")
    ending.client.until_asked("session/request_permission")
    asleep: set[str] = set()
    while asleep != native.CHILDREN:
        assert ending.process.is_running()
        with suppress(psutil.NoSuchProcess):
            children = ending.process.children(recursive=True)
            sleepers = [each for each in children if each.name() == "sleep"]
            asleep = {word for each in sleepers for word in each.cmdline()[-1:]}


def permission(ending: Ending) -> None:
    ending.client.answers["session/request_permission"] = lambda params: None
    ending.begin("go")
    ending.client.until_asked("session/request_permission")


def question(ending: Ending) -> None:
    ending.client.answers["elicitation/create"] = lambda params: None
    ending.begin("/ask")
    ending.client.until_asked("elicitation/create")


def compaction(ending: Ending) -> None:
    ending.client.prompt(ending.session, "And now?")
    begun = ending.client.begin("_pi/compact", sessionId=ending.session)
    # It has begun where the one behind it is answered.
    ending.client.ask("session/set_mode", sessionId=ending.session, modeId="full")
    assert not ending.client.count(begun)


GOING_ON: dict[str, tuple[Callable[[Ending], None], list[list[dict[str, Any]]]]] = {
    "idle": (idle, []),
    "command": (command, [[call("bash", command=native.HOSTILE)]]),
    "permission": (permission, [[call("bash", command="make")]]),
    "question": (question, []),
    "compaction": (compaction, [[say("later")], [say("half a summary"), hold()]]),
}
LACKING = {"exit", "death of processId"}


def end_of_input(ending: Ending) -> None:
    assert ending.client.process.stdin is not None
    ending.client.process.stdin.close()


def second_signal(ending: Ending) -> None:
    ending.process.terminate()
    ending.process.terminate()


def broken_output(ending: Ending) -> None:
    assert ending.client.process.stdout is not None
    ending.client.process.stdout.close()
    # It is noticed with the next thing that is said.
    ending.client.begin("session/list")


def signalled(number: signal.Signals) -> Callable[[Ending], None]:
    return lambda ending: ending.process.send_signal(number)


ENDS: dict[str, Callable[[Ending], None]] = {
    "end of input": end_of_input,
    "second signal": second_signal,
    "broken output": broken_output,
    "SIGTERM": signalled(signal.SIGTERM),
    "SIGHUP": signalled(signal.SIGHUP),
    "SIGINT": signalled(signal.SIGINT),
    "kill -9": signalled(signal.SIGKILL),
}


@contextmanager
def agent(home: Path, replies: list[list[dict[str, Any]]]) -> Iterator[Ending]:
    """One that has said something in a session."""
    (home / "extensions-py").mkdir()
    (home / "extensions-py" / "asking.py").write_text(native.ASKING)
    (home / "settings.json").write_text(json.dumps({"compaction": {"keepRecentTokens": 5}}))
    (home / "project").mkdir()
    steps = [{"steps": each} for each in [[say("warm")], *replies]]
    (home / "script.json").write_text(json.dumps({"replies": steps}))
    environment = {"PI_CODING_AGENT_DIR": str(home), "PI_RPC_SCRIPT": str(home / "script.json")}
    process = start_daemon(["--acp"], cwd=home, env={**os.environ, **environment})
    try:
        client = Client(process, home)
        client.ask("initialize", protocolVersion=1, clientCapabilities=CAPABILITIES)
        session = client.new()
        assert client.prompt(session, "hi") == "end_turn"
        yield Ending(client, session)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()


@pytest.mark.parametrize(
    ("end", "going_on"),
    [
        *((end, "command") for end in ENDS),
        *(("end of input", each) for each in GOING_ON if each != "command"),
    ],
)
def test_an_end_leaves_no_child_and_a_session_that_goes_on(
    end: str, going_on: str, tmp_path: Path
) -> None:
    begin, replies = GOING_ON[going_on]
    with agent(tmp_path, replies) as ending:
        begin(ending)
        left = [ending.process, *ending.process.children(recursive=True)]
        ENDS[end](ending)
        code = native.ENDS[end][1]
        assert ending.client.process.wait(DEADLINE_S) == code
        native.wait_until(lambda: not any(map(native.is_alive, left)))
    (path,) = (tmp_path / "sessions").rglob("*.jsonl")
    anyio.run(native.reopen, path)


def test_the_table_is_the_native_doors_less_what_the_protocol_lacks() -> None:
    assert set(ENDS) == set(native.ENDS) - LACKING
    assert set(GOING_ON) == set(native.GOING_ON)
