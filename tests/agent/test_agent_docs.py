"""The examples: what they say they print is what they print."""

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE_S

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "agent-loop.md").read_text(encoding="utf-8")
EXAMPLE = (ROOT / "examples" / "agent_loop.py").read_text(encoding="utf-8")
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
    assert output is not None
    assert ran.stdout.decode() == output


def test_the_page_has_only_blocks_that_are_run_printed_or_drawn() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "text", "mermaid"}
    assert len(RUNNABLE) >= 4


def test_the_example_file_is_the_first_one_of_the_page() -> None:
    assert EXAMPLE.partition('"""\n\n')[2] == RUNNABLE[0][0]


def test_the_example_of_the_readme_runs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = r"<!-- example:agent_loop -->\n```python\n(.*?)^```$"
    found = re.search(block, readme, re.MULTILINE | re.DOTALL)
    assert found is not None
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", found.group(1)],
        cwd=ROOT,
        capture_output=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert ran.stderr.decode() == ""
    assert "tool" in ran.stdout.decode().lower()


def test_the_page_names_every_hook() -> None:
    from pi_rpc.agent import AgentLoopConfig

    hooks = [
        field
        for field in AgentLoopConfig.__struct_fields__
        if field.split("_")[0] in {"get", "should", "prepare", "before", "after", "transform"}
        or field == "convert_to_llm"
    ]
    assert len(hooks) == 10
    for hook in hooks:
        assert f"| `{hook}(" in PAGE
