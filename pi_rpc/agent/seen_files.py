"""SeenFiles: which content of which files a model has been shown.

Owns the memory, for as long as a session is open. Does not own what names a content
(``pi_rpc.tools._freshness``) nor what follows when one has changed (the tools that write).
"""

from collections.abc import Hashable
from pathlib import Path

__all__ = ["SeenFiles"]

_MOST = 10_000


class SeenFiles:
    """The content that a model has read or written last, by the real paths of files.

    Contents are known by marks, alike for contents that are alike. Of a document that an editor
    shows there are two: what the editor had, and what the file on the disk held below it. Of the
    files seen longest ago nothing is known once there are too many.
    """

    def __init__(self) -> None:
        self._marks: dict[Path, tuple[Hashable, Hashable]] = {}

    def note(self, real_path: Path, mark: Hashable, disk: Hashable | None = None) -> None:
        """The model knows the file as the content that ``mark`` names; ``disk`` names that of the
        file on the disk, where it may be another."""
        self._marks.pop(real_path, None)
        self._marks[real_path] = mark, mark if disk is None else disk
        if len(self._marks) > _MOST:
            del self._marks[next(iter(self._marks))]

    def mark_of(self, real_path: Path) -> Hashable | None:
        """The content that the model knows; None: it has not seen the file."""
        known = self._marks.get(real_path)
        return None if known is None else known[0]

    def disk_of(self, real_path: Path) -> Hashable | None:
        """The content that the file on the disk had then; None: the model has not seen the file."""
        known = self._marks.get(real_path)
        return None if known is None else known[1]
