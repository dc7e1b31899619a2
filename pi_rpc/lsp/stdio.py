"""``pi-rpc --lsp``: claim the streams, answer the handshake, then become the language server.

Owns the first milliseconds of this door, as ``pi_rpc.server.stdio`` does of the native one. The
libraries of this door take longer to import than all the rest: they are, once the editor has its
answer. That they are there at all is looked at before.
"""

import logging
import os
import sys
from typing import TYPE_CHECKING

from pi_rpc._os.signals import EarlySignals, end_if_stuck
from pi_rpc.jsonrpc.framing import Framing
from pi_rpc.jsonrpc.opening import answer_initialize
from pi_rpc.jsonrpc.stdio import StdioTransport, claim_stdio
from pi_rpc.log import log_to
from pi_rpc.lsp.handshake import greet

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["run_lsp"]

_MISSING = (
    "pi-rpc: --lsp needs pygls, which is not installed; install pi-rpc with its extra `lsp`:"
    " pip install 'pi-rpc[lsp]'\n"
)


def run_lsp(arguments: "Namespace") -> int:
    """Serve the editor at standard input and output; ends the process, or returns an exit code."""
    if not _is_installed():
        sys.stderr.write(_MISSING)
        return 2
    at_end = None if arguments.drain else end_if_stuck
    transport = StdioTransport(*claim_stdio(), framing=Framing.HEADERS, at_end=at_end)
    try:
        log_to(arguments.log_level, arguments.log_file)
    except OSError as error:
        reason = error.strerror or error
        sys.stderr.write(f"pi-rpc: cannot write the log file: {arguments.log_file}: {reason}\n")
        return 2
    early = EarlySignals()
    early.leave()
    greeting = answer_initialize(transport, greet, early.keep)

    import anyio

    from pi_rpc.host.host import SessionOptions
    from pi_rpc.lsp.daemon import serve

    defaults = SessionOptions(
        model=arguments.model,
        permission_mode=arguments.permission_mode,
        tools=None if arguments.tools is None else tuple(arguments.tools),
    )
    code = anyio.run(serve, transport, greeting, defaults, arguments.drain, early)
    # Everything has ended in order; what is left is a thread that may still be importing ahead.
    logging.shutdown()
    os._exit(code)


def _is_installed() -> bool:
    from importlib.util import find_spec

    return all(map(find_spec, ("pygls", "lsprotocol")))
