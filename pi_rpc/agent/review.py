"""Review: an edit is looked at before it is written.

Owns what an editing tool shows of the edit it is about to make, and the port through which it does.
Does not own who looks, nor what is asked (``pi_rpc.agent.permission``).
"""

from pathlib import Path
from typing import Protocol

from msgspec import Struct

__all__ = ["NobodyReviews", "ProposedEdit", "Reviewer"]


class ProposedEdit(Struct, frozen=True, kw_only=True):
    """What a tool would make of a file."""

    path: Path
    """The file's real path, absolute."""
    old_text: str | None
    """What it holds now; None: it does not exist, or is no text or too large to be shown."""
    new_text: str
    """What it would hold."""
    is_new: bool = False
    """There is no such file yet."""
    version: int | None = None
    """The editor's version of the document that ``old_text`` is; None: it is from the disk."""


class Reviewer(Protocol):
    """Says what an editing tool writes. Called while no other call can change the file."""

    async def review(self, edit: ProposedEdit, *, moved: bool = False) -> str:
        """The text to write, which may be another than the one proposed.

        ``moved``: the file changed while the same call was looked at before. Raises
        ``ToolFailure`` when nothing is to be written.
        """
        ...


class NobodyReviews:
    """The ``Reviewer`` that takes every edit as it is."""

    async def review(self, edit: ProposedEdit, *, moved: bool = False) -> str:
        """The text proposed."""
        del moved
        return edit.new_text
