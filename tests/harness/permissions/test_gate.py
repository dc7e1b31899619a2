"""The gate of a session in process: what is remembered where, and what a call is given."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.agent.events import Diagnostic
from pi_rpc.agent.permission import PermissionAnswer, PermissionRequest
from pi_rpc.agent.ports import PortError, ToolContext
from pi_rpc.agent.tool import AgentTool, ToolDescription, ToolResult
from pi_rpc.harness.configuration import SessionConfiguration
from pi_rpc.harness.permissions.gate import HookDecision, PermissionGate, PlannedCall
from pi_rpc.harness.permissions.rules import RuleSet, parse_rule
from pi_rpc.harness.resources import Resources
from pi_rpc.harness.skills import Skill
from pi_rpc.llm.abort import AbortController
from pi_rpc.tools import LocalFiles, LocalShell, builtin_tools

pytestmark = pytest.mark.anyio


@dataclass
class Person:
    """A ``PermissionAsker`` that takes the first option of a kind."""

    choice: str = "allow_once"
    asked: list[PermissionRequest] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    def can_ask(self) -> bool:
        return True

    async def request(
        self, request: PermissionRequest, *, timeout_s: float | None = None
    ) -> PermissionAnswer | None:
        del timeout_s
        self.asked.append(request)
        self.meanwhile()
        ids = [each.id for each in request.options if each.kind == self.choice]
        return PermissionAnswer(option_id=ids[0]) if ids else None

    def settle(self, tool_call_id: str) -> None:
        raise AssertionError("nothing waits: every question is answered at once")


class Stage:
    """A gate in a project, with somebody to ask."""

    def __init__(self, tmp_path: Path) -> None:
        self.project, self.agent_dir = tmp_path / "project", tmp_path / "agent"
        self.project.mkdir()
        self.agent_dir.mkdir()
        self.configuration = SessionConfiguration(cwd=self.project, tools=builtin_tools())
        self.gate = PermissionGate(self.configuration, folder=self.agent_dir)
        self.person = Person()
        self.gate.asker = self.person
        self.told: list[Diagnostic] = []
        self.gate.report = self.told.append

    async def before(
        self, tool: str | AgentTool, hook: HookDecision = None, **args: Any
    ) -> tuple[str, ToolContext | None]:
        """Why a call is refused, and what it is given otherwise."""
        found = self.configuration.tools[tool] if isinstance(tool, str) else tool
        context = ToolContext(cwd=self.project, files=LocalFiles(), shell=LocalShell())
        planned = PlannedCall("c1", found, args, context, AbortController().signal, hook)
        result = await self.gate.before(planned)
        return (result.reason or "") if result.block else "", result.tool_context


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def test_a_call_is_given_only_the_files_that_it_was_granted(stage: Stage) -> None:
    outside = stage.project.parent / "outside"
    outside.mkdir()
    for name in ("granted", "other"):
        (outside / name).write_text(name)
    (stage.project / "inside").write_text("inside")
    refusal, context = await stage.before("read", path=str(outside / "granted"))
    assert refusal == ""
    assert len(stage.person.asked) == 1
    assert context is not None
    assert await context.files.read(outside / "granted") == b"granted"
    assert await context.files.read(stage.project / "inside") == b"inside"
    with pytest.raises(PortError, match="not permitted"):
        await context.files.read(outside / "other")
    with pytest.raises(PortError, match="not permitted"):
        await context.files.write(stage.project / "inside", b"x")


async def test_an_edit_may_be_written_where_it_was_judged_and_nowhere_else(stage: Stage) -> None:
    stage.configuration.permission_mode = "edits"
    refusal, context = await stage.before("write", path="a", content="x")
    assert (refusal, stage.person.asked) == ("", [])
    assert context is not None
    await context.files.write(stage.project / "a", b"x")
    with pytest.raises(PortError, match="not permitted"):
        await context.files.write(stage.project / "b", b"x")
    stage.configuration.permission_mode = "readonly"
    with pytest.raises(PortError, match="not permitted"):
        await context.files.write(stage.project / "a", b"y")


async def test_an_answer_that_cannot_be_kept_holds_for_the_session_and_is_told(
    stage: Stage,
) -> None:
    kept = stage.agent_dir / "pi-rpc" / "permissions.json"
    kept.parent.mkdir()
    kept.write_text("{")
    stage.person.choice = "allow_always"
    for _ in range(2):
        assert (await stage.before("bash", command="make"))[0] == ""
    assert len(stage.person.asked) == 1
    assert kept.read_text() == "{"
    assert [each.rule.text for each in stage.gate.session_rules()] == ["bash(make)"]
    broken, unkept = [each.message for each in stage.told]
    assert "not valid JSON" in broken
    assert "for this session only" in unkept


async def test_a_rule_that_was_forgotten_is_asked_about_again(stage: Stage) -> None:
    stage.person.choice = "allow_session"
    await stage.before("bash", command="make")
    (rule,) = stage.gate.session_rules()
    assert stage.gate.forget(rule.id)
    assert not stage.gate.forget(rule.id)
    await stage.before("bash", command="make")
    assert len(stage.person.asked) == 2


async def test_what_was_denied_while_it_was_asked_about_is_refused(stage: Stage) -> None:
    def deny() -> None:
        stage.gate.rules = RuleSet((parse_rule("bash(make)", "deny"),))

    stage.person.meanwhile = deny
    assert "denies" in (await stage.before("bash", command="make"))[0]


async def test_an_answer_for_a_hooks_question_is_for_once(stage: Stage) -> None:
    stage.configuration.permission_mode = "full"
    assert (await stage.before("bash", "ask", command="make"))[0] == ""
    (request,) = stage.person.asked
    assert [each.kind for each in request.options] == ["allow_once", "reject_once"]


async def test_a_skill_may_be_read_with_what_is_beside_it_if_it_has_a_folder(stage: Stage) -> None:
    shared = stage.project.parent / "skills"
    (shared / "brew").mkdir(parents=True)
    for name in ("brew/SKILL.md", "brew/more.md", "alone.md", "other.md"):
        (shared / name).write_text("x")
    skills = [
        Skill(name="brew", description="", path=shared / "brew/SKILL.md", scope="user"),
        Skill(name="alone", description="", path=shared / "alone.md", scope="user"),
    ]
    stage.configuration.resources = Resources(skills=tuple(skills))
    for name in ("brew/SKILL.md", "brew/more.md", "alone.md"):
        await stage.before("read", path=str(shared / name))
    assert stage.person.asked == []
    await stage.before("read", path=str(shared / "other.md"))
    assert len(stage.person.asked) == 1


def _tool(kind: Any, describe: Any = None) -> AgentTool:
    return AgentTool(
        name="own",
        label="Own",
        description="",
        parameters={"type": "object"},
        execute=lambda *_: ToolResult.of_text("done"),
        kind=kind,
        describe=describe,
    )


def _raises(*_: Any) -> ToolDescription:
    raise RuntimeError("no")


@pytest.mark.parametrize("describe", [None, _raises])
@pytest.mark.parametrize(
    ("kind", "asks"), [("read", False), ("edit", True), ("execute", True), ("other", True)]
)
async def test_a_tool_of_an_extension_is_asked_about_by_its_kind(
    stage: Stage, kind: Any, asks: bool, describe: Any
) -> None:
    for mode in ("ask", "edits"):
        stage.configuration.permission_mode = mode  # type: ignore[assignment]
        refusal, context = await stage.before(_tool(kind, describe), path="x")
        assert refusal == ""
        assert context is not None
        assert isinstance(context.files, LocalFiles)
    assert len(stage.person.asked) == (2 if asks else 0)


async def test_what_runs_something_is_not_free_because_it_names_a_file_inside(stage: Stage) -> None:
    from pi_rpc.tools._paths import locations_of

    def describe(params: Any, context: ToolContext) -> ToolDescription:
        return ToolDescription("run", locations_of(params["path"], context.cwd))

    stage.configuration.permission_mode = "edits"
    await stage.before(_tool("execute", describe), path="script.py")
    assert len(stage.person.asked) == 1
