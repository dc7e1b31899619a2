"""How much memory this process takes up.

Owns where the system says so.
"""

import os
from pathlib import Path

__all__ = ["resident_bytes"]


def resident_bytes() -> int | None:
    """Bytes in memory now; None where the system does not say it cheaply."""
    try:
        pages = Path("/proc/self/statm").read_bytes().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
