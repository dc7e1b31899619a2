"""Authenticating: whether there is a model that can be asked, and leaving it.

Owns what the two methods mean where keys are kept in files and in the environment. Storing keys is
the command line's (``pi-rpc auth``).
"""

from pi_rpc._os.threads import run_blocking
from pi_rpc.acp import shapes as s
from pi_rpc.acp.connection import Connection
from pi_rpc.acp.handshake import KEYS
from pi_rpc.harness.errors import HarnessError
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.protocol.base import Empty
from pi_rpc.protocol.decode import decode_params

__all__ = ["HANDLERS", "require_login"]


async def handle_authenticate(connection: Connection, request: Request) -> Empty:
    """Looks again whether a model can be asked."""
    params = decode_params(s.AuthenticateParams, request.params)
    if params.method_id != KEYS:
        text = f"methodId: expected {KEYS!r}; the others are run in a terminal"
        raise HarnessError("invalidParams", text, path="methodId")
    services = connection.services
    await services.look_for_model(connection.defaults.model)
    model, _ = await run_blocking(services.choose_model, connection.defaults.model, None)
    if model is None or not await run_blocking(services.models.authenticated, model):
        raise HarnessError(
            "authRequired",
            "no model can be asked: set a key such as ANTHROPIC_API_KEY where the editor is"
            " started, or store one with `pi-rpc auth set PROVIDER`",
        )
    connection.logged_out = False
    return Empty()


async def handle_logout(connection: Connection, request: Request) -> Empty:
    """Nothing is asked of a model any more; keys stay where they are."""
    del request
    connection.log_out()
    return Empty()


def require_login(connection: Connection) -> None:
    """Refuses after ``logout``."""
    if connection.logged_out:
        raise HarnessError("authRequired", "you have logged out; authenticate first")


HANDLERS = {
    "authenticate": handle_authenticate,
    "logout": handle_logout,
}
