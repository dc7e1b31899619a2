"""Daemons that start warm: forked from a process that has imported what each of them would.

Owns the way to such a daemon. It is a process of its own with pipes, an environment and a directory
of its own, and runs ``pi-rpc`` from its arguments on; what it does not do is import for a third of
a second. Tests of starting, of imports and of memory start one with ``python -m pi_rpc`` instead.

One process of each pytest worker forks a keeper for every daemon, which forks the daemon, waits
for it and says how it ended.
"""

import atexit
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn, TypeAlias

__all__ = ["Daemon", "start_daemon"]

_ROOT = Path(__file__).resolve().parents[1]
_NUMBER = struct.Struct("!i")
_START_DEADLINE_S = 60.0
_UNHURRIED_S = 20.0

_IMPORTED = (
    *("asyncio", "ssl", "tempfile", "anyio._backends._asyncio", "jsonschema"),
    *("pi_rpc.cli", "pi_rpc.doors.life", "pi_rpc.host.host"),
    *("pi_rpc.server.stdio", "pi_rpc.server.connection", "pi_rpc.server.features"),
    *("pi_rpc.acp.stdio", "pi_rpc.acp.connection", "pi_rpc.acp.features"),
    *("pi_rpc.llm.scripted", "pi_rpc.llm.http", "pi_rpc.llm.local", "pi_rpc.llm.catalogue"),
    *("pi_rpc.tools.bash", "pi_rpc.tools.edit", "pi_rpc.tools.find", "pi_rpc.tools.grep"),
    *("pi_rpc.tools.ls", "pi_rpc.tools.read", "pi_rpc.tools.write"),
    *("pi_rpc.lsp.stdio", "pi_rpc.lsp.connection", "pi_rpc.lsp.features"),
)


def start_daemon(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stderr: IO[Any] | None = None,
    warm: bool = True,
    launcher: Sequence[str] = (),
) -> "Daemon":
    """``pi-rpc`` with ``arguments``, warm where the system allows for it. ``stderr``: None for that
    of the tests; ``launcher``: a program that starts it."""
    if warm and not launcher and sys.platform == "linux":
        return _WarmDaemon(arguments, cwd, env, stderr)
    return subprocess.Popen(
        [*launcher, sys.executable, "-m", "pi_rpc", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        cwd=cwd,
        env=env,
    )


class _WarmDaemon:
    """What is used of a ``subprocess.Popen``."""

    def __init__(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], stderr: IO[Any] | None
    ) -> None:
        input_end, stdin = os.pipe()
        stdout, output_end = os.pipe()
        self._keeper, keeper_end = socket.socketpair()
        asked = json.dumps({"arguments": [*arguments], "cwd": str(cwd), "env": dict(env)}).encode()
        errors = stderr.fileno() if stderr is not None else 2
        socket.send_fds(
            _forge(),
            [_NUMBER.pack(len(asked)), asked],
            [input_end, output_end, errors, keeper_end.fileno()],
        )
        for passed in (input_end, output_end):
            os.close(passed)
        keeper_end.close()
        self._keeper.settimeout(_START_DEADLINE_S)
        self.pid = self._told()
        self.returncode: int | None = None
        self.stdin: IO[bytes] = os.fdopen(stdin, "wb")
        self.stdout: IO[bytes] = os.fdopen(stdout, "rb")

    def poll(self) -> int | None:
        """The exit code, or minus the signal that ended it; None while it runs."""
        try:
            return self._ended(0)
        except BlockingIOError:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """As ``poll``, once it has ended; raises ``subprocess.TimeoutExpired``."""
        try:
            return self._ended(timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired("pi-rpc", timeout or 0) from None

    def _ended(self, within_s: float | None) -> int:
        if self.returncode is None:
            self._keeper.settimeout(within_s)
            self.returncode = self._told()
            self._keeper.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        # Any thread may, also while another one waits.
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def _told(self) -> int:
        said = self._keeper.recv(_NUMBER.size)
        assert said, "the process that keeps the daemon has ended"
        (number,) = _NUMBER.unpack(said)
        return int(number)


Daemon: TypeAlias = "subprocess.Popen[bytes] | _WarmDaemon"


@cache
def _forge() -> socket.socket:
    """What forks the daemons of this process's tests; it ends with this process."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.warm", str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        cwd=_ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(_ROOT)},
        pass_fds=[theirs.fileno()],
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# --- in the process that forks ------------------------------------------------------------------


def _serve(requests: socket.socket) -> None:
    from importlib import import_module

    for name in _IMPORTED:
        import_module(name)
    # What a client is told in the end is not to depend on what else this machine does.
    vars(import_module("pi_rpc.doors.connection"))["_SETTLE_S"] = _UNHURRIED_S
    vars(import_module("pi_rpc.doors.life"))["_GRACE_S"] = _UNHURRIED_S
    # Nobody waits for the keepers.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        # Whoever asks waits for the answer, so there is one request at a time.
        head, passed, _, _ = socket.recv_fds(requests, _NUMBER.size, 4)
        if not head:
            return
        (size,) = _NUMBER.unpack(head)
        asked = b""
        while len(asked) < size:
            asked += requests.recv(size - len(asked))
        if os.fork() == 0:
            requests.close()
            _keep(json.loads(asked), passed)
        for each in passed:
            os.close(each)


def _keep(asked: dict[str, Any], passed: Sequence[int]) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, line = passed
    pid = os.fork()
    if pid == 0:
        os.close(line)
        _become(asked, streams)
    for each in streams:
        os.close(each)
    keeper = socket.socket(fileno=line)
    try:
        keeper.send(_NUMBER.pack(pid))
        _, status = os.waitpid(pid, 0)
        keeper.send(_NUMBER.pack(os.waitstatus_to_exitcode(status)))
    except BrokenPipeError:
        pass  # Who wanted to know has ended; the daemon sees that at its input.
    finally:
        os._exit(0)


def _become(asked: dict[str, Any], streams: Sequence[int]) -> NoReturn:
    for number, each in enumerate(streams):
        os.dup2(each, number)
    for each in streams:
        os.close(each)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    from pi_rpc.cli import main

    code = 1
    try:
        main(asked["arguments"])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:  # noqa: BLE001 - as the interpreter does it
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
