"""``pi-rpc models --check`` against the real model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pi_rpc.llm.local import installed

pytestmark = [pytest.mark.model, pytest.mark.timeout(180)]


def test_the_embedded_model_passes_the_check(tmp_path: Path) -> None:
    if not installed():
        assert os.environ.get("PI_RPC_REQUIRE_MODEL") != "1", "run `pi-rpc local install`"
        pytest.skip("the embedded model is not installed; run `pi-rpc local install`")
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
