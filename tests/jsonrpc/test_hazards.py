"""Every hazard, over an in-memory pair and over real processes."""

import os
import subprocess
from functools import partial
from io import RawIOBase
from pathlib import Path

import anyio
import pytest

from pi_rpc.jsonrpc.framing import Framing
from pi_rpc.jsonrpc.peer import Peer
from pi_rpc.jsonrpc.stdio import memory_pair
from tests.deadlines import DEADLINE_S
from tests.jsonrpc.echo_process import Echo
from tests.jsonrpc.hazards import (
    ALONE,
    BOTH,
    CASE_IDS,
    CASES,
    Hazard,
    check,
    check_conversation,
)
from tests.jsonrpc.processes import ROOT, every_process, scratch_environment


def in_memory(data: bytes) -> bytes:
    """All output of a peer for all of its input."""

    async def run() -> bytes:
        near, far = memory_pair(None, Framing.LINES)
        handler = Echo()
        handler.peer = Peer(near, handler)
        output = bytearray()
        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(handler.peer.serve)
                far.send_bytes(data)
                far.end_output()
                while piece := await far.receive_bytes():
                    output += piece
        return bytes(output)

    return anyio.run(run)


@pytest.mark.parametrize(("hazard", "framing"), CASES, ids=CASE_IDS)
def test_a_peer_answers_a_hazard_as_it_should(hazard: Hazard, framing: str) -> None:
    check(hazard, framing, in_memory)


def all_output(argv: list[str], home: Path, data: bytes) -> bytes:
    """All output of a process for all of its input; it has to end well."""
    ended = subprocess.run(
        argv,
        input=data,
        capture_output=True,
        timeout=DEADLINE_S,
        cwd=ROOT,
        env=scratch_environment(home),
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout


@pytest.mark.parametrize(
    ("hazard", "framing"), ALONE, ids=[f"{hazard.name} ({framing})" for hazard, framing in ALONE]
)
@every_process
def test_a_process_stands_what_connections_begin_and_end_with(
    hazard: Hazard, framing: str, argv: list[str], tmp_path: Path
) -> None:
    check(hazard, framing, lambda data: all_output(argv, tmp_path, data))


@pytest.mark.parametrize("framing", BOTH)
@every_process
def test_a_process_stands_every_other_hazard_in_one_conversation(
    framing: str, argv: list[str], tmp_path: Path
) -> None:
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=scratch_environment(tmp_path),
        bufsize=0,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        output = process.stdout.fileno()
        try:
            with process.stdin as stdin:
                check_conversation(
                    framing, partial(write_all, stdin), lambda: os.read(output, 1 << 16)
                )
            assert os.read(output, 1 << 16) == b""
            assert process.wait(DEADLINE_S) == 0
        finally:
            process.kill()


def write_all(target: RawIOBase, data: bytes) -> None:
    """Writes everything to an unbuffered file."""
    rest = memoryview(data)
    while rest:
        rest = rest[target.write(rest) :]
