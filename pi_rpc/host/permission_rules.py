"""The rules that hold in a project, wherever they come from, and forgetting what was answered.

Owns looking in all places. Does not own what a rule means, nor keeping it
(``pi_rpc.harness.permissions``).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from pi_rpc._os.threads import run_blocking
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.permissions.remembered import RewriteError
from pi_rpc.harness.permissions.rules import Rule
from pi_rpc.harness.settings import load_settings
from pi_rpc.host.host import Host
from pi_rpc.host.project import load_project
from pi_rpc.host.storage import existing_directory

__all__ = ["HeldRule", "RuleSource", "forget_rule", "rules_of"]

RuleSource: TypeAlias = Literal["settings", "project", "remembered", "session"]


class HeldRule(Struct, frozen=True):
    """A rule that holds in a project."""

    rule: Rule
    source: RuleSource
    id: str | None = None
    """Names it, where it can be forgotten."""
    session_id: str | None = None
    """The session that it holds in; None: all."""


async def rules_of(host: Host, cwd: Path | None) -> list[HeldRule]:
    """Those of the project in ``cwd``, None: the host's. Raises ``invalidParams``."""

    def kept() -> tuple[Path, list[HeldRule]]:
        project = existing_directory(cwd or host.cwd, "cwd")
        return project, list(_kept(host, project))

    project, found = await run_blocking(kept)
    for hosted in host.sessions:
        where = await run_blocking(hosted.harness.configuration.cwd.resolve)
        if where == project:
            found += [
                HeldRule(each.rule, "session", each.id, hosted.id)
                for each in hosted.harness.permissions.session_rules()
            ]
    return found


def _kept(host: Host, project: Path) -> Iterator[HeldRule]:
    """What is in files."""
    services = host.services
    own = load_settings(services.folder)[0].permissions.rules.rules
    both = load_project(services.folder, project).settings.permissions.rules.rules
    yield from (HeldRule(rule, "settings") for rule in own)
    yield from (HeldRule(rule, "project") for rule in both if rule not in own)
    for each in services.remembered.of(project):
        yield HeldRule(each.rule, "remembered", each.id)


async def forget_rule(host: Host, rule_id: str) -> None:
    """Forget the answer ``rule_id``, in all sessions. Raises ``invalidParams`` and ``storage``."""
    for hosted in host.sessions:
        if hosted.harness.permissions.forget(rule_id):
            return
    remembered = host.services.remembered
    try:
        if await run_blocking(remembered.forget, rule_id):
            return
    except (RewriteError, OSError) as error:
        text = f"{remembered.path} could not be written: {error}"
        raise HarnessError("storage", text) from None
    raise HarnessError(
        "invalidParams",
        f"id: nothing is remembered as {rule_id[:100]!r}; permission/list tells what is",
        path="id",
    )
