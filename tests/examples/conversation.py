"""Running an example against the real daemon, whose model says what the test has it say."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.deadlines import DEADLINE_S

EXAMPLES = Path(__file__).parents[2] / "examples"

READ = {"toolCall": {"name": "read", "arguments": {"path": "README.md"}}}
OUT_OF_ORDER = {"error": {"message": "out of order", "status": 400}}


def converse(
    argv: Sequence[str | Path],
    folder: Path,
    replies: Sequence[Sequence[object]],
    *,
    answers: str = "",
    environ: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run it in a folder that has a README.md; ``answers`` are what the person types."""
    (folder / "README.md").write_text("# A project\n")
    script = folder / "script.json"
    script.write_text(json.dumps({"replies": [{"steps": list(each)} for each in replies]}))
    return subprocess.run(
        argv,
        cwd=folder,
        env={
            **os.environ,
            "PI_RPC": str(Path(sys.executable).with_name("pi-rpc")),
            "PI_RPC_SCRIPT": str(script),
            "PI_CODING_AGENT_DIR": str(folder / "agent"),
            **(environ or {}),
        },
        input=answers,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
