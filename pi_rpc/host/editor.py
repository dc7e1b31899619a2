"""The editor of a session, as the host sees it: which documents it has open, and what may be asked.

Owns the interface and its values. Who answers is the front door's; what is made of the answers is
``pi_rpc.host.edited_files``'.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from pi_rpc.host.text_edits import PositionEncoding, TextEdit

__all__ = ["Applied", "DocumentText", "Editor", "NoAnswerError", "NoEditor", "OpenDocument"]


class NoAnswerError(Exception):
    """The editor did not answer in time, or not with an answer."""


class OpenDocument(Struct, frozen=True):
    """A document that the editor has open, as it said last."""

    uri: str
    """As the editor spells it."""
    path: Path
    """What the URI names, symbolic links not followed."""
    dirty: bool
    """It has changes that are not saved."""


class DocumentText(Struct, frozen=True):
    """A document as the editor shows it."""

    text: str
    version: int
    eol: str
    """What ends its lines in the file; empty: as in ``text``."""


class Applied(Struct, frozen=True):
    """What the editor says of an edit."""

    applied: bool
    reason: str = ""
    """Why not; ``version`` when the document has moved on."""
    saved: bool = False
    """It was saved as well."""


class Editor(Protocol):
    """An editor, for one session."""

    position_encoding: PositionEncoding
    can_edit: bool
    """It can be asked to edit."""
    can_save: bool
    """It can be asked to save."""

    @property
    def documents(self) -> Mapping[str, OpenDocument]:
        """Open documents by their URIs; those that name no file are left out."""
        ...

    async def look(self, path: Path) -> None:
        """Find out whether a file is open, where the editor does not say so by itself."""
        ...

    async def read(self, uri: str) -> DocumentText | None:
        """A document's text; None: it is not open. Raises ``NoAnswerError``."""
        ...

    async def edit(self, uri: str, version: int, edits: Sequence[TextEdit]) -> Applied:
        """Change a document in one step that can be undone. Raises ``NoAnswerError``."""
        ...

    async def save(self, uri: str, version: int) -> bool:
        """Save a document; whether it was. No answer is none."""
        ...


class NoEditor:
    """The ``Editor`` where there is none."""

    position_encoding: PositionEncoding = "utf-16"
    can_edit = False
    can_save = False

    @property
    def documents(self) -> Mapping[str, OpenDocument]:
        """None."""
        return MappingProxyType({})

    async def look(self, path: Path) -> None:
        """None is."""

    async def read(self, uri: str) -> DocumentText | None:
        """None is open."""
        del uri
        return None

    async def edit(self, uri: str, version: int, edits: Sequence[TextEdit]) -> Applied:
        """Nobody answers."""
        raise NoAnswerError

    async def save(self, uri: str, version: int) -> bool:
        """Nobody does."""
        del uri, version
        return False
