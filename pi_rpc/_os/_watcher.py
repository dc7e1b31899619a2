"""The process that outlives the daemon just long enough to end what the daemon started.

Runs as a program of its own, started with the first command (see ``pi_rpc._os.processes``, the
other end of everything below). It owns the commands' parents; it does not own which commands run.

- The **watcher** is one process per daemon. On file descriptor 3 it receives, for each command, one
  byte with one end of a socket attached, and forks a keeper that is given this socket.
- A **keeper** is one process per command: a child subreaper and the command's parent, so that all
  its descendants, and nothing else, are what the command started; a double fork or ``setsid`` does
  not escape. It goes when they are gone. The watcher is a subreaper as well: it ends what a killed
  keeper leaves. What a keeper and the watcher leave, both killed, the daemon finds by its mark.

On a keeper's socket, first the daemon sends the request: four bytes, big-endian, its length, then
``marshal`` of ``(argv, cwd, env, fds)``, all strings as bytes; ``fds`` lists which of 0, 1 and 2
are attached to the first of these bytes, the others are ``/dev/null``. Then it may send

    ``d`` with a descriptor attached     read this pipe until its end and throw away what comes
    decimal digits, then end of file     end the tree; the digits are the grace time in ms
    end of file                          the same with the standard grace time: the daemon has died

and the keeper sends lines

    ``keeper PID``                  the keeper is there and has the request
    ``started PID``                 the program runs
    ``failed ERRNO cwd|program``    it does not
    ``exited CODE LEFT``            it has ended, by signal n as 128 + n; LEFT 1: descendants live
    ``gone``                        the keeper leaves, and nothing of the tree is left to end

Both ignore the signals of a terminal, hold none of the daemon's descriptors and have no secrets in
their environment. Only modules that load within a few milliseconds are imported.
"""

