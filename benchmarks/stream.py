"""A reply of 20,000 text deltas, provider bytes in to notifications out: CPU and memory.

As a client has it that asks for nothing (deltas that follow each other within 16 ms are merged),
and with a notification for every delta, as pi sends. Beside pi's RPC mode where ``PI_BIN`` names it
(a command line, for instance ``node …/pi``), in turns, each process on its own; otherwise against
what pi needed when the baseline was recorded, scaled by what the bare interpreter needs here and
needed there. The figure says which.
"""

import json
import os
import shlex
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measuring import (
    BARE,
    DAEMON,
    Driven,
    Figure,
    environment,
    paired_ratio,
    serving,
    timed,
    write_models,
)

DELTAS = 20_000
CPU_LIMIT = 0.15
ROUNDS = 9
REPLY_MB = DELTAS * len("lorem ") / 1e6
MEMORY_LIMIT_MB = 1.0
BASELINE = Path(__file__).parent / "baseline.json"


def figures() -> Iterator[Figure]:
    with serving("sse_server", str(DELTAS)) as port, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_models(folder, f"http://127.0.0.1:{port}/v1")
        yield _compared(folder, "CPU of 20,000 deltas / pi", {})
        each = {"events": {"minIntervalMs": 0}}
        yield _compared(folder, "CPU of 20,000 deltas, a notification for each / pi", each)
        yield _memory(folder)


@dataclass
class _Ours:
    """Our daemon with one session, which is asked again and again."""

    folder: Path
    capabilities: dict[str, Any]

    def __post_init__(self) -> None:
        self.driven = Driven(DAEMON, environment(PI_CODING_AGENT_DIR=str(self.folder)), self.folder)
        self.driven.request(0, "initialize", {"capabilities": self.capabilities})
        new = {"model": "bench/benchmark", "ephemeral": True}
        self._session, _ = self.driven.request(1, "session/new", new)
        self._number = 1

    def cpu(self) -> float:
        """CPU seconds of one reply."""
        self._number += 1
        before = self.driven.cpu()
        prompt = {"sessionId": self._session["sessionId"], "message": "go"}
        result, passed = self.driven.request(self._number, "prompt", prompt)
        used = self.driven.cpu() - before
        assert result["stopReason"] == "stop", result
        assert len(result["text"]) == DELTAS * len("lorem "), "the reply is not whole"
        assert not self.capabilities or passed >= DELTAS, f"only {passed} notifications came"
        return used


def _compared(folder: Path, name: str, capabilities: dict[str, Any]) -> Figure:
    ours = _Ours(folder, capabilities)
    if command := os.environ.get("PI_BIN"):
        pi = _pi(shlex.split(command), folder)
        mine, theirs, ratio = paired_ratio(ours.cpu, lambda: _pi_cpu(pi), ROUNDS)
        pi.process.kill()
        pi.close()
        source = "pi beside it"
    else:
        ours.cpu()
        mine = statistics.median(ours.cpu() for _ in range(ROUNDS))
        theirs, source = _recorded_cpu(), "recorded baseline of pi, scaled"
        ratio = mine / theirs
    ours.driven.close()
    per_delta = f"{mine / DELTAS * 1e6:.1f} us/delta"
    detail = f"{mine:.3f} s CPU against {theirs:.2f} s ({source}), {per_delta}"
    return Figure(name, ratio, CPU_LIMIT, "x", detail)


def _memory(folder: Path) -> Figure:
    """What a reply adds to the peak of memory, after a first one."""
    ours = _Ours(folder, {"events": {"minIntervalMs": 0}})
    ours.cpu()
    before = ours.driven.peak_memory()
    ours.cpu()
    growth = ours.driven.peak_memory() - before
    ours.driven.close()
    detail = f"a {REPLY_MB:.1f} MB reply"
    return Figure("memory a 20,000-delta reply adds", growth, MEMORY_LIMIT_MB, "MB", detail)


def _pi(command: list[str], folder: Path) -> Driven:
    argv = [*command, "--mode", "rpc", "--no-session", "--model", "bench/benchmark", "--offline"]
    return Driven(argv, environment(PI_CODING_AGENT_DIR=str(folder), PI_OFFLINE="1"), folder)


def _pi_cpu(pi: Driven) -> float:
    before = pi.cpu()
    pi.send({"type": "prompt", "message": "go"})
    pi.until(lambda line: b'"agent_settled"' in line[:80])
    return pi.cpu() - before


def _recorded_cpu() -> float:
    recorded: dict[str, Any] = json.loads(BASELINE.read_text())
    here = statistics.median(
        timed(lambda: subprocess.run(BARE, env=environment(), check=True)) for _ in range(9)
    )
    return float(recorded["piCpuSeconds"]) * here / float(recorded["bareSeconds"])
