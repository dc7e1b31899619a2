"""Between sessions on disk and what a front door is told of them.

Owns the mapping of storage failures to what a session refuses, and the checks of paths that people
name: directories to work in, files of sessions. Does not own reading or writing
(``pi_rpc.session``).
"""

from collections.abc import Iterable
from pathlib import Path

from pi_rpc.harness.errors import HarnessError, HarnessErrorKind
from pi_rpc.session.storage import ForkTargetError, SessionError, SessionLockedError

__all__ = [
    "existing_directories",
    "existing_directory",
    "missing_directory",
    "names_a_file",
    "session_file",
    "storage_failure",
]


def storage_failure(error: SessionError) -> HarnessError:
    """What a front door tells of a failure to find, read or write a session."""
    if isinstance(error, ForkTargetError):
        return HarnessError("invalidParams", f"entryId: {error.message}", path="entryId")
    kind: HarnessErrorKind
    match error.kind:
        case "sessionNotFound" | "sessionCorrupt" | "sessionLocked" | "entryNotFound" as known:
            kind = known
        case _:
            kind = "storage"
    fields = {"pid": error.pid} if isinstance(error, SessionLockedError) and error.pid else {}
    return HarnessError(kind, error.message, **fields)


def existing_directory(named: Path, field: str) -> Path:
    """The directory itself, links followed. Raises ``invalidParams`` for ``field``. Blocks."""
    if not named.is_absolute():
        raise _invalid(field, "expected an absolute path", named)
    try:
        if named.is_dir():
            return named.resolve()
    except (OSError, ValueError, RuntimeError):
        pass  # A name too long, a NUL, a circle of links: no directory either.
    raise _invalid(field, "expected a directory that exists", named)


def existing_directories(named: Iterable[str], field: str) -> list[str]:
    """``named``, each checked as ``existing_directory`` does. Blocks."""
    found = list(named)
    for place, each in enumerate(found):
        existing_directory(Path(each), f"{field}[{place}]")
    return found


def missing_directory(cwd: Path) -> list[str]:
    """What to tell a person when the directory that a session works in is gone. Blocks."""
    try:
        if cwd.is_dir():
            return []
    except (OSError, ValueError):
        pass  # A session file may say anything.
    return [f"The working directory {cwd} is gone; session/open with a cwd goes on in another one."]


def names_a_file(named: str) -> bool:
    """Of a text that is the id of a session or its file: it is a file's."""
    return named.endswith(".jsonl") or "/" in named or "\\" in named


def session_file(named: Path, cwd: Path, field: str) -> Path:
    """The path of a session file, which need not exist; a relative one is ``cwd``'s. Blocks."""
    if named.suffix != ".jsonl":
        raise _invalid(field, "expected a session file, which ends in .jsonl", named)
    try:
        return (cwd / named).resolve()
    except (OSError, ValueError, RuntimeError):
        raise _invalid(field, "expected a path that can exist", named) from None


def _invalid(field: str, expected: str, named: Path) -> HarnessError:
    text = str(named).encode("utf-8", "replace").decode()
    text = text if len(text) <= 200 else text[:199] + "…"
    return HarnessError("invalidParams", f"{field}: {expected}, got {text!r}", path=field)
