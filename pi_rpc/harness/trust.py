"""Project trust: whether a project's own settings, skills, prompts and extensions are loaded.

Owns ``trust.json`` of the agent directory, which pi reads and writes too, and the list of what a
project has that needs trust. It asks nobody, and it is no sandbox: it decides what is loaded, not
what a tool may do. Context files need no trust."""

import os
from pathlib import Path
from typing import Any

from pi_rpc.harness._rewriting import RewriteError, rewrite_object
from pi_rpc.harness._written import read_object
from pi_rpc.harness.paths import project_folder, project_skill_folders
from pi_rpc.harness.settings import ProjectTrust

__all__ = ["GATED", "RewriteError", "TrustStore", "needed"]

GATED = (
    "settings.json",
    "mcp.json",
    "extensions",
    "extensions-py",
    "skills",
    "prompts",
    "themes",
    "SYSTEM.md",
    "APPEND_SYSTEM.md",
)
"""What counts in a project's ``.pi`` folder. Some of it only pi loads; it shares the decision."""


class TrustStore:
    """The decisions in ``trust.json``, by canonical path. Every call reads the file; blocking."""

    def __init__(self, agent_dir: Path) -> None:
        self.path = agent_dir / "trust.json"

    def trusted(self, cwd: Path) -> bool | None:
        """The decision for ``cwd`` or the closest folder above it that has one; None without.

        A file that cannot be read, and a decision that is neither true nor false, trust nobody.
        """
        decisions, problems = read_object(self.path)
        if decisions is None:
            return False if problems else None
        by_path = {os.path.normcase(path): value for path, value in decisions.items()}
        here = Path(_key(cwd))
        for folder in (here, *here.parents):
            value = by_path.get(os.path.normcase(str(folder)))
            if value is not None:
                return value is True
        return None

    def decide(self, cwd: Path, default: ProjectTrust) -> bool:
        """Whether ``cwd`` is trusted, where the setting ``defaultProjectTrust`` is ``default``.

        ``ask`` trusts only what somebody has decided to trust.
        """
        decision = self.trusted(cwd)
        return default == "always" if decision is None else decision

    def set(self, cwd: Path, trusted: bool | None) -> None:
        """Record the decision for ``cwd`` and what is below; None removes it.

        Other entries stay. Raises ``RewriteError`` where the file holds no JSON object or is
        locked, and ``OSError``.
        """
        key = _key(cwd)

        def changed(decisions: dict[str, Any]) -> dict[str, Any]:
            kept = {
                path: value
                for path, value in decisions.items()
                if os.path.normcase(path) != os.path.normcase(key)
            }
            if trusted is not None:
                kept[key] = trusted
            return dict(sorted(kept.items()))

        if trusted is not None or self.path.exists():
            rewrite_object(self.path, changed)

    def problems(self) -> list[str]:
        """A line about each thing wrong in the file."""
        decisions, problems = read_object(self.path)
        return problems + [
            f"{self.path}: {path}: should be true, false or null; counts as not trusted"
            for path, value in (decisions or {}).items()
            if value is not None and not isinstance(value, bool)
        ]


def needed(cwd: Path, home: Path | None = None) -> list[str]:
    """The paths in the project ``cwd`` that are loaded only when it is trusted; often none."""
    own = project_folder(cwd)
    candidates = [own / name for name in GATED] + project_skill_folders(cwd, home)
    return [str(path) for path in candidates if os.path.lexists(path)]


def _key(cwd: Path) -> str:
    return os.path.realpath(cwd)
