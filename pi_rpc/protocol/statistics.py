"""What ``server/stats`` answers.

Owns the structs only; ``pi_rpc.protocol.methods`` says which method has which."""

from msgspec import UNSET, UnsetType

from pi_rpc.llm.messages import Wire

__all__ = ["MemoryUse", "MethodStats", "ServerStatsResult", "SessionCounts"]


class MemoryUse(Wire, frozen=True, kw_only=True):
    """What the process takes up."""

    resident_bytes: int | UnsetType = UNSET
    """Bytes in memory; absent where the system does not say."""
    waiting_bytes: int
    """Bytes of output that the client has not read yet."""


class MethodStats(Wire, frozen=True, kw_only=True):
    """How often a method of the client's was called, and how it went."""

    method: str
    """Its name."""
    count: int
    """Requests, or notifications, that came."""
    errors: int
    """How many were answered with an error."""
    in_flight: int
    """How many have no answer yet."""
    mean_ms: float
    """From arrival to answer, on average; milliseconds."""
    max_ms: float
    """The longest."""


class SessionCounts(Wire, frozen=True, kw_only=True):
    """What went on in a session since it was opened here; unloading does not reset it."""

    session_id: str
    """The session."""
    loaded: bool
    """It is in memory; false: it is idle and was unloaded."""
    prompts: int
    """Messages of the person that were accepted: `prompt`, `steer` and `followUp`."""
    events: int
    """Events that were sent."""
    deltas_merged: int
    """Deltas, and pieces of output, that were sent as part of another one."""
    bytes: int
    """Bytes of the events that were sent, without framing."""


class ServerStatsResult(Wire, frozen=True, kw_only=True):
    """What the daemon has done so far."""

    uptime_seconds: float
    """Since it began to serve."""
    epoch: str
    """Names this life of the daemon; another one has other numbers."""
    in_flight: int
    """Requests without an answer, this one included."""
    refused: int
    """Messages that were answered with an error before they became a request: no JSON-RPC, an
    unknown method, an id in use, too many in flight."""
    memory: MemoryUse
    """What it takes up."""
    methods: list[MethodStats]
    """The methods that were called, in the order of their first call. An `initialize` that was the
    very first frame is not among them: it is answered before anything is counted."""
    sessions: list[SessionCounts]
    """The sessions that are open, unloaded ones included."""
