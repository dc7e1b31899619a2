"""Which files a command changed, found out as cheaply as can be.

Owns looking at a working directory before and after a command and comparing the two. In a git
repository git is asked, without locks and without the programs that a repository can have it run
when it looks for changes; elsewhere names, sizes and times of a moderate number of files are
compared. Does not own when commands run nor who is told.

Nothing here raises and nothing takes long: what is too large or too slow is given up, and not tried
again for a while. What git ignores is not looked at.
"""

import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

import anyio
from msgspec import Struct

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.ports import FileChange, FileChangeKind

__all__ = ["BUDGET_S", "CommandChanges", "Found", "Snapshot"]

_What = TypeVar("_What")
_Result = TypeVar("_Result")

_log = logging.getLogger("pi_rpc.tools")

BUDGET_S = 0.3
"""Seconds that looking may take, before a command and after it."""
_MOST_CHANGES = 1000
_MOST_DIRTY = 5000  # files that git names and that are looked at one by one
_MOST_ENTRIES = 10_000  # files and directories that are looked at without git
_WALK_S = 0.1
_MOST_OUTPUT = 4 * 1024 * 1024  # bytes of git's answer
_PASSED_OVER = frozenset(
    (".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules", ".tox", ".mypy_cache")
)
_GIT = (
    *("git", "--no-optional-locks", "--literal-pathspecs"),
    *("-c", "core.fsmonitor=false", "-c", "status.renames=false", "-c", "core.quotePath=false"),
)
_STATUS = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all")
_QUIET = ("--ignore-submodules=all",)

_SLACK_NS = 20_000_000  # by which the clock of files may be behind ours

Signature: TypeAlias = tuple[int, int, int, int]
"""Size, inode, and the times of the content and of the entry."""


class Snapshot(Struct, frozen=True):
    """What a directory was like."""

    root: Path
    files: Mapping[str, Signature | None]
    """Files below the root: in a repository those that differ from the last commit, with None for
    what is gone; elsewhere all there are."""
    new: frozenset[str] = frozenset()
    """In a repository: those that the last commit does not have."""
    commit: str | None = None
    """The last commit, in a repository."""
    taken_ns: int = 0
    """When, on the clock of the wall."""


class Found(Struct, frozen=True):
    """What a command changed."""

    changes: Sequence[FileChange]
    truncated: bool = False
    """There may be more: all could not be looked at."""


class _TooMuchError(Exception):
    """More than may be looked at."""


class CommandChanges:
    """Looks at working directories around commands. One for a session.

    A directory that was too much is passed over for a while, which doubles each time.
    """

    def __init__(self, budget_s: float = BUDGET_S) -> None:
        self._budget_s = budget_s
        self._misses: dict[Path, int] = {}
        self._passes: dict[Path, int] = {}

    async def before(self, cwd: Path) -> Snapshot | None:
        """What it is like now; None: it is too much to look at."""
        if left := self._passes.get(cwd, 0):
            self._passes[cwd] = left - 1
            return None
        snapshot = await self._bounded(_snapshot, cwd, self._budget_s)
        if snapshot is None:
            self._missed(cwd)
        return snapshot

    async def after(self, cwd: Path, before: Snapshot | None) -> Found:
        """What is different from ``before``."""
        if before is None:
            return Found((), truncated=True)
        found = await self._bounded(_compare, before, self._budget_s)
        if found is None:
            self._missed(cwd)
            return Found((), truncated=True)
        self._misses.pop(cwd, None)
        return found

    def _missed(self, cwd: Path) -> None:
        misses = self._misses[cwd] = min(self._misses.get(cwd, 0) + 1, 10)
        self._passes[cwd] = 2**misses

    async def _bounded(
        self, look: Callable[[_What, float], _Result], what: _What, budget_s: float
    ) -> _Result | None:
        try:
            # The time limit is kept by whoever looks, unless the system does not answer at all.
            with anyio.move_on_after(2 * budget_s):
                return await run_blocking(look, what, budget_s, abandon_on_cancel=True)
        except _TooMuchError:
            pass
        except Exception:  # noqa: BLE001 - a command counts for more than knowing what it changed
            _log.warning("what a command changed could not be found out", exc_info=True)
        return None


# --- in a thread ---------------------------------------------------------------------------------


def _snapshot(cwd: Path, budget_s: float) -> Snapshot:
    deadline = time.monotonic() + budget_s
    root = _repository(cwd)
    found = None if root is None else _ask_git(root, deadline)
    return _walked(cwd, deadline) if found is None else found


def _compare(before: Snapshot, budget_s: float) -> Found:
    deadline = time.monotonic() + budget_s
    if before.commit is None:
        now = _walked(before.root, deadline)
        kinds = _differences(before, now, now.files.get)
    else:
        repository = _ask_git(before.root, deadline)
        if repository is None:
            raise _TooMuchError
        now = repository
        root = before.root
        kinds = _differences(before, now, lambda name: _signature(f"{root}/{name}"))
        if before.commit and now.commit and before.commit != now.commit:
            kinds = _committed(before, now.commit, kinds, deadline)
    changes = [FileChange(before.root / name, kinds[name]) for name in sorted(kinds)]
    return Found(changes[:_MOST_CHANGES], truncated=len(changes) > _MOST_CHANGES)


def _differences(
    before: Snapshot, now: Snapshot, look: Callable[[str], Signature | None]
) -> dict[str, FileChangeKind]:
    """What became of each file that is not what it was; ``look`` tells what one is now."""
    kinds: dict[str, FileChangeKind] = {}
    for name in before.files.keys() | now.files.keys():
        is_now = now.files[name] if name in now.files else look(name)
        if name in before.files:
            was = before.files[name]
            if was == is_now:
                continue
            kinds[name] = "created" if was is None else "deleted" if is_now is None else "changed"
        elif is_now is None:
            kinds[name] = "deleted"
        elif before.commit is None or name in now.new:
            kinds[name] = "created"
        elif before.commit == now.commit or _is_later(is_now, before):
            kinds[name] = "changed"
    return kinds


