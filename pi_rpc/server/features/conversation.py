"""What reshapes a conversation.

Owns when each is answered and what its cancellation means. What they do is the harness's.
"""

from collections.abc import Callable

from pi_rpc.jsonrpc.peer import Request
from pi_rpc.protocol import conversation as c
from pi_rpc.protocol.decode import decode_params
from pi_rpc.server.connection import Connection

__all__ = ["HANDLERS"]


async def handle_compact(connection: Connection, request: Request) -> c.CompactResult:
    """Answers when the summary is stored, or with ``cancelled`` when it was stopped."""
    params = decode_params(c.CompactParams, request.params)
    # It answers its own cancellation; from the first moment on.
    request.on_cancel(lambda: None)
    hosted = await connection.session(params.session_id)
    summary = await hosted.harness.compact(
        params.custom_instructions or None, lambda operation: _begun(request, operation.abort)
    )
    if summary is None:
        return c.CompactResult(cancelled=True)
    return c.CompactResult(
        summary=summary.summary,
        first_kept_entry_id=summary.first_kept_entry_id,
        tokens_before=summary.tokens_before,
        estimated_tokens_after=summary.estimated_tokens_after,
        usage=summary.usage,
        details=summary.details,
    )


HANDLERS = {
    "compact": handle_compact,
}


def _begun(request: Request, abort: Callable[[], None]) -> None:
    """The session is busy with it: later requests may start, and cancelling stops it."""
    request.started()
    request.on_cancel(abort)
