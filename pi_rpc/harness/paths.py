"""Where our files are: the agent directory, a project's folder, and where sessions go to.

Owns the two environment variables and pi's folder layout. It creates nothing, and it does not name
session files (see ``pi_rpc.session``)."""

import os
from collections.abc import Mapping
from pathlib import Path

from pi_rpc.harness.settings import Settings
from pi_rpc.session.naming import session_directory

__all__ = [
    "AGENT_DIR_VARIABLE",
    "SESSION_DIR_VARIABLE",
    "agent_dir",
    "chosen_sessions_dir",
    "project_folder",
    "project_skill_folders",
    "sessions_dir",
    "shared_skill_folder",
]

AGENT_DIR_VARIABLE = "PI_CODING_AGENT_DIR"
SESSION_DIR_VARIABLE = "PI_CODING_AGENT_SESSION_DIR"


def agent_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The directory of settings, credentials, models and sessions; it need not exist.

    ``PI_CODING_AGENT_DIR`` (a leading ``~`` is expanded), else ``~/.pi/agent``.
    """
    named = (os.environ if environ is None else environ).get(AGENT_DIR_VARIABLE)
    return _absolute(named) if named else Path.home().absolute() / ".pi" / "agent"


def sessions_dir(
    settings: Settings,
    cwd: Path,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Path:
    """The folder for the session files of the working directory ``cwd``; it need not exist.

    ``PI_CODING_AGENT_SESSION_DIR``, else the setting ``sessionDir``: such a folder is flat and
    holds the sessions of every working directory. Else one folder per working directory below the
    agent directory, named after it as pi does: ``/home/ada/app`` becomes ``--home-ada-app--``.
    ``folder`` is the agent directory; None takes ``agent_dir``'s.
    """
    chosen = chosen_sessions_dir(settings, environ)
    return chosen or session_directory(folder or agent_dir(environ), cwd)


def chosen_sessions_dir(
    settings: Settings, environ: Mapping[str, str] | None = None
) -> Path | None:
    """The flat folder that a person chose for the sessions of every working directory, if any."""
    environ = os.environ if environ is None else environ
    named = environ.get(SESSION_DIR_VARIABLE) or settings.session_dir
    return _absolute(named) if named else None


def project_folder(cwd: Path) -> Path:
    """The project's counterpart of the agent directory, ``.pi``; it need not exist."""
    return cwd / ".pi"


def shared_skill_folder(home: Path | None = None) -> Path:
    """A person's skills for every agent program; it need not exist."""
    return (home or Path.home().absolute()) / ".agents" / "skills"


def project_skill_folders(cwd: Path, home: Path | None = None) -> list[Path]:
    """A project's skills for every agent program: of ``cwd``, and on up to its repository's root.

    Outside of a repository only ``cwd`` counts: what lies above belongs to nobody in particular.
    A person's own folder (``shared_skill_folder``) is not among them. They need not exist.
    """
    folders = [cwd]
    for folder in (cwd, *cwd.parents):
        if os.path.lexists(folder / ".git"):
            folders = [cwd, *cwd.parents[: len(cwd.parts) - len(folder.parts)]]
            break
    own = shared_skill_folder(home)
    found = [folder / ".agents" / "skills" for folder in folders]
    mine = os.path.realpath(own)
    return [path for path in found if os.path.realpath(path) != mine]


def _absolute(named: str) -> Path:
    try:
        return Path(named).expanduser().absolute()
    except RuntimeError:  # ~name of a user that does not exist
        return Path(named).absolute()
