"""Saving files before a run changes them.

Owns one checkpoint while it grows: what is read before a write, in which order it is stored, and
what became of the files when the run has ended. Does not own the store
(``pi_rpc.harness.checkpoint_store``) nor when a recording begins and ends
(``pi_rpc.harness.checkpoints``).

The order holds whatever is killed when: first the old content is in the store, then the journal
names it and what is about to be written, and only then is the file changed. By then both have
reached the disk; what the journal says of later changes to the file reaches it when the run ends.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import anyio

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.ports import FileChange, FileSystem, PortError
from pi_rpc.harness._checkpoint import Checkpoint, SavedFile, dropped_line
from pi_rpc.harness.checkpoint_store import CheckpointStore, StoreError, digest_of
from pi_rpc.harness.run_diff import ChangedFile, RunDiff, file_diff, joined, unknown_diff

__all__ = ["Recording", "content_now"]


async def content_now(
    files: FileSystem, path: Path, limit: int
) -> tuple[bytes | None, int | None, str]:
    """The content of a file, None where there is none, and its mode; else why it is not known."""
    try:
        status = await files.stat(path)
        if status.kind != "file":
            return None, None, "it is not a regular file any more"
        return await files.read(path, limit=limit), status.mode, ""
    except PortError as error:
        if error.code in {"not_found", "not_directory"}:
            return None, None, ""
        return None, None, error.message


class Recording:
    """The checkpoint of something that changes files."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        store: CheckpointStore,
        files: FileSystem,
        warn: Callable[[str], None],
    ) -> None:
        self.checkpoint = checkpoint
        self._store = store
        self._files = files
        self._warn = warn
        self._lock = anyio.Lock()
        self._told: list[FileChange] = []
        self._commanded: dict[Path, SavedFile] = {}
        """What was noted of files that a command changed before they were saved."""
        self._begun = False
        self._failed = False
        self._bytes = 0

    async def about_to_change(
        self, path: Path, data: bytes | None, base: bytes | None = None, *, exact: bool = False
    ) -> None:
        """A file will be replaced by ``data``, or with None removed; ``base`` is what it holds,
        where that was read just now. Never raises for the sake of saving: what could not be saved
        is named as such in the checkpoint, and told once."""
        async with self._lock:
            try:
                real = path if exact else await self._files.real_path(path)
            except PortError:
                return  # It cannot be written either, which is whoever writes' to say.
            await self._note_told()
            known = self.checkpoint.files.get(real)
            if known is None or known.told is not None:
                await self._first_change(real, data, base)
            elif known.reason is None:
                await run_blocking(self._next_change, known, data)

    async def became(self, path: Path, content: bytes, *, exact: bool = False) -> None:
        """What was written turned into something else, as an editor does it."""
        async with self._lock:
            try:
                real = path if exact else await self._files.real_path(path)
                known = self.checkpoint.files.get(real)
            except PortError:
                return
            if known is not None and known.reason is None:
                known.after = await run_blocking(digest_of, content)
                await run_blocking(self._append_anyway, [known])

    def changed(self, changes: Sequence[FileChange]) -> None:
        """Somebody changed files, perhaps without asking here first, as a command does."""
        self._told.extend(changes)

    @property
    def has_anything(self) -> bool:
        """Something was changed, as far as is known."""
        return bool(self.checkpoint.files or self._told)

    async def finish(self, cwd: Path, *, compare: bool = True) -> RunDiff | None:
        """The run has ended: note how it left the files, and what that comes to as a diff.

        None where nothing was changed; then there is no checkpoint either. Without ``compare`` the
        files are not looked at again, and the checkpoint stays as that of a run that was killed.
        """
        async with self._lock:
            await self._note_told()
            if not self.checkpoint.files:
                return None
            if not compare:
                return RunDiff("", truncated=True)
            diff = await self._compare(cwd)
            return await run_blocking(self._end, diff)

    async def current_diff(self, cwd: Path) -> RunDiff:
        """The changes so far, from what the files were to what they are."""
        diffs: list[RunDiff] = []
        for saved in self.checkpoint.saved:
            limit = self._store.max_file_bytes
            now, mode, problem = await content_now(self._files, saved.path, limit)
            diffs.append(await self._diff_of(saved, now, mode, problem, cwd))
        return await run_blocking(joined, diffs)

    # --- the first change of a file --------------------------------------------------------------

    async def _first_change(self, path: Path, data: bytes | None, before: bytes | None) -> None:
        saved = SavedFile(path, existed=True)
        try:
            status = await self._files.stat(path, exact=True)
        except PortError as error:
            if error.code != "not_found":
                return
            saved.existed, before = False, None
            saved.folders = await self._missing_folders(path)
        else:
            if status.kind != "file":
                return
            saved.mode, saved.size = status.mode, status.size
            limit = self._store.max_file_bytes
            if max(status.size, len(before or b"")) > limit:
                saved.reason = f"it is larger than what is saved ({_megabytes(limit)})"
            elif before is None:
                try:
                    before = await self._files.read(path, limit=limit, exact=True)
                except PortError as error:
                    saved.reason = f"it could not be read: {error.message}"
        if (told := self.checkpoint.files.get(path)) is not None:
            # What a command has done to it before cannot be taken back, and the edit can.
            self._commanded[path] = told
            saved.others = True
        self.checkpoint.files[path] = saved
        await run_blocking(self._save, saved, before, data)

    async def _missing_folders(self, path: Path) -> tuple[Path, ...]:
        missing: list[Path] = []
        for folder in path.parents:
            try:
                await self._files.stat(folder, exact=True)
            except PortError as error:
                if error.code == "not_found":
                    missing.append(folder)
                    continue
            break
        return tuple(missing)

    def _save(self, saved: SavedFile, before: bytes | None, data: bytes | None) -> None:
        kept: dict[str, bytes] = {}
        try:
            if before is not None and saved.reason is None:
                if self._bytes + len(before) > self._store.max_bytes:
                    saved.reason = "what this run has changed is more than all checkpoints may hold"
                else:
                    saved.before = self._store.put(before)
                    self._bytes += len(before)
                    kept[saved.before] = before
            saved.previous = saved.before
            saved.after = None if data is None else digest_of(data)
            self._append([saved])
            if kept:
                self._store.confirm(self.checkpoint.session_id, self.checkpoint.id, kept)
        except OSError as error:
            saved.reason = f"it could not be saved: {error.strerror or error}"
            self._append_anyway([saved])
        if saved.reason is not None:
            self._warn_once(f"{saved.path}: {saved.reason}")

    def _next_change(self, saved: SavedFile, data: bytes | None) -> None:
        saved.previous = saved.after
        saved.after = None if data is None else digest_of(data)
        self._append_anyway([saved])

    async def _note_told(self) -> None:
        """Name what was changed and had not been saved."""
        told, self._told = self._told, []
        new: list[SavedFile] = []
        for change in told:
            try:
                path = await self._files.real_path(change.path)
            except PortError:
                path = change.path
            known = self.checkpoint.files.get(path)
            if known is None:
                known = SavedFile(path, existed=change.kind != "created", told=change.kind)
                known.reason = "it was changed by a command, and nothing had saved it before"
                self.checkpoint.files[path] = known
            elif known.told is None or known.told == change.kind:
                continue
            else:
                known.told = "deleted" if change.kind == "deleted" else "changed"
            new.append(known)
        if new:
            await run_blocking(self._append_anyway, new)

    # --- the journal -----------------------------------------------------------------------------

    def _append(self, files: list[SavedFile]) -> None:
        lines = [each.line() for each in files]
        checkpoint = self.checkpoint
        if not self._begun:
            lines.insert(0, checkpoint.head())
        self._store.append(checkpoint.session_id, checkpoint.id, lines)
        self._begun = True

    def _append_anyway(self, files: list[SavedFile]) -> None:
        try:
            self._append(files)
        except OSError as error:
            self._warn_once(f"the checkpoint could not be written: {error.strerror or error}")

    def _warn_once(self, problem: str) -> None:
        if not self._failed:
            self._failed = True
            self._warn(problem)

    # --- the end ---------------------------------------------------------------------------------

    async def _compare(self, cwd: Path) -> RunDiff:
        diffs: list[RunDiff] = []
        for saved in self.checkpoint.saved:
            limit = self._store.max_file_bytes
            now, mode, problem = await content_now(self._files, saved.path, limit)
            if problem:  # What was written last is what counts.
                diffs.append(unknown_diff(saved.path, cwd, problem))
                continue
            after = None if now is None else await run_blocking(digest_of, now)
            if after != saved.after:
                saved.others = True
                saved.after = after
            saved.previous = after
            as_it_was = now is None and not saved.existed
            if as_it_was or (after == saved.before and mode == saved.mode and saved.existed):
                await run_blocking(self._forget, saved.path)
                continue
            diffs.append(await self._diff_of(saved, now, mode, problem, cwd))
        return await run_blocking(joined, diffs)

    async def _diff_of(
        self, saved: SavedFile, now: bytes | None, mode: int | None, problem: str, cwd: Path
    ) -> RunDiff:
        try:
            before = await run_blocking(self._store.get, saved.before) if saved.before else None
        except StoreError as error:
            problem = str(error)
        if problem:
            return unknown_diff(saved.path, cwd, problem)
        changed = ChangedFile(saved.path, before, now, saved.mode, mode)
        return await file_diff(changed, cwd)

    def _forget(self, path: Path) -> None:
        """Of a file that is as it was saved: what is left is what a command did before."""
        checkpoint = self.checkpoint
        if (told := self._commanded.get(path)) is not None:
            checkpoint.files[path] = told
            self._append_anyway([told])
            return
        del checkpoint.files[path]
        try:
            self._store.append(checkpoint.session_id, checkpoint.id, [dropped_line(path)])
        except OSError as error:
            self._warn_once(f"the checkpoint could not be written: {error.strerror or error}")

    def _end(self, diff: RunDiff) -> RunDiff | None:
        checkpoint, store = self.checkpoint, self._store
        if not checkpoint.files:
            store.drop(checkpoint.session_id, checkpoint.id)
            return None
        checkpoint.ended = True
        checkpoint.diff_truncated = diff.truncated
        try:
            lines = [each.line() for each in checkpoint.files.values()]
            data = diff.text.encode()
            checkpoint.diff = store.put(data)
            if not self._begun:
                lines.insert(0, checkpoint.head())
            store.append(checkpoint.session_id, checkpoint.id, [*lines, checkpoint.end()])
            store.confirm(checkpoint.session_id, checkpoint.id, {checkpoint.diff: data})
            store.prune_if_due()
        except OSError as error:
            self._warn_once(f"the checkpoint could not be written: {error.strerror or error}")
        return diff


def _megabytes(size: int) -> str:
    return f"{size / 2**20:g} MiB"
