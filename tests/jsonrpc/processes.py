"""The real processes that have to stand every hazard."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROCESSES = {
    "echo": [sys.executable, str(Path(__file__).with_name("echo_process.py"))],
    "daemon": [sys.executable, "-m", "pi_rpc", "--stdio"],
}

every_process = pytest.mark.parametrize("argv", PROCESSES.values(), ids=PROCESSES)


def scratch_environment(home: Path) -> dict[str, str]:
    """An environment with nothing of the person's own, and no way to a model."""
    return {
        "HOME": str(home),
        "PI_CODING_AGENT_DIR": str(home / "agent"),
        "PATH": "/usr/bin:/bin",
        "PI_RPC_LOCAL_SERVERS": "off",
    }
