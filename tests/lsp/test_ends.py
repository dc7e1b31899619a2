"""However the door ends, whatever goes on behind it: the native door's table, through this one.

Every end is tried on a command, and everything that may go on is ended by the end of input: what
the doors share below them is not multiplied out again.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from tests.lsp.client import DEADLINE_S, Editor, call, command, hold, lsp, say
from tests.server import test_table_of_ends as native

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="watched over on Linux alone")


class Ending:
    """A server that is to end."""

    def __init__(self, editor: Editor, parent: "subprocess.Popen[bytes]") -> None:
        self.editor = editor
        self.parent = parent
        self.process = psutil.Process(editor.process.pid)

    def begin(self, words: str) -> None:
        self.editor.begin("workspace/executeCommand", command("pi.prompt", words))


def idle(ending: Ending) -> None:
    assert ending.editor.command("pi.stop")


def running(ending: Ending) -> None:
    ending.editor.answers["window/showMessageRequest"] = lambda params: params["actions"][0]
    ending.begin("go")
    ending.editor.called("window/showMessageRequest")
    asleep: set[str] = set()
    while asleep != native.CHILDREN:
        assert ending.process.is_running()
        with suppress(psutil.NoSuchProcess):
            children = ending.process.children(recursive=True)
            sleepers = [each for each in children if each.name() == "sleep"]
            asleep = {word for each in sleepers for word in each.cmdline()[-1:]}


def asked(words: str) -> Callable[[Ending], None]:
    def begin(ending: Ending) -> None:
        ending.editor.answers["window/showMessageRequest"] = lambda params: NotImplemented
        ending.begin(words)
        ending.editor.called("window/showMessageRequest")

    return begin


def compaction(ending: Ending) -> None:
    ending.editor.command("pi.prompt", {"text": "And now?", "wait": True})
    ending.editor.command("pi.compact")
    ending.editor.until(lambda each: "shortening" in json.dumps(each))


GOING_ON: dict[str, tuple[Callable[[Ending], None], list[list[dict[str, Any]]]]] = {
    "idle": (idle, []),
    "command": (running, [[call("bash", command=native.HOSTILE)]]),
    "permission": (asked("go"), [[call("bash", command="make")]]),
    "question": (asked("/ask"), []),
    "compaction": (compaction, [[say("later")], [say("half a summary"), hold()]]),
}


def end_of_input(ending: Ending) -> None:
    assert ending.editor.process.stdin is not None
    ending.editor.process.stdin.close()


def exit_(ending: Ending) -> None:
    ending.editor.tell("exit")


def second_signal(ending: Ending) -> None:
    ending.process.terminate()
    ending.process.terminate()


def parent_dies(ending: Ending) -> None:
    ending.parent.kill()


def broken_output(ending: Ending) -> None:
    assert ending.editor.process.stdout is not None
    ending.editor.process.stdout.close()
    # It is noticed with the next thing that is said.
    ending.editor.begin("textDocument/none")


def signalled(number: signal.Signals) -> Callable[[Ending], None]:
    return lambda ending: ending.process.send_signal(number)


ENDS: dict[str, Callable[[Ending], None]] = {
    "end of input": end_of_input,
    "exit": exit_,
    "second signal": second_signal,
    "death of processId": parent_dies,
    "broken output": broken_output,
    "SIGTERM": signalled(signal.SIGTERM),
    "SIGHUP": signalled(signal.SIGHUP),
    "SIGINT": signalled(signal.SIGINT),
    "kill -9": signalled(signal.SIGKILL),
}


@contextmanager
def server(home: Path, replies: list[list[dict[str, Any]]]) -> Iterator[Ending]:
    """One that has said something."""
    (home / "extensions-py").mkdir()
    (home / "extensions-py" / "asking.py").write_text(native.ASKING)
    (home / "settings.json").write_text(json.dumps({"compaction": {"keepRecentTokens": 5}}))
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with lsp(home, [[say("warm")], *replies], process_id=parent.pid) as editor:
            editor.command("pi.prompt", {"text": "hi", "wait": True})
            yield Ending(editor, parent)
    finally:
        parent.kill()
        parent.wait()
        assert parent.stdin is not None
        parent.stdin.close()


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
    with server(tmp_path, replies) as ending:
        begin(ending)
        left = [ending.process, *ending.process.children(recursive=True)]
        ENDS[end](ending)
        assert ending.editor.process.wait(DEADLINE_S) == native.ENDS[end][1]
        native.wait_until(lambda: not any(map(native.is_alive, left)))
    (path,) = (tmp_path / "sessions").rglob("*.jsonl")
    anyio.run(native.reopen, path)


def test_the_table_is_the_native_doors() -> None:
    assert set(ENDS) == set(native.ENDS)
    assert set(GOING_ON) == set(native.GOING_ON)
