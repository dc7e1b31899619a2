"""``pi-rpc models --check`` against the real model."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.model, pytest.mark.timeout(180)]


def test_the_embedded_model_passes_the_check(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pi_rpc", "models", "--json", "--check", "local"],
        cwd=tmp_path,
        capture_output=True,
        timeout=170,
        check=False,
    )
    found = json.loads(done.stdout)
    states = {each["name"]: each["state"] for each in found["checks"]}
    assert found["model"] == "local/smollm2-135m"
    assert (states["auth"], states["streaming"], states["usage"]) == ("yes", "yes", "yes")
    assert done.returncode == (0 if found["passed"] else 1)
