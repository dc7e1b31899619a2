"""Rows of ``session/*``."""

from pi_rpc.protocol import checkpoints as c
from pi_rpc.protocol import history as h
from pi_rpc.protocol import requests as r
from pi_rpc.protocol import session_files as f
from pi_rpc.protocol import tree as t
from pi_rpc.protocol._method import SESSION, Method
from pi_rpc.protocol.base import Empty, SessionNewParams, SessionParams
from pi_rpc.protocol.state import SessionState

__all__ = ["ROWS"]

ROWS: tuple[Method, ...] = (
    Method(
        name="session/new",
        exchange="sessions",
        summary="Begins a session. Its file appears with its first entry.",
        params=SessionNewParams,
        result=SessionState,
        errors=("modelNotFound", "storage"),
    ),
    Method(
        name="session/open",
        exchange="reopen",
        summary="Opens a stored session, by id or by file; one that is open here is answered as it"
        " is. An empty `.jsonl` file opens as a new session.",
        params=r.SessionOpenParams,
        result=SessionState,
        errors=(*SESSION, "sessionLocked", "sessionCorrupt", "storage"),
        order="session",
    ),
    Method(
        name="session/list",
        exchange="reopen",
        summary="Lists stored sessions, the last used first, a page at a time.",
        params=r.SessionListParams,
        result=r.SessionListResult,
    ),
    Method(
        name="session/state",
        exchange="reopen",
        summary="The session as it stands.",
        params=r.SessionStateParams,
        result=SessionState,
        errors=SESSION,
        order="session",
    ),
    Method(
        name="session/configure",
        exchange="settings",
        summary="Changes settings of the session. A model or thinking level changed during a run"
        " takes effect with the next turn. Of a session that is not open, by its id, only `name`"
        " can be changed.",
        params=r.SessionConfigureParams,
        result=SessionState,
        errors=(*SESSION, "storage", "unsupported", "sessionLocked", "sessionCorrupt"),
        order="session",
    ),
    Method(
        name="session/messages",
        exchange="reopen",
        summary="The active branch from its root to its leaf, summaries in their place, the newest"
        " page first. The answer is a cut: it contains every event up to `lastSeq` and none later.",
        params=r.SessionMessagesParams,
        result=r.SessionMessagesResult,
        errors=(*SESSION, "entryNotFound"),
        order="session",
    ),
    Method(
        name="session/entry",
        exchange="reopen",
        summary="One entry, whole.",
        params=r.SessionEntryParams,
        result=r.SessionEntryResult,
        errors=(*SESSION, "entryNotFound"),
        order="session",
    ),
    Method(
        name="session/entries",
        exchange="reopen",
        summary="The entries of the session file, in the order they were stored.",
        params=r.SessionEntriesParams,
        result=r.SessionEntriesResult,
        errors=(*SESSION, "entryNotFound"),
        order="session",
    ),
    Method(
        name="session/tree",
        exchange="branch",
        summary="The entries of all branches in brief, a page at a time: flat, each with its"
        " parent.",
        params=t.SessionTreeParams,
        result=t.SessionTreeResult,
        errors=SESSION,
        order="session",
    ),
    Method(
        name="session/stats",
        exchange="branch",
        summary="How many messages and tool calls are in all branches, and what they used.",
        params=SessionParams,
        result=t.SessionStatsResult,
        errors=SESSION,
        order="session",
    ),
    Method(
        name="session/label",
        exchange="branch",
        summary="Labels an entry, or takes its label off; during a run at the end of the turn. The"
        " session need not be open.",
        params=t.SessionLabelParams,
        result=Empty,
        errors=(*SESSION, "entryNotFound", "storage", "sessionLocked", "sessionCorrupt"),
        order="session",
    ),
    Method(
        name="session/fork",
        exchange="fork",
        summary="Begins a session with what another one holds: its active branch, or the path to an"
        " entry. Both are open then, or the new one alone when the other was not.",
        params=f.SessionForkParams,
        result=f.SessionForkResult,
        errors=(*SESSION, "entryNotFound", "sessionCorrupt", "storage"),
        order="session",
    ),
    Method(
        name="session/export",
        exchange="export",
        summary="Writes the active branch of a session to a file for people, or for another"
        " program. The session need not be open. No permission is asked: the person asked for it.",
        params=f.SessionExportParams,
        result=f.SessionExportResult,
        errors=(*SESSION, "sessionCorrupt", "storage"),
        order="session",
    ),
    Method(
        name="session/events",
        exchange="events",
        summary="Repeats events that the client missed, as far back as they are kept: see"
        " [Events](#events).",
        params=h.SessionEventsParams,
        result=h.SessionEventsResult,
        errors=SESSION,
        order="session",
    ),
    Method(
        name="session/close",
        exchange="sessions",
        summary="Ends the session's run and its background commands, discards its queue, and"
        " forgets it here. The file stays. Once the default session was closed, the next request"
        " that names none begins another one, with another id.",
        params=r.SessionCloseParams,
        result=Empty,
        errors=("sessionNotFound",),
        order="session",
    ),
    Method(
        name="session/delete",
        exchange="fork",
        summary="Moves the file of a session to the trash; a session that is open is closed first.",
        params=f.SessionDeleteParams,
        result=Empty,
        errors=("sessionNotFound", "sessionLocked", "storage"),
        order="session",
    ),
    Method(
        name="checkpoint/list",
        exchange="checkpoints",
        summary="The checkpoints of a session, the newest first: what each run changed that changed"
        " anything. The session need not be open.",
        params=c.CheckpointListParams,
        result=c.CheckpointListResult,
        errors=(*SESSION, "sessionCorrupt", "storage"),
        order="session",
    ),
    Method(
        name="checkpoint/diff",
        exchange="checkpoints",
        summary="What a run changed, as one unified diff of up to 1 MiB. The session need not be"
        " open.",
        params=c.CheckpointDiffParams,
        result=c.CheckpointDiffResult,
        errors=(*SESSION, "checkpointNotFound", "sessionCorrupt", "storage"),
        order="session",
    ),
    Method(
        name="checkpoint/restore",
        exchange="checkpoints",
        summary="Puts files back as they were before a run, if they are as the run left them: other"
        " files are conflicts and stay. Files that the run created are deleted. What is replaced is"
        " saved in a checkpoint of its own, so that restoring that one takes this back. The session"
        " must be open and idle; nothing else begins in it meanwhile.",
        params=c.CheckpointRestoreParams,
        result=c.CheckpointRestoreResult,
        errors=(*SESSION, "checkpointNotFound", "sessionBusy", "permissionDenied", "storage"),
        order="session",
    ),
)
