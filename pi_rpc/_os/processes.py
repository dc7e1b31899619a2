"""Running programs so that nothing they start outlives us.

Owns the daemon's side of the watcher: starting it with the first program, asking it to spawn, and
what is known of each child. The other side, and what the two say to each other, is
``pi_rpc._os._watcher``. Does not own what the programs write: callers attach descriptors (see
``pi_rpc._os.pipes``).

Works on every POSIX system; on Windows ``spawn`` raises ``OSError``.
"""

import contextlib
import errno
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from pi_rpc._os.threads import run_blocking

if TYPE_CHECKING:
    import socket

__all__ = ["Child", "spawn", "watcher_pid"]

_LOADER_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH")
"""What of our environment the interpreter may need in order to start."""
_START_LIMIT_S = 30.0
"""How long a start may take before the watcher counts as stuck."""
_STOPPED_S = 1.0
"""How often the watcher and keepers that we wait for are told to go on, should a program have
stopped them."""
_END_LIMIT_S = 1.3
"""How long a keeper may take, after the grace time, to end its tree before it counts as stuck."""


class Child:
    """A program that runs, and everything it starts.

    One event loop. Ask for the end of the tree, with ``end_tree`` or by leaving ``async with``,
    whatever became of the program: this also frees the descriptor that belongs to it.
    """

    def __init__(self, control: "socket.socket", mark: str) -> None:
        self.pid = 0
        """The program's process id, which is also its process group's and session's; 0 for one that
        killed its keeper before we were told."""
        self._control = control
        self._mark = mark
        self._receiving = anyio.Lock()
        self._unread = b""
        self._pieces = 0
        self._keeper = 0
        self._failure: OSError | None = None
        self._exit_code: int | None = None
        self._end_asked = False
        self._gone = False

    @property
    def exit_code(self) -> int | None:
        """The program's exit code, 128 + n when signal n ended it; None until it is known."""
        return self._exit_code

    @property
    def gone(self) -> bool:
        """The program and all it started are known to have ended."""
        return self._gone

    async def wait(self) -> int:
        """Wait for the program, not for what it left in the background; returns its exit code."""
        while self._exit_code is None:
            # A program can stop its keeper, which then could not tell of its end.
            with anyio.move_on_after(_STOPPED_S) as waiting:
                await self._receive()
            if waiting.cancelled_caught and self._keeper and not self._gone:
                _resume(self._keeper)
        return self._exit_code

    async def end_tree(self, grace_s: float = 0.3) -> None:
        """End the program and all it started, wherever they have hidden.

        Everything is sent SIGTERM, and what is still there after ``grace_s`` seconds SIGKILL.
        Returns when nothing is left, within 1.8 seconds after the grace time at most; only what the
        system does not let us end (processes of other users, or stuck in the kernel) survives.
        Not cut short by cancellation. Of several calls the first one's grace time counts.
        """
        if self._gone:
            return
        with anyio.CancelScope(shield=True):
            if not self._end_asked:
                self._end_asked = True
                if self._keeper:
                    _resume(self._keeper)
                with contextlib.suppress(OSError):
                    self._control.send(b"%d" % max(0, round(grace_s * 1000)))
                    self._control.shutdown(1)  # SHUT_WR
            with anyio.move_on_after(grace_s + _END_LIMIT_S):
                await self._receive_until_gone()
            if not self._gone:
                # The keeper is stuck, most likely stopped by the program, again and again. Its
                # parent, the watcher, ends what it leaves behind.
                if self._keeper:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(self._keeper, 9)
                    with anyio.move_on_after(0.2):
                        await self._receive_until_gone()
                if not self._gone:
                    await self._lose_keeper()

    def drain(self, fd: int) -> None:
        """Have pipe ``fd`` read to its end, and thrown away, for as long as the tree lives.

        Keeps what the program left in the background from failing on a pipe without a reader. The
        caller closes its own ``fd``.
        """
        import socket

        if not self._gone:
            with contextlib.suppress(OSError):
                socket.send_fds(self._control, [b"d"], [fd])

    def poll(self) -> bool:
        """Take note of news without waiting; True when the tree is gone.

        What is not noted yet, and somebody waits for, is left to whoever waits.
        """
        if self._receiving.locked():
            return self._gone
        try:
            while not self._gone:
                news = self._control.recv(4096)
                if not news:
                    self._close()
                self._read(news)
        except BlockingIOError:
            pass
        except OSError:
            self._close()
        return self._gone

    async def __aenter__(self) -> "Child":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.end_tree()

    async def _receive(self) -> None:
        """Wait for one piece of news.

        Whoever holds the lock is the only one to read and to close the socket: news taken from
        under a waiting task would never wake it.
        """
        before = self._pieces
        async with self._receiving:
            try:
                if not self._gone and before == self._pieces:  # else somebody else waited for it
                    await self._receive_piece()
            finally:
                if self._gone:
                    self._control.close()

    async def _receive_piece(self) -> None:
        await anyio.wait_readable(self._control)
        try:
            news = self._control.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            news = b""
        self._pieces += 1
        self._read(news)
        if not news and not self._gone:
            with anyio.CancelScope(shield=True):
                await self._lose_keeper()

    async def _receive_until_gone(self) -> None:
        while not self._gone:
            await self._receive()

    def _read(self, news: bytes) -> None:
        *lines, self._unread = (self._unread + news).split(b"\n")
        for line in lines:
            word, *rest = line.decode().split()
            if word == "keeper":
                self._keeper = int(rest[0])
            elif word == "started":
                self.pid = int(rest[0])
            elif word == "failed":
                number = int(rest[0])
                self._failure = OSError(number, os.strerror(number), rest[1])
            elif word == "exited":
                self._exit_code = int(rest[0])
                if rest[1] == "0":
                    self._close()
            elif word == "gone":
                self._close()

    async def _lose_keeper(self) -> None:
        """The keeper went without ending its tree: find the tree by its mark."""
        if self._keeper:
            from pi_rpc._os._trees import end_marked

            await run_blocking(end_marked, self._mark.encode())
        self._close()

    def _close(self) -> None:
        self._gone = True
        if self._receiving.locked():
            with contextlib.suppress(OSError):
                self._control.shutdown(2)  # SHUT_RDWR: wakes the task that waits, and that closes
        else:
            self._control.close()
        if self._exit_code is None and self.pid:
            self._exit_code = 128 + 9


