"""The official TypeScript SDK (``@agentclientprotocol/sdk``) drives the agent as a client."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.acp.client import DEADLINE_S, call, say
from tests.protocol.node_checks import checks, node_program


def test_the_typescript_sdk_prompts_permits_cancels_loads_and_has_several_sessions(
    tmp_path: Path,
) -> None:
    sdk = checks() / "@agentclientprotocol" / "sdk"
    replies = [
        [say("I run it. "), call("bash", command="echo ran")],
        [say("It ran.")],
        [call("bash", command="sleep 7103")],
    ]
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"replies": [{"steps": each} for each in replies]}))
    environment = {
        **os.environ,
        "PI_CODING_AGENT_DIR": str(tmp_path / "agent"),
        "PI_RPC_SCRIPT": str(script),
    }
    program = Path(__file__).parent / "typescript_sdk.mjs"
    told = subprocess.run(
        [node_program(), program, sdk, tmp_path, sys.executable, "-m", "pi_rpc", "--acp"],
        env=environment,
        check=True,
        capture_output=True,
        timeout=DEADLINE_S,
    )
    came = json.loads(told.stdout)
    every = ["allow_once", "allow_always", "reject_once", "reject_always"]
    assert came == {
        "name": "pi-rpc",
        "reasons": ["end_turn", "end_turn", "cancelled"],
        "permissions": [every] * 3,
        "live": "I run it. It ran.",
        "replayed": "I run it. It ran.",
        "asked": "run itrun it",
        "listed": 2,
        "extra": {"cancelled": False, "leafId": None},
        "refused": -32601,
    }
