"""Editors as they come: Neovim's own client, and Emacs with eglot. They open a file, see the code
action, run it, and the edit lands in a buffer that is not saved.

They are installed by ``make test-all`` alone.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import DEADLINE_S
from tests.lsp.client import say
from tests.lsp.test_editing import FIXED, FIXING, SOURCE

HERE = Path(__file__).parent
SERVER = [sys.executable, "-m", "pi_rpc", "--lsp"]
LONG = "It doubles.\n\nAnd it does so by adding."
EGLOT = "/usr/share/emacs/site-lisp/elpa/eglot-*"


def missing(what: str) -> Any:
    if os.environ.get("PI_RPC_REQUIRE_EDITORS"):
        pytest.fail(f"needed: {what}")
    pytest.skip(f"needs {what}")


def edited(home: Path, program: list[str], *arguments: str) -> dict[str, Any]:
    """What an editor says, in which ``app.py`` has been repaired by a scripted model."""
    project = home / "project"
    project.mkdir()
    (project / "app.py").write_text(SOURCE)
    replies = [*FIXING, [say(LONG)]]
    script = home / "script.json"
    script.write_text(json.dumps({"replies": [{"steps": each} for each in replies]}))
    environment = {
        **os.environ,
        "HOME": str(home),
        "PI_CODING_AGENT_DIR": str(home),
        "PI_RPC_SCRIPT": str(script),
        "PYTHONPATH": str(HERE.parents[1]),
    }
    ended = subprocess.run(
        [*program, *arguments],
        env=environment,
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    assert (project / "app.py").read_text() == SOURCE
    said: dict[str, Any] = json.loads(ended.stdout)
    return said


@pytest.mark.parametrize("version", ["0.11", "0.12"])
def test_neovims_own_client(version: str, tmp_path: Path) -> None:
    nvim = Path(os.environ.get("NEOVIM", "/nowhere")) / version / "bin" / "nvim"
    if not nvim.exists():
        missing("NEOVIM, the folder that scripts/neovim-install.sh filled")
    program = [str(nvim), "--headless", "-u", "NONE", "-i", "NONE", "-l", str(HERE / "neovim.lua")]
    said = edited(tmp_path, program, str(tmp_path / "project" / "app.py"), *SERVER)
    assert said["actions"] == ["Fix with pi", "Explain with pi", "Ask pi…"]
    assert len(said["asked"]) >= 2
    assert said["text"] == f"# typed and not saved\n{FIXED}".rstrip("\n")
    assert said["modified"] is True
    assert said["progress"] == ["begin", "end"]
    assert said["answer"] == f"# Explain app.py:3\n\n{LONG}"


def test_emacs_with_eglot(tmp_path: Path) -> None:
    emacs = shutil.which("emacs")
    if emacs is None or not list(Path("/").glob(EGLOT.lstrip("/"))):
        missing("emacs and elpa-eglot")
    program = [str(emacs), "--batch", "--load", str(HERE / "emacs.el")]
    said = edited(tmp_path, program, *SERVER, str(tmp_path / "project" / "app.py"))
    assert said["actions"] == ["Fix with pi", "Explain with pi", "Ask pi…"]
    assert len(said["asked"]) >= 2
    assert said["text"] == f"# typed and not saved\n{FIXED}"
    assert said["modified"] is True
