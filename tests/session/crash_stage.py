"""Plays scenes in processes that are killed, each forked from one that has everything imported.

``Stage`` is what tests use: it starts this module as a process and asks it for one play after the
other. That process has a single thread, so that it can fork.
"""

import gc
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import msgspec

from tests.deadlines import DEADLINE_S

ROOT = Path(__file__).parents[2]
CALLS = ("write", "fsync", "ftruncate", "rename", "replace", "link", "unlink")
"""Calls of ``os`` at which a process can be told to die."""


class Play(msgspec.Struct, frozen=True):
    """A scene to be played, and when its process dies: by time, at a call, or not at all."""

    scene: str
    folder: str
    after_s: float | None = None
    """So long after it began."""
    call: int | None = None
    """At the call of that number, from 0."""
    share: float = 0.0
    """How much of that call happens; only writes can happen in part."""


class Played(msgspec.Struct, frozen=True):
    """What became of a play."""

    status: int
    """The exit code, or the number of the signal, negated."""
    lasted_s: float
    """From its beginning to the last thing it said."""
    told: list[Any]
    """What was announced, each a ``Told`` as JSON knows it."""
    calls: list[str]
    """The names of the calls, of a play that came to its end."""


class Stage:
    """The process that plays. A context."""

    def __enter__(self) -> "Stage":
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.session.crash_stage"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(DEADLINE_S)
        self._process.stdout.close()

    def play(self, play: Play) -> Played:
        """Play a scene until it ends or dies."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(play) + b"\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._process.stdout.readline(), type=Played)


# --- in the process that plays -------------------------------------------------------------------


class _Mortality:
    """Dies at a certain call, and counts them."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self.calls: list[str] = []

    def install(self) -> None:
        for name in CALLS:
            setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name: str, real: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if len(self.calls) == self._play.call:
                self._die_in(name, real, args, options)
            self.calls.append(name)
            return real(*args, **options)

        return call

    def _die_in(self, name: str, real: Any, args: Any, options: Any) -> None:
        share = self._play.share
        if name == "write" and 0 < share < 1:
            fd, content = args
            real(fd, content[: int(len(content) * share)])
        elif share >= 1:
            real(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)


def _perform(play: Play, announcements: int) -> None:
    """The life of a forked process."""
    from tests.session.crash_scenes import SCENES, Told

    write = os.write

    def tell(told: Told) -> None:
        line = msgspec.json.encode(told) + b"\n"
        while line:
            line = line[write(announcements, line) :]

    async def scene() -> None:
        write(announcements, b"\n")
        await SCENES[play.scene](Path(play.folder), tell)

    mortality = _Mortality(play)
    mortality.install()
    anyio.run(scene)
    write(announcements, msgspec.json.encode({"calls": mortality.calls}) + b"\n")


def _played(play: Play) -> Played:
    ours, theirs = os.pipe()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            os.close(ours)
            _perform(play, theirs)
            code = 0
        except BaseException:  # noqa: BLE001 - the process ends with it
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(theirs)
    received = os.read(ours, 1)
    begun, lasted = time.monotonic(), 0.0
    end = None if play.after_s is None else begun + play.after_s
    while True:
        wait = None if end is None else max(0.0, end - time.monotonic())
        if not select.select([ours], [], [], wait)[0]:
            os.kill(process, signal.SIGKILL)
            end = None
            continue
        chunk = os.read(ours, 1 << 20)
        if not chunk:
            break
        received += chunk
        lasted = time.monotonic() - begun
    os.close(ours)
    _, status = os.waitpid(process, 0)
    # What was cut off was not announced.
    told = [msgspec.json.decode(line) for line in received.split(b"\n")[1:-1]]
    calls = told.pop()["calls"] if told and "calls" in told[-1] else []
    return Played(os.waitstatus_to_exitcode(status), lasted, told, calls)


def main() -> None:
    # All that scenes would import, once, before every fork.
    for name in ("anyio._backends._asyncio", "jsonschema", "tests.session.crash_scenes"):
        import_module(name)
    gc.freeze()
    for line in sys.stdin.buffer:
        played = _played(msgspec.json.decode(line, type=Play))
        sys.stdout.buffer.write(msgspec.json.encode(played) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
