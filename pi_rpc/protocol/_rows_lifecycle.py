"""Rows of how a conversation begins and ends."""

from pi_rpc.protocol._method import Method
from pi_rpc.protocol.handshake import InitializeParams, InitializeResult

__all__ = ["ROWS"]

ROWS: tuple[Method, ...] = (
    Method(
        name="initialize",
        exchange="initialize",
        summary="Begins the conversation. Answered before anything that was sent after it is begun;"
        " a second one is an `invalidRequest`.",
        params=InitializeParams,
        result=InitializeResult,
        order="barrier",
    ),
    Method(
        name="initialized",
        exchange="initialize",
        summary="The client has read the answer. Optional, and without effect.",
        is_request=False,
        order="in_turn",
    ),
    Method(
        name="shutdown",
        exchange="end",
        summary="Cancels all work and answers within 200 ms. Events and answers of what was"
        " cancelled may come after it: read on to the end of the output. Further requests are"
        " `invalidRequest`; `exit` may be sent right behind it.",
        order="barrier",
    ),
    Method(
        name="exit",
        exchange="end",
        summary="Ends the process: exit code 0 after `shutdown`, else 1.",
        is_request=False,
        order="in_turn",
    ),
)
