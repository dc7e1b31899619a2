"""``session/events``: what a client missed, once more."""

from pi_rpc.jsonrpc.peer import Request
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.history import SessionEventsParams, SessionEventsResult
from pi_rpc.server.connection import Connection

__all__ = ["HANDLERS"]


async def handle_events(connection: Connection, request: Request) -> SessionEventsResult:
    """Numbers of another epoch say nothing here: nothing is repeated."""
    params = decode_params(SessionEventsParams, request.params)
    hosted = await connection.session(params.session_id)
    if params.epoch and params.epoch != hosted.epoch:
        return SessionEventsResult(
            events=[],
            complete=False,
            epoch=hosted.epoch,
            last_seq=connection.last_seq(hosted),
            has_more=False,
        )
    return connection.events.since(hosted, params.since_seq, params.limit or None)


HANDLERS = {"session/events": handle_events}
