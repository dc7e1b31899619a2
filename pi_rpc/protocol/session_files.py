"""Params and results of what is done to whole sessions, open or not: fork, delete, export.

Owns the structs only; ``pi_rpc.protocol.methods`` says which method has which."""

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from pi_rpc.llm.messages import ImageBlock, Wire
from pi_rpc.protocol.base import SessionParams

__all__ = [
    "SessionDeleteParams",
    "SessionExportParams",
    "SessionExportResult",
    "SessionForkParams",
    "SessionForkResult",
]


class SessionForkParams(SessionParams, frozen=True, kw_only=True):
    """What the new session is to begin with."""

    entry_id: str | UnsetType = UNSET
    """The last entry of the path that it gets; absent: the whole active branch."""
    position: Literal["before", "at"] | UnsetType = UNSET
    """`at` keeps the entry; `before`, for a message of the user, ends above it and gives back what
    it says. Absent: `before` an entry that is named, else `at`."""


class SessionForkResult(Wire, frozen=True, kw_only=True):
    """The new session, which is open."""

    session_id: str
    """Its id."""
    path: str | UnsetType = UNSET
    """Its file; absent when it is ephemeral, as a fork of an ephemeral session is."""
    text: str | UnsetType = UNSET
    """Text of the user message before which it ends, to be changed and sent."""
    images: list[ImageBlock] | UnsetType = UNSET
    """Its images."""
    attachments: list[Any] | UnsetType = UNSET
    """Its attachments, as they were sent."""


class SessionDeleteParams(Wire, frozen=True, kw_only=True):
    """Which session to delete."""

    session_id: str
    """The session, open or not."""


class SessionExportParams(SessionParams, frozen=True, kw_only=True):
    """What to write, and where."""

    format: Literal["jsonl", "markdown", "html"]
    """`jsonl`: the header and the active branch, a session file that pi and we open. `markdown`:
    for a forge. `html`: one page that needs nothing else."""
    path: str | UnsetType = UNSET
    """The file, whose folder must exist; a relative one is the connection's working directory's.
    Absent: a new file there, `pi-session-…`, named after the session."""
    overwrite: bool = False
    """Replace a file that exists; otherwise it is `invalidParams`."""


class SessionExportResult(Wire, frozen=True, kw_only=True):
    """What was written."""

    path: str
    """The file, absolute."""
