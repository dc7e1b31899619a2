"""From the start of the process to the reply to ``initialize``, and memory then and later; and a
whole ``pi-rpc run``."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.measuring import BARE, DAEMON, RUN, Driven, Figure, environment, paired_ratio, timed

START_LIMIT = 1.0
RUN_LIMIT = 2.5
PI_START_LIMIT = 0.3
LSP_START_LIMIT = 1.3
ACP_START_LIMIT = 1.05
MEMORY_AT_START_MB = 35.0
MEMORY_AFTER_PROMPT_MB = 60.0
BARE_PYGLS = [
    *(sys.executable, "-c"),
    "from pygls.lsp.server import LanguageServer; LanguageServer('bare', '1').start_io()",
]


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as scratch:
        yield _start(scratch)
        yield _acp_start(scratch)
        yield _lsp_start(scratch)
        yield _whole_run(scratch)
        if command := os.environ.get("PI_BIN"):
            yield _start_beside_pi(scratch, shlex.split(command))
        yield from _memory(scratch)


def _daemon_start(scratch: str) -> float:
    start = time.perf_counter()
    driven = Driven(DAEMON, environment(PI_CODING_AGENT_DIR=scratch))
    driven.request(0, "initialize", {})
    elapsed = time.perf_counter() - start
    driven.close()
    return elapsed


def _acp_start(scratch: str) -> Figure:
    def acp() -> float:
        start = time.perf_counter()
        driven = Driven([*DAEMON[:-1], "--acp"], environment(PI_CODING_AGENT_DIR=scratch))
        driven.request(0, "initialize", {"protocolVersion": 1})
        elapsed = time.perf_counter() - start
        driven.close()
        return elapsed

    ours, native, ratio = paired_ratio(acp, lambda: _daemon_start(scratch), 15)
    detail = f"{ours * 1000:.0f} ms against {native * 1000:.0f} ms"
    return Figure("start to initialize, --acp / --stdio", ratio, ACP_START_LIMIT, "x", detail)


def _lsp_start(scratch: str) -> Figure:
    def initialized(command: Sequence[str]) -> float:
        params = {"processId": None, "rootUri": None, "capabilities": {}}
        frame = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        body = json.dumps(frame).encode()
        start = time.perf_counter()
        process = subprocess.Popen(
            command,
            env=environment(PI_CODING_AGENT_DIR=scratch),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        process.stdin.flush()
        while not process.stdout.readline().startswith(b"Content-Length"):
            pass
        elapsed = time.perf_counter() - start
        process.kill()
        process.communicate()
        return elapsed

    ours, bare, ratio = paired_ratio(
        lambda: initialized([*DAEMON[:-1], "--lsp"]), lambda: initialized(BARE_PYGLS), 7
    )
    detail = f"{ours * 1000:.0f} ms against {bare * 1000:.0f} ms"
    return Figure("start to initialize, --lsp / a bare pygls", ratio, LSP_START_LIMIT, "x", detail)


def _start_beside_pi(scratch: str, command: list[str]) -> Figure:
    def pi() -> float:
        start = time.perf_counter()
        env = environment(PI_CODING_AGENT_DIR=scratch, PI_OFFLINE="1")
        driven = Driven([*command, "--mode", "rpc", "--no-session"], env)
        driven.send({"id": "s", "type": "get_state"})
        driven.until(lambda line: b'"get_state"' in line)
        elapsed = time.perf_counter() - start
        driven.process.kill()
        driven.close()
        return elapsed

    ours, other, ratio = paired_ratio(lambda: _daemon_start(scratch), pi, 5)
    detail = f"{ours * 1000:.0f} ms against {other * 1000:.0f} ms"
    return Figure("start to first answer / pi", ratio, PI_START_LIMIT, "x", detail)


def _bare() -> float:
    return timed(lambda: subprocess.run(BARE, env=environment(), check=True))


def _whole_run(scratch: str) -> Figure:
    """One prompt to a scripted model, in an agent directory without settings."""
    script = Path(scratch) / "run.json"
    script.write_text(json.dumps({"replies": [{"steps": [{"text": "hello"}]}]}))
    agent = Path(scratch) / "agent"
    agent.mkdir()
    env = environment(
        PI_CODING_AGENT_DIR=str(agent), PI_RPC_SCRIPT=str(script), PI_RPC_LOCAL_SERVERS="off"
    )
    silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}

    def ours() -> float:
        return timed(
            lambda: subprocess.run(RUN, env=env, check=True, stderr=subprocess.DEVNULL, **silent)
        )

    one, other, ratio = paired_ratio(ours, _bare, 15)
    detail = f"{one * 1000:.0f} ms against {other * 1000:.0f} ms"
    return Figure("pi-rpc run, whole / import asyncio, msgspec", ratio, RUN_LIMIT, "x", detail)


def _start(scratch: str) -> Figure:
    ours, other, ratio = paired_ratio(lambda: _daemon_start(scratch), _bare, 15)
    detail = f"{ours * 1000:.0f} ms against {other * 1000:.0f} ms"
    return Figure("start to initialize / import asyncio, msgspec", ratio, START_LIMIT, "x", detail)


def _memory(scratch: str) -> Iterator[Figure]:
    script = Path(scratch) / "script.json"
    script.write_text(json.dumps({"replies": [{"steps": [{"text": "hello"}]}], "repeat": True}))
    driven = Driven(DAEMON, environment(PI_CODING_AGENT_DIR=scratch, PI_RPC_SCRIPT=str(script)))
    driven.request(0, "initialize", {})
    at_start = driven.memory()
    driven.request(1, "prompt", {"message": "hello"})
    after = driven.memory()
    driven.close()
    yield Figure("memory at initialize", at_start, MEMORY_AT_START_MB, "MB", "resident")
    yield Figure("memory after a prompt", after, MEMORY_AFTER_PROMPT_MB, "MB", "resident")
