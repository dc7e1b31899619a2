"""GuardedFiles: files of a call that was granted some of them.

Owns judging each path again at the moment of use. Does not own what is granted
(``pi_rpc.harness.permissions.gate``) nor reaching a file without following links (the ports below,
with ``exact``). Together they leave no gap: the path is resolved, the real path is judged, and only
what is at that real path is used; a link that is put there in between is refused.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.ports import FileStat, FileSystem, OpenFile, PortError, Written
from pi_rpc.tools._paths import display_text

__all__ = ["Grant", "GuardedFiles"]


class Grant(Struct, frozen=True):
    """What a call may do with which files. Both judge real paths, which need not exist, and may
    block: they are asked in a file thread."""

    may_read: Callable[[Path], bool]
    """Of a directory that was granted, everything below it as well."""
    may_write: Callable[[Path], bool]
    """What may be written may be read, too."""


class GuardedFiles:
    """The ``FileSystem`` of one call, in front of ``files``.

    What was not granted is refused with ``not_permitted``, before anything is looked at.
    """

    def __init__(self, files: FileSystem, grant: Grant) -> None:
        self._files = files
        self._grant = grant

    # --- reading ---------------------------------------------------------------------------------

    async def stat(self, path: Path, *, exact: bool = False) -> FileStat:
        """As the port below."""
        return await self._files.stat(await self._readable(path, exact), exact=True)

    async def real_path(self, path: Path) -> Path:
        """As the port below; where a path leads is no secret."""
        return await self._files.real_path(path)

    async def may_read(self, path: Path) -> bool:
        """Whether the file at a real path was granted."""
        return await run_blocking(self._may_read, path) and await self._files.may_read(path)

    @asynccontextmanager
    async def open(self, path: Path, *, exact: bool = False) -> AsyncIterator[OpenFile]:
        """As the port below."""
        real = await self._readable(path, exact)
        async with self._files.open(real, exact=True) as file:
            yield file

    async def read(self, path: Path, *, limit: int | None = None, exact: bool = False) -> bytes:
        """As the port below."""
        return await self._files.read(await self._readable(path, exact), limit=limit, exact=True)

    async def unsaved(self, below: Path | None = None) -> Sequence[Path]:
        """As the port below."""
        return await self._files.unsaved(below)

    # --- writing ---------------------------------------------------------------------------------

    async def write(
        self, path: Path, data: bytes, *, base: bytes | None = None, exact: bool = False
    ) -> Written:
        """As the port below."""
        return await self._files.write(
            await self._writable(path, exact), data, base=base, exact=True
        )

    async def remove(self, path: Path, *, exact: bool = False) -> None:
        """As the port below."""
        await self._files.remove(await self._writable(path, exact), exact=True)

    async def set_mode(self, path: Path, mode: int, *, exact: bool = False) -> None:
        """As the port below."""
        await self._files.set_mode(await self._writable(path, exact), mode, exact=True)

    # --- judging ---------------------------------------------------------------------------------

    def _may_read(self, real: Path) -> bool:
        return self._grant.may_read(real) or self._grant.may_write(real)

    async def _readable(self, path: Path, exact: bool) -> Path:
        real = path if exact else await self._files.real_path(path)
        if not await run_blocking(self._may_read, real):
            raise _refusal(path, real, "read")
        return real

    async def _writable(self, path: Path, exact: bool) -> Path:
        real = path if exact else await self._files.real_path(path)
        if not await run_blocking(self._grant.may_write, real):
            raise _refusal(path, real, "changed")
        return real


def _refusal(path: Path, real: Path, done: str) -> PortError:
    name = display_text(str(path))
    if real != path:
        name += f" leads to {display_text(str(real))}, which"
    return PortError(
        "not_permitted", f"{name} may not be {done} by this call: it was not permitted."
    )
