"""``pi-rpc run``: one prompt in this process, without an editor.

Owns the command's output and exit code: 0 done, 1 a model, provider or extension failed, 2 usage,
130 interrupted, 141 nobody reads the output any more. Everything a run is made of is the host's.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from pi_rpc.agent.events import AgentEvent
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.extensions import ExtensionCommand
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.runs import Run, RunOutcome
from pi_rpc.headless._table import in_a_shell
from pi_rpc.headless.render import RunRenderer
from pi_rpc.host.host import Host, HostedSession, SessionOptions
from pi_rpc.host.services import Services
from pi_rpc.llm.abort import AbortController
from pi_rpc.log import log_to
from pi_rpc.protocol.convert import EntryIds, to_wire
from pi_rpc.protocol.encode import encode

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["run_prompt"]

_DONE, _FAILED, _USAGE, _INTERRUPTED, _UNREAD = 0, 1, 2, 130, 141
_MISTAKES = frozenset({"invalidParams", "modelNotFound"})
"""Kinds of refusal that another command line would not meet with."""
_PATIENCE_S = 0.008
"""Nobody notices that what is printed comes so much later."""


def run_prompt(arguments: "Namespace") -> int:
    """Run it; returns the exit code."""
    try:
        _log(arguments.log_level, arguments.log_file)
    except OSError as error:
        reason = error.strerror or error
        sys.stderr.write(f"pi-rpc run: cannot write the log file: {arguments.log_file}: {reason}\n")
        return _USAGE
    prompt = " ".join(arguments.prompt)
    options = SessionOptions(
        model=arguments.model,
        permission_mode=arguments.permission_mode,
        tools=None if arguments.tools is None else tuple(arguments.tools),
        ephemeral=arguments.ephemeral,
    )
    return anyio.run(_run, prompt, options, arguments.json)


def _log(level: str | None, file: str | None) -> None:
    """As asked for; else what went wrong is said to the person in so many words."""
    if level or file:
        log_to(level, file)
    else:
        logging.getLogger("pi_rpc").addHandler(logging.StreamHandler())


async def _run(prompt: str, options: SessionOptions, as_json: bool) -> int:
    exit_code = _DONE
    output: _WhileRead

    def listen(hosted: HostedSession) -> None:
        nonlocal output
        output = _WhileRead(_Lines(hosted) if as_json else _Text(), hosted.harness.stop)
        output.begin()
        hosted.harness.subscribe(output.take, in_process=False, patience_s=_PATIENCE_S)

    async with anyio.create_task_group() as task_group:
        host = Host(Services(), SessionOptions(), Path.cwd(), task_group)
        host.on_open(listen)
        try:
            hosted = await host.create(options)
            called = hosted.harness.extensions.command(prompt)
            if called is not None:
                exit_code = await _command(hosted, called, output)
            else:
                exit_code = await _prompt(hosted, prompt, output)
        except HarnessError as error:
            sys.stderr.write(f"pi-rpc run: {in_a_shell(error.message)}\n")
            exit_code = _USAGE if error.kind in _MISTAKES else _FAILED
        finally:
            await host.aclose()
        task_group.cancel_scope.cancel()
    return exit_code


async def _command(
    hosted: HostedSession, called: tuple[ExtensionCommand, str], output: "_WhileRead"
) -> int:
    """What an extension has added; no model is asked."""
    stop = AbortController()
    async with anyio.create_task_group() as waiting:
        waiting.start_soon(_abort_on_interrupt, stop.abort)
        failure = await hosted.harness.extensions.run(*called, stop.signal)
        waiting.cancel_scope.cancel()
    output.handled(failure, aborted=stop.signal.aborted)
    if output.unread:
        return _UNREAD
    if failure is None:
        return _DONE
    return _INTERRUPTED if stop.signal.aborted else _FAILED


async def _prompt(hosted: HostedSession, prompt: str, output: "_WhileRead") -> int:
    run = hosted.harness.prompt(await hosted.expanded(PromptInput(prompt)))
    assert isinstance(run, Run)
    async with anyio.create_task_group() as waiting:
        waiting.start_soon(_abort_on_interrupt, run.abort)
        outcome = await run.wait()
        waiting.cancel_scope.cancel()
    output.end(outcome)
    if output.unread:
        return _UNREAD
    if outcome.aborted:
        return _INTERRUPTED
    return _FAILED if outcome.stop_reason == "error" else _DONE


async def _abort_on_interrupt(abort: Callable[[], None]) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
        async for _ in received:
            abort()


class _WhileRead:
    """Output that ends the run when its reader goes away: what nobody sees should cost nothing."""

    def __init__(self, output: "_Text | _Lines", on_unread: Callable[[], None]) -> None:
        self._output = output
        self._on_unread = on_unread
        self.unread = False

    def begin(self) -> None:
        self._write(self._output.begin)

    def take(self, events: Sequence[AgentEvent]) -> None:
        self._write(lambda: self._output.take(events))

    def end(self, outcome: RunOutcome) -> None:
        self._write(lambda: self._output.end(outcome))

    def handled(self, failure: str | None, *, aborted: bool) -> None:
        self._write(lambda: self._output.handled(failure, aborted=aborted))

    def _write(self, write: Callable[[], None]) -> None:
        if self.unread:
            return
        try:
            write()
        except BrokenPipeError:
            self.unread = True
            self._on_unread()
            # What is still in the buffer must not be tried again at the very end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Text:
    """The reply on standard output, everything about it on standard error."""

    def __init__(self) -> None:
        self._renderer = RunRenderer(sys.stdout, sys.stderr)

    def begin(self) -> None:
        pass

    def take(self, events: Sequence[AgentEvent]) -> None:
        for event in events:
            self._renderer.draw(msgspec.json.decode(encode(to_wire(event))))

    def end(self, outcome: RunOutcome) -> None:
        if outcome.error_message and outcome.stop_reason != "error":
            sys.stderr.write(f"{outcome.error_message}\n")

    def handled(self, failure: str | None, *, aborted: bool) -> None:
        if failure is not None and aborted:
            sys.stderr.write(f"{failure}\n")  # Any other was told as a diagnostic.


class _Lines:
    """Every event as a line of JSON, between a header and a result."""

    def __init__(self, hosted: HostedSession) -> None:
        self._entry_ids = EntryIds()
        self._session = hosted.harness.session

    def begin(self) -> None:
        session = self._session
        self._write({"type": "session", "sessionId": session.session_id, "cwd": session.cwd})

    def take(self, events: Sequence[AgentEvent]) -> None:
        for event in events:
            self._write(to_wire(event, entry_ids=self._entry_ids.observe(event)))

    def end(self, outcome: RunOutcome) -> None:
        record: dict[str, Any] = {
            "type": "result",
            "runId": outcome.run_id,
            "stopReason": outcome.stop_reason,
            "text": outcome.text,
            "usage": outcome.usage,
            "cost": outcome.cost,
        }
        if outcome.error_message:
            record["errorMessage"] = outcome.error_message
        self._write(record)

    def handled(self, failure: str | None, *, aborted: bool) -> None:
        record: dict[str, Any] = {"type": "result", "disposition": "handled"}
        if failure is not None:
            record["stopReason"] = "aborted" if aborted else "error"
            record["errorMessage"] = failure
        self._write(record)

    def _write(self, value: Any) -> None:
        sys.stdout.buffer.write(encode(value) + b"\n")
        sys.stdout.buffer.flush()
