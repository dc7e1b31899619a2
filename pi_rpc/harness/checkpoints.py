"""Checkpoints: what each run of a session changed, kept so that it can be taken back.

Owns when a checkpoint begins and ends, the file port that saves before it writes, and looking at
what there is. Does not own saving (``pi_rpc.harness._recording``), restoring
(``pi_rpc.harness._restoring``), nor where things are kept
(``pi_rpc.harness.checkpoint_store``).

A run that changes nothing costs nothing and leaves nothing. What counts as a file's content is what
the file port reads: of a document that is open in an editor that is the editor's text, saved or
not, and it is restored through the editor as well.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.events import Diagnostic
from pi_rpc.agent.ports import FileChange, FileStat, FileSystem, OpenFile, Written
from pi_rpc.harness._checkpoint import Checkpoint, SavedFile, new_checkpoint_id, read
from pi_rpc.harness._recording import Recording
from pi_rpc.harness._restoring import Restored, restore
from pi_rpc.harness.checkpoint_store import CheckpointStore, StoreError
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.run_diff import RunDiff
from pi_rpc.harness.runs import Run
from pi_rpc.llm.messages import text_of
from pi_rpc.session.entries import MessageEntry
from pi_rpc.session.storage import SessionError, SessionStorage

__all__ = ["Checkpoint", "Checkpoints", "Restored", "SavedFile", "SavingFiles", "SettledChanges"]

_log = logging.getLogger("pi_rpc.harness")

_PREVIEW = 200
_SETTLE_LIMIT_S = 10.0
"""How long the end of a run waits for what it changed to be compared."""


class SettledChanges:
    """What a run changed, once it has settled."""

    __slots__ = ("checkpoint_id", "diff")

    def __init__(self, checkpoint_id: str, diff: RunDiff) -> None:
        self.checkpoint_id = checkpoint_id
        self.diff = diff


class Checkpoints:
    """Those of one session."""

    def __init__(
        self,
        session: SessionStorage,
        store: CheckpointStore,
        files: FileSystem,
        cwd: Path,
        report: Callable[[Diagnostic], None],
    ) -> None:
        self._session = session
        self._store = store
        self._files = files
        self._cwd = cwd
        self._report = report
        self._recording: Recording | None = None
        self.files: FileSystem = SavingFiles(files, lambda: self._recording)
        """``files``, with what is about to be changed saved first."""

    # --- while a run goes on ---------------------------------------------------------------------

    def begin(self, run: Run) -> None:
        """What is changed from now on belongs to ``run``. Costs nothing until something is."""
        if not self._store.max_bytes:
            return
        checkpoint = Checkpoint(
            session_id=self._session.session_id,
            id=new_checkpoint_id(),
            run_id=run.id,
            cwd=str(self._cwd),
        )
        self._recording = _RunRecording(
            checkpoint, self._store, self._files, self._warn, lambda: self._describe(run)
        )

    def changed(self, changes: Sequence[FileChange]) -> None:
        """Files were changed, by whatever it was. Those that had not been saved are named in the
        checkpoint as what cannot be restored."""
        if self._recording is not None:
            self._recording.changed(changes)

    async def settle(self, *, compare: bool = True) -> SettledChanges | None:
        """The run has ended; what it changed, or None. Does not raise. Without ``compare`` nobody
        is there to hear of it, and the files are not looked at."""
        recording, self._recording = self._recording, None
        if recording is None or not recording.has_anything:
            return None
        diff: RunDiff | None = RunDiff("", truncated=True)
        try:
            with anyio.move_on_after(_SETTLE_LIMIT_S) as scope:
                diff = await recording.finish(self._cwd, compare=compare)
            if scope.cancelled_caught:
                self._warn("what the run changed could not be compared in time")
        except Exception as error:  # noqa: BLE001 - the run must settle; it is logged and told
            _log.exception("a checkpoint could not be ended")
            self._warn(f"the checkpoint could not be ended: {type(error).__name__}: {error}")
        return None if diff is None else SettledChanges(recording.checkpoint.id, diff)

    def close(self) -> None:
        """Let go of the store; what is temporary is removed. Blocks."""
        if self._store.is_temporary:
            self._store.close()

    def _describe(self, run: Run) -> tuple[str | None, str]:
        """The entry of the prompt that a run answers, and how it begins."""
        try:
            named = run.prompt_entry_id
            stored = self._session.entry(named) if named else None
            if stored is None:
                said = [each for each in self._session.branch() if each.role == "user"]
                stored = said[-1] if said else None
            if stored is None or not isinstance(stored.entry, MessageEntry):
                return None, ""
            text = " ".join(text_of(stored.entry.message.content).split())
        except SessionError as error:
            _log.warning("the prompt of a checkpoint could not be read: %s", error)
            return run.prompt_entry_id, ""
        shown = text if len(text) <= _PREVIEW else text[: _PREVIEW - 1] + "…"
        return stored.id, shown.encode(errors="replace").decode()

    def _warn(self, problem: str) -> None:
        message = f"not everything that this run changes can be taken back: {problem}"
        self._report(Diagnostic(severity="warning", message=message, source="checkpoints"))

    # --- looking ---------------------------------------------------------------------------------

    async def list(self) -> "list[Checkpoint]":
        """Every checkpoint of the session, the newest first."""
        session_id = self._session.session_id

        def look() -> list[Checkpoint]:
            found = self._store.journals(session_id)
            return [read(session_id, name, lines) for name, lines in reversed(found)]

        return [each for each in await run_blocking(look) if each.files]

    async def find(self, checkpoint_id: str) -> Checkpoint:
        """One of them; raises ``checkpointNotFound``."""
        session_id = self._session.session_id
        lines = await run_blocking(self._store.journal, session_id, checkpoint_id)
        found = read(session_id, checkpoint_id, lines or [])
        if not found.files:
            raise HarnessError(
                "checkpointNotFound",
                f"the session has no checkpoint {_shown(checkpoint_id)}; it may have been pruned",
            )
        return found

    async def diff(self, checkpoint_id: str) -> RunDiff:
        """What a run changed: from what the files were before it to how it left them. Of a run that
        goes on or was killed, to what they are now."""
        checkpoint = await self.find(checkpoint_id)
        if checkpoint.ended and checkpoint.diff is not None:
            try:
                data = await run_blocking(self._store.get, checkpoint.diff)
            except StoreError as error:
                raise HarnessError("storage", f"the diff is lost: {error}") from None
            return RunDiff(data.decode(errors="replace"), checkpoint.diff_truncated)
        recording = Recording(checkpoint, self._store, self._files, self._warn)
        return await recording.current_diff(Path(checkpoint.cwd or self._cwd))

    # --- restoring -------------------------------------------------------------------------------

    async def restore(
        self,
        checkpoint_id: str,
        paths: "Sequence[Path] | None" = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Restored:
        """Put files back as they were before a run: all of it, or those at ``paths``.

        A file that is not as the run left it is a conflict and stays. Nothing must go on in the
        session. What is replaced is saved in a checkpoint of its own, so that restoring that one
        takes this back.
        """
        checkpoint = await self.find(checkpoint_id)
        own = Checkpoint(
            session_id=self._session.session_id,
            id=new_checkpoint_id(),
            kind="restore",
            run_id=checkpoint.run_id,
            entry_id=checkpoint.entry_id,
            text=checkpoint.text,
            cwd=str(self._cwd),
            restored=checkpoint.id,
        )
        recording = Recording(own, self._store, self._files, self._warn)
        with anyio.CancelScope(shield=True):
            result = await restore(
                checkpoint,
                self._store,
                SavingFiles(self._files, lambda: recording),
                None if paths is None else set(paths),
                stopped,
            )
            await recording.finish(self._cwd)
        if own.files:
            result.undo_id = own.id
        return result


def _shown(checkpoint_id: str) -> str:
    return repr(checkpoint_id if len(checkpoint_id) <= 40 else checkpoint_id[:39] + "…")


class _RunRecording(Recording):
    """One that looks up what its run is about when there is something to tell."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        store: CheckpointStore,
        files: FileSystem,
        warn: Callable[[str], None],
        describe: Callable[[], tuple[str | None, str]],
    ) -> None:
        super().__init__(checkpoint, store, files, warn)
        self._describe: Callable[[], tuple[str | None, str]] | None = describe

    def _append(self, files: list[SavedFile]) -> None:
        describe, self._describe = self._describe, None
        if describe is not None:
            self.checkpoint.entry_id, self.checkpoint.text = describe()
        super()._append(files)


