"""The page about the client: its example prints what it says, and its names exist."""

import re
import subprocess
import sys
from pathlib import Path

from pi_rpc.client import PiRpc, Session
from tests.client.daemon import environment
from tests.deadlines import DEADLINE_S
from tests.e2e.editor import call, say

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_example_prints_what_stands_below_it(tmp_path: Path) -> None:
    replies = [[call("bash", command="ls | wc -l")], [say("There "), say("are 2.")]]
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", block("python")],
        cwd=tmp_path,
        env={**environment(tmp_path / "home", replies), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ran.stderr == ""
    assert ran.stdout == block("text")


def test_methods_the_page_names_exist() -> None:
    on_client = set(re.findall(r"client\.(\w+)\(", PAGE)) | {"list_sessions", "auth_status"}
    on_session = set(re.findall(r"session\.(\w+)\(", PAGE)) | {"steer", "follow_up", "continue_"}
    assert on_client <= set(dir(PiRpc))
    assert on_session <= set(dir(Session))
