"""What works on sessions whether they are open or not: fork, label, export, delete.

Owns how a request reaches a session that is not open. What is done to its file is the host's.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import UNSET, UnsetType

from pi_rpc.host.host import HostedSession
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.protocol import session_files as f
from pi_rpc.protocol import tree as t
from pi_rpc.protocol.base import Empty
from pi_rpc.protocol.decode import decode_params
from pi_rpc.server.connection import Connection
from pi_rpc.server.convert import wire_text

__all__ = ["HANDLERS", "visited"]


@asynccontextmanager
async def visited(
    connection: Connection, session_id: str | UnsetType, *, read_only: bool = False
) -> AsyncIterator[HostedSession]:
    """The session a request names, open for the moment if it is not; or the default session."""
    if not session_id:
        yield await connection.session(None)
        return
    async with connection.host.visit(session_id, read_only=read_only) as hosted:
        yield hosted


async def handle_fork(connection: Connection, request: Request) -> f.SessionForkResult:
    """Once it has begun, cancelling it does nothing: it is there or it is not."""
    params = decode_params(f.SessionForkParams, request.params)
    request.on_cancel(lambda: None)
    source = params.session_id or (await connection.session(None)).id
    fork = await connection.host.fork(
        source, params.entry_id or None, position=params.position or None
    )
    session, written = fork.hosted.harness.session, fork.written
    return f.SessionForkResult(
        session_id=session.session_id,
        path=UNSET if session.path is None else wire_text(session.path),
        text=UNSET if written is None else written.text,
        images=UNSET if written is None else list(written.images) or UNSET,
        attachments=UNSET if written is None else list(written.attachments) or UNSET,
    )


async def handle_label(connection: Connection, request: Request) -> Empty:
    """While a run goes on, the label is stored at the end of its turn."""
    params = decode_params(t.SessionLabelParams, request.params)
    async with visited(connection, params.session_id) as hosted:
        await hosted.harness.label(params.entry_id, params.label or None)
    return Empty()


async def handle_export(connection: Connection, request: Request) -> f.SessionExportResult:
    """A cancelled one leaves no file."""
    params = decode_params(f.SessionExportParams, request.params)
    session_id = params.session_id or (await connection.session(None)).id
    request.started()
    from pi_rpc.host.export import export_session

    async with connection.host.reading(session_id) as session:
        path = await export_session(
            session,
            params.format,
            Path(params.path) if params.path else None,
            connection.host.cwd,
            overwrite=params.overwrite,
        )
    return f.SessionExportResult(path=wire_text(path))


async def handle_delete(connection: Connection, request: Request) -> Empty:
    """Once it has begun, cancelling it does nothing."""
    params = decode_params(f.SessionDeleteParams, request.params)
    request.on_cancel(lambda: None)
    await connection.host.delete(params.session_id)
    connection.statistics.forget(params.session_id)
    return Empty()


HANDLERS = {
    "session/fork": handle_fork,
    "session/label": handle_label,
    "session/delete": handle_delete,
    "session/export": handle_export,
}
