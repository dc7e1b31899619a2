"""PermissionGate: has every tool call of a session decided, and asks where somebody must be asked.

Owns the order around one call: what it touches, the decision, the question, what is remembered of
the answer, and what the call may then work with. Does not own the decision
(``pi_rpc.harness.permissions.decision``), what is kept for longer
(``pi_rpc.harness.permissions.remembered``), nor how a person is asked (a ``PermissionAsker``).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.config import BeforeToolCallResult
from pi_rpc.agent.events import Diagnostic
from pi_rpc.agent.permission import (
    NobodyPermits,
    PermissionAnswer,
    PermissionAsker,
    PermissionRequest,
)
from pi_rpc.agent.ports import PortError, ToolContext
from pi_rpc.agent.review import ProposedEdit
from pi_rpc.agent.tool import AgentTool, ToolDescription, ToolFailure
from pi_rpc.harness.configuration import SessionConfiguration
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.paths import agent_dir
from pi_rpc.harness.permissions._options import (
    REJECTS,
    nobody_text,
    options_for,
    rejection,
)
from pi_rpc.harness.permissions.decision import Call, Decision, decide
from pi_rpc.harness.permissions.guarded_files import Grant, GuardedFiles
from pi_rpc.harness.permissions.paths import Zones
from pi_rpc.harness.permissions.remembered import (
    Remembered,
    RememberedAnswers,
    RewriteError,
    new_rule_id,
)
from pi_rpc.harness.permissions.rules import Rule, RuleSet
from pi_rpc.harness.skills import Skill
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.tools._paths import display_text, resolve_path

__all__ = ["HookDecision", "PermissionGate", "PlannedCall"]

_log = logging.getLogger("pi_rpc.harness")

HookDecision: TypeAlias = Literal["allow", "ask"] | None
"""What hooks said: nobody need be asked, somebody must be, or nothing."""

_UNANSWERED = "The person did not answer, so this call was not made."
_MOVED = "The file has changed since this was shown; this is the edit of what it holds now."


class PlannedCall(Struct, frozen=True):
    """A call that is about to run."""

    id: str
    tool: AgentTool
    args: dict[str, Any]
    """What it will run with, hooks heard."""
    context: ToolContext
    """What it would work in and with."""
    signal: AbortSignal
    hook: HookDecision = None


class _Waiting(Struct, eq=False):
    """A call that a person is asked about."""

    planned: PlannedCall
    paths: Sequence[Path]
    is_moot: bool = False
    """It was decided by the answer to another question."""


class PermissionGate:
    """What the calls of one session may do."""

    def __init__(
        self,
        configuration: SessionConfiguration,
        *,
        folder: Path | None = None,
        remembered: RememberedAnswers | None = None,
    ) -> None:
        """``folder`` is the agent directory, None takes pi's; ``remembered`` may be shared."""
        self._configuration = configuration
        self._folder = folder or agent_dir()
        self._remembered = remembered or RememberedAnswers(self._folder)
        self._session: dict[str, Rule] = {}
        self._told: set[str] = set()
        self._waiting: list[_Waiting] = []
        self.rules = RuleSet()
        """Those of settings."""
        self.timeout_s: float | None = None
        """How long a question waits; None: as long as it takes."""
        self.asker: PermissionAsker = NobodyPermits()
        """Whom the front door has put in place."""
        self.report: Callable[[Diagnostic], None] = lambda diagnostic: None
        """Tells what went wrong."""
        self.on_refusal: Callable[[str, str], None] = lambda tool_name, reason: None
        """Is told of every call that may not run, and why; a person's own no excepted."""

    def close(self) -> None:
        """The session is closed: nobody is asked any more."""
        self.asker = NobodyPermits()

    # --- rules -----------------------------------------------------------------------------------

    def session_rules(self) -> list[Remembered]:
        """Answers that hold in this session."""
        return [Remembered(rule_id, rule) for rule_id, rule in self._session.items()]

    def keep(self, remembered: Sequence[Remembered]) -> None:
        """Answers that hold in this session, from when it was in memory before."""
        self._session |= {each.id: each.rule for each in remembered}

    def forget(self, rule_id: str) -> bool:
        """Forget an answer that holds in this session; whether there was one."""
        return self._session.pop(rule_id, None) is not None

    async def require_edits_allowed(self, paths: Sequence[Path]) -> None:
        """Refuses where rules deny changing one of ``paths``; nobody is asked."""

        def decided(path: Path) -> Decision:
            denials = RuleSet(tuple(each for each in self._rules().rules if each.effect == "deny"))
            call = Call(tool_name="edit", kind="edit", paths=(path,), access="edit")
            return decide(call, "full", denials, self._zones())

        for path in paths:
            decision = await run_blocking(decided, path)
            if decision.verdict == "refuse":
                raise HarnessError("permissionDenied", f"{path}: {decision.reason}")

    # --- a call ----------------------------------------------------------------------------------

    async def before(self, planned: PlannedCall) -> BeforeToolCallResult:
        """Whether a call may run and with what; asks, where it must be and can be asked.

        A ``guarded`` tool that edits is asked about later, when it knows what it would write.
        """
        try:
            paths = await _paths_of(planned)
        except PortError as error:
            return _blocked(error.message)
        decision = await self.judged(planned, paths)
        if decision.verdict == "ask" and not self.asker.can_ask():
            return self._refused(planned, nobody_text(decision.reason, decision.offers))
        if decision.verdict == "ask" and not _shows_edits(planned.tool):
            answer = await self.asked(planned, decision, paths)
            if isinstance(answer, str):
                return _blocked(answer)
            # It may have taken hours, and what is refused has not become less so.
            decision = await self.judged(planned, paths)
        if decision.verdict == "refuse":
            return self._refused(planned, decision.reason)
        if not planned.tool.guarded:
            return BeforeToolCallResult(tool_context=planned.context)
        context = planned.context
        permitted = paths if decision.verdict == "ask" or planned.hook == "allow" else ()
        grant = await run_blocking(self._grant, planned.tool, paths, permitted)
        context = replace(context, files=GuardedFiles(context.files, grant))
        if decision.verdict == "ask" and _shows_edits(planned.tool):
            context = replace(context, reviewer=_Review(self, planned))
        return BeforeToolCallResult(tool_context=context)

    def withheld(self, tool_name: str) -> str | None:
        """Why the model is not told of a tool that there is; None where the mode is no reason."""
        tool = self._configuration.tools.get(tool_name)
        reason = None if tool is None else self._configuration.refusal(tool)
        if reason is not None:
            self.on_refusal(tool_name, reason)
        return reason

    async def judged(self, planned: PlannedCall, paths: Sequence[Path]) -> Decision:
        """What becomes of a call that touches ``paths``, hooks heard."""
        tool, args = planned.tool, planned.args
        command = args.get("command") if tool.kind == "execute" else None
        call = Call(
            tool_name=tool.name,
            kind=tool.kind,
            args=args,
            # What else runs something is not known by where it does.
            paths=() if tool.kind == "execute" else tuple(paths),
            access="read" if tool.kind == "read" else "edit",
            command=command if isinstance(command, str) else None,
        )
        decision = await run_blocking(self._decided, call)
        self._tell(self._remembered.problems())
        if decision.verdict == "ask" and planned.hook == "allow":
            return replace(decision, verdict="allow")
        if decision.verdict != "refuse" and planned.hook == "ask":
            # Whatever were remembered, the hook would have it asked again.
            reason = "A hook wants it to be asked about."
            return replace(decision, verdict="ask", reason=reason, offers=())
        return decision

    async def asked(
        self,
        planned: PlannedCall,
        decision: Decision,
        paths: Sequence[Path],
        *edits: ProposedEdit,
        moved: bool = False,
    ) -> PermissionAnswer | str:
        """The person's answer where they allow it, else what the model reads.

        An answer to another question may make this one moot: then it is as if it were allowed, and
        whoever asks has the call judged again."""
        options, rules = options_for(decision.offers)
        description = described(planned.tool, planned.args, planned.context)
        request = PermissionRequest(
            tool_call_id=planned.id,
            tool_name=planned.tool.name,
            kind=planned.tool.kind,
            title=display_text(description.title),
            args=planned.args,
            reason=f"{_MOVED} {decision.reason}".strip() if moved else decision.reason,
            locations=description.locations,
            edits=edits,
            options=options,
        )
        waiting = _Waiting(planned, paths)
        self._waiting.append(waiting)
        try:
            answer = await self.asker.request(request, timeout_s=self.timeout_s)
        finally:
            self._waiting.remove(waiting)
        if answer is None and waiting.is_moot:
            return PermissionAnswer(option_id="")
        kinds = {each.id: each.kind for each in options}
        if answer is None or answer.option_id not in kinds:
            return _UNANSWERED
        kind = kinds[answer.option_id]
        if given := rules.get(answer.option_id):
            with anyio.CancelScope(shield=True):
                await self._remember(given, always=kind != "allow_session")
                await self._settle_others()
        return rejection(answer.feedback) if kind in REJECTS else answer

    # --- inside ----------------------------------------------------------------------------------

    def _refused(self, planned: PlannedCall, reason: str) -> BeforeToolCallResult:
        self.on_refusal(planned.tool.name, reason)
        return _blocked(reason)

    def _decided(self, call: Call) -> Decision:
        """Blocks."""
        mode = self._configuration.permission_mode
        return decide(call, mode, self._rules(), self._zones())

    def _grant(self, tool: AgentTool, named: Sequence[Path], permitted: Sequence[Path]) -> Grant:
        """What a call of ``tool`` may do that names some files, and was ``permitted`` to read
        some that not every call may. Blocks."""
        rules, zones, mode = self._rules(), self._zones(), self._configuration.permission_mode
        edits = tool.kind == "edit"

        def may_read(real: Path) -> bool:
            call = Call(tool_name="read" if edits else tool.name, kind="read", paths=(real,))
            verdict = decide(call, mode, rules, zones).verdict
            below = verdict == "ask" and any(map(real.is_relative_to, permitted))
            return verdict == "allow" or below

        def may_write(real: Path) -> bool:
            if not edits or real not in named:
                return False
            call = Call(tool_name=tool.name, kind="edit", paths=(real,), access="edit")
            return self._decided(call).verdict != "refuse"

        return Grant(may_read, may_write)

    def _rules(self) -> RuleSet:
        """All that hold. Blocks."""
        kept = [each.rule for each in self._remembered.of(self._configuration.cwd)]
        return self.rules + RuleSet((*kept, *self._session.values()))

    def _zones(self) -> Zones:
        """Blocks."""
        choices = self._configuration
        return Zones(
            choices.cwd,
            agent_dir=self._folder,
            additional=[Path(each) for each in choices.additional_directories],
            readable=[_readable(skill) for skill in choices.resources.skills],
        )

    async def _remember(self, rules: Sequence[Rule], *, always: bool) -> None:
        """Keep ``rules`` for the project, or, where that cannot be, for the session."""
        for rule in rules:
            try:
                if always:
                    await run_blocking(self._remembered.add, self._configuration.cwd, rule)
                    continue
            except (RewriteError, OSError) as error:
                text = f"the answer about {rule.text} holds for this session only: {error}"
                self.report(Diagnostic(severity="warning", message=text, source="permissions"))
            if rule not in self._session.values():
                self._session[new_rule_id()] = rule

    async def _settle_others(self) -> None:
        """Take back the questions that what is remembered now has answered."""
        for waiting in list(self._waiting):
            decision = await self.judged(waiting.planned, waiting.paths)
            if decision.verdict != "ask" and waiting in self._waiting:
                waiting.is_moot = True
                self.asker.settle(waiting.planned.id)

    def _tell(self, problems: Sequence[str]) -> None:
        for problem in problems:
            if problem not in self._told:
                self._told.add(problem)
                self.report(Diagnostic(severity="warning", message=problem, source="permissions"))


