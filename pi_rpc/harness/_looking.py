"""Looking at paths that people write, which may be anything: too long, with a NUL, forbidden.

Owns questions that are always answered: what cannot be looked at is not there. ``pathlib`` raises
for some of it.
"""

import os
from pathlib import Path

__all__ = ["exists", "is_file", "is_folder"]


def exists(path: Path) -> bool:
    """Something is there."""
    return os.path.exists(path)  # noqa: PTH110 - never raises


def is_file(path: Path) -> bool:
    """A regular file is there, or a link to one."""
    return os.path.isfile(path)  # noqa: PTH113 - never raises


def is_folder(path: Path) -> bool:
    """A folder is there, or a link to one."""
    return os.path.isdir(path)  # noqa: PTH112 - never raises
