"""The model layer by itself: CPU for each delta of every dialect, long arguments, late imports.

Beside pi's layer where ``PI_BIN`` names pi: the package ``pi-ai`` that comes with it, used as a
library, reads the same bytes from the same server, in turns with ours. Otherwise against what pi
needed when the baseline was recorded, scaled by what the bare interpreter needs here and needed
there. The figure says which.
"""

import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measuring import (
    Driven,
    Figure,
    bare_cpu,
    environment,
    paired_ratio,
    serving,
)
from benchmarks.replies import APIS, argument_bytes

FOLDER = Path(__file__).parent
BASELINE = FOLDER / "baseline.json"
BULK_DELTAS = 20_000
PACED_DELTAS = 1_500
BULK_LIMIT = 0.3
PACED_LIMIT = 0.6
BULK_ROUNDS = 5
PACED_ROUNDS = 5
ARGUMENT_DELTAS = 100_000
ARGUMENT_ROUNDS = 3
LINEAR_LIMIT = 2.2
"""Twice the argument may take twice the time, and what this machine varies by."""
LATE = ("pi_rpc.llm", "httpx", "httpcore", "h11", "ssl", "botocore")
EARLY_MODULES_LIMIT = 0
AWS = {
    # The address of the benchmark speaks HTTP 1, and nobody's own credentials are looked for.
    "AWS_BEDROCK_FORCE_HTTP1": "1",
    "AWS_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
PROBE = """
import os, sys
write, late = os.write, sys.argv.pop(1).split(",")
def noting(fd, payload):
    os.write = write
    known = [name for name in sys.modules if f"{name}.".startswith(tuple(f"{e}." for e in late))]
    print(" ".join(sorted(known)), file=sys.stderr, flush=True)
    return write(fd, payload)
os.write = noting
from pi_rpc.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""The daemon; with the first that it writes, it says what it has loaded of the modules named."""


@dataclass(frozen=True)
class Reader:
    """A process that reads replies from the server."""

    driven: Driven
    port: int

    def read(self, how: str, api: str) -> dict[str, Any]:
        """What one reply took."""
        self.driven.send({"api": api, "baseUrl": f"http://127.0.0.1:{self.port}/{how}/{api}"})
        line, _ = self.driven.until(lambda line: line.startswith(b"{"))
        read: dict[str, Any] = json.loads(line)
        if read["stopReason"] not in {"stop", "toolUse"}:
            raise RuntimeError(f"{how} {api}: {read}")
        return read

    def per_delta(self, how: str, api: str) -> float:
        """CPU microseconds for each delta of a text."""
        read, expected = self.read(how, api), int(how.partition("-")[2])
        if read["deltas"] < expected:
            raise RuntimeError(f"{how} {api}: only {read['deltas']} deltas came")
        return float(read["cpu"]) / expected * 1e6


def figures() -> Iterator[Figure]:
    yield _early_modules()
    with ExitStack() as stack:
        port = stack.enter_context(serving("reply_server"))
        ours = stack.enter_context(_reader([sys.executable, "-m", "benchmarks.layer_client"], port))
        if command := os.environ.get("PI_BIN"):
            theirs = stack.enter_context(_reader(_pi_reader(shlex.split(command)), port))
            pi, source = theirs.per_delta, "pi beside it"
        else:
            pi, source = _recorded(), "recorded baseline of pi, scaled"
        for api in APIS:
            yield _compared(ours, pi, source, api, f"bulk-{BULK_DELTAS}")
            yield _compared(ours, pi, source, api, f"paced-{PACED_DELTAS}")
        for api in APIS:
            yield _linear(ours, api)


def _compared(
    ours: Reader, pi: Callable[[str, str], float], source: str, api: str, how: str
) -> Figure:
    is_paced = how.startswith("paced")
    one, other, ratio = paired_ratio(
        lambda: ours.per_delta(how, api),
        lambda: pi(how, api),
        PACED_ROUNDS if is_paced else BULK_ROUNDS,
    )
    name = f"layer, {api}, {'one chunk per event' if is_paced else 'coalesced reads'} / pi"
    detail = f"{one:.1f} against {other:.1f} us/delta ({source})"
    return Figure(name, ratio, PACED_LIMIT if is_paced else BULK_LIMIT, "x", detail)


def _linear(ours: Reader, api: str) -> Figure:
    """The CPU of an argument of 2 MB, beside one of half the length."""

    def cpu(deltas: int) -> float:
        read = ours.read(f"call-{deltas}", api)
        if read["argument"] < argument_bytes(deltas) * 0.9:
            raise RuntimeError(f"{api}: the argument came cut: {read}")
        return float(read["cpu"])

    whole, half, ratio = paired_ratio(
        lambda: cpu(ARGUMENT_DELTAS), lambda: cpu(ARGUMENT_DELTAS // 2), ARGUMENT_ROUNDS
    )
    came = "in one event" if api.startswith("google") else f"in {ARGUMENT_DELTAS:,} deltas"
    detail = f"{argument_bytes(ARGUMENT_DELTAS) / 1e6:.1f} MB {came}: {whole:.2f} s"
    return Figure(
        f"layer, {api}, an argument twice as long", ratio, LINEAR_LIMIT, "x",
        f"{detail} CPU, half of it {half:.2f} s",
    )  # fmt: skip


def _early_modules() -> Figure:
    """How many modules of the layer, or that only the layer needs, answering the handshake took."""
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as noted:
        argv = [sys.executable, "-c", PROBE, ",".join(LATE), "--stdio"]
        driven = Driven(argv, environment(PI_CODING_AGENT_DIR=scratch), stderr=noted)
        driven.request(0, "initialize", {})
        driven.close()
        noted.seek(0)
        names = noted.readline().decode().split()
    detail = ", ".join(names) or "none"
    name = "modules of the layer before initialize is answered"
    return Figure(name, len(names), EARLY_MODULES_LIMIT, "modules", detail)


def _recorded() -> Callable[[str, str], float]:
    recorded: dict[str, Any] = json.loads(BASELINE.read_text())["piLayer"]
    scale = bare_cpu() / float(recorded["bareCpuSeconds"])

    def per_delta(how: str, api: str) -> float:
        return float(recorded["microseconds"][api][how.partition("-")[0]]) * scale

    return per_delta


@contextmanager
def _reader(argv: list[str], port: int) -> Iterator[Reader]:
    driven = Driven(argv, environment(**AWS))
    try:
        yield Reader(driven, port)
    finally:
        driven.process.kill()
        driven.close()


def _pi_reader(command: list[str]) -> list[str]:
    """pi's layer as a process: its package lies beside or above the program that is called."""
    program = Path(shutil.which(command[-1]) or command[-1]).resolve()
    node = command[-2] if len(command) > 1 else shutil.which("node")
    for folder in program.parents:
        package = folder / "node_modules" / "@earendil-works" / "pi-ai"
        if node is not None and package.is_dir():
            return [node, str(FOLDER / "layer_client.mjs"), str(package)]
    raise RuntimeError(f"no node or no pi-ai for {command}")
