"""A harness around a session: the choices it begins with, and the parts it is made of.

Owns where each choice comes from: the options of the session, the host's defaults, the session's
file, the settings of the project. Does not own which sessions are open (``pi_rpc.host.host``).
"""

import math
import os
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.events import Diagnostic
from pi_rpc.agent.ports import Asker, ToolContext
from pi_rpc.harness.checkpoint_store import CheckpointStore
from pi_rpc.harness.configuration import SessionConfiguration
from pi_rpc.harness.harness import AgentHarness
from pi_rpc.harness.permissions.gate import PermissionGate
from pi_rpc.harness.queue import QueueKind
from pi_rpc.harness.settings import QueueMode, Settings
from pi_rpc.host.edited_files import EditedFiles
from pi_rpc.host.hosted import HostedSession, SessionOptions
from pi_rpc.host.project import ProjectSetup, load_project
from pi_rpc.host.questions import FrontDoorAsker
from pi_rpc.host.services import Services
from pi_rpc.host.shells import FrontDoorShell
from pi_rpc.host.storage import missing_directory
from pi_rpc.llm.messages import ThinkingLevel
from pi_rpc.llm.models import THINKING_LEVELS
from pi_rpc.llm.provider import StreamOptions, cache_retention_of
from pi_rpc.session.context import build_context
from pi_rpc.session.storage import SessionStorage

__all__ = ["Choices", "apply_permissions", "build", "make_ready"]


async def build(
    services: Services,
    defaults: SessionOptions,
    options: SessionOptions,
    session: SessionStorage,
    task_group: TaskGroup,
) -> HostedSession:
    """A harness around ``session``, with no extensions yet; on failure ``session`` is closed.

    ``options`` have a ``cwd`` that was checked, or None for the one the session names. Raises
    ``modelNotFound``.
    """
    cwd = options.cwd or Path(session.cwd)
    try:
        project = await run_blocking(load_project, services.folder, cwd)
        configuration = await _configuration(services, defaults, options, session, project)
    except BaseException:
        await session.aclose()
        raise
    hosted: HostedSession

    async def pressure() -> None:
        if hosted.pressure is not None:
            await hosted.pressure()

    asker = FrontDoorAsker()
    tool_context = _tool_context(services, session, cwd, asker)
    files, shell = EditedFiles(tool_context.files), FrontDoorShell(tool_context.shell)
    harness = AgentHarness(
        session=session,
        configuration=configuration,
        stream_fn=services.stream,
        tool_context=replace(tool_context, files=files, shell=shell),
        task_group=task_group,
        pressure=pressure,
        checkpoints=_checkpoints(services, options),
        permissions=PermissionGate(
            configuration, folder=services.folder, remembered=services.remembered
        ),
    )
    apply_permissions(harness, project.settings)
    harness.hooks.time_limit_s = project.settings.hook_timeout_s or math.inf
    harness.queue.modes["steer"] = project.settings.steering_mode
    harness.queue.modes["followUp"] = project.settings.follow_up_mode
    hosted = HostedSession(
        harness, files, shell, ephemeral=options.ephemeral, asker=asker, project=project
    )
    return hosted


async def make_ready(
    hosted: HostedSession,
    services: Services,
    tools: Sequence[str] | None,
    like: "Choices | None",
) -> list[Diagnostic]:
    """Give what was built its extensions, these of all the tools, and the choices of another; on
    failure it is closed. Returns what a person is to be told."""
    harness, project = hosted.harness, hosted.project
    try:
        sources = (*project.extensions, *await run_blocking(services.extensions))
        told = await harness.extensions.load(sources)
        if tools is not None:
            harness.configuration.activate(list(tools))
        if like is not None:
            like.put_into(harness)
        missing = await run_blocking(missing_directory, harness.configuration.cwd)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await harness.aclose()
        raise
    notes = harness.session.notes
    problems = [*services.problems, *project.problems, *notes, *missing]
    warnings = [Diagnostic(severity="warning", message=each) for each in dict.fromkeys(problems)]
    return [*warnings, *told]


def apply_permissions(harness: AgentHarness, settings: Settings) -> None:
    """What settings say about permissions holds from now on."""
    harness.permissions.rules = settings.permissions.rules
    harness.permissions.timeout_s = settings.permissions.timeout_s or None


_CHOSEN = (
    *("model", "thinking_level", "permission_mode", "named_tools", "chosen_tools"),
    *("additional_directories", "limits", "system_prompt", "append_system_prompt"),
    *("auto_compaction", "auto_retry"),
)


class Choices(Struct, frozen=True):
    """What was chosen in a session, as far as it is not stored with it."""

    configured: Mapping[str, Any]
    modes: Mapping[QueueKind, QueueMode]

    @classmethod
    def of(cls, harness: AgentHarness) -> "Choices":
        """Those of an open session, as they are now."""
        configured = {name: copy(getattr(harness.configuration, name)) for name in _CHOSEN}
        return cls(configured, dict(harness.queue.modes))

    def put_into(self, harness: AgentHarness) -> None:
        """``harness`` goes on with them."""
        for name, value in self.configured.items():
            setattr(harness.configuration, name, copy(value))
        harness.queue.modes.update(self.modes)


async def _configuration(
    services: Services,
    defaults: SessionOptions,
    options: SessionOptions,
    session: SessionStorage,
    project: ProjectSetup,
) -> SessionConfiguration:
    branch = session.branch()
    context = build_context(branch)
    named, recorded = options.model or defaults.model, context.model
    await services.look_for_model(named or (recorded[0] if recorded else None))
    model, level = services.choose_model(named, recorded)
    mode = options.permission_mode or defaults.permission_mode or "ask"
    tools = services.tools()
    return SessionConfiguration(
        cwd=options.cwd or Path(session.cwd),
        tools=tools,
        # Extensions, which bring further tools, are loaded later.
        named_tools=context.active_tools,
        chosen_tools=context.active_tools,
        model=model,
        thinking_level=(
            options.thinking_level
            or level
            or defaults.thinking_level
            or _known_level(context.thinking_level if branch else None)
            or project.settings.default_thinking_level
        ),
        permission_mode=mode,
        limits=options.limits,
        system_prompt=options.system_prompt or defaults.system_prompt,
        append_system_prompt=options.append_system_prompt or defaults.append_system_prompt,
        additional_directories=list(options.additional_directories),
        name=session.name,
        authenticated=services.models.authenticated,
        unusable=services.models.unusable,
        stream_options=StreamOptions(cache_retention=cache_retention_of(os.environ)),
        idle_timeout_s=project.settings.http_idle_timeout_ms / 1000,
        auto_compaction=project.settings.compaction.enabled,
        auto_retry=project.settings.retry.enabled,
        compaction=project.settings.compaction,
        retries=project.settings.retry,
        branch_reserve_tokens=project.settings.branch_summary.reserve_tokens,
        resources=project.resources,
    )


def _tool_context(
    services: Services, session: SessionStorage, cwd: Path, asker: Asker
) -> ToolContext:
    environment = {"PI_SESSION_ID": session.session_id}
    if session.path is not None:
        environment["PI_SESSION_FILE"] = str(session.path)
    return replace(services.tool_context(cwd, environment), asker=asker)


def _checkpoints(services: Services, options: SessionOptions) -> CheckpointStore:
    if not options.ephemeral:
        return services.checkpoints
    return CheckpointStore(None, max_bytes=services.settings.checkpoint_bytes)


def _known_level(recorded: str | None) -> ThinkingLevel | None:
    """A level from a session file, which may hold anything."""
    return next((level for level in THINKING_LEVELS if level == recorded), None)
