"""Every threat in every mode: one test for each cell of the table in ``threats``."""

import sys
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from pi_rpc.harness.configuration import PermissionMode
from pi_rpc.harness.permissions.decision import Call, Verdict, decide
from pi_rpc.harness.permissions.paths import Zones
from pi_rpc.harness.permissions.rules import RuleSet, read_rules
from pi_rpc.tools._paths import resolve_path
from tests.harness.permissions.threats import RULES, THREATS, Threat, lay_out

MODES: tuple[PermissionMode, ...] = get_args(PermissionMode)
CELLS = [(threat, mode) for threat in THREATS for mode in MODES]
KINDS = {
    "bash": "execute",
    "read": "read",
    "grep": "read",
    "edit": "edit",
    "write": "edit",
    "deploy": "other",
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return lay_out(tmp_path_factory.mktemp("threats"))


@pytest.fixture(scope="module")
def rules() -> RuleSet:
    rules, problems = read_rules(RULES)  # type: ignore[arg-type]
    assert problems == []
    return rules


def zones_of(places: dict[str, str]) -> Zones:
    home, agent = Path(places["home"]), Path(places["agent"])
    return Zones(
        Path(places["cwd"]),
        agent_dir=agent,
        additional=[home / "extra"],
        readable=[agent / "skills" / "tidy"],
    )


def call_of(threat: Threat, places: dict[str, str]) -> Call:
    kind = KINDS[threat.tool]
    text = threat.text.format(**places)
    if kind == "execute":
        return Call(tool_name=threat.tool, kind="execute", command=text)
    return Call(
        tool_name=threat.tool,
        kind=kind,  # type: ignore[arg-type]
        paths=(resolve_path(text, Path(places["cwd"])),) if text else (),
        access="edit" if kind in {"edit", "other"} else "read",
    )


def name(threat: Threat) -> str:
    number = THREATS.index(threat)
    text = threat.text if len(threat.text) < 60 else threat.text[:50] + "…"
    return f"{number}-{threat.tool}-{ascii(text)[1:-1]}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("threat", THREATS, ids=name)
def test_a_threat_is_decided_as_the_table_says(
    threat: Threat,
    mode: PermissionMode,
    places: dict[str, str],
    rules: RuleSet,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if threat.only_on and not sys.platform.startswith(threat.only_on):
        pytest.skip("there is no /proc")
    monkeypatch.setenv("HOME", places["home"])
    decision = decide(call_of(threat, places), mode, rules, zones_of(places))
    assert (decision.verdict, decision.reason) == (threat.expected[mode], decision.reason)
    assert decision.verdict == "allow" or decision.reason


def test_no_cell_of_the_table_is_missing() -> None:
    verdicts = set(get_args(Verdict))
    assert len(THREATS) >= 130
    assert len({(threat.tool, threat.text) for threat in THREATS}) == len(THREATS)
    assert len(CELLS) == len(THREATS) * len(MODES)
    for threat in THREATS:
        assert tuple(threat.expected) == MODES, threat.text
        assert set(threat.expected.values()) <= verdicts
    by_verdict = Counter(threat.expected[mode] for threat, mode in CELLS)
    assert min(by_verdict[verdict] for verdict in verdicts) >= 100
