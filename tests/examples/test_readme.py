"""What the README tells people to type."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.deadlines import DEADLINE_S

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def environment(folder: Path, reply: str) -> dict[str, str]:
    script = folder / "script.json"
    script.write_text(json.dumps({"replies": [{"steps": [{"text": reply}]}]}))
    binaries = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "PI_RPC_SCRIPT": str(script),
        "PI_CODING_AGENT_DIR": str(folder),
    }


def test_the_pipe_is_a_complete_client(tmp_path: Path) -> None:
    (pipe,) = re.findall(r"^printf .*?--drain$", README, re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        ["sh", "-c", pipe],
        cwd=tmp_path,
        env=environment(tmp_path, "Nothing much."),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["id"], last["result"]["text"]) == (1, "Nothing much.")
    assert done.stderr == ""


def test_run_prints_the_answer_and_nothing_else_on_stdout(tmp_path: Path) -> None:
    done = subprocess.run(
        ["pi-rpc", "run", "What does this project do?"],
        cwd=tmp_path,
        env=environment(tmp_path, "It waits."),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert done.stdout == "It waits.\n"
    assert "stop" in done.stderr


def test_files_the_readme_links_to_exist() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_make_targets_it_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"make ([a-z][a-z-]*)", README))
    assert {"run", "test", "lint", "bench"} <= targets
    defined = set(re.findall(r"^([a-z][a-z-]*).*:", makefile, re.MULTILINE))
    assert targets <= defined
