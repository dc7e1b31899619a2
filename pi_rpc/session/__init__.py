"""The append-only session tree on disk. Knows no models.

``JsonlSession`` keeps a session in a file that pi can read too, ``MemorySession`` in memory; a
``SessionRepo`` makes, finds, forks and deletes them; ``build_context`` says what a branch tells the
model.
"""

from pi_rpc.session.context import (
    RUN_SETTLED,
    SessionContext,
    TranscriptItem,
    build_context,
    interrupted,
    transcript,
)
from pi_rpc.session.memory import MemorySession
from pi_rpc.session.repo import Fork, JsonlSessionRepo, MemorySessionRepo, SessionRepo
from pi_rpc.session.storage import (
    Change,
    EntryNotFoundError,
    ForeignChangeError,
    ForkTargetError,
    Label,
    SessionCorruptError,
    SessionError,
    SessionLockedError,
    SessionNotFoundError,
    SessionReadOnlyError,
    SessionStorage,
    SessionStorageError,
)
from pi_rpc.session.store import JsonlSession
from pi_rpc.session.stored import EntryReader, StoredEntry

__all__ = [
    "RUN_SETTLED",
    "Change",
    "EntryNotFoundError",
    "EntryReader",
    "ForeignChangeError",
    "Fork",
    "ForkTargetError",
    "JsonlSession",
    "JsonlSessionRepo",
    "Label",
    "MemorySession",
    "MemorySessionRepo",
    "SessionContext",
    "SessionCorruptError",
    "SessionError",
    "SessionLockedError",
    "SessionNotFoundError",
    "SessionReadOnlyError",
    "SessionRepo",
    "SessionStorage",
    "SessionStorageError",
    "StoredEntry",
    "TranscriptItem",
    "build_context",
    "interrupted",
    "transcript",
]
