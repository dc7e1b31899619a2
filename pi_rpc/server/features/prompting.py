"""The verbs: prompt, steer, followUp, continue, abort, and clearing the queue.

Owns when each is answered and what its cancellation means. Who may start what is the harness's.
"""

import binascii

from msgspec import UNSET, to_builtins

from pi_rpc.harness.extensions import ExtensionCommand
from pi_rpc.harness.inputs import PromptInput, check_size
from pi_rpc.harness.queue import QueuedMessage, QueueKind
from pi_rpc.harness.runs import Run, RunOutcome
from pi_rpc.host.host import HostedSession
from pi_rpc.jsonrpc.errors import invalid_params
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.llm.abort import AbortController
from pi_rpc.protocol import requests as r
from pi_rpc.protocol.attachments import check_attachments
from pi_rpc.protocol.base import SessionParams
from pi_rpc.protocol.decode import decode_params
from pi_rpc.server.connection import Connection
from pi_rpc.server.late_model import take_default_model

__all__ = ["HANDLERS"]


async def handle_prompt(connection: Connection, request: Request) -> r.PromptResult:
    """Answers when the run that took the message has settled, or at acceptance."""
    params = decode_params(r.PromptParams, request.params)
    # A prompt answers its own cancellation, with what there is; from the first moment on.
    request.on_cancel(lambda: None)
    hosted = await connection.session(params.session_id)
    called = hosted.harness.extensions.command(_text(params))
    if called is not None:
        connection.statistics.session(hosted.id).prompts += 1
        return await _commanded(hosted, request, *called)
    await take_default_model(connection, hosted)
    accepted = hosted.harness.prompt(
        await _input(hosted, params), params.streaming_behavior or None
    )
    connection.statistics.session(hosted.id).prompts += 1
    request.started()
    if isinstance(accepted, QueuedMessage):
        return await _queued(hosted, request, accepted, wait=params.wait == "settled")
    return await _running(hosted, request, accepted, wait=params.wait == "settled")


async def handle_continue(connection: Connection, request: Request) -> r.PromptResult:
    """As prompt, without a message."""
    params = decode_params(r.ContinueParams, request.params)
    request.on_cancel(lambda: None)
    hosted = await connection.session(params.session_id)
    await take_default_model(connection, hosted)
    run = hosted.harness.continue_()
    request.started()
    return await _running(hosted, request, run, wait=params.wait == "settled")


async def handle_steer(connection: Connection, request: Request) -> r.QueueMessageResult:
    """Answers at acceptance."""
    return await _send(connection, request, "steer")


async def handle_follow_up(connection: Connection, request: Request) -> r.QueueMessageResult:
    """Answers at acceptance."""
    return await _send(connection, request, "followUp")


async def handle_abort(connection: Connection, request: Request) -> r.AbortResult:
    """Answers once the session is idle."""
    params = decode_params(r.AbortParams, request.params)
    hosted = await connection.session(params.session_id)
    request.started()
    aborted, queue = await hosted.harness.abort(clear_queue=params.clear_queue)
    return r.AbortResult(
        aborted=aborted, steering=queue.steering, follow_up=queue.follow_up, items=queue.items
    )


async def handle_queue_clear(connection: Connection, request: Request) -> r.AbortResult:
    """Gives back what waited; a run goes on."""
    params = decode_params(SessionParams, request.params)
    hosted = await connection.session(params.session_id)
    queue = hosted.harness.clear_queue()
    return r.AbortResult(
        aborted=False, steering=queue.steering, follow_up=queue.follow_up, items=queue.items
    )


async def handle_queue_remove(connection: Connection, request: Request) -> r.AbortResult:
    """Gives back one message; nothing when it does not wait any more."""
    params = decode_params(r.QueueRemoveParams, request.params)
    hosted = await connection.session(params.session_id)
    queue = hosted.harness.remove_queued(params.id)
    return r.AbortResult(
        aborted=False, steering=queue.steering, follow_up=queue.follow_up, items=queue.items
    )


HANDLERS = {
    "prompt": handle_prompt,
    "continue": handle_continue,
    "steer": handle_steer,
    "followUp": handle_follow_up,
    "abort": handle_abort,
    "queue/clear": handle_queue_clear,
    "queue/remove": handle_queue_remove,
}


