"""Where a session is kept: the interface, and what can go wrong.

Owns ``SessionStorage``, which a file (``pi_rpc.session.store``) and memory
(``pi_rpc.session.memory``) implement, and the errors of the package::

    SessionError                    kind
    ├── SessionNotFoundError        sessionNotFound
    ├── SessionCorruptError         sessionCorrupt    no valid header; the file is untouched
    ├── SessionLockedError          sessionLocked     another writer has it; pid
    ├── EntryNotFoundError          entryNotFound
    ├── ForkTargetError             invalidForkTarget
    ├── ForeignChangeError          foreignChange     somebody else wrote to the file; change
    └── SessionStorageError         storage           could not be read or written
        └── SessionReadOnlyError    storage           not open for writing
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal, Protocol, TypeAlias

from msgspec import Struct

from pi_rpc.llm.messages import Usage
from pi_rpc.session.entries import Entry, SessionHeader
from pi_rpc.session.stored import StoredEntry

__all__ = [
    "Change",
    "EntryNotFoundError",
    "ForeignChangeError",
    "ForkTargetError",
    "Label",
    "SessionCorruptError",
    "SessionError",
    "SessionLockedError",
    "SessionNotFoundError",
    "SessionReadOnlyError",
    "SessionStorage",
    "SessionStorageError",
]

Change: TypeAlias = Literal["unchanged", "grown", "replaced"]
"""What others did to a file: nothing, added entries, or put another content in its place."""


class SessionError(Exception):
    """A session could not be found, read or written. ``kind`` is a stable word."""

    kind: ClassVar[str] = "storage"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class SessionNotFoundError(SessionError):
    """There is no such session."""

    kind = "sessionNotFound"


class SessionCorruptError(SessionError):
    """The file has no valid header. It was left as it is."""

    kind = "sessionCorrupt"


class SessionLockedError(SessionError):
    """Another writer has the session open; ``pid`` says which process, where that is known."""

    kind = "sessionLocked"

    def __init__(self, message: str, pid: int | None) -> None:
        super().__init__(message)
        self.pid = pid


class EntryNotFoundError(SessionError):
    """The session has no such entry."""

    kind = "entryNotFound"


class ForkTargetError(SessionError):
    """A session cannot be forked there."""

    kind = "invalidForkTarget"


class ForeignChangeError(SessionError):
    """Another program wrote to the session's file; nothing was appended.

    ``refresh()`` takes over what it wrote.
    """

    kind = "foreignChange"

    def __init__(self, message: str, change: Change) -> None:
        super().__init__(message)
        self.change = change


class SessionStorageError(SessionError):
    """The session could not be read or written; nothing is half done."""

    kind = "storage"


class SessionReadOnlyError(SessionStorageError):
    """The session is not open for writing; the message says why."""


class Label(Struct, frozen=True):
    """A bookmark on an entry."""

    text: str
    timestamp: str
    """When it was put there."""


class SessionStorage(Protocol):
    """A session: its entries as a tree, and a leaf where the next one goes.

    Reading is immediate: what an entry is comes from memory, its content where needed from a local
    file, one line at a time, which raises ``SessionStorageError`` when that is gone. Everything
    else that touches the disk is asynchronous; calls are served one after the other.
    """

    @property
    def header(self) -> SessionHeader:
        """The header."""
        ...

    @property
    def session_id(self) -> str:
        """The session's id."""
        ...

    @property
    def cwd(self) -> str:
        """The working directory the header names."""
        ...

    @property
    def path(self) -> Path | None:
        """The file, which may not exist yet; None for a session that is kept in memory."""
        ...

    @property
    def name(self) -> str | None:
        """The name a person gave it."""
        ...

    @property
    def leaf_id(self) -> str | None:
        """The entry that the next one follows; None at the root."""
        ...

    @property
    def read_only(self) -> bool:
        """Nothing can be appended."""
        ...

    @property
    def notes(self) -> list[str]:
        """What a person should know: why it is read-only, that lines were skipped."""
        ...

    @property
    def message_count(self) -> int:
        """Messages in the whole tree, system messages left out."""
        ...

    def new_id(self) -> str:
        """An id for an entry that is still to be written; no other entry will get it."""
        ...

    @property
    def labels(self) -> Mapping[str, Label]:
        """The bookmarks, by the entry they are on."""
        ...

    def usage_totals(self) -> Usage:
        """What all entries of all branches used: replies, tools, summaries and usage entries."""
        ...

    def branch(self, entry_id: str | None = None) -> Sequence[StoredEntry]:
        """The entries from the root to the leaf, or to ``entry_id``.

        Entries that are appended later do not show in it. Raises ``EntryNotFoundError``.
        """
        ...

    def entry(self, entry_id: str) -> StoredEntry | None:
        """The entry of that id."""
        ...

    def entries(self) -> Sequence[StoredEntry]:
        """All entries of all branches in the order they were written.

        Like a branch, a sequence that reads content as it is asked for: it may be long.
        """
        ...

    async def append(self, entry: Entry, *, strict: bool = True) -> StoredEntry:
        """Add an entry below the leaf and make it the leaf.

        ``parent_id`` of what is given is overruled. A ``LeafEntry`` goes below its target and makes
        that the leaf. On return the entry has been handed to the system: it survives our death,
        and with ``sync`` the machine's. A cancelled caller still gets it written, whole.

        When another program changed the file, ``strict`` raises ``ForeignChangeError``; otherwise
        its entries are taken over first. Raises ``SessionStorageError`` when it cannot be written,
        ``EntryNotFoundError`` for a ``LeafEntry`` without its target and ``ValueError`` for an id
        that is taken; after any of these everything is as before.
        """
        ...

    async def append_many(
        self, entries: Iterable[Entry], *, strict: bool = True
    ) -> list[StoredEntry]:
        """``append`` for several entries, in one write: all of them or none."""
        ...

    async def set_leaf_id(self, target_id: str | None) -> StoredEntry | None:
        """Make an entry the leaf, or with None go back to the root, as of now and of later opens.

        Gives the ``LeafEntry`` that was appended for it; None when it was the leaf already, and
        then nothing was. Raises ``EntryNotFoundError`` and what ``append`` raises.
        """
        ...

    async def sync(self) -> None:
        """Flush what was appended to the disk itself. Raises ``SessionStorageError``."""
        ...

    async def refresh(self) -> Change:
        """Take over what other programs did to the file.

        ``grown``: entries were added, and the leaf is where they put it. ``replaced``: everything
        was read anew. Raises ``SessionStorageError`` when the file is gone or cannot be read,
        ``SessionCorruptError`` when it is no session any more; then everything is as before.
        """
        ...

    async def aclose(self) -> None:
        """Let go of the file, which stays readable while it is there. May be called twice."""
        ...