class _Review:
    """The ``Reviewer`` of one call."""

    def __init__(self, gate: PermissionGate, planned: PlannedCall) -> None:
        self._gate = gate
        self._planned = planned
        self._was_asked = False

    async def review(self, edit: ProposedEdit, *, moved: bool = False) -> str:
        """What the person wants written; asked only where it must be, or was before."""
        gate, planned = self._gate, self._planned
        decision = await gate.judged(planned, (edit.path,))
        if decision.verdict == "refuse":
            raise ToolFailure(decision.reason)
        if decision.verdict == "allow" and not (moved and self._was_asked):
            return edit.new_text
        if not gate.asker.can_ask():
            raise ToolFailure(nobody_text(decision.reason, decision.offers))
        self._was_asked = True
        answer: PermissionAnswer | str = "Operation aborted"
        with planned.signal.cancel_scope():
            answer = await gate.asked(planned, decision, (edit.path,), edit, moved=moved)
        if isinstance(answer, str):
            raise ToolFailure(answer)
        if (await gate.judged(planned, (edit.path,))).verdict == "refuse":
            raise ToolFailure("What was allowed has been forbidden in the meantime.")
        texts = [each.new_text for each in answer.edits if each.path == edit.path]
        return texts[-1] if texts else edit.new_text


def described(tool: AgentTool, args: Mapping[str, Any], context: ToolContext) -> ToolDescription:
    """Title and places of a call."""
    if tool.describe is None:
        return ToolDescription(tool.label)
    try:
        return tool.describe(args, context)
    except Exception:  # noqa: BLE001 - an extension's own; it is asked about without places
        _log.exception("the tool %s could not describe a call", tool.name)
        return ToolDescription(tool.label)


async def _paths_of(planned: PlannedCall) -> list[Path]:
    """The real paths that a call names."""
    context = planned.context
    locations = described(planned.tool, planned.args, context).locations
    return [
        await context.files.real_path(resolve_path(each.uri, context.cwd)) for each in locations
    ]


def _shows_edits(tool: AgentTool) -> bool:
    return tool.guarded and tool.kind == "edit"


def _readable(skill: Skill) -> Path:
    """What the model may read of a skill: its folder, where it has one of its own."""
    return skill.folder if skill.path.name == "SKILL.md" else skill.path


def _blocked(reason: str) -> BeforeToolCallResult:
    return BeforeToolCallResult(block=True, reason=reason)
