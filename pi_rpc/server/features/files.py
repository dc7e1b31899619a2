"""Looking for files, for mentions of them in prompts.

Owns what is answered. Which files there are and which of them fit is ``pi_rpc.tools.file_search``.
"""

from pi_rpc.agent.ports import PortError
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.protocol import files as f
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.errors import ProtocolError
from pi_rpc.server.connection import Connection

__all__ = ["HANDLERS"]


async def handle_search(connection: Connection, request: Request) -> f.FileSearchResult:
    """The best of what the session's working directory has."""
    from pi_rpc.tools._paths import display_text, file_uri

    params = decode_params(f.FileSearchParams, request.params)
    hosted = await connection.session(params.session_id)
    request.started()
    cwd = hosted.harness.configuration.cwd
    try:
        found = await connection.file_search.search(cwd, params.query, params.limit)
    except PortError as error:
        if error.code == "spawn_failed":
            raise ProtocolError("unsupported", error.message) from None
        return f.FileSearchResult(files=[], truncated=False)
    return f.FileSearchResult(
        files=[
            f.FoundFile(uri=file_uri(cwd / each.path), path=display_text(each.path), kind=each.kind)
            for each in found.files
        ],
        truncated=found.truncated,
    )


HANDLERS = {"file/search": handle_search}
