"""Deciding whether a project is trusted, and what that changes in sessions that are open.

Owns the order: the decision is stored first, then every open session in the project loads what it
may now. Does not own ``trust.json`` (``pi_rpc.harness.trust``) nor what a project brings along
(``pi_rpc.host.project``).
"""

import math
from pathlib import Path

import anyio
from msgspec import Struct

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.events import Diagnostic
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.settings import Settings, load_settings
from pi_rpc.harness.trust import RewriteError, TrustStore, needed
from pi_rpc.host.building import apply_permissions
from pi_rpc.host.host import Host
from pi_rpc.host.hosted import HostedSession
from pi_rpc.host.project import ProjectSetup, load_project
from pi_rpc.host.storage import existing_directory

__all__ = ["ProjectTrust", "decide_trust", "project_trust"]


class ProjectTrust(Struct, frozen=True):
    """What holds for a project."""

    trusted: bool
    needed: tuple[str, ...]
    """Paths in it that are not loaded because it is not trusted."""


async def project_trust(host: Host, cwd: Path | None) -> ProjectTrust:
    """What holds for the project in ``cwd``; None: the host's."""
    return await run_blocking(_looked_up, host.services.folder, cwd or host.cwd)


async def decide_trust(host: Host, cwd: Path | None, trusted: bool | None) -> ProjectTrust:
    """Trust it or not, with what is below; None forgets the decision.

    On return open sessions in it have loaded what they may; their next turn uses it. Raises
    ``storage`` where the decision cannot be stored; nothing has changed then.
    """
    folder, where = host.services.folder, cwd or host.cwd
    with anyio.CancelScope(shield=True):
        await run_blocking(_store, folder, where, trusted)
        trust = await run_blocking(_looked_up, folder, where)
        project = await run_blocking(where.resolve)
        for hosted in host.sessions:
            here = await run_blocking(hosted.harness.configuration.cwd.resolve)
            if here.is_relative_to(project):
                await _reload(host, hosted)
    return trust


def _looked_up(folder: Path, cwd: Path) -> ProjectTrust:
    cwd = existing_directory(cwd, "cwd")
    own, _ = load_settings(folder)
    trusted = TrustStore(folder).decide(cwd, own.default_project_trust)
    return ProjectTrust(trusted, () if trusted else tuple(needed(cwd)))


def _store(folder: Path, cwd: Path, trusted: bool | None) -> None:
    store = TrustStore(folder)
    try:
        store.set(existing_directory(cwd, "cwd"), trusted)
    except (RewriteError, OSError) as error:
        raise HarnessError("storage", f"{store.path} could not be written: {error}") from None


async def _reload(host: Host, hosted: HostedSession) -> None:
    """Load what the session's project brings along now."""
    async with hosted.loading:
        if hosted not in host.sessions:
            return
        harness = hosted.harness
        cwd = harness.configuration.cwd
        project = await run_blocking(load_project, host.services.folder, cwd)
        before, hosted.project = hosted.project, project
        offered = _offered(hosted)
        _apply(hosted, before.settings, project)
        installed = await run_blocking(host.services.extensions)
        told = await harness.extensions.change((*project.extensions, *installed))
        for problem in project.problems:
            if problem not in before.problems:
                harness.report(Diagnostic(severity="warning", message=problem))
        for diagnostic in told:
            harness.report(diagnostic)
        if _offered(hosted) != offered:
            harness.changed(activeTools=_offered(hosted))
        harness.commands_changed()


def _offered(hosted: HostedSession) -> list[str]:
    return [tool.name for tool in hosted.harness.configuration.usable_tools()]


def _apply(hosted: HostedSession, before: Settings, project: ProjectSetup) -> None:
    """Resources and settings; what a session was told since is left where settings are the same."""
    harness, settings = hosted.harness, project.settings
    choices = harness.configuration
    choices.resources = project.resources
    apply_permissions(harness, settings)
    choices.idle_timeout_s = settings.http_idle_timeout_ms / 1000
    harness.hooks.time_limit_s = settings.hook_timeout_s or math.inf
    choices.compaction, choices.retries = settings.compaction, settings.retry
    choices.branch_reserve_tokens = settings.branch_summary.reserve_tokens
    if settings.compaction.enabled != before.compaction.enabled:
        choices.auto_compaction = settings.compaction.enabled
        harness.changed(autoCompaction=choices.auto_compaction)
    if settings.retry.enabled != before.retry.enabled:
        choices.auto_retry = settings.retry.enabled
        harness.changed(autoRetry=choices.auto_retry)
    if settings.steering_mode != before.steering_mode:
        harness.steering_mode = settings.steering_mode
        harness.changed(steeringMode=settings.steering_mode)
    if settings.follow_up_mode != before.follow_up_mode:
        harness.follow_up_mode = settings.follow_up_mode
        harness.changed(followUpMode=settings.follow_up_mode)
