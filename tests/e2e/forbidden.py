"""A project, what surrounds it, and a daemon that is told to do what it must not.

``Ground`` keeps account of everything on the disk that a call could touch; the client answers every
question for permission with a rejection, or cannot be asked.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.editor import Step, say
from tests.server.test_slow_clients import wait_until_it_rests
from tests.server.wire import Frame, Wire, wire

SECRET = "sk-ant-nobody-may-read-this"


class Ground:
    """The folders of a test."""

    def __init__(self, tmp_path: Path) -> None:
        self.home, self.project = tmp_path / "home", tmp_path / "work" / "project"
        self.outside, self.temporary = tmp_path / "outside", tmp_path / "tmp"
        for folder in (self.home, self.project, self.outside, self.temporary):
            folder.mkdir(parents=True)
        (self.home / "auth.json").write_text(f'{{"anthropic": {{"key": "{SECRET}"}}}}')
        (self.outside / "notes.txt").write_text("private notes\n")
        (self.project / "main.py").write_text("print('hello')\n")
        (self.project / "src").mkdir()
        (self.project / "src" / "lib.py").write_text("x = 1\n")
        (self.project / ".git" / "hooks").mkdir(parents=True)
        (self.project / "link").symlink_to(self.outside)
        (self.project / "note.txt").symlink_to(self.outside / "notes.txt")

    def picture(self) -> dict[str, tuple[Any, ...]]:
        """Everything there is, but for what the daemon records of the session itself."""
        found = {}
        for root in (self.home, self.project.parent, self.outside, self.temporary):
            for path in (root, *sorted(root.rglob("*"))):
                if not path.is_relative_to(self.home / "sessions") and path != self.home:
                    found[str(path)] = _state(path)
        return found


def _state(path: Path) -> tuple[Any, ...]:
    status = path.lstat()
    content = b""
    if stat.S_ISLNK(status.st_mode):
        content = os.fsencode(os.readlink(path))
    elif stat.S_ISREG(status.st_mode):
        content = path.read_bytes()
    return status.st_mode, status.st_mtime_ns, status.st_nlink, hashlib.sha256(content).hexdigest()


class Told:
    """What came of a run."""

    def __init__(self, client: Wire) -> None:
        self.asked = [
            (asked["toolName"], asked["args"].get("command") or asked["args"]["path"])
            for frame in client.frames
            if frame.get("method") == "permission/request" and (asked := frame["params"])
        ]
        self.ends: list[Frame] = client.events("tool_execution_end")
        self.text = "\n".join(each["result"]["content"][0]["text"] for each in self.ends)


@contextmanager
def run(
    ground: Ground, calls: Sequence[Step], *, askable: bool, **options: Any
) -> Iterator[tuple[Told, dict[str, tuple[Any, ...]]]]:
    """Have a model make ``calls``, one after the other; what came of it, and how the disk was
    before."""
    replies = [*([each] for each in calls), [say("done")]]
    features = {"permission": True} if askable else {}
    environ = {"TMPDIR": str(ground.temporary), "SOME_TOKEN": SECRET}
    with wire(ground.home, replies, features=features, environ=environ) as client:
        made = client.ask("session/new", {"cwd": str(ground.project), **options})
        # It gets ready in the background, and looks at the temporary folder.
        wait_until_it_rests(psutil.Process(client.process.pid))
        before = ground.picture()
        prompt = client.say("prompt", {"sessionId": made["sessionId"], "message": "go"})
        while "method" in (frame := client.read()) or frame.get("id") != prompt:
            if frame.get("method") == "permission/request":
                client.reply(frame, result={"optionId": "reject"})
        assert frame["result"]["text"] == "done"
        yield Told(client), before
