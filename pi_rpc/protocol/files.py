"""Params and results of looking for files.

Owns the structs only; ``pi_rpc.protocol.methods`` says which method has which."""

from typing import Annotated, Literal

from msgspec import Meta

from pi_rpc.llm.messages import Wire
from pi_rpc.protocol.base import SessionParams

__all__ = ["FileSearchParams", "FileSearchResult", "FoundFile"]


class FileSearchParams(SessionParams, frozen=True, kw_only=True):
    """What to look for."""

    query: str
    """Parts of a path, set apart by spaces; each may leave letters out. Empty: any file."""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50
    """The most files to name."""


class FoundFile(Wire, frozen=True, kw_only=True):
    """A file or directory."""

    uri: str
    """Its `file:` URI."""
    path: str
    """Its path below the session's working directory, for people to read: what is not Unicode or
    cannot be printed is escaped."""
    kind: Literal["file", "directory"]
    """What it is."""


class FileSearchResult(Wire, frozen=True, kw_only=True):
    """The files that fit, the best first."""

    files: list[FoundFile]
    """At most `limit` of them."""
    truncated: bool
    """There are more, or not all files are known yet."""
