"""Every hazard, over an in-memory pair and over real processes."""

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from pi_rpc.jsonrpc.framing import Framing
from pi_rpc.jsonrpc.peer import Peer
from pi_rpc.jsonrpc.stdio import memory_pair
from tests.jsonrpc.echo_process import Echo
from tests.jsonrpc.hazards import CASE_IDS, CASES, Hazard, check

ROOT = Path(__file__).resolve().parents[2]
PROCESSES = {
    "echo": [sys.executable, str(Path(__file__).with_name("echo_process.py"))],
}

cases = pytest.mark.parametrize(("hazard", "framing"), CASES, ids=CASE_IDS)


def in_memory(data: bytes) -> bytes:
    """All output of a peer for all of its input."""

    async def run() -> bytes:
        near, far = memory_pair(None, Framing.LINES)
        handler = Echo()
        handler.peer = Peer(near, handler)
        output = bytearray()
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(handler.peer.serve)
                far.send_bytes(data)
                far.end_output()
                while piece := await far.receive_bytes():
                    output += piece
        return bytes(output)

    return anyio.run(run)


@cases
def test_a_peer_answers_a_hazard_as_it_should(hazard: Hazard, framing: str) -> None:
    check(hazard, framing, in_memory)


@cases
@pytest.mark.parametrize("argv", PROCESSES.values(), ids=PROCESSES)
def test_a_process_answers_a_hazard_as_it_should(
    hazard: Hazard, framing: str, argv: list[str]
) -> None:
    def in_process(data: bytes) -> bytes:
        ended = subprocess.run(
            argv, input=data, capture_output=True, timeout=30, cwd=ROOT, check=False
        )
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout

    check(hazard, framing, in_process)
