"""The JavaScript client, written from ``protocol.md`` alone, against the real daemon."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CLIENT = Path(__file__).parents[2] / "examples" / "client.mjs"
MOST_LINES = 30


@pytest.fixture
def node() -> str:
    found = shutil.which("node")
    if found is None:
        if os.environ.get("PI_RPC_REQUIRE_NODE"):
            pytest.fail("node is needed: install Node.js 20 or later")
        pytest.skip("node is not installed")
    return found


def converse(node: str, folder: Path, steps: list[list[dict]]) -> subprocess.CompletedProcess[str]:
    (folder / "README.md").write_text("# A project\n")
    script = folder / "script.json"
    script.write_text(json.dumps({"replies": [{"steps": each} for each in steps]}))
    return subprocess.run(
        [node, str(CLIENT), "what", "is", "this?"],
        cwd=folder,
        env={
            **os.environ,
            "PI_RPC": str(Path(sys.executable).with_name("pi-rpc")),
            "PI_RPC_SCRIPT": str(script),
            "PI_CODING_AGENT_DIR": str(folder / "agent"),
        },
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_it_is_short() -> None:
    lines = [line for line in CLIENT.read_text().splitlines() if line.strip()]
    code = [line for line in lines if not line.startswith("//")]
    assert len(code) <= MOST_LINES
    assert max(map(len, code)) <= 100


def test_it_streams_the_answer_and_shows_the_tool_call(node: str, tmp_path: Path) -> None:
    read = {"toolCall": {"name": "read", "arguments": {"path": "README.md"}}}
    done = converse(node, tmp_path, [[read], [{"text": "A project, says the file."}]])
    assert "A project, says the file." in done.stdout
    assert "read" in done.stdout + done.stderr
    assert done.returncode == 0


def test_it_ends_with_1_when_the_model_fails(node: str, tmp_path: Path) -> None:
    done = converse(node, tmp_path, [[{"error": {"message": "out of order", "status": 400}}]])
    assert done.returncode == 1