async def _send(connection: Connection, request: Request, kind: QueueKind) -> r.QueueMessageResult:
    params = decode_params(r.QueueMessageParams, request.params)
    hosted = await connection.session(params.session_id)
    called = hosted.harness.extensions.command(_text(params))
    if called is not None:
        raise invalid_params(
            f"message: /{called[0].name} is a command of an extension; send it with prompt",
            path="message",
        )
    await take_default_model(connection, hosted)
    accepted = hosted.harness.send(kind, await _input(hosted, params))
    connection.statistics.session(hosted.id).prompts += 1
    # From here on the message is the session's: cancelling the request no longer does anything.
    request.on_cancel(lambda: None)
    run = hosted.harness.run
    return r.QueueMessageResult(
        disposition="started" if isinstance(accepted, Run) else "queued",
        queue=hosted.harness.queue.snapshot(),
        run_id=run.id if run is not None else UNSET,
    )


def _text(params: r.PromptParams | r.QueueMessageParams) -> str:
    return params.message if isinstance(params.message, str) else ""


async def _commanded(
    hosted: HostedSession, request: Request, command: ExtensionCommand, arguments: str
) -> r.PromptResult:
    """An extension's command runs beside whatever the session does."""
    stop = AbortController()
    if request.cancelled:
        stop.abort()
    request.on_cancel(stop.abort)
    request.started()
    failure = await hosted.harness.extensions.run(command, arguments, stop.signal)
    return r.PromptResult(
        disposition="handled",
        session_id=hosted.id,
        stop_reason=UNSET if failure is None else "aborted" if stop.signal.aborted else "error",
        error_message=UNSET if failure is None else failure,
    )


async def _running(
    hosted: HostedSession, request: Request, run: Run, *, wait: bool
) -> r.PromptResult:
    if not wait:
        return r.PromptResult(disposition="started", session_id=hosted.id, run_id=run.id)
    if request.cancelled:
        run.abort()
    request.on_cancel(run.abort)
    outcome = await run.wait()
    return _result("completed", hosted, outcome)


async def _queued(
    hosted: HostedSession, request: Request, queued: QueuedMessage, *, wait: bool
) -> r.PromptResult:
    if not wait:
        run = hosted.harness.run
        return r.PromptResult(
            disposition="queued",
            session_id=hosted.id,
            run_id=run.id if run is not None else UNSET,
        )
    # A message that is on its way to the model can no longer leave the queue: its run is stopped.
    if request.cancelled:
        hosted.harness.withdraw(queued)
    request.on_cancel(lambda: hosted.harness.withdraw(queued))
    await queued.resolved.wait()
    if queued.run is None:
        return r.PromptResult(disposition="queued", session_id=hosted.id, stop_reason="aborted")
    return _result("queued", hosted, await queued.run.wait())


def _result(
    disposition: r.Disposition, hosted: HostedSession, outcome: RunOutcome
) -> r.PromptResult:
    return r.PromptResult(
        disposition=disposition,
        session_id=hosted.id,
        run_id=outcome.run_id,
        stop_reason=outcome.stop_reason,
        error_message=outcome.error_message or UNSET,
        text=outcome.text,
        usage=outcome.usage,
        cost=outcome.cost,
    )


async def _input(
    hosted: HostedSession, params: r.PromptParams | r.QueueMessageParams
) -> PromptInput:
    attachments = params.attachments or []
    check_attachments(attachments)
    prompt = PromptInput(
        content=params.message,
        images=params.images or [],
        attachments=[to_builtins(attachment) for attachment in attachments],
        client_message_id=params.client_message_id or None,
    )
    if not (prompt.text.strip() or prompt.all_images or attachments):
        raise invalid_params("message: expected something to say", path="message")
    check_size(prompt, text="message", images="images")
    for place, image in enumerate(prompt.all_images):
        if not _is_base64(image.data):
            raise invalid_params(f"image {place}: expected base64 data", path="images")
    return await hosted.expanded(prompt)


def _is_base64(data: str) -> bool:
    try:
        return bool(binascii.a2b_base64(data, strict_mode=True))
    except (binascii.Error, ValueError):
        return False