# ruff: noqa: PTH208 - the watcher is to start within milliseconds, without pathlib

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` and `socket` spend 15 ms on enums
import _socket
import marshal
import os
import select
import sys
import time

from pi_rpc._os import _trees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["GRACE_S", "main"]

GRACE_S = 0.3
"""Seconds between the request to end and the end by force."""
_KEEPERS_LIMIT_S = 1.3
"""How long the watcher gives its keepers after the daemon's death."""
_IGNORED = tuple(
    getattr(_signal, f"SIG{name}")
    for name in ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "PIPE", "TSTP", "TTIN", "TTOU")
    if hasattr(_signal, f"SIG{name}")
)


def main() -> NoReturn:
    """Be the watcher until the daemon goes."""
    os.setsid()
    os.chdir("/")
    for name in os.listdir("/proc/self/fd" if _trees.LINUX else "/dev/fd"):
        if int(name) > 3:
            try:
                os.close(int(name))
            except OSError:
                continue  # the one that listed the directory
    os.set_inheritable(3, False)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
    for number in _IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    _be_subreaper()
    control = _socket.socket(fileno=3)
    wakeup = _trees.wake_on_child_exit()
    keepers: set[int] = set()
    poll = select.poll()
    poll.register(3, select.POLLIN)
    poll.register(wakeup, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if wakeup in ready:
            os.read(wakeup, 512)
            _reap_keepers(keepers)
        if 3 not in ready:
            continue
        fds: list[int] = []
        if not _receive(control, 1, fds):
            break
        for fd in fds:
            pid = os.fork()
            if pid == 0:
                control.close()
                os.close(wakeup)
                os._exit(_Keeper(_socket.socket(fileno=fd)).run())
            keepers.add(pid)
            os.close(fd)
    deadline = time.monotonic() + _KEEPERS_LIMIT_S
    _trees.wait_while(wakeup, deadline, lambda: _reap_keepers(keepers) and keepers)
    _trees.end_tree(_trees.descendants, 0, wakeup, lambda: _reap_keepers(keepers))
    os._exit(0)


def _reap_keepers(keepers: set[int]) -> bool:
    """Collect ended children; end what a keeper that did not leave in order has left."""
    orphaned = False

    def forget(pid: int, status: int) -> None:
        nonlocal orphaned
        orphaned |= pid in keepers and status != 0
        keepers.discard(pid)

    alive = _trees.reap(forget)
    if orphaned:
        left = _trees.freeze(lambda: _trees.descendants(spare=keepers))
        _trees.kill(left, _signal.SIGKILL)
    return alive


class _Keeper:
    """The parent of one command."""

    def __init__(self, control: _socket.socket) -> None:
        self._control = control
        self._watcher = os.getppid()
        self._wakeup = _trees.wake_on_child_exit()
        self._mark = b""
        self._pid = 0
        self._grace = b""

    def run(self) -> int:
        """Run the command that the daemon asks for, and stay until its tree is gone.

        Returns the exit status: 0 when nothing is left.
        """
        _be_subreaper()
        if not self._start():
            return 0
        drained: set[int] = set()
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        poll.register(self._control.fileno(), select.POLLIN)
        wanted = True
        while wanted and self._alive():
            for fd, _ in poll.poll(None if _trees.LINUX else 1000):
                if fd == self._wakeup:
                    os.read(fd, 512)
                elif fd in drained:
                    if not _drain(fd):
                        poll.unregister(fd)
                        drained.discard(fd)
                        os.close(fd)
                else:
                    fds: list[int] = []
                    wanted = self._read_control(fds)
                    for new in fds:
                        os.set_blocking(new, False)
                        poll.register(new, select.POLLIN)
                    drained.update(fds)
        if not wanted:
            self._resume_watcher()
            grace_s = int(self._grace) / 1000 if self._grace else GRACE_S
            if not _trees.end_tree(self._tree, grace_s, self._wakeup, self._reap):
                return 1
        self._send(b"gone\n")
        return 0

    def _resume_watcher(self) -> None:
        """A program may have stopped it; then it would not notice that the daemon has gone."""
        if os.getppid() == self._watcher:
            try:
                os.kill(self._watcher, _signal.SIGCONT)
            except OSError:
                return  # gone in this moment

    def _start(self) -> bool:
        """Read the request and start the program; False when there is nothing to wait for."""
        fds: list[int] = []
        data = b""
        size = 4
        while len(data) < size:
            more = _receive(self._control, 1 << 16, fds)
            if not more:
                return False
            data += more
            if len(data) >= 4:
                size = 4 + int.from_bytes(data[:4], "big")
        self._grace = data[size:]  # the end may be asked for before we have started
        argv, cwd, env, numbers = marshal.loads(data[4:size])  # noqa: S302 - from our own daemon
        self._mark = env.get(_trees.MARK.encode(), b"")
        # Said before the program can do anything to us.
        self._send(b"keeper %d\n" % os.getpid())
        failed = b"cwd"
        try:
            os.chdir(cwd)
            failed = b"program"
            self._pid = _spawn(argv, env, dict(zip(numbers, fds, strict=True)))
        except (OSError, ValueError) as error:
            number = getattr(error, "errno", None) or 22  # EINVAL
            self._send(b"failed %d %s\n" % (number, failed))
            return False
        os.chdir("/")
        # Closed before it is said that the program runs: it can stop us at any moment, and its
        # pipes would then stay open for somebody who waits for their end alone.
        for fd in fds:
            os.close(fd)
        self._send(b"started %d\n" % self._pid)
        return True

    def _alive(self) -> bool:
        """Collect ended children; False when none of the tree is left."""
        if self._reap():
            return True
        # Elsewhere than on Linux, orphans are not handed to us.
        return not _trees.LINUX and bool(self._tree())

    def _reap(self) -> bool:
        ended: list[int] = []

        def note(pid: int, status: int) -> None:
            if pid == self._pid:
                ended.append(os.waitstatus_to_exitcode(status))

        alive = _trees.reap(note)
        for code in ended:
            self._send(b"exited %d %d\n" % (128 - code if code < 0 else code, alive))
        return alive

    def _read_control(self, fds: list[int]) -> bool:
        """Take what the daemon says, and pipes to drain; False when the tree is to be ended."""
        data = _receive(self._control, 64, fds)
        self._grace += data.replace(b"d", b"")
        return bool(data)

    def _send(self, line: bytes) -> None:
        try:
            self._control.send(line)
        except OSError:
            return  # the daemon has gone; the end of file says so too

    def _tree(self) -> set[int]:
        tree = _trees.descendants()
        return tree if _trees.LINUX else tree | _trees.marked(self._mark)


def _spawn(argv: list[bytes], env: dict[bytes, bytes], fds: dict[int, int]) -> int:
    """Start a program in a session of its own, with what a keeper ignores at its default."""
    names = [argv[0]]
    if b"/" not in argv[0]:
        path = env.get(b"PATH", os.defpath.encode())
        names = [(folder or b".") + b"/" + argv[0] for folder in path.split(b":")]
    failure = OSError(2, "No such program")
    for name in names:
        try:
            return os.posix_spawn(
                name,
                argv,
                env,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in fds.items()],
                setsid=True,
                setsigmask=[],
                setsigdef=[*_IGNORED, _signal.SIGCHLD, _signal.SIGXFSZ],
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            failure = error
    raise failure


def _receive(sock: _socket.socket, size: int, fds: list[int]) -> bytes:
    """Bytes of a socket, and in ``fds`` the descriptors attached to them; empty at its end."""
    try:
        data, ancillary, _, _ = sock.recvmsg(size, _socket.CMSG_SPACE(4 * 8))
    except OSError:
        return b""
    for level, kind, packed in ancillary:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            for start in range(0, len(packed) - 3, 4):
                fd = int.from_bytes(packed[start : start + 4], sys.byteorder)
                os.set_inheritable(fd, False)
                fds.append(fd)
    return data


def _drain(fd: int) -> bool:
    try:
        return bool(os.read(fd, 1 << 18))
    except BlockingIOError:
        return True


def _be_subreaper() -> None:
    """Have all orphaned descendants handed to this process; only Linux does that."""
    if _trees.LINUX:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
        one, zero = ctypes.c_ulong(1), ctypes.c_ulong(0)
        prctl(36, one, zero, zero, zero)  # PR_SET_CHILD_SUBREAPER
