"""Ports: how tools reach files, processes and people.

Owns the interfaces only. Local implementations are in ``pi_rpc.tools``; the host wraps them with
the editor's truth. Paths are absolute. Every method that fails raises ``PortError`` with a text a
model or a person can act on."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct, field

from pi_rpc.agent.review import NobodyReviews, Reviewer
from pi_rpc.agent.seen_files import SeenFiles
from pi_rpc.llm.abort import AbortSignal

__all__ = [
    "Asker",
    "BusyShell",
    "Choice",
    "CommandExit",
    "Document",
    "FileChange",
    "FileChangeKind",
    "FileChanges",
    "FileStat",
    "FileSystem",
    "NobodyAsks",
    "NobodyListens",
    "NoticeLevel",
    "OpenFile",
    "PortError",
    "PortErrorCode",
    "Shell",
    "ToolContext",
    "Written",
]

PortErrorCode: TypeAlias = Literal[
    "not_found",
    "not_permitted",
    "is_directory",
    "not_directory",
    "not_regular",
    "too_large",
    "no_space",
    "changed",
    "spawn_failed",
    "other",
]


class PortError(Exception):
    """A file, process or person could not be reached."""

    def __init__(self, code: PortErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class FileStat(Struct, frozen=True):
    """What is known of a file without reading it."""

    kind: Literal["file", "directory", "other"]
    size: int
    """Bytes."""
    mtime_ns: int
    mode: int


class Document(Struct, frozen=True):
    """A file as an editor shows it, in front of the one on the disk."""

    content: bytes
    """What the file would hold if it were saved, without a byte order mark."""
    version: int
    """The editor's number of this content."""
    disk: Hashable
    """Names what the file on the disk holds; see ``SeenFiles``."""
    is_saved: bool
    """The disk holds the same text, but for line endings and a line break at the end."""


class OpenFile(Protocol):
    """A regular file open for reading."""

    @property
    def document(self) -> Document | None:
        """What is read, where an editor shows it; None: it is the file on the disk."""
        ...

    async def read(self, size: int) -> bytes:
        """The next bytes, at most ``size``; empty at the end."""
        ...

    async def seek(self, offset: int) -> None:
        """Go on reading at a byte offset."""
        ...


class Written(Struct, frozen=True):
    """What became of a write."""

    content: bytes | None = None
    """What the file holds now; None: what was given, byte for byte."""
    altered: bool = False
    """An editor has made something else of it, when it took it or when it saved it."""
    unsaved: str = ""
    """Why it stands in an editor only and the disk has the older content, in words that follow
    "because"; empty: it is on the disk."""
    disk: Hashable | None = None
    """Names what the file holds that an editor has saved; None: the content itself, or older."""


class FileSystem(Protocol):
    """Files, as the person in front of the editor sees them.

    With ``exact`` a path is a real one and only what is there counts: a symlink that has taken its
    place, or that of a directory above it, is not followed but refused with ``not_permitted``. So
    what was looked at before is what is used, whatever happened in between.
    """

    async def stat(self, path: Path, *, exact: bool = False) -> FileStat:
        """Follow symlinks; raises ``not_found`` where nothing is."""
        ...

    async def real_path(self, path: Path) -> Path:
        """The path with symlinks resolved as far as it exists."""
        ...

    async def may_read(self, path: Path) -> bool:
        """Whether reading the file at a real path is permitted here; it need not exist."""
        ...

    def open(self, path: Path, *, exact: bool = False) -> AbstractAsyncContextManager[OpenFile]:
        """Open a regular file; anything else (device, FIFO, directory) is refused, never read."""
        ...

    async def read(self, path: Path, *, limit: int | None = None, exact: bool = False) -> bytes:
        """The whole file; ``too_large`` when it has more than ``limit`` bytes."""
        ...

    async def write(
        self, path: Path, data: bytes, *, base: bytes | None = None, exact: bool = False
    ) -> Written:
        """Replace the file as one step, creating parents; the old content survives a failure.

        Mode and ownership stay; a symlink's target is replaced, not the link. ``base`` is the
        content that ``data`` was made from: what an editor shows is replaced only while it is
        that, and ``changed`` raised otherwise; without ``base`` unsaved changes of the person are
        never replaced. A write to the disk that has begun is finished, also for a cancelled caller.
        """
        ...

    async def unsaved(self, below: Path | None = None) -> Sequence[Path]:
        """Files that an editor has unsaved changes of: those that were read or written here, or
        with ``below`` all that are at this real path or below it."""
        ...

    async def remove(self, path: Path, *, exact: bool = False) -> None:
        """Take a regular file away, or an empty directory; a symlink's target, not the link."""
        ...

    async def set_mode(self, path: Path, mode: int, *, exact: bool = False) -> None:
        """Give a file the permission bits ``mode``, where the system has such."""
        ...


class CommandExit(Struct, frozen=True):
    """How a command ended."""

    exit_code: int | None
    """128 + n when signal n ended it; None when we ended it."""
    reason: Literal["exited", "aborted", "timed_out"]
    duration_s: float


