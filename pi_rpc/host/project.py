"""What a working directory brings along: its settings and resources, as far as it is trusted.

Owns the order: who decides about trust, then whose settings hold, then what is loaded. All of it
blocks. Does not own the reading of any file (``pi_rpc.harness``).
"""

from pathlib import Path

from msgspec import Struct, field

from pi_rpc.harness.extensions import ExtensionSource, find_extensions
from pi_rpc.harness.paths import project_folder
from pi_rpc.harness.resources import Resources, load_resources
from pi_rpc.harness.settings import Settings, load_settings
from pi_rpc.harness.trust import TrustStore

__all__ = ["ProjectSetup", "load_project"]

_EXTENSIONS = "extensions-py"


class ProjectSetup(Struct, frozen=True):
    """What holds for the sessions of a working directory."""

    settings: Settings = field(default_factory=Settings)
    resources: Resources = field(default_factory=Resources)
    problems: tuple[str, ...] = ()
    """A line about each thing that is wrong in the project's files."""
    extensions: tuple[ExtensionSource, ...] = ()
    """The extensions in files: the person's, then the project's if it is trusted."""


def load_project(folder: Path, cwd: Path) -> ProjectSetup:
    """Read it; ``folder`` is the agent directory. Never fails."""
    own, _ = load_settings(folder)
    trust = TrustStore(folder)
    trusted = trust.decide(cwd, own.default_project_trust)
    settings, problems = load_settings(folder, project_folder(cwd)) if trusted else (own, [])
    resources = load_resources(cwd, folder, settings, trusted)
    folders = [folder, project_folder(cwd)] if trusted else [folder]
    return ProjectSetup(
        settings,
        resources,
        (*problems, *trust.problems(), *resources.diagnostics),
        find_extensions(*(each / _EXTENSIONS for each in folders)),
    )