class SavingFiles:
    """The ``FileSystem`` port that saves what is about to be changed, and else passes on."""

    def __init__(self, files: FileSystem, recording: Callable[[], Recording | None]) -> None:
        """``recording`` is asked before each change; None: nothing is saved."""
        self.inner = files
        self._recording = recording

    async def stat(self, path: Path, *, exact: bool = False) -> FileStat:
        """As the port below."""
        return await self.inner.stat(path, exact=exact)

    async def real_path(self, path: Path) -> Path:
        """As the port below."""
        return await self.inner.real_path(path)

    async def may_read(self, path: Path) -> bool:
        """As the port below."""
        return await self.inner.may_read(path)

    def open(self, path: Path, *, exact: bool = False) -> AbstractAsyncContextManager[OpenFile]:
        """As the port below."""
        return self.inner.open(path, exact=exact)

    async def read(self, path: Path, *, limit: int | None = None, exact: bool = False) -> bytes:
        """As the port below."""
        return await self.inner.read(path, limit=limit, exact=exact)

    async def write(
        self, path: Path, data: bytes, *, base: bytes | None = None, exact: bool = False
    ) -> Written:
        """Save what is there, then write."""
        recording = self._recording()
        if recording is not None:
            await recording.about_to_change(path, data, base, exact=exact)
        written = await self.inner.write(path, data, base=base, exact=exact)
        if recording is not None and written.content is not None:
            await recording.became(path, written.content, exact=exact)
        return written

    async def unsaved(self, below: Path | None = None) -> Sequence[Path]:
        """As the port below."""
        return await self.inner.unsaved(below)

    async def remove(self, path: Path, *, exact: bool = False) -> None:
        """Save what is there, then remove it."""
        recording = self._recording()
        if recording is not None:
            await recording.about_to_change(path, None, exact=exact)
        await self.inner.remove(path, exact=exact)

    async def set_mode(self, path: Path, mode: int, *, exact: bool = False) -> None:
        """As the port below."""
        await self.inner.set_mode(path, mode, exact=exact)
