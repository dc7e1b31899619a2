"""Whether a process runs. Light enough for the first milliseconds."""

import os

__all__ = ["is_running"]


def is_running(process_id: int | None) -> bool:
    """There is a process with this id, as far as can be told; None and what is no id: there is
    none."""
    if not process_id or process_id < 0:
        return False
    try:
        os.kill(process_id, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
