"""``server/stats``: the daemon in numbers."""

from msgspec import UNSET

from pi_rpc._os.memory import resident_bytes
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.protocol import statistics as s
from pi_rpc.server.connection import Connection

__all__ = ["HANDLERS"]


async def handle_stats(connection: Connection, request: Request) -> s.ServerStatsResult:
    """As of now; whatever the params."""
    del request
    statistics = connection.statistics
    resident = resident_bytes()
    loaded = {hosted.id for hosted in connection.host.sessions}
    counts = {each: connection.events.counters(each) for each in statistics.sessions}
    return s.ServerStatsResult(
        uptime_seconds=round(statistics.uptime_s, 3),
        epoch=statistics.epoch,
        in_flight=connection.peer.in_flight,
        refused=statistics.refusals,
        memory=s.MemoryUse(
            resident_bytes=UNSET if resident is None else resident,
            waiting_bytes=connection.peer.waiting_bytes,
        ),
        methods=[
            s.MethodStats(
                method=name,
                count=each.count,
                errors=each.errors,
                in_flight=each.count - each.answered,
                mean_ms=round(1000 * each.seconds / max(1, each.answered), 3),
                max_ms=round(1000 * each.longest_s, 3),
            )
            for name, each in statistics.methods.items()
        ],
        sessions=[
            s.SessionCounts(
                session_id=session_id,
                loaded=session_id in loaded,
                prompts=each.prompts,
                events=each.events,
                deltas_merged=each.deltas_merged,
                bytes=each.bytes,
            )
            for session_id, each in counts.items()
        ],
    )


HANDLERS = {"server/stats": handle_stats}
