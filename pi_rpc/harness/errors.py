"""What a session refuses, and why.

Owns ``HarnessError``: one class with a stable ``kind``, because whoever catches it (a front door)
needs the word and the text, not a class. The kinds are those of the error table in ``protocol.md``.
"""

from typing import Any, Literal, TypeAlias

__all__ = ["HarnessError", "HarnessErrorKind"]

HarnessErrorKind: TypeAlias = Literal[
    "authRequired",
    "entryNotFound",
    "invalidParams",
    "modelNotFound",
    "modelRequired",
    "nothingToCompact",
    "nothingToContinue",
    "providerError",
    "permissionDenied",
    "sessionBusy",
    "sessionCorrupt",
    "sessionLocked",
    "sessionNotFound",
    "storage",
    "unsupported",
]


class HarnessError(Exception):
    """A session cannot do what was asked. The message says what to do instead."""

    def __init__(self, kind: HarnessErrorKind, message: str, **fields: Any) -> None:
        """``fields`` are facts for programs, by their wire names."""
        super().__init__(message)
        self.kind: HarnessErrorKind = kind
        self.message = message
        self.fields = fields
