"""``pi-rpc --acp``: claim the streams, answer the handshake, then become the agent.

Owns the first milliseconds of this door, as ``pi_rpc.server.stdio`` does of the native one: nothing
asynchronous and nothing heavy is imported before the reply to ``initialize`` has been written.
Messages are lines, whatever comes first.
"""

import logging
import os
import sys
from typing import TYPE_CHECKING

from pi_rpc._os.signals import EarlySignals, end_if_stuck
from pi_rpc.acp.handshake import greeted
from pi_rpc.jsonrpc.framing import Framing
from pi_rpc.jsonrpc.opening import answer_initialize
from pi_rpc.jsonrpc.stdio import StdioTransport, claim_stdio
from pi_rpc.log import log_to

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["run_acp"]


def run_acp(arguments: "Namespace") -> int:
    """Serve the client at standard input and output; ends the process, or returns an exit code."""
    at_end = None if arguments.drain else end_if_stuck
    transport = StdioTransport(*claim_stdio(), framing=Framing.LINES, at_end=at_end)
    try:
        log_to(arguments.log_level, arguments.log_file)
    except OSError as error:
        reason = error.strerror or error
        sys.stderr.write(f"pi-rpc: cannot write the log file: {arguments.log_file}: {reason}\n")
        return 2
    early = EarlySignals()
    early.leave()
    greeting = answer_initialize(transport, greeted, early.keep)

    import anyio

    from pi_rpc.acp.daemon import serve
    from pi_rpc.host.host import SessionOptions

    defaults = SessionOptions(
        model=arguments.model,
        permission_mode=arguments.permission_mode,
        tools=None if arguments.tools is None else tuple(arguments.tools),
    )
    code = anyio.run(serve, transport, greeting, defaults, arguments.drain, early)
    # Everything has ended in order; what is left is a thread that may still be importing ahead.
    logging.shutdown()
    os._exit(code)
