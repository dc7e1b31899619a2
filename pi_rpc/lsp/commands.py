"""``workspace/executeCommand``: what a person has pi do, from the command to what came of it.

Owns when a command is answered: at once, because editors wait for seconds and runs take minutes;
with ``wait`` or a token for its progress once it has ended. Prompts of one session run one after
the other.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from pi_rpc._os.threads import run_blocking
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.runs import RunOutcome
from pi_rpc.host.hosted import HostedSession
from pi_rpc.jsonrpc.errors import RpcError, invalid_params
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.llm.abort import AbortController
from pi_rpc.lsp import shapes as s
from pi_rpc.lsp.actions import TEXTS, place_of, prompt_about
from pi_rpc.lsp.connection import Connection
from pi_rpc.lsp.documents import on_disk
from pi_rpc.lsp.questions import choose
from pi_rpc.lsp.telling import brief
from pi_rpc.lsp.works import Work
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.errors import ProtocolError

__all__ = ["execute"]

_log = logging.getLogger("pi_rpc.lsp")

_ASK = (
    "<!-- What do you want to ask pi{about}? Write it here and save it, or run the code action"
    " “Send to pi”. -->\n\n"
)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LOOK_EVERY_S = 0.25
_WRITING_S = 3600.0
"""How long the file of a question is looked at for what the person writes."""
_MODELS_SHOWN = 30
"""Models that a message offers; more nobody looks through."""


class _Called(Struct, frozen=True):
    """One command, as it was sent."""

    connection: Connection
    request: Request
    name: str
    arguments: s.PlaceArguments
    token: int | str | None

    @property
    def waits(self) -> bool:
        """It is answered when it has ended."""
        return self.arguments.wait or self.token is not None


Command: TypeAlias = Callable[[_Called], Awaitable[Any]]


async def execute(connection: Connection, request: Request) -> Any:
    """Serve one."""
    params = decode_params(s.ExecuteCommandParams, request.params)
    command = _COMMANDS.get(params.command)
    if command is None:
        raise invalid_params(
            f"command: expected one of {', '.join(_COMMANDS)}, got {params.command!r}",
            path="command",
        )
    token = None if params.work_done_token is UNSET else params.work_done_token
    arguments = _arguments(params.arguments)
    try:
        return await command(_Called(connection, request, params.command, arguments, token))
    except (HarnessError, ProtocolError) as error:
        # Many editors tell nobody what a command has failed of.
        connection.telling.message(s.ERROR, error.message)
        raise


def _arguments(given: list[Raw]) -> s.PlaceArguments:
    """An object, or words: editors have command lines."""
    values = [msgspec.json.decode(each) for each in given]
    if all(isinstance(each, str) for each in values):
        return s.PlaceArguments(text=" ".join(values)) if values else s.PlaceArguments()
    if len(values) == 1 and isinstance(values[0], dict | list):
        return decode_params(s.PlaceArguments, given[0])
    raise invalid_params("arguments: expected one object, or text", path="arguments")


# --- what prompts --------------------------------------------------------------------------------


async def _prompt(called: _Called) -> s.Done:
    return await _start(called, await _said(called, called.arguments.text or ""))


async def _at_place(called: _Called) -> s.Done:
    if not called.arguments.uri:
        raise invalid_params("arguments: expected an object with `uri`", path="arguments")
    text = TEXTS[called.name, bool(called.arguments.diagnostics)]
    return await _start(called, await _said(called, text))


async def _ask(called: _Called) -> Any:
    if called.arguments.text:
        return await _prompt(called)
    connection = called.connection
    place = place_of(called.arguments)
    text = _ASK.format(about=f" about {place}" if place else "")
    path = await connection.telling.write("ask", text)
    connection.asks[path.as_uri()] = called.arguments
    connection.start_soon(_until_saved, called, path)
    instead = f"Write what you want to ask pi into {path} and save it."
    # An editor that waits for the answer may show nothing before it has come.
    connection.start_soon(connection.telling.show, path, instead)
    return {"uri": path.as_uri()}


async def _until_saved(called: _Called, path: Path) -> None:
    """Send what the person saves. Not every editor tells us of a file outside of its project."""
    with anyio.move_on_after(_WRITING_S):
        while path.as_uri() in called.connection.asks:
            await anyio.sleep(_LOOK_EVERY_S)
            written = await run_blocking(on_disk, path)
            text = _question(written or "")
            if text and path.as_uri() in called.connection.asks:
                await _tell_failure(called, _asked, path.as_uri(), text)


async def _tell_failure(called: _Called, function: Callable[..., Any], *arguments: Any) -> None:
    """Do something beside the requests; nobody else hears of it if it fails."""
    try:
        await function(called, *arguments)
    except (HarnessError, ProtocolError, RpcError) as error:
        called.connection.telling.message(s.ERROR, error.message)


async def _send(called: _Called) -> s.Done:
    """What was written in a document of ``pi.ask``."""
    connection, uri = called.connection, called.arguments.uri or ""
    document = connection.documents.get(uri)
    if uri not in connection.asks or document is None:
        raise invalid_params("uri: expected an open document of pi.ask", path="arguments[0].uri")
    return await _asked(called, uri, _question(document.source))


async def _asked(called: _Called, uri: str, text: str) -> s.Done:
    if not text:
        message = "there is no question yet: write it into the document, and send it again"
        raise ProtocolError("invalidParams", message, path="arguments[0].uri")
    about = called.connection.asks.pop(uri)
    place = msgspec.structs.replace(about, text=text, wait=called.arguments.wait)
    sent = replace(called, name="pi.ask", arguments=place)
    return await _start(sent, await _said(sent, text))


def _question(written: str) -> str:
    return _COMMENT.sub("", written).strip()


async def _steer(called: _Called) -> s.Done:
    hosted = await called.connection.session()
    said = await _said(called, called.arguments.text or "")
    if hosted.harness.run is None:
        return await _start(called, said)
    hosted.harness.steer(await hosted.expanded(said))
    return s.Done(session_id=hosted.id)


async def _said(called: _Called, text: str) -> PromptInput:
    if not text.strip():
        raise invalid_params("arguments: expected something to say", path="arguments")
    return prompt_about(text, called.arguments, called.connection.documents)


async def _start(called: _Called, said: PromptInput) -> s.Done:
    """Have it run; nothing that cannot is left waiting."""
    connection, request = called.connection, called.request
    work: Work | None = None

    def cancel() -> None:
        if work is not None:
            work.cancel()

    if called.waits:
        request.on_cancel(cancel)
    hosted = await connection.session()
    title = _title(called.name, said, called.arguments)

    async def carry_out(work: Work) -> s.Done:
        return await _carried_out(connection, hosted, work, said, called.name)

    hosted.harness.configuration.require_model()
    work = Work(title, hosted.id, called.arguments)
    return await _run(called, work, carry_out)


async def _run(
    called: _Called, work: Work, carry_out: Callable[[Work], Awaitable[s.Done]]
) -> s.Done:
    connection, request = called.connection, called.request
    result = s.Done(session_id=work.session_id)
    connection.works.begin(work, called.token)

    async def until_it_ends() -> None:
        nonlocal result
        how = "failed"
        try:
            result = await carry_out(work)
            how = _how(result)
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for the end
            if work.cancelled:
                result = s.Done(session_id=work.session_id, stop_reason="aborted")
            else:
                message = connection.error(error).message
                result = s.Done(
                    session_id=work.session_id, stop_reason="error", error_message=message
                )
                connection.telling.message(s.ERROR, message)
                _log.warning("%s failed: %s", called.name, message)
            how = _how(result)
        finally:
            connection.works.end(work, how)

    connection.start_soon(until_it_ends)
    connection.start_soon(connection.works.show, work)
    if request.cancelled and called.waits:
        work.cancel()
    request.started()
    if called.waits:
        await work.ended.wait()
    return result


async def _carried_out(
    connection: Connection, hosted: HostedSession, work: Work, said: PromptInput, name: str
) -> s.Done:
    stopped = s.Done(session_id=hosted.id, stop_reason="aborted")
    outcome: RunOutcome | None = None
    with anyio.CancelScope() as waiting:
        work.stops_by(waiting.cancel)
        async with connection.turn(hosted):
            command = hosted.harness.extensions.command(said.text)
            if command is not None:
                stop = AbortController()
                work.stops_by(stop.abort)
                failure = await hosted.harness.extensions.run(*command, stop.signal)
                if failure is None or work.cancelled:
                    return s.Done(
                        session_id=hosted.id, stop_reason="aborted" if work.cancelled else "stop"
                    )
                # The person was told of it already.
                return s.Done(session_id=hosted.id, stop_reason="error", error_message=failure)
            said = await hosted.expanded(said)
            await hosted.harness.wait_for_idle()
            await anyio.lowlevel.checkpoint_if_cancelled()
            run = hosted.harness.prompt(said)
            work.stops_by(run.abort)
            outcome = await run.wait()
    connection.stream(hosted).flush()
    if outcome is None:
        return stopped
    await _tell(connection, work, name, outcome)
    return s.Done(
        session_id=hosted.id,
        stop_reason=outcome.stop_reason,
        text=outcome.text,
        error_message=outcome.error_message or UNSET,
    )


async def _tell(connection: Connection, work: Work, name: str, outcome: RunOutcome) -> None:
    telling = connection.telling
    if outcome.aborted:
        return
    if outcome.error_message:
        telling.message(s.ERROR, outcome.error_message)
    elif name == "pi.fix":
        # What it did is in the document.
        telling.message(s.INFO, brief(outcome.text) or f"{work.title}: done")
    else:
        await telling.answer(work.title, outcome.text)


def _title(name: str, said: PromptInput, arguments: s.PlaceArguments) -> str:
    place = place_of(arguments)
    if name in {"pi.fix", "pi.explain"}:
        return f"{name.removeprefix('pi.').capitalize()} {place}"
    return brief(said.text)


def _how(done: s.Done) -> str:
    match done.stop_reason:
        case "aborted":
            return "stopped"
        case "error" | "limit":
            return f"failed: {brief(done.error_message or '')}"
        case _:
            return "done"


# --- the session ---------------------------------------------------------------------------------


async def _stop(called: _Called) -> s.Done | None:
    connection = called.connection
    if not connection.has_session:
        return None
    hosted = await connection.session()
    connection.works.cancel_all()
    called.request.started()
    await connection.abort_all()
    return s.Done(session_id=hosted.id)


async def _compact(called: _Called) -> s.Done:
    connection = called.connection
    hosted = await connection.session()
    instructions = called.arguments.text or None

    async def carry_out(work: Work) -> s.Done:
        with anyio.CancelScope() as waiting:
            work.stops_by(waiting.cancel)
            async with connection.turn(hosted):
                await hosted.harness.wait_for_idle()
                await anyio.lowlevel.checkpoint_if_cancelled()
                summary = await hosted.harness.compact(
                    instructions, on_start=lambda operation: work.stops_by(operation.abort)
                )
                if summary is not None:
                    return s.Done(session_id=hosted.id, stop_reason="stop", text=summary.summary)
        return s.Done(session_id=hosted.id, stop_reason="aborted")

    hosted.harness.configuration.require_model()
    work = Work("Shorten the conversation", hosted.id)
    if called.waits:
        called.request.on_cancel(work.cancel)
    return await _run(called, work, carry_out)


async def _new_session(called: _Called) -> s.Done:
    hosted = await called.connection.new_session()
    return s.Done(session_id=hosted.id)


async def _pick_model(called: _Called) -> Any:
    hosted = await called.connection.session()
    called.request.started()
    if called.waits or called.arguments.text:
        return await _picked_model(called, hosted)
    # A question of ours: an editor that waits for the answer may not show it before.
    called.connection.start_soon(_tell_failure, called, _picked_model, hosted)
    return s.Done(session_id=hosted.id)


async def _picked_model(called: _Called, hosted: HostedSession) -> Any:
    connection, wanted = called.connection, called.arguments.text or None
    services, harness = connection.services, hosted.harness
    if wanted is None:
        current = harness.configuration.model
        offered = [current.ref] if current is not None else []
        offered += [each.ref for each in services.models.usable() if each.ref not in offered]
        if not offered:
            harness.configuration.require_model()
        wanted = await choose(connection.asking, "Which model?", offered[:_MODELS_SHOWN])
        if wanted is None:
            return None
    await services.look_for_model(wanted)
    model, level = services.choose_model(wanted, None)
    assert model is not None
    await harness.set_model(model)
    harness.changed(model=model)
    if level is not None:
        await harness.set_thinking_level(level)
        harness.changed(thinkingLevel=harness.configuration.level)
    connection.telling.message(s.INFO, f"pi uses {model.name} now.")
    return {"sessionId": hosted.id, "model": model.ref}


_COMMANDS: Mapping[str, Command] = {
    "pi.prompt": _prompt,
    "pi.fix": _at_place,
    "pi.explain": _at_place,
    "pi.ask": _ask,
    "pi.send": _send,
    "pi.steer": _steer,
    "pi.stop": _stop,
    "pi.compact": _compact,
    "pi.newSession": _new_session,
    "pi.pickModel": _pick_model,
}
