"""Rules about permission: which there are, and forgetting what was answered."""

from pathlib import Path

from msgspec import UNSET

from pi_rpc.host.permission_rules import forget_rule, rules_of
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.protocol import permissions as p
from pi_rpc.protocol.base import Empty
from pi_rpc.protocol.decode import decode_params
from pi_rpc.server.connection import Connection
from pi_rpc.server.convert import wire_text

__all__ = ["HANDLERS"]


async def handle_list(connection: Connection, request: Request) -> p.PermissionListResult:
    """Those of settings, then what was answered."""
    params = decode_params(p.PermissionListParams, request.params)
    held = await rules_of(connection.host, Path(params.cwd) if params.cwd else None)
    return p.PermissionListResult(
        rules=[
            p.PermissionRule(
                effect=each.rule.effect,
                rule=wire_text(each.rule.text),
                words=wire_text(each.rule.words),
                source=each.source,
                id=each.id or UNSET,
                session_id=each.session_id or UNSET,
            )
            for each in held
        ]
    )


async def handle_forget(connection: Connection, request: Request) -> Empty:
    """Answers when it does not count any more."""
    params = decode_params(p.PermissionForgetParams, request.params)
    # What was begun is carried out: a cancellation comes too late.
    request.on_cancel(lambda: None)
    await forget_rule(connection.host, params.id)
    return Empty()


HANDLERS = {
    "permission/list": handle_list,
    "permission/forget": handle_forget,
}
