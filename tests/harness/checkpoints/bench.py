"""What the tests of checkpoints share: those of a session over a folder, and pictures of it."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pi_rpc.agent.events import Diagnostic
from pi_rpc.agent.ports import FileSystem
from pi_rpc.harness.checkpoint_store import CheckpointStore
from pi_rpc.harness.checkpoints import Checkpoints, SettledChanges
from pi_rpc.harness.runs import Run
from pi_rpc.session.memory import MemorySession
from pi_rpc.tools import LocalFiles

Picture = dict[bytes, tuple[Any, ...]]


def picture(folder: Path) -> Picture:
    """Everything below a folder: kinds, modes, contents and targets."""
    found: Picture = {}
    root = os.fsencode(folder)
    for path, folders, files in os.walk(root):
        for name in folders + files:
            each = os.path.join(path, name)
            status = os.lstat(each)
            if stat.S_ISLNK(status.st_mode):
                shown: tuple[Any, ...] = ("link", os.readlink(each))
            elif stat.S_ISDIR(status.st_mode):
                shown = ("folder",)
            else:
                shown = ("file", stat.S_IMODE(status.st_mode), Path(os.fsdecode(each)).read_bytes())
            found[os.path.relpath(each, root)] = shown
    return found


@dataclass
class Bench:
    """The checkpoints of one session, and what they had to say."""

    cwd: Path
    store: CheckpointStore
    below: FileSystem = field(default_factory=LocalFiles)
    told: list[Diagnostic] = field(default_factory=list)
    checkpoints: Checkpoints = field(init=False)

    def __post_init__(self) -> None:
        session = MemorySession(self.cwd)
        self.checkpoints = Checkpoints(session, self.store, self.below, self.cwd, self.told.append)
        self.session = session

    def again(self) -> "Bench":
        """The same session as another process would open it."""
        other = Bench(self.cwd, self.store, self.below)
        other.session = self.session
        other.checkpoints = Checkpoints(
            self.session, self.store, self.below, self.cwd, other.told.append
        )
        return other

    async def write(self, name: str, data: bytes | str) -> None:
        """Write as a tool does."""
        content = data.encode() if isinstance(data, str) else data
        await self.checkpoints.files.write(self.cwd / name, content)

    async def run(self, changes: dict[str, bytes | str]) -> SettledChanges | None:
        """A run that writes these files."""
        self.checkpoints.begin(Run())
        for name, data in changes.items():
            await self.write(name, data)
        return await self.checkpoints.settle()


def bench(tmp_path: Path, **limits: Any) -> Bench:
    """In an empty project, with an empty store."""
    cwd = tmp_path / "project"
    cwd.mkdir(exist_ok=True)
    return Bench(cwd, CheckpointStore(tmp_path / "store", **limits))


def each_file(folder: Path, act: Callable[[Path], None]) -> int:
    """Do something to every regular file below a folder; how many there were."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    for path in found:
        act(path)
    return len(found)
