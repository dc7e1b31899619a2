"""What several wire types share: names of modes, model references, limits, and ``session/new``.

Owns small structs that cost nothing to import; ``initialize`` can be answered from here and
``handshake`` alone. Does not own anything that takes the agent's structs."""

import sys
from typing import Annotated, Literal, TypeAlias, get_args

from msgspec import UNSET, Meta, UnsetType

from pi_rpc.wire import ThinkingLevel, Wire

__all__ = [
    "PERMISSION_MODES",
    "PROTOCOL_VERSION",
    "THINKING_LEVELS",
    "Count",
    "Empty",
    "Limits",
    "ModelName",
    "ModelRef",
    "PermissionMode",
    "Phase",
    "QueueMode",
    "SessionNewParams",
    "SessionParams",
    "file_path",
]

PROTOCOL_VERSION = 1

PermissionMode: TypeAlias = Literal["ask", "edits", "full", "readonly"]
QueueMode: TypeAlias = Literal["one-at-a-time", "all"]
Phase: TypeAlias = Literal["idle", "turn", "compaction", "branch_summary", "retry"]

PERMISSION_MODES: tuple[str, ...] = get_args(PermissionMode)
THINKING_LEVELS: tuple[str, ...] = get_args(ThinkingLevel)

Count: TypeAlias = Annotated[int, Meta(ge=1)]
"""A whole number of at least one."""


class Empty(Wire, frozen=True, kw_only=True):
    """An object with nothing in it."""


class SessionParams(Wire, frozen=True, kw_only=True):
    """Names a session."""

    session_id: str | UnsetType = UNSET
    """The session; absent: the connection's default session."""


class ModelRef(Wire, frozen=True, kw_only=True):
    """Names a model."""

    provider: str
    """The provider's id, for instance `anthropic`."""
    id: str
    """The provider's name for the model."""


ModelName: TypeAlias = str | ModelRef
"""``"provider/id"``, or the two apart."""


class Limits(Wire, frozen=True, kw_only=True):
    """What a run may use before it ends with `stopReason` `limit`."""

    turns: Count | UnsetType = UNSET
    """Turns."""
    cost_usd: Annotated[float, Meta(gt=0)] | UnsetType = UNSET
    """US dollars."""
    seconds: Annotated[float, Meta(gt=0)] | UnsetType = UNSET
    """Seconds of wall time."""


class SessionNewParams(Wire, frozen=True, kw_only=True):
    """How to begin a session. What is absent comes from the settings."""

    cwd: str | UnsetType = UNSET
    """Working directory, absolute; absent: the connection's."""
    additional_directories: list[str] | UnsetType = UNSET
    """Further directories that tools may work in: absolute, and they must exist."""
    name: str | UnsetType = UNSET
    """A name for people."""
    model: ModelName | UnsetType = UNSET
    """The model, as `"provider/id"` or in two fields."""
    thinking_level: ThinkingLevel | UnsetType = UNSET
    """How much the model should think; taken to the nearest level it offers."""
    permission_mode: PermissionMode | UnsetType = UNSET
    """What tools may do without asking."""
    tools: list[str] | UnsetType = UNSET
    """Names of the tools to offer the model; `[]` for none. Absent: the permission mode decides."""
    system_prompt: str | UnsetType = UNSET
    """Replaces the system prompt."""
    append_system_prompt: str | UnsetType = UNSET
    """Added to the end of the system prompt."""
    ephemeral: bool = False
    """Keep the session in memory only."""
    parent_session: str | UnsetType = UNSET
    """The session that this one comes from: its id, or its file (relative to the connection's
    working directory). Noted in the header."""
    limits: Limits | UnsetType = UNSET
    """What each run may use."""


def file_path(uri: str) -> str | None:
    """The path that a ``file:`` URI names; None for any other URI."""
    if uri[:5].lower() != "file:":
        return None
    path = uri[5:].partition("#")[0].partition("?")[0]
    if path.startswith("//"):
        authority, _, rest = path[2:].partition("/")
        path = f"/{rest}" if authority in {"", "localhost"} else f"//{authority}/{rest}"
    head, *escaped = path.split("%")
    decoded = bytearray(head.encode())
    for piece in escaped:
        if len(piece) >= 2 and _HEX.issuperset(piece[:2]):
            decoded += bytes.fromhex(piece[:2]) + piece[2:].encode()
        else:
            decoded += b"%" + piece.encode()
    path = decoded.decode(errors="replace")
    if sys.platform == "win32" and path[2:3] == ":":
        return path[1:]  # `/c:/x` is how a URI spells the drive path `c:/x`
    return path


_HEX = frozenset("0123456789abcdefABCDEF")
