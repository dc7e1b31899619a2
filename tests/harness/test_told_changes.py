"""``files_changed``: once for each call that changed files, before its end."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from pi_rpc.agent.events import AgentEvent, FilesChanged, ToolExecutionEnd
from pi_rpc.agent.ports import FileChange
from pi_rpc.harness.file_changes import ToldChanges
from pi_rpc.llm.scripted import text, tool_call
from pi_rpc.tools import bash_tool, write_tool
from tests.harness.hall import Hall, hall

pytestmark = pytest.mark.anyio

TOOLS = (bash_tool(), write_tool())


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(one: Hall) -> list[tuple[Any, list[tuple[str, str]]]]:
    """Of each event the call, and its changes."""
    return [
        (each.tool_call_id, [(change.uri, change.kind) for change in each.changes])
        for each in one.of(FilesChanged)
    ]


async def test_calls_and_commands_tell_what_they_changed_before_they_end(project: Path) -> None:
    replies = [
        [tool_call("write", {"path": "a b", "content": "x"})],
        [tool_call("bash", {"command": "rm 'a b'; echo x > c; echo x > d"})],
        [tool_call("bash", {"command": "cat c"})],
        [text("done")],
    ]
    async with hall(replies, tools=TOOLS) as one:
        one.harness.file_changes.watches_commands = True
        await one.harness.prompt("go")
        uri = project.as_uri()
        assert told(one) == [
            ("call_1_1", [(f"{uri}/a%20b", "created")]),
            (
                "call_2_1",
                [(f"{uri}/a%20b", "deleted"), (f"{uri}/c", "created"), (f"{uri}/d", "created")],
            ),
        ]
        ends = {each.tool_call_id: each for each in one.of(ToolExecutionEnd)}
        for event in one.of(FilesChanged):
            assert one.heard.index(event) < one.heard.index(ends[event.tool_call_id])


async def test_commands_of_the_person_tell_it_without_a_call(project: Path) -> None:
    async with hall([]) as one:
        one.harness.file_changes.watches_commands = True
        await one.harness.bash("echo x > c; exit 3")
        assert told(one) == [(UNSET, [((project / "c").as_uri(), "created")])]


async def test_a_command_is_not_watched_for_nobody(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked(*_: Any) -> Any:
        raise AssertionError("it was looked at what a command changed")

    monkeypatch.setattr("pi_rpc.tools.changed_files.CommandChanges.before", looked)
    async with hall([]) as one:
        await one.harness.bash("echo x > c")
        assert told(one) == []
    assert (project / "c").exists()


async def test_what_could_not_be_looked_at_is_told_as_such(project: Path) -> None:
    heard: list[AgentEvent] = []
    kept: list[Sequence[FileChange]] = []
    changes = ToldChanges(heard.extend, kept.append)
    changes.watches_commands = True
    async with changes.around_command(project, "call-1"):
        assert changes._commands is not None
        changes._commands._budget_s = 0.0
        (project / "f").touch()
    (event,) = heard
    assert isinstance(event, FilesChanged)
    assert (event.changes, event.truncated, event.tool_call_id) == ([], True, "call-1")
    assert kept == [()]


async def test_a_command_that_could_not_be_run_tells_nothing(project: Path) -> None:
    heard: list[AgentEvent] = []
    changes = ToldChanges(heard.extend, lambda _: None)
    changes.watches_commands = True

    async def fail() -> None:
        async with changes.around_command(project):
            (project / "f").touch()
            raise OSError("no shell")

    with pytest.raises(OSError, match="no shell"):
        await fail()
    assert heard == []


async def test_who_keeps_account_hears_of_a_change_first() -> None:
    order: list[str] = []
    changes = ToldChanges(lambda _: order.append("told"), lambda _: order.append("kept"))
    changes.changed([FileChange(Path("/f"), "created")])
    changes.changed([])
    assert order == ["kept", "told"]
