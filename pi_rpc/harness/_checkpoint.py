"""What a checkpoint says: which files a run changed, and what they were before.

Owns the values, and their form as lines of a journal. Pure. Does not own the journal
(``pi_rpc.harness.checkpoint_store``) nor the contents that the digests name.

A journal is a line about the checkpoint, then lines about files, later ones replacing what earlier
ones said, then a line that ends it. One that was never ended belongs to a run that goes on or that
was killed; of such a run it is not known whether the last change to a file took place.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct, field

from pi_rpc.agent.ports import FileChangeKind
from pi_rpc.chance import random_hex
from pi_rpc.llm.messages import now_ms
from pi_rpc.session.entries import iso_now

__all__ = ["Checkpoint", "CheckpointKind", "FileKind", "SavedFile", "new_checkpoint_id", "read"]

CheckpointKind: TypeAlias = Literal["run", "restore"]
FileKind: TypeAlias = FileChangeKind

_VERSION = 1
_KINDS: tuple[FileKind, ...] = get_args(FileKind)


class SavedFile(Struct):
    """A file as it was, and as it was left."""

    path: Path
    """Absolute, links followed."""
    existed: bool
    before: str | None = None
    """The digest of its content; None where there was none, or where it was not saved."""
    after: str | None = None
    """The digest of what it was left with, or is about to be; None where it is gone."""
    previous: str | None = None
    """``after`` of the change before the last one; before the first, ``before``."""
    mode: int | None = None
    size: int = 0
    """Bytes of it before."""
    folders: tuple[Path, ...] = ()
    """Those above it that did not exist, the innermost first."""
    reason: str | None = None
    """Why it cannot be restored."""
    told: FileKind | None = None
    """What is said to have become of it, where it was not saved."""
    others: bool = False
    """Something else than the tools that write files changed it as well."""

    @property
    def kind(self) -> FileKind:
        """What became of it."""
        if self.told is not None:
            return self.told
        if not self.existed:
            return "created"
        return "changed" if self.after is not None or self.reason else "deleted"

    def line(self) -> dict[str, Any]:
        """All of it, for the journal."""
        line: dict[str, Any] = {
            "path": str(self.path),
            "existed": self.existed,
            "before": self.before,
            "after": self.after,
            "previous": self.previous,
            "mode": self.mode,
            "size": self.size,
        }
        if self.folders:
            line["folders"] = [str(each) for each in self.folders]
        if self.reason is not None:
            line["reason"] = self.reason
        if self.told is not None:
            line["told"] = self.told
        if self.others:
            line["others"] = True
        return line


class Checkpoint(Struct):
    """What one run changed, or one restoring."""

    session_id: str
    id: str
    kind: CheckpointKind = "run"
    run_id: str = ""
    time: str = field(default_factory=iso_now)
    entry_id: str | None = None
    """The entry of the prompt."""
    text: str = ""
    """The beginning of the prompt, on one line; of a restoring, of the run that it took back."""
    cwd: str = ""
    restored: str = ""
    """Of a restoring: the checkpoint."""
    files: dict[Path, SavedFile] = field(default_factory=dict)
    ended: bool = False
    diff: str | None = None
    """The digest of the unified diff, once it has ended."""
    diff_truncated: bool = False

    def head(self) -> dict[str, Any]:
        """The first line of the journal."""
        return {
            "v": _VERSION,
            "id": self.id,
            "kind": self.kind,
            "sessionId": self.session_id,
            "runId": self.run_id,
            "time": self.time,
            "entryId": self.entry_id,
            "text": self.text,
            "cwd": self.cwd,
            "restored": self.restored,
            "pid": os.getpid(),
        }

    def end(self) -> dict[str, Any]:
        """The last line of the journal."""
        return {"end": iso_now(), "diff": self.diff, "diffTruncated": self.diff_truncated}

    @property
    def saved(self) -> list[SavedFile]:
        """The files that can be restored, by path."""
        return sorted((f for f in self.files.values() if f.reason is None), key=_path)

    @property
    def unsaved(self) -> list[SavedFile]:
        """The files that cannot, by path."""
        return sorted((f for f in self.files.values() if f.reason is not None), key=_path)


def new_checkpoint_id() -> str:
    """An id; later ones sort after earlier ones."""
    return f"cp_{now_ms():011x}{random_hex(3)}"


def dropped_line(path: Path) -> dict[str, Any]:
    """The journal's line about a file that is as it was after all."""
    return {"path": str(path), "dropped": True}


def read(session_id: str, checkpoint_id: str, lines: Sequence[Mapping[str, Any]]) -> Checkpoint:
    """A checkpoint from its journal. What is no line of ours is passed over."""
    checkpoint = Checkpoint(session_id=session_id, id=checkpoint_id, time="")
    for line in lines:
        if "v" in line:
            _read_head(checkpoint, line)
        elif "end" in line:
            checkpoint.ended = True
            checkpoint.diff = _text(line.get("diff")) or None
            checkpoint.diff_truncated = line.get("diffTruncated") is True
        elif (path := _path_in(line.get("path"))) is not None:
            if line.get("dropped") is True:
                checkpoint.files.pop(path, None)
            else:
                checkpoint.files[path] = _saved(path, line)
    return checkpoint


def _read_head(checkpoint: Checkpoint, line: Mapping[str, Any]) -> None:
    checkpoint.kind = "restore" if line.get("kind") == "restore" else "run"
    checkpoint.run_id = _text(line.get("runId"))
    checkpoint.time = _text(line.get("time"))
    checkpoint.entry_id = _text(line.get("entryId")) or None
    checkpoint.text = _text(line.get("text"))
    checkpoint.cwd = _text(line.get("cwd"))
    checkpoint.restored = _text(line.get("restored"))


def _saved(path: Path, line: Mapping[str, Any]) -> SavedFile:
    mode, size, folders = line.get("mode"), line.get("size"), line.get("folders")
    existed = line.get("existed") is True
    before = _text(line.get("before")) or None
    reason = _text(line.get("reason")) or None
    if existed and before is None:
        reason = reason or "what it was is not in the checkpoint"
    named = folders if isinstance(folders, list) else []
    return SavedFile(
        path=path,
        existed=existed,
        before=before if existed else None,
        after=_text(line.get("after")) or None,
        previous=_text(line.get("previous")) or None,
        mode=mode & 0o7777 if isinstance(mode, int) else None,
        size=size if isinstance(size, int) else 0,
        folders=tuple(found for each in named if (found := _path_in(each)) is not None),
        reason=reason,
        told=next((kind for kind in _KINDS if kind == line.get("told")), None),
        others=line.get("others") is True,
    )


def _path_in(value: object) -> Path | None:
    if not isinstance(value, str) or "\0" in value:
        return None
    path = Path(value)
    return path if path.is_absolute() else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _path(file: SavedFile) -> Path:
    return file.path
