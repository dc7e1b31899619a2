"""``pi-rpc --stdio``: claim the streams, answer the handshake, then become the daemon.

Owns the first milliseconds: nothing asynchronous and nothing heavy is imported before the reply to
``initialize`` has been written.
"""

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pi_rpc._os.signals import EarlySignals, end_if_stuck
from pi_rpc.jsonrpc.stdio import OpeningTransport, StdioTransport, claim_stdio
from pi_rpc.log import log_to
from pi_rpc.server.greeting import answer_first_frame

if TYPE_CHECKING:
    from argparse import Namespace

    from pi_rpc.server.tracing import TraceFile

__all__ = ["run_stdio"]


def run_stdio(arguments: "Namespace") -> int:
    """Serve the client at standard input and output; ends the process, or returns an exit code."""
    # Without a client there is nothing to wait for, unless it asked for what it began.
    transport: OpeningTransport
    transport = StdioTransport(*claim_stdio(), at_end=None if arguments.drain else end_if_stuck)
    try:
        log_to(arguments.log_level, arguments.log_file)
    except OSError as error:
        reason = error.strerror or error
        sys.stderr.write(f"pi-rpc: cannot write the log file: {arguments.log_file}: {reason}\n")
        return 2
    trace: TraceFile | None = None
    if arguments.trace:
        from pi_rpc.server import tracing

        try:
            trace = tracing.TraceFile(Path(arguments.trace))
        except OSError as error:
            reason = error.strerror or error
            sys.stderr.write(f"pi-rpc: cannot write the trace: {arguments.trace}: {reason}\n")
            return 2
        transport = tracing.TracedTransport(transport, trace)
    early = EarlySignals()
    early.leave()
    greeted = answer_first_frame(transport, early.keep)

    import anyio

    from pi_rpc.host.host import SessionOptions
    from pi_rpc.server.daemon import DaemonOptions, serve

    defaults = SessionOptions(
        model=arguments.model,
        permission_mode=arguments.permission_mode,
        tools=None if arguments.tools is None else tuple(arguments.tools),
    )
    options = DaemonOptions(defaults=defaults, drain=arguments.drain, trace=trace)
    code = anyio.run(serve, transport, greeted, options, early)
    if trace is not None:
        trace.close()
    # Everything has ended in order; what is left is a thread that may still be importing ahead.
    logging.shutdown()
    os._exit(code)
