"""What there is to choose from: models and tools; and ping."""

from pi_rpc.jsonrpc.peer import Request
from pi_rpc.protocol import requests as r
from pi_rpc.protocol.base import Empty, SessionParams
from pi_rpc.protocol.decode import decode_params
from pi_rpc.server.connection import Connection
from pi_rpc.server.convert import model_state

__all__ = ["HANDLERS"]


async def handle_model_list(connection: Connection, request: Request) -> r.ModelListResult:
    """Every model, and whether there is a credential for it."""
    del request
    models = connection.host.models
    return r.ModelListResult(
        models=[
            r.ModelEntry(
                **model_state(model), cost=model.cost, authenticated=models.authenticated(model)
            )
            for model in models.models()
        ]
    )


async def handle_tool_list(connection: Connection, request: Request) -> r.ToolListResult:
    """Every tool of the session, and whether the model is offered it."""
    params = decode_params(SessionParams, request.params)
    configuration = (await connection.session(params.session_id)).harness.configuration
    active = {tool.name for tool in configuration.usable_tools()}
    return r.ToolListResult(
        tools=[
            r.ToolEntry(
                name=tool.name,
                label=tool.label,
                description=tool.description,
                kind=tool.kind,
                active=tool.name in active,
            )
            for tool in configuration.tools.values()
        ]
    )


async def handle_ping(connection: Connection, request: Request) -> Empty:
    """``{}``, whatever the params."""
    del connection, request
    return Empty()


HANDLERS = {
    "model/list": handle_model_list,
    "tool/list": handle_tool_list,
    "ping": handle_ping,
}
