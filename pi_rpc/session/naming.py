"""Names of session files, their folders and ids, where pi looks for them.

Owns the names only. Does not own which directory is the agent's.
"""

import os
import re
from pathlib import Path

from pi_rpc.chance import now_ms, random_bits
from pi_rpc.session.entries import iso_now

__all__ = [
    "check_session_id",
    "folder_name",
    "new_session_id",
    "session_directory",
    "session_file_name",
    "session_id_in",
    "valid_session_id",
]

_SESSION_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_LONGEST_ID = 200
"""Leaves room for the rest of a file's name, of which systems take 255 bytes."""
_LONGEST_NAME = 255


def valid_session_id(session_id: str) -> bool:
    """Letters, digits, ``.``, ``_`` and ``-``, the first and last a letter or digit."""
    return len(session_id) <= _LONGEST_ID and _SESSION_ID.fullmatch(session_id) is not None


def check_session_id(session_id: str) -> str:
    """The id itself; ``ValueError`` when it is not one."""
    if not valid_session_id(session_id):
        raise ValueError(
            f"{session_id[:60]!r} is no session id: it may have letters, digits, '.', '_' and '-', "
            f"must begin and end with a letter or digit, and at most {_LONGEST_ID} characters"
        )
    return session_id


def new_session_id() -> str:
    """A new UUID of version 7: ids sort by the time they were made."""
    milliseconds = now_ms()
    value = (milliseconds & ((1 << 48) - 1)) << 80 | random_bits(80)
    value = value & ~(0xF << 76) | 0x7 << 76  # version
    value = value & ~(0x3 << 62) | 0x2 << 62  # variant
    text = f"{value:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def folder_name(cwd: str | Path) -> str:
    """The folder of a working directory's sessions, for instance ``--home-me-project--``."""
    path = os.path.abspath(cwd)  # noqa: PTH100 - Path.absolute() would keep ".."
    name = "--" + re.sub(r"[/\\:]", "-", re.sub(r"^[/\\]", "", path)) + "--"
    encoded = os.fsencode(name)
    if len(encoded) <= _LONGEST_NAME:
        return name
    import hashlib

    digest = hashlib.sha256(encoded).hexdigest()[:16]
    start = os.fsdecode(encoded[: _LONGEST_NAME - 40]).encode("utf-8", "ignore")
    return f"{start.decode('utf-8', 'ignore')}-{digest}--"


def session_directory(agent_dir: Path, cwd: str | Path, *, session_dir: Path | None = None) -> Path:
    """Where the sessions of a working directory live.

    ``session_dir`` is a directory that a person chose for all sessions; it has no folders in it.
    """
    return session_dir if session_dir is not None else agent_dir / "sessions" / folder_name(cwd)


def session_file_name(session_id: str, timestamp: str | None = None) -> str:
    """The name of a session's file; ``timestamp`` is that of its header."""
    moment = re.sub(r"[:.]", "-", iso_now() if timestamp is None else timestamp)
    return f"{moment}_{session_id}.jsonl"


def session_id_in(file_name: str) -> str | None:
    """The session id that a file's name carries."""
    stem, dot, suffix = file_name.rpartition(".")
    _, underscore, session_id = stem.partition("_")
    if not dot or suffix != "jsonl" or not underscore or not valid_session_id(session_id):
        return None
    return session_id
