"""The life of this door: from the handshake to the last child's end.

Owns the order of an orderly end, whatever brings it about: end of input, ``exit``, a signal, the
death of the editor's process, a broken pipe. A second signal ends at once.
"""

import logging
import math
import os
from functools import partial

import anyio

from pi_rpc._os.parent import wait_parent_gone
from pi_rpc._os.scratch import remove_abandoned
from pi_rpc._os.signals import EarlySignals, end_on_signal
from pi_rpc._os.threads import run_blocking
from pi_rpc.host.host import SessionOptions
from pi_rpc.host.services import Services
from pi_rpc.jsonrpc.peer import Peer
from pi_rpc.jsonrpc.stdio import Transport
from pi_rpc.lsp.connection import Connection
from pi_rpc.lsp.features import FEATURES
from pi_rpc.lsp.handshake import Greeting

__all__ = ["serve"]

_log = logging.getLogger("pi_rpc.lsp")

# Together with what closing sessions may take this stays below the two seconds of an orderly end.
_GRACE_S = 0.2
_FLUSH_S = 0.5


async def serve(
    transport: Transport,
    greeted: Greeting | None,
    defaults: SessionOptions,
    drain: bool,
    early: EarlySignals,
) -> int:
    """Serve one editor until it goes; returns the exit code. ``greeted``: already initialized."""
    async with anyio.create_task_group() as task_group:
        connection = Connection(FEATURES, Services(), defaults, task_group, drain=drain)
        peer = Peer(
            transport,
            connection,
            grace_s=math.inf if drain else _GRACE_S,
            flush_s=math.inf if drain else _FLUSH_S,
            answers_cancel=lambda method: False,
            makes_room=lambda method: method == "shutdown",
        )
        connection.peer = peer
        if greeted is not None:
            connection.begin(greeted)
        task_group.start_soon(end_on_signal, early, partial(_end, connection))
        task_group.start_soon(_end_with_client, connection)
        task_group.start_soon(_get_ready, connection)
        try:
            await peer.serve()
        finally:
            await connection.aclose()
        exit_code = connection.exit_code or 0
        task_group.cancel_scope.cancel()
    return exit_code


def _end(connection: Connection, exit_code: int) -> None:
    connection.exit_code = exit_code
    if connection.peer is not None:
        # Also with ``--drain``: somebody wants it to end, whether the editor reads or not.
        connection.peer.hurry(grace_s=_GRACE_S, flush_s=_FLUSH_S)
    connection.stop()


async def _end_with_client(connection: Connection) -> None:
    await connection.initialized.wait()
    greeting = connection.greeting
    assert greeting is not None
    process_id = greeting.params.process_id or None
    if process_id is None or process_id == os.getpid():
        return
    try:
        await wait_parent_gone(process_id)
    except (ProcessLookupError, ValueError, OverflowError):
        if not greeting.client_was_there:
            _log.info("the editor's processId %d does not exist here", process_id)
            return
    connection.stop()


async def _get_ready(connection: Connection) -> None:
    """Import what a first prompt needs while the editor is busy with the answer to initialize, and
    then remove what daemons have left that were killed."""
    await connection.services.warm_up(connection.defaults.model)
    await connection.services.look_for_local_servers()
    await run_blocking(remove_abandoned, abandon_on_cancel=True)
