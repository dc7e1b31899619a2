"""The requests that are served: code actions, commands, and what goes on where.

Owns the table of methods, and those of them that only look.
"""

from collections.abc import Mapping
from typing import Any

from pi_rpc.jsonrpc.peer import Request
from pi_rpc.lsp import shapes as s
from pi_rpc.lsp.actions import actions, send_action, stop_action
from pi_rpc.lsp.commands import execute
from pi_rpc.lsp.connection import Connection, Feature
from pi_rpc.protocol.decode import decode_params

__all__ = ["FEATURES"]


async def code_actions(
    connection: Connection, request: Request
) -> list[s.CodeAction] | list[s.Command]:
    """``textDocument/codeAction``."""
    params = decode_params(s.CodeActionParams, request.params)
    uri = params.text_document.uri
    if uri in connection.asks:
        offered = [send_action(uri)]
    else:
        offered = list(actions(params))
        if connection.works.meets(uri, params.range):
            offered.insert(0, stop_action())
    if connection.editor.code_action_literals:
        return offered
    return [each.command for each in offered]


async def hover(connection: Connection, request: Request) -> dict[str, Any] | None:
    """``textDocument/hover``: what goes on there."""
    params = decode_params(s.HoverParams, request.params)
    work = connection.works.at(params.text_document.uri, params.position.line)
    if work is None:
        return None
    return {"contents": {"kind": "plaintext", "value": work.story()}}


FEATURES: Mapping[str, Feature] = {
    "textDocument/codeAction": code_actions,
    "textDocument/hover": hover,
    "workspace/executeCommand": execute,
}
