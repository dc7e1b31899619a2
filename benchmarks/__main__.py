"""``make bench``: every figure, its limit, and whether it was kept.

Writes ``benchmarks/results/results.json``, a plot beside it and the table of
``docs/performance.md``; exits with 1 when a limit was missed. ``PI_BIN`` names pi for the
comparisons with it. Names of benchmarks as arguments run only those, and replace only their
figures.
"""

import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import (
    checkpoints,
    commands,
    crowd,
    files,
    latency,
    layer,
    permissions,
    ping,
    sessions,
    startup,
    stream,
    tools,
)
from benchmarks.report import plot, write_table

BENCHMARKS = {
    "startup": startup.figures,
    "ping": ping.figures,
    "latency": latency.figures,
    "stream": stream.figures,
    "crowd": crowd.figures,
    "layer": layer.figures,
    "sessions": sessions.figures,
    "commands": commands.figures,
    "tools": tools.figures,
    "files": files.figures,
    "checkpoints": checkpoints.figures,
    "permissions": permissions.figures,
}
RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def main(names: list[str]) -> int:
    results = _earlier()
    for name in names or BENCHMARKS:
        results[name] = []
        for figure in BENCHMARKS[name]():
            results[name].append({**asdict(figure), "kept": figure.kept})
            mark = "ok    " if figure.kept else "MISSED"
            print(
                f"{mark} {figure.name}: {figure.value:.2f} {figure.unit}"
                f" (at most {figure.limit:g} {figure.unit}; {figure.detail})",
                flush=True,
            )
    _write({name: results[name] for name in BENCHMARKS if name in results})
    measured = [figure for name in names or BENCHMARKS for figure in results[name]]
    if missed := [figure["name"] for figure in measured if not figure["kept"]]:
        print(f"missed: {', '.join(missed)}")
    return 1 if missed else 0


def _earlier() -> dict[str, list[dict[str, Any]]]:
    """The results of the last run, by benchmark."""
    path = RESULTS / "results.json"
    found: dict[str, list[dict[str, Any]]]
    found = json.loads(path.read_text())["figures"] if path.exists() else {}
    return found


def _write(results: dict[str, list[dict[str, Any]]]) -> None:
    RESULTS.mkdir(exist_ok=True)
    record = {
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "figures": results,
    }
    (RESULTS / "results.json").write_text(json.dumps(record, indent=2) + "\n")
    figures = [figure for each in results.values() for figure in each]
    (RESULTS / "results.svg").write_text(plot(figures))
    write_table(PAGE, figures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
