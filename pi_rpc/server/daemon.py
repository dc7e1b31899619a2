"""The daemon's life: from the handshake to the last child's end.

Owns the order of an orderly end, whatever brings it about: end of input, ``exit``, a signal, the
death of the client's process, a broken pipe. A second signal ends at once.
"""

import logging
import math
import os
from functools import partial
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from pi_rpc._os.parent import wait_parent_gone
from pi_rpc._os.scratch import remove_abandoned
from pi_rpc._os.signals import EarlySignals, end_on_signal
from pi_rpc._os.threads import run_blocking
from pi_rpc.host.host import SessionOptions
from pi_rpc.host.services import Services
from pi_rpc.jsonrpc.peer import Peer
from pi_rpc.jsonrpc.stdio import Transport
from pi_rpc.server.connection import Connection
from pi_rpc.server.features import FEATURES
from pi_rpc.server.greeting import Greeting

if TYPE_CHECKING:
    from pi_rpc.server.tracing import TraceFile

__all__ = ["DaemonOptions", "serve"]

_log = logging.getLogger("pi_rpc.server")

# Together with what closing sessions may take this stays below the two seconds of an orderly end.
_GRACE_S = 0.2
_FLUSH_S = 0.5

_OWN_END = {"prompt", "continue", "compact", "branch", "bash"}
"""Methods that answer their own cancellation with a result."""

_ENDS_OTHERS = {"abort", "queue/clear", "shutdown"}
"""Methods by which other requests get their answer."""


class DaemonOptions(Struct, frozen=True):
    """How the daemon was started."""

    defaults: SessionOptions
    drain: bool = False
    trace: "TraceFile | None" = None
    """Records what passes; it has begun to take frames, not to write them."""


async def serve(
    transport: Transport, greeted: Greeting | None, options: DaemonOptions, early: EarlySignals
) -> int:
    """Serve one client until it goes; returns the exit code. ``greeted``: already initialized."""
    exit_code = 0
    async with anyio.create_task_group() as task_group:
        connection = Connection(
            FEATURES, Services(), options.defaults, task_group, drain=options.drain
        )
        peer = Peer(
            transport,
            connection,
            grace_s=math.inf if options.drain else _GRACE_S,
            flush_s=math.inf if options.drain else _FLUSH_S,
            answers_cancel=lambda method: method in _OWN_END,
            makes_room=lambda method: method in _ENDS_OTHERS,
            watchers=(connection.statistics,),
        )
        connection.peer = peer
        _observe(connection, peer, options.trace)
        if greeted is not None:
            connection.begin(greeted)
        task_group.start_soon(end_on_signal, early, partial(_end, connection))
        task_group.start_soon(_end_with_client, connection)
        task_group.start_soon(_preload, connection)
        task_group.start_soon(_clear_away, connection)
        try:
            await peer.serve()
        finally:
            await connection.aclose()
        if connection.exit_code is not None:
            exit_code = connection.exit_code
        task_group.cancel_scope.cancel()
    return exit_code


def _observe(connection: Connection, peer: Peer, trace: "TraceFile | None") -> None:
    if trace is not None:
        trace.masks = connection.masks
        trace.begin()
    if _log.isEnabledFor(logging.DEBUG):
        from pi_rpc.server.reporting import DebugLog

        peer.watch(DebugLog(connection.masks))


def _end(connection: Connection, exit_code: int) -> None:
    connection.exit_code = exit_code
    if connection.peer is not None:
        # Also with ``--drain``: somebody wants it to end, whether the client reads or not.
        connection.peer.hurry(grace_s=_GRACE_S, flush_s=_FLUSH_S)
    connection.stop()


async def _end_with_client(connection: Connection) -> None:
    await connection.initialized.wait()
    if connection.process_id is None or connection.process_id == os.getpid():
        return
    try:
        await wait_parent_gone(connection.process_id)
    except (ProcessLookupError, ValueError, OverflowError):
        if not connection.client_was_there:
            _log.info("the client's processId %d does not exist here", connection.process_id)
            return
    connection.stop()


async def _preload(connection: Connection) -> None:
    """Get ready for a first prompt while the client is busy with the answer to initialize."""
    await connection.services.warm_up(connection.usual_model)
    await connection.services.look_for_local_servers()


async def _clear_away(connection: Connection) -> None:
    """Remove temporary folders of daemons that were killed, when nobody is waiting for us."""
    await connection.initialized.wait()
    await run_blocking(remove_abandoned, abandon_on_cancel=True)
