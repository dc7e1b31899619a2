"""Context files: what a person or project wants every model to know (``AGENTS.md`` and the like).

Owns which files are read, their order and their limit in size. Does not own how they appear in the
system prompt (``pi_rpc.harness.system_prompt``). They are plain text for the model and need no
trust, unless they are links to what is not the project's."""

import os
from pathlib import Path

from msgspec import Struct

from pi_rpc.harness._looking import is_file, is_folder
from pi_rpc.harness._texts import TooLargeError, read_beginning, read_text

__all__ = ["CONTEXT_FILE_NAMES", "MAX_CONTEXT_BYTES", "ContextFile", "load_context_files"]

CONTEXT_FILE_NAMES = ("AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")
"""The first of these that a directory has is its context file."""

MAX_CONTEXT_BYTES = 128 * 1024
"""What of one file is put before every conversation; some 30,000 tokens."""


class ContextFile(Struct, frozen=True):
    """One file's text as the model will see it."""

    path: Path
    text: str


def load_context_files(
    cwd: Path, agent_dir: Path, problems: list[str] | None = None, *, trusted: bool = False
) -> list[ContextFile]:
    """The context files that hold in ``cwd``: the agent directory's, then from the root down.

    A file that cannot be read is named in ``problems`` and the directory's next one is taken. So is
    a link out of the directory, unless it leads to a context file or the project is ``trusted``: a
    stranger's could lead to anything that the person can read. One that is empty hides the later
    ones and is not listed itself. Blocking.
    """
    problems = [] if problems is None else problems
    cwd = cwd.absolute()
    shadowed = _shadowed(cwd)
    found: dict[Path, ContextFile] = {}
    for folder in (agent_dir.absolute(), *reversed(cwd.parents), cwd):
        is_ours = trusted or folder == agent_dir.absolute()
        file = _of_folder(folder, problems, may_lead_out=is_ours)
        if file is None or file.path in found:
            continue
        if shadowed is not None and Path(os.path.realpath(folder)) / file.path.name == shadowed:
            continue
        found[file.path] = file
    return [file for file in found.values() if file.text.strip()]


def _of_folder(
    folder: Path, problems: list[str], *, may_lead_out: bool = True
) -> ContextFile | None:
    for name in CONTEXT_FILE_NAMES:
        path = folder / name
        if not is_file(path):
            continue
        if not may_lead_out and _leads_out(path):
            problems.append(f"{path}: leads out of its directory, which is not trusted; ignored")
            continue
        try:
            text, left_out = read_beginning(path, MAX_CONTEXT_BYTES)
        except OSError as error:
            problems.append(f"{path}: cannot be read: {error.strerror}; ignored")
            continue
        if left_out:
            text += f"\n\n[{left_out} more bytes are left out here; read {path} if you need them]"
            problems.append(
                f"{path}: only its first {MAX_CONTEXT_BYTES // 1024} KiB are given to the model"
            )
        return ContextFile(path, text)
    return None


def _leads_out(path: Path) -> bool:
    """Whether it is a link to elsewhere, and not to a context file there."""
    if not path.is_symlink():
        return False
    target = Path(os.path.realpath(path))
    folder = Path(os.path.realpath(path.parent))
    return target.name not in CONTEXT_FILE_NAMES and folder not in target.parents


def _shadowed(cwd: Path) -> Path | None:
    """The main repository's file of which a git worktree nested in it has its own version.

    A worktree inside its main repository (``repo/.worktrees/fix``) holds another version of the
    same file; both would apply the same text twice, or two versions that disagree.
    """
    for folder in (cwd, *cwd.parents):
        marker = folder / ".git"
        if is_folder(marker):
            return None  # The main checkout itself, or a repository of its own.
        if is_file(marker):
            break
    else:
        return None
    common = _common_git_folder(marker)
    if common is None or common.name != ".git":
        return None  # A submodule, or a bare repository: its parent is no checkout.
    main, worktree = common.parent, Path(os.path.realpath(folder))
    if main not in worktree.parents:
        return None
    own = _of_folder(folder, [])
    return main / own.path.name if own is not None else None


def _common_git_folder(marker: Path) -> Path | None:
    """The ``.git`` folder of the main checkout that the worktree's ``.git`` file leads to."""
    try:
        written = read_text(marker).strip()
        if not written.startswith("gitdir: "):
            return None
        own = marker.parent / written.removeprefix("gitdir: ")
        common = own / read_text(own / "commondir").strip()
        return Path(os.path.realpath(common))
    except (OSError, ValueError, TooLargeError):
        # Not a worktree (a submodule has no commondir), one that was moved away, or no path at all.
        return None
