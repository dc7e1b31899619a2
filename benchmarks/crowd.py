"""A hundred sessions of one daemon that stream at once: memory, and how long a delta takes.

The client is one that asks for nothing special. Counted is the time in which all of them stream,
from a second after the last has begun.
"""

import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.latency import ARGV, stamps_in
from benchmarks.measuring import Driven, Figure, environment, serving, write_models

SESSIONS = 100
RATE = 20
DELTAS = 240
MEMORY_LIMIT_MB = 130.0
P99_LIMIT_MS = 20.0
_SETTLING_NS = 1_000_000_000
_ANSWER = b'{"jsonrpc":"2.0","id":'


def figures() -> Iterator[Figure]:
    with serving("paced_server") as port, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_models(folder, f"http://127.0.0.1:{port}/{RATE}-{DELTAS}")
        driven = Driven(ARGV, environment(PI_CODING_AGENT_DIR=scratch), folder)
        driven.request(0, "initialize", {})
        took = _stream(driven)
        memory, cpu = driven.peak_memory(), driven.cpu()
        driven.close()
    cuts = statistics.quantiles(took, n=100)
    each = f"{SESSIONS} sessions at {RATE} deltas a second each"
    yield Figure("memory of 100 sessions that stream", memory, MEMORY_LIMIT_MB, "MB", "peak")
    detail = f"{each}, p50 {cuts[49]:.1f} ms; {cpu:.1f} s CPU in all"
    yield Figure(
        "delta in to notification out, 100 sessions, p99", cuts[98], P99_LIMIT_MS, "ms", detail
    )


def _stream(driven: Driven) -> list[float]:
    """Milliseconds of each delta while all sessions stream."""
    states = [driven.request(number, "session/new", {})[0] for number in range(1, SESSIONS + 1)]
    for number, state in enumerate(states, SESSIONS + 1):
        params = {"sessionId": state["sessionId"], "message": "go"}
        driven.send({"jsonrpc": "2.0", "id": number, "method": "prompt", "params": params})
    came: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    assert driven.process.stdout is not None
    answered = 0
    for line in driven.process.stdout:
        now = time.monotonic_ns()
        if stamps := stamps_in(line):
            came[json.loads(line)["params"]["sessionId"]] += [(sent, now) for sent in stamps]
        elif line.startswith(_ANSWER):
            answered += 1
            if answered == SESSIONS:
                break
    assert [len(each) for each in came.values()] == [DELTAS] * SESSIONS, "deltas are missing"
    begin = max(each[0][0] for each in came.values()) + _SETTLING_NS
    end = min(each[-1][0] for each in came.values())
    return [
        (read - sent) / 1e6 for each in came.values() for sent, read in each if begin <= sent <= end
    ]
