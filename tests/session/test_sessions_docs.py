"""The page about sessions: its examples print what it says, its tables are complete."""

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from pi_rpc.session.entries import ENTRY_TYPES
from tests.deadlines import DEADLINE_S

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sessions.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
RUNNABLE = [
    (code, output if kind == "text" else None)
    for (language, code), (kind, output) in pairwise([*BLOCKS, ("", "")])
    if language == "python"
]


@pytest.mark.parametrize(("code", "output"), RUNNABLE, ids=range(len(RUNNABLE)))
def test_every_example_of_the_page_prints_what_stands_below_it(
    code: str, output: str | None
) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ran.stderr.decode() == ""
    assert ran.stdout.decode() == output


def test_the_page_has_two_examples_and_names_every_type_of_entry() -> None:
    assert len(RUNNABLE) == 2
    for name in ENTRY_TYPES:
        assert f"`{name}`" in PAGE
