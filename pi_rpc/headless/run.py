"""``pi-rpc run``: one prompt in this process, without an editor.

Owns what the options mean and the order of things: read, open a session, ask, print, end. The exit
codes are ``pi_rpc.headless.exit_codes``'. Everything a run is made of is the host's.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from pi_rpc._os.threads import run_blocking
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.permissions.rules import Rule, RuleError, RuleSet, parse_rule
from pi_rpc.harness.runs import Limits
from pi_rpc.headless import github
from pi_rpc.headless._table import in_a_shell
from pi_rpc.headless.console import Answer, Notes
from pi_rpc.headless.ending import Ending
from pi_rpc.headless.exit_codes import ExitCode, UsageError
from pi_rpc.headless.job import Job, exit_code_of
from pi_rpc.headless.output import ForPeople, JsonLines, Output
from pi_rpc.headless.output_schema import OutputSchema
from pi_rpc.headless.prompt import read_prompt
from pi_rpc.headless.recording import RecordingServices, ReplayingServices
from pi_rpc.headless.result import RunResult
from pi_rpc.host.host import Host
from pi_rpc.host.hosted import HostedSession, SessionOptions
from pi_rpc.host.masking import MaskedEvents, SecretMask, secret_variables
from pi_rpc.host.services import Services
from pi_rpc.host.storage import existing_directory, names_a_file
from pi_rpc.log import FORMAT, log_to

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["run_prompt"]

_PATIENCE_S = 0.008
"""Nobody notices that what is printed comes so much later."""

_READING = frozenset({"read", "grep", "find", "ls"})
"""Tools that ``readonly`` has, and rules can therefore allow more to."""


def run_prompt(arguments: "Namespace") -> int:
    """Run it; returns the exit code."""
    notes = Notes(quoted=github.quoted if arguments.github else str)
    try:
        _check(arguments)
        if arguments.log_file:
            log_to(arguments.log_level, arguments.log_file)
    except OSError as error:
        reason = error.strerror or error
        sys.stderr.write(f"pi-rpc run: cannot write the log file: {arguments.log_file}: {reason}\n")
        return ExitCode.USAGE
    except UsageError as error:
        sys.stderr.write(f"pi-rpc run: {error}\n")
        return ExitCode.USAGE
    with nullcontext() if arguments.log_file else _logged(arguments.log_level, notes):
        return anyio.run(_CommandLine(arguments, notes).run)


@contextmanager
def _logged(level: str | None, notes: Notes) -> Iterator[None]:
    """The log among the notes; without a level it is told to the person in so many words."""
    logger, handler = logging.getLogger("pi_rpc"), logging.StreamHandler(notes)
    if level:
        handler.setFormatter(logging.Formatter(FORMAT))
        logger.setLevel(level.upper())
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _check(arguments: "Namespace") -> None:
    """Refuse what cannot go together; fills in the permission mode and the rules."""
    if arguments.replay and (arguments.session or arguments.continue_):
        raise UsageError("--replay keeps no session: it does not go with --session or --continue")
    if arguments.permission_mode is None:
        is_watched = all(each is not None and each.isatty() for each in (sys.stdin, sys.stderr))
        arguments.permission_mode = "ask" if is_watched else "readonly"
    arguments.rules = _rules(arguments)


def _rules(arguments: "Namespace") -> RuleSet:
    rules: list[Rule] = []
    for effect in ("allow", "deny"):
        for text in getattr(arguments, effect):
            try:
                rules.append(parse_rule(text, effect))
            except RuleError as error:
                raise UsageError(f"--{effect} {text!r}: it {error}") from None
    for rule in rules:
        opens = rule.effect == "allow" and rule.tool not in _READING
        if opens and arguments.permission_mode == "readonly":
            raise UsageError(
                f"--allow {rule.text!r} allows nothing in the permission mode readonly, which is"
                " the default where there is no terminal: add --permission-mode ask, in which only"
                " what rules allow is done, or edits or full"
            )
    return RuleSet(tuple(rules))


class _CommandLine:
    """One ``pi-rpc run``, from its arguments to its exit code."""

    def __init__(self, arguments: "Namespace", notes: Notes) -> None:
        self._arguments = arguments
        self._ending = Ending()
        self._notes = notes
        self._answer = Answer(self._notes, self._ending)
        self._result: RunResult | None = None

    async def run(self) -> int:
        """Do it, until it is done or has to end."""
        ending, code = self._ending, ExitCode.FAILED
        async with anyio.create_task_group() as tasks:
            await tasks.start(ending.watch_signals)
            if self._arguments.timeout is not None:
                tasks.start_soon(ending.watch_time, self._arguments.timeout)
            tasks.start_soon(ending.watch_reader, self._answer.descriptor)
            with anyio.CancelScope() as scope:
                ending.stops_with(scope.cancel)
                try:
                    code = await self._work(tasks)
                except (HarnessError, UsageError) as error:
                    code = self._refused(error)
            if ending.code is not None:
                code = ending.code
                said = "" if self._result is None else self._result.error_message
                if ending.reason and said != ending.reason:
                    self._say(ending.reason)
            tasks.cancel_scope.cancel()
        ending.close()
        if self._arguments.github:
            code = self._tell_github(code)
        return code

    async def _work(self, tasks: TaskGroup) -> ExitCode:
        arguments = self._arguments
        where = Path(os.path.abspath(arguments.cwd or "."))  # noqa: ASYNC240, PTH100 - no disk
        cwd = await run_blocking(existing_directory, where, "--cwd")
        schema = None
        if arguments.output_schema:
            schema = await run_blocking(OutputSchema, Path(arguments.output_schema))
        prompt = await read_prompt(arguments.prompt)
        with ExitStack() as fixed:
            services = await run_blocking(_services, arguments, cwd)
            if isinstance(services, ReplayingServices):
                fixed.enter_context(services.fixed())
            mask = SecretMask(lambda: tuple(services.credentials.known))
            for value in secret_variables(os.environ):
                mask.add(value)
            output = self._output(MaskedEvents(mask))
            host = Host(services, SessionOptions(), cwd, tasks)
            host.on_open(lambda hosted: _listen(hosted, output))
            try:
                job = Job(await self._open(host, cwd, schema), prompt, schema, self._ending)
                async with anyio.create_task_group() as beside:
                    if isinstance(output, ForPeople) and self._notes.is_terminal:
                        beside.start_soon(output.progress.tick)
                    await job.carry_out()
                    beside.cancel_scope.cancel()
            finally:
                await host.aclose()
            self._notes.clear()
            job.mask(mask)
            if isinstance(services, RecordingServices):
                job.note_problem(services.problem)
            self._end(job.result, output)
            if isinstance(services, ReplayingServices) and services.left:
                self._say(f"replies of the recording that nobody asked for: {services.left}")
        return job.result.exit_code

    def _output(self, masked: MaskedEvents) -> Output:
        arguments = self._arguments
        if arguments.json:
            return JsonLines(
                self._answer,
                masked,
                is_replay=arguments.replay is not None,
                for_github=arguments.github,
            )
        return ForPeople(
            arguments.output,
            self._answer,
            self._notes,
            masked,
            is_json=arguments.output_schema is not None,
            for_github=arguments.github,
        )

    async def _open(self, host: Host, cwd: Path, schema: OutputSchema | None) -> HostedSession:
        """The session to work in, as the options want it."""
        arguments = self._arguments
        addendum = [arguments.append_system_prompt, schema.instructions if schema else None]
        options = SessionOptions(
            cwd=cwd,
            model=arguments.model,
            thinking_level=arguments.thinking,
            permission_mode=arguments.permission_mode,
            tools=None if arguments.tools is None else tuple(arguments.tools),
            system_prompt=arguments.system_prompt,
            append_system_prompt="\n\n".join(filter(None, addendum)),
            ephemeral=arguments.ephemeral or arguments.replay is not None,
            limits=Limits(turns=arguments.max_turns, cost_usd=arguments.max_cost),
        )
        hosted = await self._stored(host, cwd)
        if hosted is None:
            hosted = await host.create(options)
        else:
            _configure(hosted, options, host.services)
        gate = hosted.harness.permissions
        gate.rules = gate.rules + arguments.rules
        if isinstance(host.services, ReplayingServices):
            host.services.prepare(hosted)
        return hosted

    async def _stored(self, host: Host, cwd: Path) -> HostedSession | None:
        """The session that the options name; None for a new one."""
        arguments = self._arguments
        # Its own directory counts, unless another was asked for.
        elsewhere = cwd if arguments.cwd else None
        if arguments.continue_:
            page = await host.stored.page(cwd=str(cwd), query=None, limit=1, cursor=None)
            if page.sessions:
                return await host.open(path=page.sessions[0].path, cwd=elsewhere)
            self._say(f"there is no session of {cwd} yet: this is a new one")
        if arguments.session and names_a_file(arguments.session):
            path = Path(os.path.abspath(arguments.session))  # noqa: ASYNC240, PTH100 - no disk
            return await host.open(path=path, cwd=elsewhere)
        if arguments.session:
            return await host.open(session_id=arguments.session, cwd=elsewhere)
        return None

    # --- the end ---------------------------------------------------------------------------------

    def _end(self, result: RunResult, output: Output) -> None:
        self._result = result
        output.end(result)
        # Of a reply that failed the events have told, and in JSON the result does.
        is_told = result.stop_reason == "error" and (result.run_id or result.handled)
        if result.error_message and not is_told and (not self._arguments.json or not result.run_id):
            self._say(result.error_message)
        if result.exit_code is ExitCode.REFUSED and not self._arguments.json:
            count = len(result.refusals)
            calls = "one call was" if count == 1 else f"{count} calls were"
            self._say(f"{calls} not permitted")

    def _refused(self, error: HarnessError | UsageError) -> ExitCode:
        """Nothing was run."""
        self._notes.clear()
        message = in_a_shell(str(error))
        self._say(message)
        code = exit_code_of(error)
        self._result = RunResult("", stop_reason="error", error_message=message, exit_code=code)
        return code

    def _say(self, text: str) -> None:
        self._notes.write(f"pi-rpc run: {text}\n")

    def _tell_github(self, code: ExitCode) -> ExitCode:
        result = self._result or RunResult("", stop_reason="aborted")
        result.exit_code = code
        result.error_message = result.error_message or self._ending.reason
        try:
            github.write_files(result)
        except OSError as error:
            self._say(f"summary and outputs could not be written: {error}")
            code = code or ExitCode.FAILED
        self._notes.raw(github.annotations(result))
        return code


def _services(arguments: "Namespace", cwd: Path) -> Services:
    """Blocks."""
    if arguments.replay:
        return ReplayingServices(Path(arguments.replay), cwd)
    if arguments.record:
        return RecordingServices(Path(arguments.record), cwd, os.environ)
    return Services()


def _listen(hosted: HostedSession, output: Output) -> None:
    output.begin(hosted)
    hosted.harness.subscribe(output.take, in_process=False, patience_s=_PATIENCE_S)


def _configure(hosted: HostedSession, options: SessionOptions, services: Services) -> None:
    """A stored session goes on as ``options`` want it, and as it was where they say nothing."""
    choices = hosted.harness.configuration
    level = options.thinking_level
    if options.model is not None:
        choices.model, named_level = services.choose_model(options.model, None)
        level = level or named_level
    if level is not None:
        choices.thinking_level = level
    if options.tools is not None:
        choices.activate(options.tools)
    assert options.permission_mode is not None
    choices.permission_mode = options.permission_mode
    choices.limits = options.limits
    choices.system_prompt = options.system_prompt or choices.system_prompt
    choices.append_system_prompt = options.append_system_prompt
