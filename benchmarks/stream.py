"""A reply of 20,000 text deltas, provider bytes in to notifications out: CPU and memory.

Beside pi's RPC mode where ``PI_BIN`` names it (a command line, for instance ``node …/pi``),
otherwise against what pi needed when the baseline was recorded, scaled by what the bare
interpreter needs here and needed there. The figure says which.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measuring import BARE, DAEMON, Driven, Figure, environment, timed

DELTAS = 20_000
CPU_LIMIT = 0.3
REPLY_MB = DELTAS * len("lorem ") / 1e6
MEMORY_LIMIT_MB = 1.0
BASELINE = Path(__file__).parent / "baseline.json"


def figures() -> Iterator[Figure]:
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.sse_server", str(DELTAS)], stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    try:
        port = int(server.stdout.readline())
        with tempfile.TemporaryDirectory() as scratch:
            _write_models(Path(scratch), port)
            yield from _compare(Path(scratch))
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def _compare(folder: Path) -> Iterator[Figure]:
    ours, growth = _our_cpu(folder)
    if command := os.environ.get("PI_BIN"):
        theirs, source = _pi_cpu(shlex.split(command), folder), "pi beside it"
    else:
        theirs, source = _recorded_cpu(), "recorded baseline of pi, scaled"
    detail = (
        f"{ours:.2f} s CPU against {theirs:.2f} s ({source}), {ours / DELTAS * 1e6:.1f} us/delta"
    )
    yield Figure("CPU of 20,000 deltas / pi", ours / theirs, CPU_LIMIT, "x", detail)
    yield Figure(
        "memory a 20,000-delta reply adds",
        growth,
        MEMORY_LIMIT_MB,
        "MB",
        f"a {REPLY_MB:.1f} MB reply",
    )


def _our_cpu(folder: Path) -> tuple[float, float]:
    """CPU seconds of one reply, and what it added to the peak of memory, after a first one."""
    driven = Driven(DAEMON, environment(PI_CODING_AGENT_DIR=str(folder)), folder)
    events = {"events": {"minIntervalMs": 0}}
    driven.request(0, "initialize", {"capabilities": events})
    state, _ = driven.request(1, "session/new", {"model": "bench/benchmark", "ephemeral": True})
    prompt = {"sessionId": state["sessionId"], "message": "go"}
    driven.request(2, "prompt", prompt)
    before, memory = driven.cpu(), driven.peak_memory()
    result, passed = driven.request(3, "prompt", prompt)
    assert result["stopReason"] == "stop", result
    assert passed >= DELTAS, f"only {passed} notifications came"
    used, growth = driven.cpu() - before, driven.peak_memory() - memory
    driven.close()
    return used, growth


def _pi_cpu(command: list[str], folder: Path) -> float:
    argv = [*command, "--mode", "rpc", "--no-session", "--model", "bench/benchmark", "--offline"]
    driven = Driven(argv, environment(PI_CODING_AGENT_DIR=str(folder), PI_OFFLINE="1"), folder)
    used = 0.0
    for _ in range(2):
        before = driven.cpu()
        driven.send({"type": "prompt", "message": "go"})
        driven.until(lambda line: b'"agent_settled"' in line[:80])
        used = driven.cpu() - before
    driven.process.kill()
    driven.close()
    return used


def _recorded_cpu() -> float:
    recorded: dict[str, Any] = json.loads(BASELINE.read_text())
    here = sorted(
        timed(lambda: subprocess.run(BARE, env=environment(), check=True)) for _ in range(9)
    )
    return float(recorded["piCpuSeconds"]) * here[4] / float(recorded["bareSeconds"])


def _write_models(folder: Path, port: int) -> None:
    model = {"id": "benchmark", "name": "benchmark"}
    provider = {
        "baseUrl": f"http://127.0.0.1:{port}/v1",
        "api": "openai-completions",
        "apiKey": "none",
        "models": [model],
    }
    (folder / "models.json").write_text(json.dumps({"providers": {"bench": provider}}))
