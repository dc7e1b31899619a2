"""What the benchmarks share: a driven process, its CPU and memory, and how a result is noted.

Only Linux: figures are read from ``/proc``.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

_IDLE_S = 0.5
_STIR_S = 0.002
"""What an idle process may use meanwhile."""
DAEMON = [sys.executable, "-m", "pi_rpc", "--stdio"]
RUN = [sys.executable, "-m", "pi_rpc", "run", "--ephemeral", "--model", "scripted/scripted", "go"]
BARE = [sys.executable, "-c", "import asyncio, msgspec"]


@dataclass(frozen=True)
class Figure:
    """One measured figure and the limit it must keep."""

    name: str
    value: float
    limit: float
    unit: str
    detail: str

    @property
    def kept(self) -> bool:
        return self.value <= self.limit


def environment(**extra: str) -> dict[str, str]:
    """The environment as a user has it: modules are compiled once and kept."""
    environ = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    return {**environ, **extra}


class Driven:
    """A process that is spoken to in lines of JSON."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path | None = None,
        stderr: IO[bytes] | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            argv,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )

    def send(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, wanted: Callable[[bytes], bool]) -> tuple[bytes, int]:
        """The first line that is wanted, and how many came before it."""
        assert self.process.stdout is not None
        for passed, line in enumerate(self.process.stdout):
            if wanted(line):
                return line, passed
        raise RuntimeError(f"{self.process.args} ended early")

    def request(self, number: int, method: str, params: Mapping[str, Any]) -> tuple[Any, int]:
        """A JSON-RPC request's result, and how many frames came before it."""
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        mark = f'"id":{number},'.encode()
        line, passed = self.until(lambda line: mark in line[:40])
        return json.loads(line)["result"], passed

    def cpu(self) -> float:
        """Seconds of CPU so far, user and system, of all its threads."""
        # What clock_getcpuclockid(3) gives; ``stat`` counts in hundredths of a second.
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def wait_until_idle(self) -> None:
        """Return when it has done nothing for a while: what it does in the background is done."""
        used, since = self.cpu(), time.monotonic()
        while time.monotonic() < since + _IDLE_S:
            time.sleep(0.02)
            if self.cpu() - used > _STIR_S:
                used, since = self.cpu(), time.monotonic()

    def memory(self) -> float:
        """Resident memory in MB (1,000,000 bytes)."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def peak_memory(self) -> float:
        """The most resident memory so far, in MB."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise RuntimeError("no VmHWM in /proc")

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.stdout is not None
        self.process.stdout.read()
        self.process.wait(10)


@contextmanager
def serving(module: str, *arguments: str) -> Iterator[int]:
    """The port of a server of the benchmarks, run as a process of its own."""
    argv = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def write_models(folder: Path, base_url: str) -> None:
    """Have the model ``bench/benchmark`` asked at ``base_url``, by pi and by us."""
    provider = {
        "baseUrl": base_url,
        "api": "openai-completions",
        "apiKey": "none",
        "models": [{"id": "benchmark", "name": "benchmark"}],
    }
    (folder / "models.json").write_text(json.dumps({"providers": {"bench": provider}}))


def paired_ratio(
    ours: Callable[[], float], other: Callable[[], float], rounds: int
) -> tuple[float, float, float]:
    """Median of ours, of the other, and of the ratios taken pair by pair, after a warm-up."""
    ours()
    other()
    pairs = [(ours(), other()) for _ in range(rounds)]
    return (
        statistics.median(one for one, _ in pairs),
        statistics.median(two for _, two in pairs),
        statistics.median(one / two for one, two in pairs),
    )


def timed(call: Callable[[], object]) -> float:
    """Seconds of wall time."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def bare_cpu() -> float:
    """Seconds of CPU that the bare interpreter takes to start."""

    def once() -> float:
        before = os.times()
        subprocess.run(BARE, env=environment(), check=True)
        after = os.times()
        used = after.children_user + after.children_system
        return used - before.children_user - before.children_system

    return statistics.median(once() for _ in range(9))
