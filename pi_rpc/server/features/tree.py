"""The tree of a session: looking at it, counting what is in it."""

import msgspec
from msgspec import UNSET

from pi_rpc.jsonrpc.errors import invalid_params
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.protocol import tree as t
from pi_rpc.protocol.base import SessionParams
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.state import ContextUsage, TokenTotals
from pi_rpc.server.connection import Connection
from pi_rpc.session.tree import session_stats, tree_page

__all__ = ["HANDLERS"]


async def handle_tree(connection: Connection, request: Request) -> t.SessionTreeResult:
    """A page of the whole tree."""
    params = decode_params(t.SessionTreeParams, request.params)
    hosted = await connection.session(params.session_id)
    request.started()
    try:
        page = await tree_page(
            hosted.harness.session,
            query=params.query or None,
            limit=params.limit,
            cursor=params.cursor or None,
        )
    except ValueError as error:
        raise invalid_params(f"cursor: {error}", path="cursor") from None
    return t.SessionTreeResult(
        nodes=[
            t.TreeNode(
                entry_id=node.entry_id,
                type=node.type,
                preview=node.preview,
                timestamp=node.timestamp,
                parent_id=node.parent_id or UNSET,
                role=node.role or UNSET,
                label=node.label or UNSET,
            )
            for node in page.nodes
        ],
        leaf_id=page.leaf_id,
        next_cursor=page.next_cursor or UNSET,
    )


async def handle_stats(connection: Connection, request: Request) -> t.SessionStatsResult:
    """Counts, and what the session's state says of its use."""
    params = decode_params(SessionParams, request.params)
    harness = (await connection.session(params.session_id)).harness
    request.started()
    stats = await session_stats(harness.session)
    usage = harness.usage_fields()
    return t.SessionStatsResult(
        user_messages=stats.user_messages,
        assistant_messages=stats.assistant_messages,
        tool_calls=stats.tool_calls,
        tool_results=stats.tool_results,
        total_messages=stats.total_messages,
        tokens=msgspec.convert(usage["tokens"], TokenTotals),
        cost=usage["cost"],
        context_usage=msgspec.convert(usage["contextUsage"], ContextUsage)
        if "contextUsage" in usage
        else UNSET,
    )


HANDLERS = {
    "session/tree": handle_tree,
    "session/stats": handle_stats,
}
