"""The catalogue is what its pinned source says: nothing in it was edited by hand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PI = os.environ.get("PI_BIN", "").split()
SCRIPT = Path(__file__).parents[2] / "scripts" / "catalogue.py"


@pytest.mark.skipif(not PI, reason="PI_BIN names no installed pi, whose package has the facts")
def test_the_catalogue_is_what_its_source_says() -> None:
    modules = next(parent for parent in Path(PI[-1]).parents if parent.name == "node_modules")
    package = modules / "@earendil-works" / "pi-ai"
    checked = subprocess.run(
        [sys.executable, SCRIPT, "--check", "--package", package],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stderr
