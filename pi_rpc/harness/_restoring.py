"""Putting files back as a checkpoint has them.

Owns what is done to each file and what stands in the way of it. Everything goes through the file
port it is given, which saves what it replaces. Does not own the checkpoint that comes of it
(``pi_rpc.harness.checkpoints``).
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, field

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.ports import FileSystem, PortError
from pi_rpc.harness._checkpoint import Checkpoint, FileKind, SavedFile
from pi_rpc.harness._recording import content_now
from pi_rpc.harness.checkpoint_store import CheckpointStore, StoreError, digest_of

__all__ = ["Conflict", "ConflictReason", "Restored", "restore"]

ConflictReason: TypeAlias = Literal["changed", "notSaved", "failed", "stopped"]


class Conflict(Struct, frozen=True):
    """A file that was left alone."""

    path: Path
    reason: ConflictReason
    message: str


class Restored(Struct):
    """What came of restoring."""

    restored: list[tuple[Path, FileKind]] = field(default_factory=list)
    """Files that are now as they were, and what that did to them."""
    unchanged: list[Path] = field(default_factory=list)
    """Files that were already."""
    conflicts: list[Conflict] = field(default_factory=list)
    undo_id: str | None = None
    """The checkpoint that takes it back; None where nothing was changed."""


async def restore(
    checkpoint: Checkpoint,
    store: CheckpointStore,
    files: FileSystem,
    wanted: set[Path] | None,
    stopped: Callable[[], bool],
) -> Restored:
    """Put back what ``checkpoint`` has, of ``wanted`` or of everything."""
    result = Restored()
    for saved in [*checkpoint.saved, *checkpoint.unsaved]:
        if wanted is not None and saved.path not in wanted:
            continue
        if stopped():
            message = "restoring was stopped before it came to this file"
            result.conflicts.append(Conflict(saved.path, "stopped", message))
            continue
        try:
            done = await _restore_one(saved, store, files, ended=checkpoint.ended)
        except PortError as error:
            result.conflicts.append(Conflict(saved.path, "failed", error.message))
            continue
        if isinstance(done, Conflict):
            result.conflicts.append(done)
        elif done is None:
            result.unchanged.append(saved.path)
        else:
            result.restored.append((saved.path, done))
    await _remove_folders(checkpoint, result, files)
    return result


async def _restore_one(
    saved: SavedFile, store: CheckpointStore, files: FileSystem, *, ended: bool
) -> Conflict | FileKind | None:
    """What was done, None for nothing, or why nothing was."""
    if saved.reason is not None:
        return Conflict(saved.path, "notSaved", saved.reason)
    if await files.real_path(saved.path) != saved.path:
        # What was saved was no link: following one now would write to, or remove, another file.
        return Conflict(saved.path, "changed", "a symbolic link now leads to another file")
    now, mode, problem = await content_now(files, saved.path, store.max_file_bytes)
    if problem:
        return Conflict(saved.path, "changed", problem)
    digest = None if now is None else await run_blocking(digest_of, now)
    if saved.existed and digest == saved.before:
        return await _restore_mode(saved, files, mode)
    if not saved.existed and now is None:
        return None
    # Of a run that was killed it is not known whether the last change took place.
    if digest != saved.after and (ended or digest != saved.previous):
        gone = "it was removed" if now is None else "it was changed"
        return Conflict(saved.path, "changed", f"{gone} since the run ended")
    if not saved.existed:
        await files.remove(saved.path)
        return "deleted"
    try:
        before = await run_blocking(store.get, saved.before or "")
    except StoreError as error:
        return Conflict(saved.path, "notSaved", str(error))
    await files.write(saved.path, before, base=now)
    if saved.mode is not None and (await files.stat(saved.path)).mode != saved.mode:
        await files.set_mode(saved.path, saved.mode)
    return "created" if now is None else "changed"


async def _restore_mode(saved: SavedFile, files: FileSystem, mode: int | None) -> FileKind | None:
    if saved.mode is None or mode is None or mode == saved.mode:
        return None
    await files.set_mode(saved.path, saved.mode)
    return "changed"


async def _remove_folders(checkpoint: Checkpoint, result: Restored, files: FileSystem) -> None:
    """The folders above deleted files that the run made, as far as nothing else is in them.

    Those that it made for one file may hold others, so they come last, the innermost first."""
    made = {folder for saved in checkpoint.saved for folder in saved.folders}
    deleted = [path for path, kind in result.restored if kind == "deleted"]
    emptied = made.intersection(folder for path in deleted for folder in path.parents)
    for folder in sorted(emptied, key=lambda each: len(each.parts), reverse=True):
        with contextlib.suppress(PortError):
            await files.remove(folder)
