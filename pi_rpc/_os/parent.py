"""Noticing that the process that started us has gone.

Owns the wait for one process, told apart from a later one with the same id. Does not own what
follows from it.
"""

import os
import sys
from pathlib import Path

import anyio

from pi_rpc._os.threads import run_blocking

__all__ = ["wait_parent_gone"]

_POLL_S = 1.0


async def wait_parent_gone(pid: int) -> None:
    """Return once process ``pid``, any process of this system, has ended.

    Noticed at once on Linux, within a second elsewhere. A process that has ended and was not yet
    collected by its own parent counts as gone. Raises ``ProcessLookupError`` when there is no such
    process at the time of the call, ``ValueError`` for what cannot be a process id.
    """
    if pid <= 0:
        raise ValueError(f"not a process id: {pid}")
    if sys.platform == "win32":
        await _wait_windows(pid)
        return
    if hasattr(os, "pidfd_open"):
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            raise
        except OSError:
            pass  # an old kernel, or a sandbox that forbids it
        else:
            try:
                await anyio.wait_readable(fd)
            finally:
                os.close(fd)
            return
    await _wait_polling(pid)


async def _wait_polling(pid: int) -> None:
    started = await run_blocking(_start_time, pid)
    if started is None:
        raise ProcessLookupError(f"no process {pid}")
    # Our own parent cannot be mistaken: when it goes, we are given another one.
    ours = pid == os.getppid()
    while True:
        if ours:
            if os.getppid() != pid:
                return
        elif await run_blocking(_start_time, pid) != started:
            return
        await anyio.sleep(_POLL_S)


def _start_time(pid: int) -> str | None:
    """When a process started, in whatever unit; None when it has ended."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_bytes().rpartition(b")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in (b"Z", b"X") else fields[19].decode()
    import subprocess

    done = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], stdout=subprocess.PIPE, check=False
    )
    state, _, started = done.stdout.decode(errors="replace").strip().partition(" ")
    return None if not state or state.startswith("Z") else started.strip()


async def _wait_windows(pid: int) -> None:
    if sys.platform == "win32":
        import ctypes

        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.OpenProcess.restype = ctypes.c_void_p
        handle = kernel.OpenProcess(0x0010_0000, False, pid)  # SYNCHRONIZE
        if handle is None:
            raise ProcessLookupError(f"no process {pid}")
        try:
            while kernel.WaitForSingleObject(ctypes.c_void_p(handle), 0) != 0:  # noqa: ASYNC110 - nothing wakes us
                await anyio.sleep(_POLL_S)
        finally:
            kernel.CloseHandle(ctypes.c_void_p(handle))
