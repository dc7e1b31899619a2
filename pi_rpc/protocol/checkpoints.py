"""Params and results of ``checkpoint/*``: what runs changed, and taking it back.

Owns the structs only; ``pi_rpc.protocol.methods`` says which method has which."""

from typing import Literal, TypeAlias

from msgspec import UNSET, UnsetType

from pi_rpc.agent.ports import FileChangeKind
from pi_rpc.llm.messages import Wire
from pi_rpc.protocol.base import Count, SessionParams

__all__ = [
    "CheckpointConflict",
    "CheckpointDiffParams",
    "CheckpointDiffResult",
    "CheckpointFile",
    "CheckpointListParams",
    "CheckpointListResult",
    "CheckpointRestoreParams",
    "CheckpointRestoreResult",
    "CheckpointSummary",
    "RestoredFile",
    "UnsavedFile",
]

CheckpointConflictReason: TypeAlias = Literal["changed", "notSaved", "failed", "stopped"]


class CheckpointListParams(SessionParams, frozen=True, kw_only=True):
    """Which checkpoints."""

    limit: Count = 100
    """At most so many."""
    before: str | UnsetType = UNSET
    """Only those that are older than this one: the last one of the page before."""


class CheckpointFile(Wire, frozen=True, kw_only=True):
    """A file that a run changed and that can be restored."""

    path: str
    """Its absolute path, links followed."""
    uri: str
    """The same as a `file:` URI; exact also where a name is no Unicode."""
    kind: FileChangeKind
    """What became of it."""
    before: str | UnsetType = UNSET
    """SHA-256 of its content before; absent: it did not exist."""
    after: str | UnsetType = UNSET
    """SHA-256 of the content it was left with; absent: it was gone."""
    mode: int | UnsetType = UNSET
    """Its permission bits before."""
    changed_by_others: bool | UnsetType = UNSET
    """True: something else than `edit` and `write`, such as a command or the person, changed it
    during the run as well. Restoring takes that back, too, except for what a command had done
    before the first `edit` or `write`."""


class UnsavedFile(Wire, frozen=True, kw_only=True):
    """A file that a run changed and that cannot be restored."""

    path: str
    """Its absolute path."""
    uri: str
    """The same as a `file:` URI."""
    kind: FileChangeKind
    """What became of it."""
    reason: str
    """Why: a command changed it, it is too large, it could not be saved."""


class CheckpointSummary(Wire, frozen=True, kw_only=True):
    """What one run changed, or one restoring."""

    checkpoint_id: str
    """Names it within its session."""
    session_id: str
    """The session."""
    kind: Literal["run", "restore"]
    """What made the changes."""
    time: str
    """When it began, ISO 8601 in UTC."""
    text: str
    """The beginning of the prompt, on one line; of a restoring, that of what it took back."""
    files: list[CheckpointFile]
    """What can be restored, by path."""
    not_restorable: list[UnsavedFile]
    """What was changed as well, as far as is known, and cannot."""
    settled: bool
    """False: the run goes on, or was killed."""
    run_id: str | UnsetType = UNSET
    """The run; of a restoring, the run that it took back."""
    entry_id: str | UnsetType = UNSET
    """The entry of its prompt."""
    restored: str | UnsetType = UNSET
    """Of a restoring: the checkpoint that was restored."""


class CheckpointListResult(Wire, frozen=True, kw_only=True):
    """Checkpoints, the newest first."""

    checkpoints: list[CheckpointSummary]
    """The checkpoints."""
    has_more: bool
    """There are older ones."""


class CheckpointDiffParams(SessionParams, frozen=True, kw_only=True):
    """Of which checkpoint."""

    checkpoint_id: str
    """The checkpoint."""


class CheckpointDiffResult(Wire, frozen=True, kw_only=True):
    """What a run changed."""

    diff: str
    """One unified diff of all files, as git writes it: from before the run to how the run left
    them; of a run that has not settled, to what they are now. Paths are relative to the session's
    directory. A file that is no text is named only. Lines that begin with `# pi-rpc:` say what is
    missing."""
    truncated: bool
    """Something is missing."""


class CheckpointRestoreParams(SessionParams, frozen=True, kw_only=True):
    """What to restore."""

    checkpoint_id: str
    """The checkpoint."""
    paths: list[str] | UnsetType = UNSET
    """Only these of its files, each as its `path` or its `uri`; absent: all."""


class RestoredFile(Wire, frozen=True, kw_only=True):
    """A file that is as it was before the run."""

    path: str
    """Its absolute path."""
    uri: str
    """The same as a `file:` URI."""
    kind: FileChangeKind
    """What restoring did: `deleted` is what the run had created."""


class CheckpointConflict(Wire, frozen=True, kw_only=True):
    """A file that was left as it is."""

    path: str
    """Its absolute path."""
    uri: str
    """The same as a `file:` URI."""
    reason: CheckpointConflictReason
    """`changed`: it is not as the run left it. `notSaved`: what it was is not, or no longer, in the
    checkpoint. `failed`: it could not be written. `stopped`: restoring was stopped before it."""
    message: str
    """The same for people."""


class CheckpointRestoreResult(Wire, frozen=True, kw_only=True):
    """What came of restoring. Files that were as before already are in neither list."""

    restored: list[RestoredFile]
    """What was put back."""
    conflicts: list[CheckpointConflict]
    """What was not."""
    checkpoint_id: str | UnsetType = UNSET
    """Restoring this one takes it back; absent where nothing was changed."""
