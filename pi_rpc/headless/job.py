"""One prompt, to its end: the run, a second attempt at a wrong answer, and what came of it.

Owns the result and its exit code. Does not own how it is printed (``pi_rpc.headless.output``), nor
what may end it early (``pi_rpc.headless.ending``).
"""

from typing import Any

import anyio
import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from pi_rpc import chance
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.extensions import ExtensionCommand
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.runs import Limits, Run, RunOutcome
from pi_rpc.harness.usage import add_usage
from pi_rpc.headless._table import in_a_shell
from pi_rpc.headless.ending import Ending
from pi_rpc.headless.exit_codes import ExitCode, UsageError
from pi_rpc.headless.output_schema import OutputSchema, UnfitError
from pi_rpc.headless.prompt import Prompt
from pi_rpc.headless.result import Refusal, RunResult
from pi_rpc.host.hosted import HostedSession
from pi_rpc.host.masking import SecretMask
from pi_rpc.llm.abort import AbortController

__all__ = ["Job", "exit_code_of"]

_CUT_OFF = "the answer was cut off: it is longer than the model's limit"
_MISTAKES = frozenset({"invalidParams", "modelNotFound", "sessionNotFound"})
"""Kinds of refusal that another command line would not meet with."""


class Job:
    """What one command line has to do in a session."""

    def __init__(
        self, hosted: HostedSession, prompt: Prompt, schema: OutputSchema | None, ending: Ending
    ) -> None:
        self._hosted = hosted
        self._prompt = prompt
        self._schema = schema
        self._ending = ending
        self._refusals: list[Refusal] = []
        self._began = chance.elapsed_s()
        hosted.harness.permissions.on_refusal = self._note_refusal
        model = hosted.harness.configuration.model
        self.result = RunResult(hosted.id, model=model.ref if model is not None else "")

    def _note_refusal(self, tool_name: str, reason: str) -> None:
        self._refusals.append(Refusal(tool_name, in_a_shell(reason)))

    async def carry_out(self) -> None:
        """Do it; ``result`` then tells how it went."""
        try:
            called = self._hosted.harness.extensions.command(self._prompt.words)
            if called is not None:
                await self._command(called)
            else:
                await self._ask()
        except (HarnessError, UsageError) as error:
            self.result.exit_code = exit_code_of(error)
            if not self.result.run_id:  # Otherwise it tells how the model ended.
                self.result.stop_reason = "error"
            self.result.error_message = in_a_shell(str(error))
        self._finish()

    def note_problem(self, problem: str) -> None:
        """Something beside the answer went wrong; nothing if ``problem`` is empty."""
        if problem and self.result.exit_code in {ExitCode.DONE, ExitCode.REFUSED}:
            self.result.exit_code = ExitCode.FAILED
            self.result.error_message = problem

    def _finish(self) -> None:
        """Nothing more happens: what ended it early counts most."""
        result, ending = self.result, self._ending
        result.refusals = tuple(self._refusals)
        result.duration_ms = round((chance.elapsed_s() - self._began) * 1000, 1)
        if ending.code is not None:
            result.exit_code = ending.code
            result.error_message = ending.reason or result.error_message
        elif result.exit_code is ExitCode.DONE and result.refusals:
            result.exit_code = ExitCode.REFUSED

    def mask(self, mask: SecretMask) -> None:
        """Take credentials out of the result."""
        result = self.result
        result.text = mask.text(result.text)
        result.error_message = mask.text(result.error_message)
        result.refusals = [replace(each, reason=mask.text(each.reason)) for each in result.refusals]
        if result.output is not UNSET:
            result.output = msgspec.json.decode(mask.json(msgspec.json.encode(result.output)))

    # --- what an extension does ------------------------------------------------------------------

    async def _command(self, called: tuple[ExtensionCommand, str]) -> None:
        """What an extension has added; no model is asked."""
        if self._prompt.before or self._prompt.images:
            raise UsageError(
                f"/{called[0].name} is a command of an extension: it takes neither files nor"
                " standard input (</dev/null)"
            )
        stop = AbortController()
        self._ending.stops_with(stop.abort)
        failure = await self._hosted.harness.extensions.run(*called, stop.signal)
        self.result.handled = True
        if failure is not None:
            self.result.exit_code = ExitCode.FAILED
            self.result.stop_reason = "aborted" if stop.signal.aborted else "error"
            self.result.error_message = failure

    # --- what a model does -----------------------------------------------------------------------

    async def _ask(self) -> None:
        typed = await self._hosted.expanded(PromptInput(self._prompt.words))
        outcome = await self._run(self._prompt.said(typed.text))
        if self._schema is None or _code_of(outcome) is not ExitCode.DONE:
            return
        problem = await self._unfit(outcome)
        if problem is not None and self._may_ask_again():
            outcome = await self._run(PromptInput(self._schema.repair(problem)))
            if _code_of(outcome) is not ExitCode.DONE:
                return
            problem = await self._unfit(outcome)
        if problem is not None:
            self.result.exit_code = ExitCode.UNFIT
            self.result.error_message = str(problem)

    async def _run(self, said: PromptInput) -> RunOutcome:
        run = self._hosted.harness.prompt(said)
        self._ending.stops_with(run.abort)
        outcome = await run.wait()
        result = self.result
        result.run_id, result.stop_reason, result.text = run.id, outcome.stop_reason, outcome.text
        result.usage = add_usage(result.usage, outcome.usage)
        result.turns += run.turns
        result.error_message = outcome.error_message or ""
        result.exit_code = _code_of(outcome)
        if outcome.stop_reason == "length":
            result.error_message = result.error_message or _CUT_OFF
        self._leave_for_the_rest(run)
        return outcome

    def _leave_for_the_rest(self, run: Run) -> None:
        """What one run used of the limits the next has no more."""
        choices = self._hosted.harness.configuration
        turns, cost = choices.limits.turns, choices.limits.cost_usd
        choices.limits = Limits(
            turns=None if turns is None else turns - run.turns,
            cost_usd=None if cost is None else cost - run.totals.cost,
        )

    def _may_ask_again(self) -> bool:
        limits = self._hosted.harness.configuration.limits
        used_up = limits.turns is not None and limits.turns <= 0
        spent = limits.cost_usd is not None and limits.cost_usd <= 0
        return self._ending.code is None and not (used_up or spent)

    async def _unfit(self, outcome: RunOutcome) -> UnfitError | None:
        """What is wrong with the answer; otherwise its value is the result's, unless the end came
        while it was checked."""
        assert self._schema is not None
        with anyio.CancelScope() as scope:
            self._ending.stops_with(scope.cancel)
            try:
                value: Any = await self._schema.value_of(outcome.text)
            except UnfitError as error:
                return error
            self.result.output = value
        return None


def exit_code_of(error: HarnessError | UsageError) -> ExitCode:
    """The code of what could not be done."""
    is_mistake = isinstance(error, UsageError) or error.kind in _MISTAKES
    return ExitCode.USAGE if is_mistake else ExitCode.FAILED


def _code_of(outcome: RunOutcome) -> ExitCode:
    if outcome.stop_reason == "limit":
        return ExitCode.LIMIT
    return ExitCode.DONE if outcome.stop_reason in {"stop", "toolUse"} else ExitCode.FAILED
