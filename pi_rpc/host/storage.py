"""Finding session files: which folder, which file for which id.

Owns the step from settings and ids to paths, and the mapping of storage failures to what a session
refuses. Does not own reading or writing (``pi_rpc.session``).
"""

from pi_rpc.harness.errors import HarnessError, HarnessErrorKind
from pi_rpc.session.storage import SessionError, SessionLockedError

__all__ = ["storage_failure"]


def storage_failure(error: SessionError) -> HarnessError:
    """What a front door tells of a failure to find, read or write a session."""
    kind: HarnessErrorKind
    match error.kind:
        case "sessionNotFound" | "sessionCorrupt" | "sessionLocked" | "entryNotFound" as known:
            kind = known
        case _:
            kind = "storage"
    fields = {"pid": error.pid} if isinstance(error, SessionLockedError) and error.pid else {}
    return HarnessError(kind, error.message, **fields)
