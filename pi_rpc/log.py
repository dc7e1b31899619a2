"""Where the log goes, as the options of a front door say.

Owns the form of its lines. Does not own what is logged.
"""

import logging
from pathlib import Path

__all__ = ["log_to"]


def log_to(level: str | None, file: str | None) -> None:
    """Log to ``file``, or else standard error, from ``level`` (None: ``warn``) up.

    Raises ``OSError`` when the file cannot be written.
    """
    handler = logging.FileHandler(Path(file)) if file else logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("pi_rpc")
    logger.addHandler(handler)
    logger.setLevel((level or "warn").upper())
