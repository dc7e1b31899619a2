"""The keys of providers: what is known of them, storing and forgetting them.

Owns the mapping to the wire. No answer holds a key. What may be stored, and where, is
``pi_rpc.host.keys``'s.
"""

import anyio
from msgspec import UNSET

from pi_rpc.harness.credentials import KeyForm
from pi_rpc.host.keys import ProviderKey, key_of, keys, remove_key, store_key
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.protocol import auth as a
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.errors import ProtocolError
from pi_rpc.server.connection import Connection
from pi_rpc.server.convert import wire_text
from pi_rpc.server.late_model import take_default_model

__all__ = ["HANDLERS", "provider_auth"]


async def handle_status(connection: Connection, request: Request) -> a.AuthStatusResult:
    """What is known, without running a command."""
    params = decode_params(a.AuthStatusParams, request.params)
    services = connection.services
    if params.provider is UNSET:
        found = await keys(services)
    else:
        found = [await key_of(services, params.provider)]
    return a.AuthStatusResult(providers=[provider_auth(each) for each in found])


async def handle_set(connection: Connection, request: Request) -> a.AuthSetResult:
    """Answers when the key is in the file; the next request to the provider uses it.

    Sessions that have no model take the default, as far as they are in memory.
    """
    params = decode_params(a.AuthSetParams, request.params)
    field, key, form = _given(params)
    # What was begun is carried out: a cancellation comes too late.
    request.on_cancel(lambda: None)
    with anyio.CancelScope(shield=True):
        stored = await store_key(connection.services, params.provider, key, form, field=field)
        for hosted in connection.host.sessions:
            await take_default_model(connection, hosted)
    return a.AuthSetResult(status=provider_auth(stored))


async def handle_remove(connection: Connection, request: Request) -> a.AuthRemoveResult:
    """Answers when it is no longer in the file."""
    params = decode_params(a.AuthRemoveParams, request.params)
    request.on_cancel(lambda: None)
    with anyio.CancelScope(shield=True):
        removed, left = await remove_key(connection.services, params.provider)
    return a.AuthRemoveResult(removed=removed, status=provider_auth(left))


HANDLERS = {
    "auth/status": handle_status,
    "auth/set": handle_set,
    "auth/remove": handle_remove,
}


def provider_auth(key: ProviderKey) -> a.ProviderAuth:
    """What is known of a credential, as it crosses the wire."""
    fields = key.described()
    for name in ("problem", "hint"):
        if name in fields:
            fields[name] = wire_text(fields[name])
    return a.ProviderAuth(**fields)


def _given(params: a.AuthSetParams) -> tuple[str, str, KeyForm]:
    """The one field that was given, its value and what that is."""
    fields: tuple[tuple[str, object, KeyForm], ...] = (
        ("apiKey", params.api_key, "text"),
        ("apiKeyEnv", params.api_key_env, "variable"),
        ("apiKeyCommand", params.api_key_command, "command"),
    )
    given = [(field, value, form) for field, value, form in fields if isinstance(value, str)]
    if len(given) != 1:
        message = "give exactly one of apiKey, apiKeyEnv and apiKeyCommand"
        raise ProtocolError("invalidParams", message, path="")
    return given[0]
