"""``session/prompt``: a turn, from what the person says to the reason why it ended.

Owns when it is answered, with which stop reason, and what cancelling means: a turn that was
cancelled is answered ``cancelled`` and with no error, whatever had become of it.
"""

import itertools
from typing import Any

import anyio
import anyio.lowlevel
from msgspec import UNSET

from pi_rpc.acp import shapes as s
from pi_rpc.acp.blocks import prompt_of
from pi_rpc.acp.commands import compacting
from pi_rpc.acp.connection import Connection
from pi_rpc.acp.features.authenticating import require_login
from pi_rpc.acp.turns import Turn
from pi_rpc.acp.updates import OWN_PROMPT
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.extensions import ExtensionCommand
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.runs import RunOutcome
from pi_rpc.host.hosted import HostedSession
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.llm.abort import AbortController
from pi_rpc.protocol.decode import decode_params

__all__ = ["HANDLERS", "compact", "own_ids", "result_of"]

own_ids = (f"{OWN_PROMPT}{number}" for number in itertools.count(1))
"""Ids for messages that the client need not be told of."""

_REFUSALS = frozenset(
    {
        *("refusal", "content_filter", "incomplete.content_filter", "SAFETY"),
        *("PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "RECITATION"),
        *("guardrail_intervened", "content_filtered"),
    }
)
"""Providers' own words for a model that declined, or was not let, answer."""


async def handle_prompt(connection: Connection, request: Request) -> s.PromptResult:
    """Answers when the turn has ended."""
    turn = connection.turns.of(request)
    params = decode_params(s.PromptParams, request.params)
    require_login(connection)
    said = prompt_of(params.prompt, next(own_ids))
    hosted = await connection.session(params.session_id)
    stream = connection.stream(hosted)
    # What it stands for is settled in the order of requests; then others may start, and cancel.
    command = hosted.harness.extensions.command(said.text)
    if command is None:
        said = await hosted.expanded(said)
    request.started()
    outcome: RunOutcome | None = None
    with anyio.CancelScope() as waiting:
        turn.stops_by(waiting.cancel)
        async with stream.turn:
            try:
                if command is not None:
                    await _commanded(hosted, turn, *command)
                else:
                    outcome = await _run(hosted, turn, said)
            except HarnessError:
                if not turn.cancelled:
                    raise
    stream.flush()
    if turn.cancelled:
        return s.PromptResult(stop_reason="cancelled")
    return s.PromptResult(stop_reason="end_turn") if outcome is None else result_of(outcome)


async def _run(hosted: HostedSession, turn: Turn, said: PromptInput) -> RunOutcome | None:
    # It may be busy with what the client did not prompt for: a follow-up, a compaction.
    await hosted.harness.wait_for_idle()
    await anyio.lowlevel.checkpoint_if_cancelled()
    if (instructions := compacting(hosted.harness, said.text)) is not None:
        await compact(hosted, turn, instructions)
        return None
    run = hosted.harness.prompt(said)
    turn.stops_by(run.abort)
    return await run.wait()


def result_of(outcome: RunOutcome) -> s.PromptResult:
    """Why a turn ended. Raises ``providerError`` where the model failed."""
    message = outcome.message
    raw = message.raw_stop_reason if message is not None else UNSET
    match outcome.stop_reason:
        case "aborted":
            return s.PromptResult(stop_reason="cancelled")
        case "limit":
            return s.PromptResult(stop_reason="max_turn_requests", meta=_why(outcome))
        case "length":
            return s.PromptResult(stop_reason="max_tokens")
        case "error" if raw in _REFUSALS:
            return s.PromptResult(stop_reason="refusal", meta=_why(outcome))
        case "error":
            raise HarnessError("providerError", outcome.error_message or "the model failed")
        case _:
            return s.PromptResult(stop_reason="end_turn")


async def compact(hosted: HostedSession, turn: Turn, instructions: str) -> bool:
    """Shorten the conversation; whether that was not stopped."""
    summary = await hosted.harness.compact(
        instructions or None, on_start=lambda operation: turn.stops_by(operation.abort)
    )
    return summary is not None


async def _commanded(
    hosted: HostedSession, turn: Turn, command: ExtensionCommand, arguments: str
) -> None:
    stop = AbortController()
    turn.stops_by(stop.abort)
    failure = await hosted.harness.extensions.run(command, arguments, stop.signal)
    if failure is not None and not turn.cancelled:
        raise HarnessError("providerError", failure)


def _why(outcome: RunOutcome) -> dict[str, Any]:
    return {"pi": {"message": outcome.error_message or ""}}


HANDLERS = {"session/prompt": handle_prompt}
