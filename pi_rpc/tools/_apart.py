"""Work in a process of its own: what would hold the interpreter for long, or might go wrong badly.

Owns the process, its limits and how work gets there and back. Does not own the work: a pure
function of a module that is quick to import, ``(JSON object, bytes) -> (JSON object, bytes)``.
"""

import json
import os
import sys
from pathlib import Path
from typing import IO, Any, NoReturn

import anyio

from pi_rpc._os.threads import run_blocking

__all__ = ["ApartError", "run_apart"]

MEMORY_LIMIT = 2 << 30
"""Bytes of address space that the work may take, where the system can limit that."""

_PIECE = 1 << 20
_VARIABLES = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]);"
    " from pi_rpc.tools._apart import main; main(sys.argv[1])"
)


class ApartError(Exception):
    """The work was not done: it died of its limits, or the process could not be had."""


async def run_apart(
    function: str, request: dict[str, Any], content: bytes, *, time_limit_s: float = 60.0
) -> tuple[dict[str, Any], bytes]:
    """What ``function`` (``module:name``) makes of ``request`` and ``content``.

    The process ends with a cancelled caller. Raises ``ApartError``. Where programs cannot be run
    at all, the function runs in a file thread.
    """
    if sys.platform == "win32":
        return await run_blocking(_function(function), request, content)
    import tempfile

    try:
        # Files and not pipes: neither side waits for the other, and no event loop copies megabytes.
        with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as answered:
            await run_blocking(_put, asked, request, content)
            code = await _run(function, asked, answered, time_limit_s)
            if code is None:
                raise ApartError(f"it took longer than {time_limit_s:g} seconds")
            if code != 0:
                raise ApartError("it took too much memory, or its process was ended")
            return await run_blocking(_take, answered)
    except OSError as error:
        raise ApartError(error.strerror or type(error).__name__) from error


async def _run(
    function: str, asked: IO[bytes], answered: IO[bytes], time_limit_s: float
) -> int | None:
    """The exit code; None when the time was up."""
    from pi_rpc._os.processes import spawn

    argv = [sys.executable, "-I", "-c", _START, function, json.dumps(sys.path)]
    environment = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    code: int | None = None
    with anyio.move_on_after(time_limit_s):
        child = await spawn(
            argv,
            cwd=Path("/"),
            env=environment,
            stdin=asked.fileno(),
            stdout=answered.fileno(),
        )
        try:
            code = await child.wait()
        finally:
            await child.end_tree(0)
    return code


def main(function: str) -> NoReturn:
    """The other side: the work, in its process."""
    import resource

    for limit, most in ((resource.RLIMIT_AS, MEMORY_LIMIT), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(limit)[1]
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (wanted, hard))
    request, content = _take(sys.stdin.buffer)
    _put(sys.stdout.buffer, *_function(function)(request, content))
    # Nothing is left to be cleaned up, and taking large texts apart takes its time.
    os._exit(0)


def _function(name: str) -> Any:
    from importlib import import_module

    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def _put(file: IO[bytes], head: dict[str, Any], content: bytes) -> None:
    file.write(json.dumps(head).encode() + b"\n")
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest[:_PIECE]) :]
    file.flush()
    if file is not sys.stdout.buffer:
        file.seek(0)


def _take(file: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    file.seek(0)
    return json.loads(file.readline()), file.read()
