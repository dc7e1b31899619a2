"""The first milliseconds of a front door: claim the streams, answer the handshake, then the rest.

Owns their order: nothing asynchronous and nothing heavy is imported before the reply to
``initialize`` has been written. What a door answers, and what it is made of, it says itself.
"""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from msgspec import Raw

from pi_rpc._os.signals import EarlySignals, end_if_stuck
from pi_rpc.jsonrpc.framing import Framing
from pi_rpc.jsonrpc.opening import answer_initialize
from pi_rpc.jsonrpc.stdio import OpeningTransport, StdioTransport, claim_stdio
from pi_rpc.log import log_to

if TYPE_CHECKING:
    from argparse import Namespace

    from pi_rpc.doors.connection import DoorConnection
    from pi_rpc.doors.tracing import TraceFile
    from pi_rpc.host.host import SessionOptions

__all__ = ["Opening", "run_door"]

_USAGE = 2

G = TypeVar("G")


class Opening(NamedTuple, Generic[G]):
    """A client, as it is handed to what serves it."""

    transport: OpeningTransport
    greeting: G | None
    """What it said first; None when that was no ``initialize``, and is still to be read."""
    defaults: "SessionOptions"
    drain: bool
    """At the end of input finish what was accepted instead of aborting it."""
    trace: "TraceFile | None"
    """Records what passes; it has begun to take frames, not to write them."""
    early: EarlySignals


def run_door(
    arguments: "Namespace",
    greet: Callable[[Raw | None], tuple[G, Any]],
    load: "Callable[[], Callable[..., DoorConnection[G]]]",
    *,
    framing: Framing | None = None,
) -> int:
    """Serve the client at standard input and output; ends the process, or returns an exit code.

    ``greet``: as for ``answer_initialize``. ``load`` imports the door; it gives what makes a
    connection of what ``DoorConnection`` takes. ``framing``: None when the client's
    first byte decides.
    """
    # Without a client there is nothing to wait for, unless it asked for what it began.
    at_end = None if arguments.drain else end_if_stuck
    transport: OpeningTransport = StdioTransport(*claim_stdio(), framing=framing, at_end=at_end)
    try:
        log_to(arguments.log_level, arguments.log_file)
    except OSError as error:
        return _cannot_write("log file", arguments.log_file, error)
    trace: TraceFile | None = None
    if arguments.trace:
        from pi_rpc.doors import tracing

        try:
            trace = tracing.TraceFile(Path(arguments.trace))
        except OSError as error:
            return _cannot_write("trace", arguments.trace, error)
        transport = tracing.TracedTransport(transport, trace)
    early = EarlySignals()
    early.leave()
    greeting = answer_initialize(transport, greet, early.keep)

    import anyio

    from pi_rpc.doors.life import serve

    opening = Opening(transport, greeting, _defaults(arguments), arguments.drain, trace, early)
    try:
        code = anyio.run(serve, opening, load())
    finally:
        if trace is not None:
            trace.close()
    # Everything has ended in order; what is left is a thread that may still be importing ahead.
    logging.shutdown()
    os._exit(code)


def _defaults(arguments: "Namespace") -> "SessionOptions":
    from pi_rpc.host.host import SessionOptions

    return SessionOptions(
        model=arguments.model,
        permission_mode=arguments.permission_mode,
        tools=None if arguments.tools is None else tuple(arguments.tools),
    )


def _cannot_write(what: str, path: str, error: OSError) -> int:
    sys.stderr.write(f"pi-rpc: cannot write the {what}: {path}: {error.strerror or error}\n")
    return _USAGE
