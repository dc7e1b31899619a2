"""What it costs to decide whether a command of 10 KB may run, with rules and files to compare."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import Figure
from pi_rpc.harness.permissions.decision import Call, decide
from pi_rpc.harness.permissions.paths import Zones
from pi_rpc.harness.permissions.rules import RuleSet, read_rules

SIZE = 10_000
ROUNDS = 200
RULES = {
    "allow": ["bash(git *)", "bash(grep*)", "bash(npm test)", "bash(echo*)", "bash(tool*)"],
    "ask": ["bash(git push*)"],
    "deny": ["bash(rm*)", "bash(* --force*)"],
}


def figures() -> Iterator[Figure]:
    """Plain commands all of which are allowed, and a script that is not plain."""
    rules, problems = read_rules(RULES)  # type: ignore[arg-type]
    assert problems == []
    for name, command, verdict in (
        ("a plain list", _plain(), "allow"),
        ("a here-document, loops and substitutions", _script(), "ask"),
    ):
        yield Figure(
            f"permissions.{verdict}",
            _median_ms(command, rules, verdict),
            5.0,
            "ms",
            f"deciding on {name} of {len(command)} characters, median of {ROUNDS}",
        )


def _plain() -> str:
    lines = []
    while len("\n".join(lines)) < SIZE:
        number = len(lines)
        lines.append(
            f"git add 'src/package/module {number}/handlers.py' src/package/module-{number}/a.py &&"
            f" git commit -m 'Add what module {number} needs; see docs/module-{number}.md' 2>&1"
            f" | grep -n changed-{number}"
        )
    return "\n".join(lines)[:SIZE].rpartition("\n")[0]


def _script() -> str:
    """Most commands of this size write a file; some do a lot of other things."""
    document, loops = ["cat > src/made.py <<'EOF'"], []
    while sum(map(len, document)) < 0.7 * SIZE:
        number = len(document)
        document.append(f"def made_{number}(value: int) -> int:  # 'quoted' $not_expanded")
        document.append(f"    return value * {number} if value else made_{number - 1}(value)")
    while sum(map(len, loops)) < 0.27 * SIZE:
        number = len(loops)
        loops.append(
            f'for each in src/{number}/*.py; do grep -c word{number} "$each" >> out{number}; done;'
            f" echo $(git rev-parse HEAD~{number})"
        )
    return "\n".join([*document, "EOF", *loops])


def _median_ms(command: str, rules: RuleSet, verdict: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        zones = Zones(Path(folder), agent_dir=Path(folder, "agent"))
        call = Call(tool_name="bash", kind="execute", command=command)
        times = []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            decision = decide(call, "ask", rules, zones)
            times.append((time.perf_counter() - begun) * 1000)
            assert decision.verdict == verdict, decision
    return statistics.median(times)
