"""Sessions: new, load, resume, list, close, delete, and what is chosen in them.

Owns the order of what is heard: history before the answer of ``session/load``, everything else of
a session after the answer by which the client knows it.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import UNSET

from pi_rpc._os.threads import run_blocking
from pi_rpc.acp import shapes as s
from pi_rpc.acp.connection import Connection
from pi_rpc.acp.features.authenticating import require_login
from pi_rpc.acp.options import choose, config_options, modes
from pi_rpc.acp.replay import history
from pi_rpc.agent.events import Diagnostic
from pi_rpc.harness.errors import HarnessError
from pi_rpc.host.host import HostedSession, SessionOptions
from pi_rpc.host.storage import existing_directories, existing_directory
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.protocol.base import Empty
from pi_rpc.protocol.decode import decode_params
from pi_rpc.wire import Wire

__all__ = ["HANDLERS"]

_PAGE = 50
_LONGEST_TITLE = 200


class ListedSession(Wire, frozen=True, kw_only=True):
    """A stored session."""

    session_id: str
    cwd: str
    title: str
    updated_at: str


class ListResult(Wire, frozen=True, kw_only=True):
    """The result of ``session/list``."""

    sessions: list[ListedSession]
    next_cursor: str | None = None


class ConfigResult(Wire, frozen=True, kw_only=True):
    """The result of ``session/set_config_option``."""

    config_options: list[s.ConfigSelect]


async def handle_new(connection: Connection, request: Request) -> s.SessionState:
    """A new session."""
    params = decode_params(s.NewParams, request.params)
    require_login(connection)
    options = SessionOptions(
        cwd=Path(params.cwd), additional_directories=tuple(params.additional_directories)
    )
    hosted = await connection.host.create(options)
    _introduce(connection, request, hosted, params)
    return _state(connection, hosted, hosted.id)


async def handle_load(connection: Connection, request: Request) -> s.SessionState:
    """A stored session, with everything that was said in it."""
    hosted = await _opened(connection, request)
    stream = connection.stream(hosted)
    await stream.replay(history(hosted, stream.updates.ended))
    return _state(connection, hosted)


async def handle_resume(connection: Connection, request: Request) -> s.SessionState:
    """A stored session, with nothing of what was said."""
    return _state(connection, await _opened(connection, request))


async def handle_list(connection: Connection, request: Request) -> ListResult:
    """Stored sessions, the one used last first."""
    params = decode_params(s.ListParams, request.params)
    if params.cwd and not os.path.isabs(params.cwd):  # noqa: PTH117 - a text is what came
        raise HarnessError("invalidParams", "cwd: expected an absolute path", path="cwd")
    page = await connection.host.stored.page(
        cwd=params.cwd or None, query=None, limit=_PAGE, cursor=params.cursor or None
    )
    return ListResult(
        sessions=[
            ListedSession(
                session_id=each.session_id,
                cwd=_text(each.cwd),
                title=_title(each.name or each.first_message),
                updated_at=each.modified,
            )
            for each in page.sessions
        ],
        next_cursor=page.next_cursor,
    )


async def handle_close(connection: Connection, request: Request) -> Empty:
    """Stops what goes on and lets go of a session; the file stays."""
    params = decode_params(s.SessionParams, request.params)
    await connection.session(params.session_id)
    connection.cancel(params.session_id)
    await connection.host.close(params.session_id)
    return Empty()


async def handle_delete(connection: Connection, request: Request) -> Empty:
    """Throws a session away; one that is not there is as good as thrown away."""
    params = decode_params(s.SessionParams, request.params)
    connection.cancel(params.session_id)
    try:
        await connection.host.delete(params.session_id)
    except HarnessError as error:
        if error.kind != "sessionNotFound":
            raise
    return Empty()


async def handle_set_mode(connection: Connection, request: Request) -> Empty:
    """Another permission mode, in the way of before there were config options."""
    params = decode_params(s.SetModeParams, request.params)
    hosted = await connection.session(params.session_id)
    try:
        await choose(hosted, connection.services, "mode", params.mode_id)
    except HarnessError as error:
        if error.kind != "invalidParams":
            raise
        text = "modeId: expected one of the modes"
        raise HarnessError("invalidParams", text, path="modeId") from None
    connection.stream(hosted).flush()
    return Empty()


async def handle_set_config(connection: Connection, request: Request) -> ConfigResult:
    """Another choice; answers with all of them."""
    params = decode_params(s.SetConfigParams, request.params)
    hosted = await connection.session(params.session_id)
    await choose(hosted, connection.services, params.config_id, params.value)
    connection.stream(hosted).flush()
    return ConfigResult(config_options=config_options(hosted, connection.services))


HANDLERS = {
    "session/new": handle_new,
    "session/load": handle_load,
    "session/resume": handle_resume,
    "session/list": handle_list,
    "session/close": handle_close,
    "session/delete": handle_delete,
    "session/set_mode": handle_set_mode,
    "session/set_config_option": handle_set_config,
}


async def _opened(connection: Connection, request: Request) -> HostedSession:
    params = decode_params(s.ResumeParams, request.params)
    require_login(connection)
    cwd, directories = await run_blocking(_checked, params.cwd, params.additional_directories)
    if connection.host.has(params.session_id):
        hosted = await connection.host.get(params.session_id)
    else:
        hosted = await connection.host.open(session_id=params.session_id, cwd=Path(params.cwd))
    hosted.harness.configuration.additional_directories = directories
    _introduce(connection, request, hosted, params)
    if hosted.harness.configuration.cwd != cwd:
        text = (
            f"The session is open and goes on in {hosted.harness.configuration.cwd}; close it first"
        )
        hosted.harness.report(
            Diagnostic(severity="warning", message=f"{text} to go on in {cwd}.", source="session")
        )
    return hosted


def _checked(cwd: str, additional: Sequence[str]) -> tuple[Path, list[str]]:
    return existing_directory(Path(cwd), "cwd"), existing_directories(
        additional, "additionalDirectories"
    )


def _introduce(
    connection: Connection, request: Request, hosted: HostedSession, params: s.NewParams
) -> None:
    """What there is to tell of a session is told when the client has the answer."""
    stream = connection.stream(hosted)
    stream.hold()
    if params.mcp_servers:
        names = ", ".join(each.name for each in params.mcp_servers)
        text = f"MCP servers are not supported yet; these are not used: {names}"
        hosted.harness.report(Diagnostic(severity="warning", message=text, source="mcp"))
    stream.tell(stream.updates.commands())
    connection.turns.after(request, stream.release)


def _state(
    connection: Connection, hosted: HostedSession, session_id: str | None = None
) -> s.SessionState:
    return s.SessionState(
        session_id=UNSET if session_id is None else session_id,
        modes=modes(hosted),
        config_options=config_options(hosted, connection.services),
    )


def _title(text: str) -> str:
    """One line; what was attached to a message stands behind a blank line."""
    return " ".join(text.partition("\n\n<")[0].split())[:_LONGEST_TITLE]


def _text(path: object) -> str:
    """A path as JSON can carry it: what is no Unicode in its name is replaced."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
