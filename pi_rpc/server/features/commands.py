"""What a person runs beside the conversation: commands of the shell, and the list of `/name`s.

Owns when each is answered and what its cancellation means. How a command runs and what becomes of
it is the harness's.
"""

from msgspec import UNSET

from pi_rpc.jsonrpc.peer import Request
from pi_rpc.protocol import commands as c
from pi_rpc.protocol.base import SessionParams
from pi_rpc.protocol.decode import decode_params
from pi_rpc.server.connection import Connection

__all__ = ["HANDLERS"]


async def handle_bash(connection: Connection, request: Request) -> c.BashResult:
    """Answers when the command has ended; cancelled, with what there is."""
    params = decode_params(c.BashParams, request.params)
    # It answers its own cancellation; from the first moment on.
    request.on_cancel(lambda: None)
    hosted = await connection.session(params.session_id)
    command = hosted.harness.bash(
        params.command,
        cwd=params.cwd or "",
        exclude_from_context=params.exclude_from_context,
        token=params.token,
    )
    request.started()
    if request.cancelled:
        command.abort()
    request.on_cancel(command.abort)
    message = await command.wait()
    return c.BashResult(
        output=message.output,
        cancelled=message.cancelled,
        truncated=message.truncated,
        exit_code=UNSET if message.exit_code is None else message.exit_code,
        full_output_path=message.full_output_path or UNSET,
    )


async def handle_command_list(connection: Connection, request: Request) -> c.CommandListResult:
    """What each `/name` in a prompt would call up: an extension's command before anything else."""
    params = decode_params(SessionParams, request.params)
    harness = (await connection.session(params.session_id)).harness
    commands = {
        each.name: c.CommandEntry(
            name=each.name,
            source=each.source,
            description=each.description or UNSET,
            argument_hint=each.argument_hint or UNSET,
        )
        for each in reversed(harness.configuration.resources.commands())
    }
    for command in harness.extensions.commands():
        commands[command.name] = c.CommandEntry(
            name=command.name,
            source="extension",
            description=command.description or UNSET,
        )
    return c.CommandListResult(commands=[commands[name] for name in sorted(commands)])


HANDLERS = {
    "bash": handle_bash,
    "command/list": handle_command_list,
}
