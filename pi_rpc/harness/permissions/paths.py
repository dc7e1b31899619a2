"""Zones: where a real path lies, for the decision whether it may be touched.

Owns what counts as inside, as guarded and as secret, and seeing through other names of the same
file: links, ``..``, ``~``, letter case, Unicode, ``/proc``. It reads only the names and numbers of
files, and blocks. Does not own what follows from a zone
(``pi_rpc.harness.permissions.decision``).
"""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from pi_rpc.harness.permissions.rules import folded
from pi_rpc.tools._command_files import is_output_file

__all__ = ["Access", "Zone", "Zones"]

Access: TypeAlias = Literal["read", "edit"]
Zone: TypeAlias = Literal["inside", "outside", "guarded", "secret"]

_GUARDED_NAMES = frozenset({".git", ".pi", ".agents"})
"""Folders in which files run code or change what is allowed."""
_GIT_HEAD = "HEAD"
"""The file without which git takes no folder for a repository, whatever the folder is called."""
_SECRET_FILES = ("auth.json", "models.json")
_STORES = "pi-rpc"
_PROCESS_SECRET = re.compile(r"/proc/(?:.+/)?(?:environ|mem|kcore)\Z")
_PROCESS_EXAMPLES = ("/proc/self/environ", "/proc/1/environ", "/proc/self/task/1/environ")
_PROCESS_FOLDER = re.compile(r"/proc(?:/[^/]+(?:/task(?:/[^/]+)?)?)?\Z")
_IGNORABLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
"""What some file systems leave out of names, as git learned."""


class Zones:
    """The zones of one session, by real paths."""

    def __init__(
        self,
        cwd: Path,
        *,
        agent_dir: Path,
        additional: Iterable[Path] = (),
        readable: Iterable[Path] = (),
    ) -> None:
        """``additional`` directories count as inside, ``readable`` folders only for reading."""
        self.cwd = Path(os.path.realpath(cwd))
        self._agent_dir = Path(os.path.realpath(agent_dir))
        base = folded(str(self._agent_dir)).rstrip("/")
        self._secrets = tuple(f"{base}/{name}" for name in (*_SECRET_FILES, _STORES))
        self._inside = tuple(
            dict.fromkeys((self.cwd, *(Path(os.path.realpath(each)) for each in additional)))
        )
        self._readable = tuple(Path(os.path.realpath(each)) for each in readable)

    def real(self, path: str | Path, base: Path | None = None) -> Path:
        """The real path of ``path`` as the system would open it; ``~`` is the home directory.

        Relative paths start from ``base`` or the working directory. What does not exist is real
        as far as it exists.
        """
        name = os.fspath(path)
        if name == "~" or name.startswith("~/"):
            name = os.path.expanduser("~") + name[1:]  # noqa: PTH111 - text, not yet a path
        return Path(os.path.realpath(os.path.join(base or self.cwd, name)))  # noqa: PTH118

    def zone(self, path: Path, access: Access = "edit") -> Zone:
        """Where ``path`` lies, which is resolved anew.

        ``guarded`` is inside, but what is there runs code or changes the rules; for ``edit`` so is
        the agent directory wherever it is. For ``read``, skill folders and the kept output of our
        own commands are inside, too.
        """
        real = self.real(path)
        if self.is_secret(real):
            return "secret"
        roots = [root for root in self._inside if _is_below(real, root)]
        if any(self._is_guarded(real, root) for root in roots):
            return "guarded"
        if access == "edit" and (
            _is_below(real, self._agent_dir)
            or any(_is_in_git_directory(real, root) or _is_own(real, root) for root in roots)
        ):
            return "guarded"
        if roots:
            return "inside"
        if access == "read" and (
            any(_is_below(real, root) for root in self._readable) or is_output_file(real)
        ):
            return "inside"
        return "outside"

    def is_secret(self, real: Path) -> bool:
        """Whether the real path is that of a credential, or of one of our own stores."""
        text = folded(str(real))
        if text.startswith("/proc/") and _PROCESS_SECRET.match(text):
            return True
        *files, store = self._secrets
        if text in files or text == store or text.startswith(f"{store}/"):
            return True
        try:
            status = real.stat()
        except (OSError, ValueError):
            return False
        return (status.st_dev, status.st_ino) in self.secret_files()

    def secret_names(self) -> Sequence[str]:
        """The folded paths of secret files, for comparing with what has wildcards."""
        *files, store = self._secrets
        return (*files, store, f"{store}/permissions.json", *_PROCESS_EXAMPLES)

    def secret_files(self) -> frozenset[tuple[int, int]]:
        """Device and number of each credential file that exists, whatever it is called."""
        found = set()
        for name in (*_SECRET_FILES, f"{_STORES}/permissions.json"):
            try:
                status = (self._agent_dir / name).stat()
            except OSError:
                continue
            found.add((status.st_dev, status.st_ino))
        return frozenset(found)

    def holds_secrets(self, real: Path) -> bool:
        """Whether the real path is a folder with secrets somewhere below."""
        text = folded(str(real)).rstrip("/")
        if not text or _PROCESS_FOLDER.match(text):
            return True
        return any(each.startswith(f"{text}/") for each in self._secrets)

    def _is_guarded(self, real: Path, root: Path) -> bool:
        if _is_below(real, self._agent_dir):
            return True
        below = real.parts[len(root.parts) :]
        return any(_plain_name(part) in _GUARDED_NAMES for part in below)


def _is_in_git_directory(real: Path, root: Path) -> bool:
    """Whether git reads ``real`` in a repository, or would once it is there.

    The configuration of a repository names programs that any git command runs.
    """
    if _plain_name(real.name) == _GIT_HEAD.casefold():
        return True
    for folder in (real, *real.parents):
        head = folder / _GIT_HEAD
        if os.path.lexists(head) and not head.is_dir():
            return True
        if len(folder.parts) <= len(root.parts):
            return False
    return False


def _is_own(real: Path, root: Path) -> bool:
    """Whether ``real`` is hidden in a home directory inside of ``root``.

    What is there makes shells and programs run things, or lets others in. A ``root`` that is itself
    somewhere in there is a project like others.
    """
    home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - may be no home
    if not _is_below(home, root) or not _is_below(real, home):
        return False
    return any(part.startswith(".") for part in real.parts[len(home.parts) :][:1])


def _plain_name(name: str) -> str:
    """The name that a careless file system would take ``name`` for."""
    plain = folded(_IGNORABLE.sub("", name)).rstrip(". ").partition(":")[0]
    return ".git" if re.fullmatch(r"git~\d+", plain) else plain


def _is_below(path: Path, root: Path) -> bool:
    """``path`` is ``root`` or in it.

    Spelled in another case or normalisation it is only where the system says it is the same folder.
    """
    if path.is_relative_to(root):
        return True
    depth = len(root.parts)
    above = Path(*path.parts[:depth])
    if len(path.parts) < depth or folded(str(above)) != folded(str(root)):
        return False
    try:
        return above.samefile(root)
    except OSError:
        return False
