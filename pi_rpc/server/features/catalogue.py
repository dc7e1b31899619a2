"""What there is to choose from: models and tools; and ping."""

from collections.abc import Sequence

from msgspec import UNSET

from pi_rpc.jsonrpc.peer import Request
from pi_rpc.llm.local_servers import LIMIT_S
from pi_rpc.llm.models import Model
from pi_rpc.protocol import requests as r
from pi_rpc.protocol.base import Empty, SessionParams
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.errors import ProtocolError
from pi_rpc.server.connection import Connection
from pi_rpc.server.convert import model_state

__all__ = ["HANDLERS"]


async def handle_model_list(connection: Connection, request: Request) -> r.ModelListResult:
    """A page of models, and whether there is a credential for each."""
    params = decode_params(r.ModelListParams, request.params)
    registry = connection.host.models
    await connection.host.services.look_for_local_servers(limit_s=LIMIT_S)
    provider = params.provider if params.provider is not UNSET else None
    found = registry.models() if provider is None else registry.models_of(provider)
    words = params.query.casefold().split() if params.query is not UNSET else []
    usable: dict[str, bool] = {}
    for model in found:
        # Asked once for a provider: there are a thousand models and forty of these.
        if model.provider not in usable:
            usable[model.provider] = registry.authenticated(model)
    fitting = [
        model
        for model in found
        if params.authenticated in {UNSET, usable[model.provider]}
        and (not words or _holds(model, words))
    ]
    start = _start(fitting, params.cursor) if params.cursor is not UNSET else 0
    end = len(fitting) if params.limit is UNSET else start + params.limit
    return r.ModelListResult(
        models=[
            r.ModelEntry(
                **model_state(model), cost=model.cost, authenticated=usable[model.provider]
            )
            for model in fitting[start:end]
        ],
        next_cursor=fitting[end - 1].ref if end < len(fitting) else UNSET,
    )


def _holds(model: Model, words: Sequence[str]) -> bool:
    text = f"{model.ref} {model.name}".casefold()
    return all(word in text for word in words)


def _start(models: Sequence[Model], cursor: str) -> int:
    """The place behind the model that a page ended with."""
    for place, model in enumerate(models):
        if model.ref == cursor:
            return place + 1
    raise ProtocolError(
        "invalidParams", "cursor: no page ended there; ask again without it", path="cursor"
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
