"""The life of this door: from the handshake to the last child's end.

Owns the order of an orderly end, whatever brings it about: end of input, a signal, a broken pipe.
The protocol names no process of the client's and knows no ``exit``: its end is the end of input.
"""

import math
from functools import partial

import anyio

from pi_rpc._os.scratch import remove_abandoned
from pi_rpc._os.signals import EarlySignals, end_on_signal
from pi_rpc._os.threads import run_blocking
from pi_rpc.acp.connection import Connection
from pi_rpc.acp.features import FEATURES
from pi_rpc.acp.handshake import InitializeParams
from pi_rpc.host.host import SessionOptions
from pi_rpc.host.services import Services
from pi_rpc.jsonrpc.peer import Peer
from pi_rpc.jsonrpc.stdio import Transport

__all__ = ["serve"]

# Together with what closing sessions may take this stays below the two seconds of an orderly end.
_GRACE_S = 0.2
_FLUSH_S = 0.5

_OWN_END = {"session/prompt", "_pi/compact", "_pi/branch"}
"""Methods that answer their own cancellation with a result."""

_ENDS_OTHERS = {"session/close", "session/delete"}
"""Methods by which other requests get their answer."""


async def serve(
    transport: Transport,
    greeted: InitializeParams | None,
    defaults: SessionOptions,
    drain: bool,
    early: EarlySignals,
) -> int:
    """Serve one client until it goes; returns the exit code. ``greeted``: already initialized."""
    async with anyio.create_task_group() as task_group:
        connection = Connection(FEATURES, Services(), defaults, task_group, drain=drain)
        peer = Peer(
            transport,
            connection,
            grace_s=math.inf if drain else _GRACE_S,
            flush_s=math.inf if drain else _FLUSH_S,
            answers_cancel=lambda method: method in _OWN_END,
            makes_room=lambda method: method in _ENDS_OTHERS,
            watchers=(connection.turns,),
            takes_back=("$/cancel_request", "requestId"),
        )
        connection.peer = peer
        if greeted is not None:
            connection.begin(greeted)
        task_group.start_soon(end_on_signal, early, partial(_end, connection))
        task_group.start_soon(_get_ready, connection)
        try:
            await peer.serve()
        finally:
            await connection.aclose()
        exit_code = connection.exit_code
        task_group.cancel_scope.cancel()
    return exit_code


def _end(connection: Connection, exit_code: int) -> None:
    connection.exit_code = exit_code
    if connection.peer is not None:
        # Also with ``--drain``: somebody wants it to end, whether the client reads or not.
        connection.peer.hurry(grace_s=_GRACE_S, flush_s=_FLUSH_S)
    connection.stop()


async def _get_ready(connection: Connection) -> None:
    """Import what a first prompt needs while the client is busy with the answer to initialize, and
    then remove what daemons have left that were killed."""
    await connection.services.warm_up(connection.defaults.model)
    await connection.services.look_for_local_servers()
    await run_blocking(remove_abandoned, abandon_on_cancel=True)
