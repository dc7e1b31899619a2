"""Programs of others that check what we generate.

They are installed with npm, and by ``make test-all`` alone.
"""

import os
import shutil
from pathlib import Path

import pytest


def node_program() -> str:
    """Node.js; the test is skipped without it, or fails where it is required."""
    return shutil.which("node") or _missing("Node.js 20 or later")


def checks() -> Path:
    """The ``node_modules`` with what ``scripts/check-packages.txt`` names."""
    folder = Path(os.environ.get("NODE_CHECKS", "")).absolute()
    if os.environ.get("NODE_CHECKS") and folder.is_dir():
        return folder
    return Path(_missing("NODE_CHECKS, as `make test-all` sets it"))


def _missing(what: str) -> str:
    if os.environ.get("PI_RPC_REQUIRE_NODE"):
        pytest.fail(f"needed: {what}")
    pytest.skip(f"needs {what}")
