"""What a file is before a tool changes it.

Owns looking at it as a whole: its content, whether an editor shows it, and whether it is still the
same when it is looked at again. Does not own whether the model knows it
(``pi_rpc.tools._freshness``).
"""

from pathlib import Path

from msgspec import Struct

from pi_rpc.agent.ports import Document, FileStat, FileSystem, PortError
from pi_rpc.tools._local_files import read_whole

__all__ = ["Base", "base_if_any", "base_of"]


class Base(Struct, frozen=True):
    """What a change is made from."""

    stat: FileStat | None
    """None: there is no such file."""
    data: bytes | None
    """What it holds; None: there is no such file, or it could not be read within the limit."""
    document: Document | None
    """What an editor shows of it; None: it is the file on the disk."""

    def is_same(self, other: "Base") -> bool:
        """Neither has anything that the other has not."""
        if self.data is not None or other.data is not None:
            return self.data == other.data
        if self.stat is None or other.stat is None:
            return self.stat is other.stat
        ours, theirs = self.stat, other.stat
        return (ours.size, ours.mtime_ns) == (theirs.size, theirs.mtime_ns)


async def base_of(files: FileSystem, path: Path, limit: int) -> Base:
    """The file at a real path as it is; ``too_large`` where it has more than ``limit`` bytes."""
    stat = await files.stat(path, exact=True)
    async with files.open(path, exact=True) as file:
        document = file.document
        if document is not None:
            return Base(stat, document.content, document)
        return Base(stat, await read_whole(file, path, limit, known_size=stat.size), None)


async def base_if_any(files: FileSystem, path: Path, limit: int) -> Base:
    """The same where there may be no file, or none that can be read. What is no regular file is
    refused."""
    stat: FileStat | None = None
    try:
        stat = await files.stat(path, exact=True)
        return await base_of(files, path, limit)
    except PortError as error:
        if error.code in {"is_directory", "not_regular"}:
            raise
        if error.code == "not_found":
            stat = None
        elif stat is None:
            raise
    return Base(stat, None, None)