async def spawn(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> Child:
    """Run the program ``argv[0]``, looked up on ``env``'s PATH, in a session of its own.

    ``env`` is its whole environment, plus a mark. ``stdin``, ``stdout`` and ``stderr`` are
    descriptors that the program gets copies of; None is the null device. Whatever happens to this
    process, kill -9 included, the program and all it starts end within two seconds of it.

    Raises ``OSError`` when it could not be started; its ``filename`` is the program or ``cwd``.
    ``EINVAL`` stands for text that no program can be given, such as a NUL.
    """
    import marshal

    from pi_rpc._os._trees import MARK

    if sys.platform == "win32":
        raise OSError(errno.ENOSYS, "Running programs is not supported on this system", argv[0])
    mark = os.urandom(8).hex()
    attached = {n: fd for n, fd in enumerate((stdin, stdout, stderr)) if fd is not None}
    try:
        environment = {_encode(k): _encode(v) for k, v in {**env, MARK: mark}.items()}
        plan = ([_encode(part) for part in argv], _encode(str(cwd)), environment, list(attached))
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error), argv[0]) from None
    request = marshal.dumps(plan)
    # The watcher may be killed between being handed the socket and forking; then try another one.
    for _ in range(2):
        child = await _start(mark, request, list(attached.values()), argv[0])
        if child._failure is not None:
            await child.end_tree(0)
            where = str(cwd) if child._failure.filename == "cwd" else argv[0]
            raise OSError(child._failure.errno, child._failure.strerror, where)
        if child.pid:
            return child
        if child._keeper:
            # It had the request: the program may have run, and killed it, and must not run twice.
            child._exit_code = 128 + 9
            return child
    raise OSError(errno.ECHILD, "The process that watches over programs keeps ending", argv[0])


def _encode(text: str) -> bytes:
    if "\0" in text:
        raise ValueError("Text with a NUL character cannot be given to a program")
    return os.fsencode(text)


