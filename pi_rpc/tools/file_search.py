"""Which file a few characters mean: ``file/search``, for mentions of files in prompts.

Owns the lists of files, one per directory, and how long each is good: an old one is answered from
at once while a new one is made. Does not own what matches and in which order
(``pi_rpc.tools._file_index``).
"""

import time
from collections.abc import Sequence
from pathlib import Path

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.ports import PortError
from pi_rpc.agent.tool import ToolFailure
from pi_rpc.llm.abort import AbortController
from pi_rpc.tools._file_index import Block, FileIndex, FileMatch, search
from pi_rpc.tools._ripgrep import run_ripgrep

__all__ = ["FileMatch", "FileMatches", "FileSearch"]

_FRESH_S = 2.0
"""A list younger than this, or than ten times what it took to make, is taken as it is."""
_FIRST_WAIT_S = 1.0
"""How long the first search of a directory waits for all of the list."""
_WAIT_S = 0.1
"""How long a later one waits for a new list, where the old one is not fresh and was made within
that time; otherwise the old one is answered from."""
_MOST_FOLDERS = 4
_MOST_FILES = 500_000


class FileMatches(Struct, frozen=True):
    """The best matches of a query."""

    files: Sequence[FileMatch]
    truncated: bool
    """There are more, or could be: not all files are known yet."""


class FileSearch:
    """Searches by name below directories. One event loop; ``task_group`` carries the listing."""

    def __init__(self, task_group: TaskGroup) -> None:
        self._task_group = task_group
        self._folders: dict[Path, _Folder] = {}

    async def search(self, folder: Path, query: str, limit: int) -> FileMatches:
        """At most ``limit`` files and directories below ``folder``, the best first.

        Ignore files are honoured, hidden files are there. Raises ``PortError`` where the directory
        cannot be listed.
        """
        listed = self._folders.pop(folder, None) or _Folder(folder)
        self._folders[folder] = listed
        while len(self._folders) > _MOST_FOLDERS:
            oldest = next(iter(self._folders))
            self._folders.pop(oldest).stop()
        await listed.wait(self._task_group)
        blocks, complete = listed.blocks()
        files, more = await run_blocking(search, blocks, query, limit)
        # Only now: a list in the making would take time from this search.
        listed.refresh(self._task_group)
        return FileMatches(files, more or not complete)


class _Folder:
    """The files below one directory, as they were a moment ago."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._blocks: list[Block] | None = None
        self._complete = False
        self._listed_at = 0.0
        self._took_s = 0.0
        self._growing: _Listing | None = None
        self._failure: PortError | None = None

    def refresh(self, task_group: TaskGroup) -> None:
        """Have a list made, unless there is a fresh one or one is being made."""
        age = time.monotonic() - self._listed_at
        fresh = self._blocks is not None and age < max(_FRESH_S, 10 * self._took_s)
        if not fresh and self._growing is None:
            self._growing = _Listing()
            task_group.start_soon(self._list, self._growing)

    async def wait(self, task_group: TaskGroup) -> None:
        """Wait for a fresh list, as long as may be; raises why there cannot be one."""
        if self._blocks is not None and self._took_s > _WAIT_S:
            return
        self.refresh(task_group)
        listing = self._growing
        if listing is None:
            return
        wait_s = _WAIT_S if self._blocks is not None else _FIRST_WAIT_S
        with anyio.move_on_after(max(listing.begun_at + wait_s - time.monotonic(), 0)):
            await listing.ended.wait()
        if self._failure is not None:
            raise self._failure

    def blocks(self) -> tuple[list[Block], bool]:
        """The names, and whether they are all there are."""
        if self._blocks is not None:
            return self._blocks, self._complete
        return (self._growing.index.blocks() if self._growing is not None else []), False

    def stop(self) -> None:
        """Nobody asks any more."""
        if self._growing is not None:
            self._growing.aborter.abort()

    async def _list(self, listing: "_Listing") -> None:
        try:
            self._complete = await listing.run(self._path)
        except PortError as error:
            self._failure, self._blocks = error, None
        else:
            self._failure, self._blocks = None, listing.index.blocks()
            self._listed_at = time.monotonic()
            self._took_s = self._listed_at - listing.begun_at
        finally:
            self._growing = None
            listing.ended.set()


class _Listing:
    """A list that is being made."""

    def __init__(self) -> None:
        self.index = FileIndex()
        self.begun_at = time.monotonic()
        self.ended = anyio.Event()
        self.aborter = AbortController()
        self._rest = b""

    async def run(self, folder: Path) -> bool:
        """Fill the index; returns whether it has everything."""
        try:
            # In order: what is answered must not depend on which of its threads was faster.
            end = await run_ripgrep(
                ["--files", "--null", "--sort=path", "--", "./"],
                cwd=folder,
                on_output=self._take,
                signal=self.aborter.signal,
            )
        except ToolFailure:  # stopped: nobody asks any more
            return False
        return end.outcome == "finished"

    def _take(self, piece: bytes) -> bool:
        whole, found, rest = piece.rpartition(b"\0")
        if found:
            text = (self._rest + whole).decode("utf-8", "surrogateescape")
            self.index.add([path[2:] for path in text.split("\0")])
            self._rest = rest
        else:
            self._rest += rest
        return self.index.count < _MOST_FILES
