"""Finding what a command has left alive, for the tests."""

import gc
import os
import time
from pathlib import Path

import anyio

from tests.deadlines import DEADLINE_S

NOTHING_HELPS = (
    # A daemon by double fork, in a session of its own, without our environment.
    "(env -i setsid sh -c 'trap \"\" TERM HUP INT; (sleep {m} & sleep {m}) & sleep {m}' &) ;"
    # One that only ignores signals, and one that only has left the session.
    "(trap '' TERM INT HUP; while :; do sleep {m}; done) &"
    "setsid sleep {m} & setsid --fork sleep {m};"
)
"""A shell command that hides processes in every way we know; ``{m}`` is the marker."""

GONE_S = 5 * 2.0
"""Two seconds are promised; a machine that does much else gets five times as much."""


def new_marker() -> str:
    """A number of seconds that no other process sleeps for."""
    return f"{1000 + os.getpid() % 1000}.{time.monotonic_ns()}"


def survivors(marker: str) -> dict[int, str]:
    """The processes, zombies left out, that have the marker in their arguments."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                arguments = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in arguments and is_alive(int(entry.name)):
                found[int(entry.name)] = arguments.replace(b"\0", b" ").decode(errors="replace")
    return found


def is_alive(pid: int) -> bool:
    """The process runs; it is not a zombie that nobody has collected yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1]
    except OSError:
        return False
    return state not in (b"Z", b"X")


def open_descriptors() -> set[str]:
    """The descriptors of this process, without those of what nobody uses any more."""
    gc.collect()
    return set(os.listdir("/proc/self/fd"))


async def wait_until_alive(marker: str, count: int) -> None:
    """Wait until at least ``count`` sleepers with the marker run."""
    with anyio.fail_after(DEADLINE_S):
        while sum("sleep " + marker in text[:40] for text in survivors(marker).values()) < count:
            await anyio.sleep(0.01)


async def wait_until_gone(marker: str) -> None:
    """Wait until nothing with the marker runs any more: two seconds, as promised, and some room."""
    deadline = time.monotonic() + GONE_S
    while left := survivors(marker):
        assert time.monotonic() < deadline, f"alive after {GONE_S} s: {left}"
        await anyio.sleep(0.01)
