"""``make bench``: every figure, its limit, and whether it was kept.

Writes ``benchmarks/results/results.json``; exits with 1 when a limit was missed. ``PI_BIN`` names
pi for the comparisons with it; names of benchmarks as arguments run only those.
"""

import json
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks import (
    checkpoints,
    commands,
    files,
    layer,
    permissions,
    ping,
    sessions,
    startup,
    stream,
    tools,
)
from benchmarks.measuring import Figure

BENCHMARKS = {
    "startup": startup.figures,
    "ping": ping.figures,
    "stream": stream.figures,
    "layer": layer.figures,
    "sessions": sessions.figures,
    "commands": commands.figures,
    "tools": tools.figures,
    "files": files.figures,
    "checkpoints": checkpoints.figures,
    "permissions": permissions.figures,
}
RESULTS = Path(__file__).parent / "results" / "results.json"


def main(names: list[str]) -> int:
    figures: list[Figure] = []
    for name in names or BENCHMARKS:
        for figure in BENCHMARKS[name]():
            figures.append(figure)
            mark = "ok    " if figure.kept else "MISSED"
            print(
                f"{mark} {figure.name}: {figure.value:.2f} {figure.unit}"
                f" (at most {figure.limit:g} {figure.unit}; {figure.detail})",
                flush=True,
            )
    RESULTS.parent.mkdir(exist_ok=True)
    record = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "figures": [{**asdict(figure), "kept": figure.kept} for figure in figures],
    }
    RESULTS.write_text(json.dumps(record, indent=2) + "\n")
    missed = [figure.name for figure in figures if not figure.kept]
    if missed:
        print(f"missed: {', '.join(missed)}")
    return 1 if missed else 0


sys.exit(main(sys.argv[1:]))
