"""Process trees: finding all of one, and ending it so that nothing escapes.

Owns looking processes up and signalling them, for the watcher and for the daemon. Does not own who
decides that a tree has to end. Part of the watcher's program (see ``pi_rpc._os._watcher``), so only
modules that load within a few milliseconds are imported, and none of `typing`.
"""
# ruff: noqa: PTH123, PTH208 - the watcher is to start within milliseconds, without pathlib

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` spends 5 ms on enums
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "LINUX",
    "MARK",
    "descendants",
    "end_marked",
    "end_tree",
    "freeze",
    "kill",
    "marked",
    "reap",
    "wait_while",
    "wake_on_child_exit",
]

LINUX = sys.platform == "linux"
MARK = "PI_RPC_COMMAND"
"""The environment variable that every process of a command inherits."""
_KILL_LIMIT_S = 0.8
"""How long a tree that resists SIGKILL (another user's, or stuck in the kernel) is tried."""


def wake_on_child_exit() -> int:
    """A descriptor that becomes readable whenever a child ends."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    inherited = _signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    if inherited >= 0:
        os.close(inherited)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    return reader


def reap(note: Callable[[int, int], None]) -> bool:
    """Collect every ended child; False when there are no children any more."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        note(pid, status)


def wait_while(wakeup: int, deadline: float, pending: Callable[[], object]) -> bool:
    """Wait for child exits until nothing is pending; False when the deadline came first."""
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    while pending():
        rest = deadline - time.monotonic()
        if rest <= 0:
            return False
        if poll.poll(rest * 1000):
            os.read(wakeup, 512)
    return True


def end_tree(
    tree: Callable[[], set[int]], grace_s: float, wakeup: int, reap: Callable[[], bool]
) -> bool:
    """End a whole tree, by request and after the grace time by force; True when it is gone.

    Everything is stopped before anything is signalled: a shell must not go on to its next command
    because the one before was ended, and what cannot run cannot fork.
    """

    def pending() -> bool:
        return reap() or (not LINUX and bool(tree()))

    if grace_s > 0:
        stopped = freeze(tree)
        kill(stopped, _signal.SIGTERM)
        kill(stopped, _signal.SIGCONT)
        if wait_while(wakeup, time.monotonic() + grace_s, pending):
            return True
    deadline = time.monotonic() + _KILL_LIMIT_S
    while True:
        kill(freeze(tree), _signal.SIGKILL)
        now = time.monotonic()
        if wait_while(wakeup, min(deadline, now + 0.05), pending):
            return True
        if now >= deadline:
            return False


def freeze(tree: Callable[[], set[int]]) -> set[int]:
    """Stop a tree until a look at it finds nothing new; returns all of it."""
    stopped: set[int] = set()
    for _ in range(50):
        new = tree() - stopped
        if not new:
            break
        kill(new, _signal.SIGSTOP)
        stopped |= new
    return stopped


def kill(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue  # gone, or not ours to signal


def descendants(spare: Iterable[int] = ()) -> set[int]:
    """All descendants of this process, without ``spare`` and what is below those."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    rest = [os.getpid()]
    while rest:
        new = set(children.get(rest.pop(), ())).difference(found, spare)
        found |= new
        rest += new
    return found


def _parents() -> list[tuple[int, int]]:
    """Every process we can see, with its parent."""
    if not LINUX:
        return [(int(a), int(b)) for a, b in (line.split() for line in _ps("-axo", "pid=,ppid="))]
    pairs = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                    stat = file.read(1024)
            except OSError:
                continue  # ended meanwhile
            pairs.append((int(name), int(stat[stat.rindex(b")") + 2 :].split(None, 2)[1])))
    return pairs


def marked(mark: bytes) -> set[int]:
    """The processes whose environment at their start had ``mark`` as its command's mark."""
    text = MARK.encode() + b"=" + mark
    if not LINUX:
        lines = (line for line in _ps("-axEww", "-o", "pid=,command=") if text in line.split())
        return {int(line.split(None, 1)[0]) for line in lines}
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb", buffering=0) as file:
                    if text in file.read().split(b"\0"):
                        found.add(int(name))
            except OSError:
                continue  # ended meanwhile, or somebody else's
    return found


def _ps(*options: str) -> list[bytes]:
    import subprocess

    done = subprocess.run(["ps", *options], stdout=subprocess.PIPE, check=False)
    return done.stdout.splitlines()


def end_marked(mark: bytes) -> None:
    """Kill the processes of a command whose keeper is gone; blocks for 0.8 seconds at most."""
    deadline = time.monotonic() + _KILL_LIMIT_S
    while (pids := marked(mark)) and time.monotonic() < deadline:
        kill(pids, _signal.SIGSTOP)
        kill(marked(mark), _signal.SIGKILL)
        time.sleep(0.005)
