"""How long the daemon is in the way: a first prompt to the provider, and deltas to the client.

Both ends are processes of their own on this machine; moments are those of one clock.
"""

import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import DAEMON, Driven, Figure, environment, serving, write_models

FIRST_LIMIT_MS = 30.0
FIRST_ROUNDS = 9
RATE = 1_000
DELTAS = 3_000
DELTA_ROUNDS = 5
P50_LIMIT_MS = 1.0
P99_LIMIT_MS = 5.0
ARGV = [*DAEMON, "--model", "bench/benchmark"]

_STAMPS = re.compile(rb'"type":"text_delta".*?"delta":"([0-9 ]+)"')


def stamps_in(line: bytes) -> list[int]:
    """When what this frame brings was sent, each delta in it by itself; see ``paced_server``."""
    found = _STAMPS.search(line)
    return list(map(int, found[1].split())) if found else []


def figures() -> Iterator[Figure]:
    with serving("paced_server") as port, tempfile.TemporaryDirectory() as scratch:
        address = f"http://127.0.0.1:{port}"
        yield _first_prompt(Path(scratch), f"{address}/100-2")
        yield from _deltas(Path(scratch), f"{address}/{RATE}-{DELTAS}")


def _first_prompt(folder: Path, address: str) -> Figure:
    """From the frame of a daemon's first prompt to the first byte that the provider gets."""
    write_models(folder, address)

    def once() -> float:
        driven = Driven(ARGV, environment(PI_CODING_AGENT_DIR=str(folder)), folder)
        driven.request(0, "initialize", {})
        driven.wait_until_idle()
        sent_at = time.monotonic_ns()
        driven.send({"jsonrpc": "2.0", "id": 1, "method": "prompt", "params": {"message": "go"}})
        line, _ = driven.until(lambda line: bool(stamps_in(line)))
        driven.close()
        return (stamps_in(line)[0] - sent_at) / 1e6

    took = sorted(once() for _ in range(FIRST_ROUNDS))
    detail = f"median of {FIRST_ROUNDS} daemons, the slowest {took[-1]:.1f} ms"
    name = "first prompt to the provider's first byte"
    return Figure(name, statistics.median(took), FIRST_LIMIT_MS, "ms", detail)


def _deltas(folder: Path, address: str) -> Iterator[Figure]:
    """From the provider's write of a delta to the client's reading of its notification."""
    write_models(folder, address)
    driven = Driven(ARGV, environment(PI_CODING_AGENT_DIR=str(folder)), folder)
    driven.request(0, "initialize", {"capabilities": {"events": {"minIntervalMs": 0}}})
    assert driven.process.stdout is not None
    rounds = []
    for number in range(1, DELTA_ROUNDS + 1):
        driven.send(
            {"jsonrpc": "2.0", "id": number, "method": "prompt", "params": {"message": "go"}}
        )
        took: list[float] = []
        for line in driven.process.stdout:
            took += [(time.monotonic_ns() - sent_at) / 1e6 for sent_at in stamps_in(line)]
            if line.startswith(b'{"jsonrpc":"2.0","id":'):
                break
        assert len(took) == DELTAS, f"only {len(took)} deltas came"
        # The first says when the request came.
        rounds.append(statistics.quantiles(took[1:], n=100))
    driven.close()
    for name, at, limit in (("p50", 49, P50_LIMIT_MS), ("p99", 98, P99_LIMIT_MS)):
        each = sorted(cuts[at] for cuts in rounds)
        detail = f"median of {DELTA_ROUNDS} rounds, {each[0]:.2f} to {each[-1]:.2f} ms"
        full = f"delta in to notification out, {RATE:,} a second, {name}"
        yield Figure(full, statistics.median(each), limit, "ms", detail)
