"""Methods of ours that the protocol lacks: steering, follow-ups, compaction, going back.

Owns their answers. ``initialize`` announces them in ``_meta``.
"""

from msgspec import UNSET, UnsetType

from pi_rpc.acp import shapes as s
from pi_rpc.acp.blocks import prompt_of
from pi_rpc.acp.connection import Connection
from pi_rpc.acp.features.authenticating import require_login
from pi_rpc.acp.features.prompting import compact, own_ids
from pi_rpc.harness.branching import BranchRequest
from pi_rpc.harness.queue import QueueKind
from pi_rpc.harness.runs import Run
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.protocol.decode import decode_params
from pi_rpc.wire import Wire

__all__ = ["HANDLERS"]


class SentResult(Wire, frozen=True, kw_only=True):
    """What became of a message."""

    disposition: str
    """``queued``, or ``started`` where the session was idle."""


class CompactResult(Wire, frozen=True, kw_only=True):
    """What became of a compaction."""

    cancelled: bool


class BranchResult(Wire, frozen=True, kw_only=True):
    """Where the session stands now; ``session/load`` shows it."""

    cancelled: bool
    leaf_id: str | None
    text: str | UnsetType = UNSET
    """What the person had said there."""


async def handle_steer(connection: Connection, request: Request) -> SentResult:
    """Says something before the model's next request."""
    return await _send(connection, request, "steer")


async def handle_follow_up(connection: Connection, request: Request) -> SentResult:
    """Says something when the turn would end, which then goes on."""
    return await _send(connection, request, "followUp")


async def handle_compact(connection: Connection, request: Request) -> CompactResult:
    """Shortens the conversation."""
    turn = connection.turns.of(request)
    params = decode_params(s.CompactParams, request.params)
    require_login(connection)
    hosted = await connection.session(params.session_id)
    request.started()
    done = await compact(hosted, turn, params.instructions)
    connection.stream(hosted).flush()
    return CompactResult(cancelled=not done)


async def handle_branch(connection: Connection, request: Request) -> BranchResult:
    """Goes on from another entry."""
    turn = connection.turns.of(request)
    params = decode_params(s.BranchParams, request.params)
    if params.summarize:
        require_login(connection)
    hosted = await connection.session(params.session_id)
    request.started()
    outcome = await hosted.harness.branch(
        BranchRequest(params.entry_id, summarize=params.summarize),
        on_start=lambda operation: turn.stops_by(operation.abort),
    )
    connection.stream(hosted).flush()
    return BranchResult(
        cancelled=outcome.cancelled, leaf_id=outcome.leaf_id, text=outcome.editor_text or UNSET
    )


async def _send(connection: Connection, request: Request, kind: QueueKind) -> SentResult:
    params = decode_params(s.PromptParams, request.params)
    require_login(connection)
    hosted = await connection.session(params.session_id)
    said = await hosted.expanded(prompt_of(params.prompt, next(own_ids)))
    accepted = hosted.harness.send(kind, said)
    # From here on the message is the session's: cancelling the request no longer does anything.
    request.on_cancel(lambda: None)
    return SentResult(disposition="started" if isinstance(accepted, Run) else "queued")


HANDLERS = {
    "_pi/steer": handle_steer,
    "_pi/followUp": handle_follow_up,
    "_pi/compact": handle_compact,
    "_pi/branch": handle_branch,
}
