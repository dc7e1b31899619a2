"""The life of a front door: from the handshake to the last child's end.

Owns the order of an orderly end, whatever brings it about: end of input, ``exit``, a signal, the
death of the client's process, a broken pipe. A second signal ends at once.
"""

import logging
import math
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio

from pi_rpc._os.parent import wait_parent_gone
from pi_rpc._os.scratch import remove_abandoned
from pi_rpc._os.signals import end_on_signal
from pi_rpc._os.threads import run_blocking
from pi_rpc.doors.connection import DoorConnection
from pi_rpc.doors.opening import Opening
from pi_rpc.host.services import Services
from pi_rpc.jsonrpc.peer import Peer

if TYPE_CHECKING:
    from pi_rpc.doors.tracing import TraceFile

__all__ = ["serve"]

_log = logging.getLogger("pi_rpc.doors")

# Together with what closing sessions may take this stays below the two seconds of an orderly end.
_GRACE_S = 0.2
_FLUSH_S = 0.5

G = TypeVar("G")


async def serve(opening: Opening[G], connect: Callable[..., DoorConnection[G]]) -> int:
    """Serve one client until it goes; returns the exit code.

    ``connect`` makes the connection, of what ``DoorConnection`` takes.
    """
    async with anyio.create_task_group() as task_group:
        connection = connect(Services(), opening.defaults, task_group, drain=opening.drain)
        peer = Peer(
            opening.transport,
            connection,
            grace_s=math.inf if opening.drain else _GRACE_S,
            flush_s=math.inf if opening.drain else _FLUSH_S,
            answers_cancel=lambda method: method in connection.OWN_ENDS,
            makes_room=lambda method: method in connection.ENDS_OTHERS,
            takes_back=connection.TAKES_BACK,
        )
        connection.join(peer)
        _observe(connection, opening.trace)
        if opening.greeting is not None:
            connection.begin(opening.greeting)
        task_group.start_soon(end_on_signal, opening.early, partial(_end, connection))
        task_group.start_soon(_end_with_client, connection)
        task_group.start_soon(_get_ready, connection)
        try:
            await peer.serve()
        finally:
            await connection.aclose()
        exit_code = connection.exit_code or 0
        task_group.cancel_scope.cancel()
    return exit_code


def _observe(connection: DoorConnection[G], trace: "TraceFile | None") -> None:
    if trace is not None:
        trace.masks = connection.masks
        trace.begin()
    if _log.isEnabledFor(logging.DEBUG):
        from pi_rpc.doors.reporting import DebugLog

        connection.peer.watch(DebugLog(connection.masks))


def _end(connection: DoorConnection[G], exit_code: int) -> None:
    connection.exit_code = exit_code
    # Also with ``--drain``: somebody wants it to end, whether the client reads or not.
    connection.peer.hurry(grace_s=_GRACE_S, flush_s=_FLUSH_S)
    connection.stop()


async def _end_with_client(connection: DoorConnection[G]) -> None:
    await connection.initialized.wait()
    process_id, was_there = connection.client_process
    if process_id is None or process_id == os.getpid():
        return
    try:
        await wait_parent_gone(process_id)
    except (ProcessLookupError, ValueError, OverflowError):
        if not was_there:
            _log.info("the client's processId %d does not exist here", process_id)
            return
    connection.stop()


async def _get_ready(connection: DoorConnection[G]) -> None:
    """Import what a first prompt needs while the client is busy with the answer to initialize, and
    then remove temporary folders of daemons that were killed."""
    await connection.services.warm_up(connection.usual_model)
    await connection.services.look_for_local_servers()
    await connection.initialized.wait()
    await run_blocking(remove_abandoned, abandon_on_cancel=True)
