"""What a session refuses, and why.

Owns ``HarnessError``: one class, because whoever catches it needs a word and the text, not a class.
There are two words: ``kind`` for front doors (the error table in ``protocol.md``), and the coarser
``code`` for applications that embed a harness::

    code               kinds
    busy               sessionBusy
    invalid_argument   invalidParams, checkpointNotFound, entryNotFound, modelNotFound
    invalid_state      modelRequired, nothingToContinue, permissionDenied, unsupported
    auth               authRequired
    session            storage, sessionCorrupt, sessionLocked, sessionNotFound
    compaction         nothingToCompact, and providerError while compacting
    branch_summary     providerError while summarising a branch
    unknown            providerError

A hook that fails raises nothing: it is reported, as ``pi_rpc.harness.hooks`` says.
"""

from typing import Any, Literal, TypeAlias

__all__ = ["HarnessError", "HarnessErrorCode", "HarnessErrorKind"]

HarnessErrorKind: TypeAlias = Literal[
    "authRequired",
    "checkpointNotFound",
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

HarnessErrorCode: TypeAlias = Literal[
    "auth",
    "branch_summary",
    "busy",
    "compaction",
    "invalid_argument",
    "invalid_state",
    "session",
    "unknown",
]

_CODES: dict[HarnessErrorKind, HarnessErrorCode] = {
    "authRequired": "auth",
    "checkpointNotFound": "invalid_argument",
    "entryNotFound": "invalid_argument",
    "invalidParams": "invalid_argument",
    "modelNotFound": "invalid_argument",
    "modelRequired": "invalid_state",
    "nothingToCompact": "compaction",
    "nothingToContinue": "invalid_state",
    "permissionDenied": "invalid_state",
    "sessionBusy": "busy",
    "sessionCorrupt": "session",
    "sessionLocked": "session",
    "sessionNotFound": "session",
    "storage": "session",
    "unsupported": "invalid_state",
}


class HarnessError(Exception):
    """A session cannot do what was asked. The message says what to do instead."""

    def __init__(
        self,
        kind: HarnessErrorKind,
        message: str,
        code: HarnessErrorCode | None = None,
        /,
        **fields: Any,
    ) -> None:
        """``code`` where the kind alone does not tell it; ``fields`` are facts for programs, by
        their wire names."""
        super().__init__(message)
        self.kind: HarnessErrorKind = kind
        self.code: HarnessErrorCode = code or _CODES.get(kind, "unknown")
        self.message = message
        self.fields = fields
