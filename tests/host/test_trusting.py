"""Trusting a project, and not any more: what open sessions gain and lose."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_rpc.agent.events import CommandsChanged, Diagnostic, SessionChanged
from pi_rpc.harness.errors import HarnessError
from pi_rpc.host.host import Host, HostedSession, SessionOptions
from pi_rpc.host.services import Services
from pi_rpc.host.trusting import ProjectTrust, decide_trust, project_trust
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio


EVERYTHING = """
from msgspec import Struct
from pi_rpc.agent.tool import AgentTool, ToolResult

class Note(Struct, tag_field="role", tag="note"):
    text: str

def setup(api):
    api.tool(AgentTool(name="oil", label="Oil", description="Oils.", kind="read",
                       parameters={"type": "object"},
                       execute=lambda *_: ToolResult.of_text("oiled")))
    api.command("start", "Starts", lambda _: None)
    api.role(Note)
    api.on("context", lambda payload: None)
    keep.append(api)

keep = []
"""


@asynccontextmanager
async def project(tmp_path: Path) -> AsyncIterator[tuple[Host, HostedSession, Path]]:
    """A host with one open session in a project, and the project's folder."""
    folder, cwd = tmp_path / "home", tmp_path / "engine"
    own = cwd / ".pi"
    own.mkdir(parents=True)
    folder.mkdir()
    async with anyio.create_task_group() as tasks:
        host = Host(Services(folder), SessionOptions(ephemeral=True), cwd, tasks)
        try:
            options = SessionOptions(ephemeral=True, permission_mode="full")
            yield host, await host.create(options), own
        finally:
            with anyio.fail_after(DEADLINE_S, shield=True):
                await host.aclose()
            tasks.cancel_scope.cancel()


def heard(hosted: HostedSession) -> list[Any]:
    events: list[Any] = []
    hosted.harness.subscribe(events.extend)
    return events


def extension(own: Path, name: str, source: str) -> None:
    (own / "extensions-py").mkdir(exist_ok=True)
    (own / "extensions-py" / f"{name}.py").write_text(source)


def has(hosted: HostedSession) -> tuple[bool, bool, bool, bool]:
    """The tool, the command, the role and the hook of the extension."""
    harness = hosted.harness
    return (
        "oil" in harness.configuration.tools,
        harness.extensions.command("/start") is not None,
        "note" in harness.configuration.roles,
        harness.hooks.has("context"),
    )


async def test_an_extension_comes_with_trust_and_all_it_added_goes_with_it(tmp_path: Path) -> None:
    async with project(tmp_path) as (host, hosted, own):
        extension(own, "engine", EVERYTHING)
        events = heard(hosted)
        assert not any(has(hosted))
        await decide_trust(host, None, True)
        assert all(has(hosted))
        (changed,) = [each for each in events if isinstance(each, SessionChanged)]
        assert "oil" in changed.changes["activeTools"]
        await decide_trust(host, None, True)
        assert all(has(hosted))
        await decide_trust(host, None, False)
        assert not any(has(hosted))
        assert [type(each) for each in events].count(CommandsChanged) == 3
        await decide_trust(host, None, True)
        assert all(has(hosted))


async def test_what_an_extension_does_after_it_was_taken_back_has_no_effect(
    tmp_path: Path,
) -> None:
    async with project(tmp_path) as (host, hosted, own):
        extension(own, "engine", EVERYTHING)
        await decide_trust(host, None, True)
        (_, api) = hosted.harness.extensions._loaded[-1]
        await decide_trust(host, None, None)
        events = heard(hosted)
        api.command("late", "Late", lambda _: None)
        api.notify("still here")
        assert hosted.harness.extensions.command("/late") is None
        assert events == []


async def test_a_broken_extension_and_wrong_settings_are_told_when_they_are_read(
    tmp_path: Path,
) -> None:
    async with project(tmp_path) as (host, hosted, own):
        extension(own, "broken", "raise RuntimeError('not today')")
        (own / "settings.json").write_text('{"steeringMode": "sideways"}')
        events = heard(hosted)
        await decide_trust(host, None, True)
        told = [each.message for each in events if isinstance(each, Diagnostic)]
        assert any("not today" in each for each in told)
        assert any("steeringMode" in each for each in told)


async def test_settings_of_the_project_hold_where_a_person_has_not_chosen_otherwise(
    tmp_path: Path,
) -> None:
    async with project(tmp_path) as (host, hosted, own):
        written = {
            "steeringMode": "all",
            "compaction": {"enabled": False, "keepRecentTokens": 7},
            "retry": {"maxRetries": 9},
        }
        (own / "settings.json").write_text(json.dumps(written))
        choices, harness = hosted.harness.configuration, hosted.harness
        choices.auto_retry = False
        harness.follow_up_mode = "all"
        events = heard(hosted)
        await decide_trust(host, None, True)
        assert (harness.steering_mode, harness.follow_up_mode) == ("all", "all")
        assert (choices.auto_compaction, choices.auto_retry) == (False, False)
        assert choices.compaction.keep_recent_tokens == 7
        assert choices.retries.max_retries == 9
        changed: dict[str, Any] = {}
        for each in events:
            if isinstance(each, SessionChanged):
                changed |= each.changes
        assert changed == {"steeringMode": "all", "autoCompaction": False}
        await decide_trust(host, None, None)
        assert (harness.steering_mode, choices.auto_compaction) == ("one-at-a-time", True)
        assert choices.compaction.keep_recent_tokens == 20_000


async def test_decisions_at_once_leave_every_session_as_the_last_one_says(tmp_path: Path) -> None:
    async with project(tmp_path) as (host, hosted, own):
        extension(own, "engine", EVERYTHING)
        async with anyio.create_task_group() as deciding:
            for trusted in (True, False, True, False, True):
                deciding.start_soon(decide_trust, host, None, trusted)
        stands = await project_trust(host, None)
        assert all(has(hosted)) is stands.trusted
        assert any(has(hosted)) is stands.trusted


async def test_a_link_to_a_project_is_the_project(tmp_path: Path) -> None:
    async with project(tmp_path) as (host, hosted, own):
        extension(own, "engine", EVERYTHING)
        link = tmp_path / "link"
        link.symlink_to(own.parent)
        waiting = str(own.resolve() / "extensions-py")
        assert await project_trust(host, link) == ProjectTrust(False, (waiting,))
        assert await decide_trust(host, link, True) == ProjectTrust(True, ())
        assert all(has(hosted))


async def test_a_decision_that_cannot_be_stored_changes_no_session(tmp_path: Path) -> None:
    async with project(tmp_path) as (host, hosted, own):
        extension(own, "engine", EVERYTHING)
        (host.services.folder / "trust.json").write_text("[]")
        events = heard(hosted)
        with pytest.raises(HarnessError) as refused:
            await decide_trust(host, None, True)
        assert refused.value.kind == "storage"
        assert not any(has(hosted))
        assert events == []