async def _start(mark: str, request: bytes, fds: list[int], program: str) -> Child:
    """Have a keeper made for the request, and wait until it says how the start went.

    The child has neither pid nor failure when the keeper ended before it could say so.
    """
    import socket

    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    child = Child(ours, mark)
    watcher = None
    try:
        with theirs, anyio.fail_after(_START_LIMIT_S):
            watcher = await _hand_over(theirs)
            theirs.close()
            await _send(ours, len(request).to_bytes(4, "big") + request, fds)
            while not (child.pid or child._failure or child.gone):
                with anyio.move_on_after(_STOPPED_S) as waiting:
                    await child._receive()
                if waiting.cancelled_caught:
                    _resume(watcher.pid)
                    if child._keeper:
                        _resume(child._keeper)
    except TimeoutError:
        await child.end_tree(0)
        if watcher is not None and not child._keeper:
            await _discard(watcher)
        raise OSError(errno.ETIMEDOUT, "The program did not start in time", program) from None
    except BaseException:
        await child.end_tree(0)
        raise
    return child


async def _send(sock: "socket.socket", payload: bytes, fds: list[int]) -> None:
    """Send everything, ``fds`` with the first byte. Silent when the other end is gone."""
    import socket

    rest = memoryview(payload)
    while rest:
        try:
            sent = socket.send_fds(sock, [rest], fds) if fds else sock.send(rest)
        except BlockingIOError:
            await anyio.wait_writable(sock)
        except OSError:
            return  # the next receive finds the end of file
        else:
            rest, fds = rest[sent:], []


class _Watcher:
    """The watcher, as its starter sees it."""

    def __init__(self) -> None:
        import atexit
        import fcntl
        import socket

        self.owner = os.getpid()
        self.control, theirs = socket.socketpair()
        self.control.setblocking(False)
        # Out of the way of the descriptors 0 to 3 that are about to be set.
        fd = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, 10)
        root = str(Path(__file__).parents[2])
        code = (
            f"import sys; sys.path.append({root!r}); from pi_rpc._os._watcher import main; main()"
        )
        try:
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-c", code],
                {name: os.environ[name] for name in _LOADER_VARIABLES if name in os.environ},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDWR, 0),
                    (os.POSIX_SPAWN_DUP2, 0, 1),
                    (os.POSIX_SPAWN_DUP2, 0, 2),
                    (os.POSIX_SPAWN_DUP2, fd, 3),
                ],
            )
        except BaseException:
            self.control.close()
            raise
        finally:
            os.close(fd)
            theirs.close()
        atexit.register(self._let_go)

    def _let_go(self) -> None:
        """We end: the watcher is to notice, also when a program has stopped it."""
        self.control.close()
        _resume(self.pid)

    def end(self) -> None:
        """Make sure that it is dead and collected; what it watched over lives on. Blocks."""
        import atexit

        atexit.unregister(self._let_go)
        self.control.close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)


_watcher: _Watcher | None = None
_watcher_lock = threading.Lock()


def watcher_pid() -> int | None:
    """The watcher's process id; None before the first program."""
    return _watcher.pid if _watcher is not None else None


async def _hand_over(theirs: "socket.socket") -> _Watcher:
    """Give a keeper's socket to the watcher, starting one where there is none."""
    import socket

    global _watcher  # noqa: PLW0603 - one per process, like the process's other children
    while True:
        with _watcher_lock:
            if _watcher is None or _watcher.owner != os.getpid():
                _watcher = _Watcher()
            watcher = _watcher
        _resume(watcher.pid)
        try:
            socket.send_fds(watcher.control, [b"k"], [theirs.fileno()])
        except BlockingIOError:
            # Hundreds of starts at once. Several tasks may wait, so not for the descriptor.
            await anyio.sleep(0.01)
        except OSError:
            await _discard(watcher)
        else:
            return watcher


def _resume(pid: int) -> None:
    """Let a process of ours go on that a program has stopped."""
    import signal

    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGCONT)


async def _discard(watcher: _Watcher) -> None:
    global _watcher  # noqa: PLW0603 - as above
    with _watcher_lock:
        if _watcher is not watcher:
            return
        _watcher = None
    await run_blocking(watcher.end)
