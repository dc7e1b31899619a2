"""What reshapes a conversation: compacting and branching.

Owns when each is answered and what its cancellation means. What they do is the harness's.
"""

from collections.abc import Callable

from msgspec import UNSET, Raw

from pi_rpc.harness.branching import BranchRequest
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.protocol import conversation as c
from pi_rpc.protocol.decode import decode_params
from pi_rpc.server.connection import Connection

__all__ = ["HANDLERS"]

_ROOT = "root"
"""How a request names the place before the first entry."""


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


async def handle_branch(connection: Connection, request: Request) -> c.BranchResult:
    """Answers when the session stands at the new place, or with ``cancelled``."""
    params = decode_params(c.BranchParams, request.params)
    request.on_cancel(lambda: None)
    hosted = await connection.session(params.session_id)
    outcome = await hosted.harness.branch(
        BranchRequest(
            entry_id=None if params.entry_id == _ROOT else params.entry_id,
            summarize=params.summarize,
            custom_instructions=params.custom_instructions or None,
            replace_instructions=params.replace_instructions,
            label=params.label or None,
        ),
        lambda operation: _begun(request, operation.abort),
    )
    summary = outcome.summary_entry
    return c.BranchResult(
        cancelled=outcome.cancelled,
        leaf_id=outcome.leaf_id,
        editor_text=UNSET if outcome.editor_text is None else outcome.editor_text,
        images=list(outcome.images) or UNSET,
        attachments=list(outcome.attachments) or UNSET,
        summary_entry=UNSET if summary is None else Raw(summary.json),
    )


HANDLERS = {
    "compact": handle_compact,
    "branch": handle_branch,
}


def _begun(request: Request, abort: Callable[[], None]) -> None:
    """The session is busy with it: later requests may start, and cancelling stops it."""
    request.started()
    request.on_cancel(abort)
