"""Trust in projects: what was decided, and deciding it."""

from pathlib import Path

from msgspec import UNSET, UnsetType

from pi_rpc.host.trusting import ProjectTrust, decide_trust, project_trust
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.protocol import commands as c
from pi_rpc.protocol.decode import decode_params
from pi_rpc.server.connection import Connection
from pi_rpc.server.convert import wire_text

__all__ = ["HANDLERS"]


async def handle_get(connection: Connection, request: Request) -> c.TrustResult:
    """What holds for a project now."""
    params = decode_params(c.TrustParams, request.params)
    return _result(await project_trust(connection.host, _named(params.cwd)))


async def handle_set(connection: Connection, request: Request) -> c.TrustResult:
    """Answers when open sessions of the project have loaded what they may."""
    params = decode_params(c.TrustSetParams, request.params)
    # What was begun is carried out: a cancellation comes too late.
    request.on_cancel(lambda: None)
    trusted = None if params.trusted is UNSET else params.trusted
    return _result(await decide_trust(connection.host, _named(params.cwd), trusted))


HANDLERS = {
    "trust/get": handle_get,
    "trust/set": handle_set,
}


def _named(cwd: str | UnsetType) -> Path | None:
    return Path(cwd) if cwd else None


def _result(trust: ProjectTrust) -> c.TrustResult:
    return c.TrustResult(trusted=trust.trusted, needed=[wire_text(each) for each in trust.needed])