def _committed(
    before: Snapshot, commit: str, known: dict[str, FileChangeKind], deadline: float
) -> dict[str, FileChangeKind]:
    """With what differs between the commits, where the files are not what they were: the command
    has switched to another commit, rather than made one."""
    assert before.commit is not None
    answer = _run_git(
        before.root,
        ("diff", "--name-status", "-z", "--no-renames", *_QUIET, before.commit, commit),
        deadline,
    )
    if answer is None:
        return known
    kinds = dict(known)
    parts = answer.split(b"\0")
    for status, raw in zip(parts[::2], parts[1::2], strict=False):
        name = os.fsdecode(raw)
        is_now = _signature(f"{before.root}/{name}")
        if name in before.files or name in kinds:
            continue
        if is_now is None:
            if status == b"D":
                kinds[name] = "deleted"
        elif _is_later(is_now, before):
            kinds[name] = "created" if status == b"A" else "changed"
    return kinds


def _is_later(signature: Signature, before: Snapshot) -> bool:
    return max(signature[2:]) >= before.taken_ns - _SLACK_NS


def _repository(cwd: Path) -> Path | None:
    for folder in (cwd, *cwd.parents):
        if os.path.lexists(folder / ".git"):
            return folder
    return None


def _ask_git(root: Path, deadline: float) -> Snapshot | None:
    """What differs from the last commit; None where git cannot say."""
    filters = _without_filters(root, deadline)
    answer = _run_git(root, (*_STATUS, *_QUIET), deadline, filters)
    if answer is None:
        return None
    commit, names, new = "", set(), set()
    entries = iter(answer.split(b"\0"))
    for entry in entries:
        kind = entry[:2]
        if entry.startswith(b"# branch.oid "):
            commit = entry.split(b" ", 2)[2].decode("ascii", "replace")
        elif kind in _FIELDS:
            name = os.fsdecode(entry.split(b" ", _FIELDS[kind])[-1])
            if name.endswith("/"):
                continue  # another repository
            names.add(name)
            if kind == b"? " or b"A" in entry[2:4]:
                new.add(name)
            if kind == b"2 ":
                next(entries, None)  # the name that it had
    if len(names) > _MOST_DIRTY:
        raise _TooMuchError
    files = {name: _signature(f"{root}/{name}") for name in names}
    return Snapshot(root, files, frozenset(new), "" if commit == "(initial)" else commit, _now())


_FIELDS = {b"? ": 1, b"1 ": 8, b"2 ": 9, b"u ": 10}
"""How many fields are before the name, by how an entry begins."""


def _without_filters(root: Path, deadline: float) -> dict[str, str]:
    """Variables that keep git from running the filters it knows of over files that look changed.

    Without them such a file counts as changed until git has looked at it anew, before a command
    as well as after it, which is no difference.
    """
    names = _run_git(root, ("config", "-z", "--name-only", "--get-regexp", _FILTERS), deadline)
    drivers = {os.fsdecode(name).rpartition(".")[0] for name in (names or b"").split(b"\0") if name}
    settings = [
        (f"{driver}.{key}", value)
        for driver in sorted(drivers)
        for key, value in (("clean", ""), ("process", ""), ("required", "false"))
    ]
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for n, (key, value) in enumerate(settings):
        variables[f"GIT_CONFIG_KEY_{n}"], variables[f"GIT_CONFIG_VALUE_{n}"] = key, value
    return variables


_FILTERS = r"^filter\..*\.(clean|process)$"


def _run_git(
    root: Path,
    arguments: Sequence[str],
    deadline: float,
    more_variables: Mapping[str, str] | None = None,
) -> bytes | None:
    """Git's answer; None where there is no git, or it does not want to."""
    import subprocess

    left = deadline - time.monotonic()
    if left <= 0:
        raise _TooMuchError
    # Variables of git could point it to another repository.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    variables |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", **(more_variables or {})}
    try:
        git = subprocess.Popen(
            (*_GIT, *arguments),
            cwd=root,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    with git:
        try:
            output, _ = git.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            # With what it has started, which may keep the pipe open.
            with contextlib.suppress(OSError):
                os.killpg(git.pid, signal.SIGKILL)
            raise _TooMuchError from None
    if len(output) > _MOST_OUTPUT:
        raise _TooMuchError
    return None if git.returncode else output


def _walked(root: Path, deadline: float) -> Snapshot:
    """All files below a directory, links not followed."""
    deadline = min(deadline, time.monotonic() + _WALK_S)
    files: dict[str, Signature | None] = {}
    folders = [""]
    entries_left = _MOST_ENTRIES
    while folders:
        folder = folders.pop()
        try:
            scan = os.scandir(f"{root}/{folder}")
        except OSError:  # gone, or not ours to look at
            continue
        with scan:
            for entry in scan:
                entries_left -= 1
                if not entries_left or time.monotonic() > deadline:
                    raise _TooMuchError
                name = folder + entry.name
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in _PASSED_OVER:
                            folders.append(f"{name}/")
                    else:
                        files[name] = _of_stat(entry.stat(follow_symlinks=False))
                except OSError:  # gone meanwhile
                    continue
    return Snapshot(root, files, taken_ns=_now())


def _signature(path: str) -> Signature | None:
    try:
        return _of_stat(os.lstat(path))
    except OSError:
        return None


def _of_stat(stat: os.stat_result) -> Signature:
    return (stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)


def _now() -> int:
    return time.time_ns()