class Shell(Protocol):
    """Runs commands of the person's shell."""

    async def run(
        self,
        command: str,
        *,
        cwd: Path,
        env: Mapping[str, str],
        timeout_s: float | None,
        on_output: Callable[[bytes], None],
        signal: AbortSignal,
    ) -> CommandExit:
        """Run ``command`` with no input, standard output and error merged.

        ``env`` adds to the shell's own environment. ``on_output`` gets bytes as they come, on the
        event loop. On abort and time limit the whole process tree is ended before this returns;
        what a normally finished command left in the background lives until ``aclose``."""
        ...

    async def aclose(self) -> None:
        """End whatever commands left in the background."""
        ...


@runtime_checkable
class BusyShell(Protocol):
    """What a ``Shell`` may offer beside: whether something it started still runs."""

    @property
    def is_busy(self) -> bool:
        """A command runs, or has left something in the background."""
        ...


NoticeLevel: TypeAlias = Literal["info", "warning", "error"]


class Choice(Struct, frozen=True):
    """Something that can be chosen."""

    value: str
    """What is answered when it is."""
    label: str
    """What the person reads."""
    description: str = ""


class Asker(Protocol):
    """Asks the person at the other end.

    A question waits for as long as it takes, or ``timeout_s`` seconds. Cancelling whoever asks
    takes the question back.
    """

    async def confirm(
        self, title: str, message: str = "", *, timeout_s: float | None = None
    ) -> bool:
        """Yes or no; False when nobody can be asked or no answer came."""
        ...

    async def choose(
        self,
        title: str,
        options: Sequence[str | Choice],
        *,
        message: str = "",
        timeout_s: float | None = None,
    ) -> str | None:
        """One of ``options``, by its value; None when nobody can be asked or no answer came."""
        ...

    async def enter(
        self,
        title: str,
        placeholder: str = "",
        *,
        message: str = "",
        prefill: str = "",
        secret: bool = False,
        timeout_s: float | None = None,
    ) -> str | None:
        """A line of text; None when nobody can be asked or no answer came."""
        ...

    async def edit(
        self, title: str, text: str = "", *, message: str = "", timeout_s: float | None = None
    ) -> str | None:
        """``text`` as the person leaves it; None when nobody can be asked or no answer came."""
        ...

    def notify(self, message: str, level: NoticeLevel = "info") -> None:
        """Show something once; nothing happens where nobody is."""
        ...

    def status(self, key: str, text: str | None) -> None:
        """Show ``text`` until the same ``key`` has another one; None takes it away."""
        ...


class NobodyAsks:
    """The ``Asker`` where nobody can be asked."""

    async def confirm(
        self, title: str, message: str = "", *, timeout_s: float | None = None
    ) -> bool:
        """Always False."""
        del title, message, timeout_s
        return False

    async def choose(
        self,
        title: str,
        options: Sequence[str | Choice],
        *,
        message: str = "",
        timeout_s: float | None = None,
    ) -> str | None:
        """Always None."""
        del title, options, message, timeout_s
        return None

    async def enter(
        self,
        title: str,
        placeholder: str = "",
        *,
        message: str = "",
        prefill: str = "",
        secret: bool = False,
        timeout_s: float | None = None,
    ) -> str | None:
        """Always None."""
        del title, placeholder, message, prefill, secret, timeout_s
        return None

    async def edit(
        self, title: str, text: str = "", *, message: str = "", timeout_s: float | None = None
    ) -> str | None:
        """Always None."""
        del title, text, message, timeout_s
        return None

    def notify(self, message: str, level: NoticeLevel = "info") -> None:
        """Nobody sees it."""

    def status(self, key: str, text: str | None) -> None:
        """Nobody sees it."""


FileChangeKind: TypeAlias = Literal["created", "changed", "deleted"]


class FileChange(Struct, frozen=True):
    """A file is not what it was."""

    path: Path
    """Absolute."""
    kind: FileChangeKind


class FileChanges(Protocol):
    """Hears which files a call changed."""

    def changed(self, changes: Sequence[FileChange], tool_call_id: str | None = None) -> None:
        """A call, or a person, has changed these; called once for each call."""
        ...

    def around_command(
        self, cwd: Path, tool_call_id: str | None = None
    ) -> AbstractAsyncContextManager[None]:
        """Within it a command runs in ``cwd``; what it changes is found out as far as that is
        cheap. Never fails."""
        ...


class NobodyListens:
    """The ``FileChanges`` where nobody wants to know."""

    def changed(self, changes: Sequence[FileChange], tool_call_id: str | None = None) -> None:
        """Nobody hears it."""

    def around_command(
        self, cwd: Path, tool_call_id: str | None = None
    ) -> AbstractAsyncContextManager[None]:
        """Nothing is looked at."""
        del cwd, tool_call_id
        return nullcontext()


class ToolContext(Struct, frozen=True):
    """What a tool works in and with. Every tool is given one."""

    cwd: Path
    """The session's working directory, absolute."""
    files: FileSystem
    shell: Shell
    asker: Asker = field(default_factory=NobodyAsks)
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for commands (``PI_SESSION_ID`` and so on), added to the shell's environment."""
    command_timeout_s: float | None = 600.0
    """Default time limit of commands; None for none."""
    supports_images: bool = True
    """The current model can be shown images."""
    seen: SeenFiles = field(default_factory=SeenFiles)
    """What the model knows of files; one for a session."""
    changes: FileChanges = field(default_factory=NobodyListens)
    """Is told which files tools change."""
    reviewer: Reviewer = field(default_factory=NobodyReviews)
    """Has the last word on what the call's edits write."""
    app: Any = None
    """Whatever the application that embeds the agent wants its own tools to reach."""
