"""The decision: which rule wins, why it is asked, and what could be remembered."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from pi_rpc.harness.configuration import PermissionMode
from pi_rpc.harness.permissions.decision import Call, Decision, decide
from pi_rpc.harness.permissions.paths import Access, Zones
from pi_rpc.harness.permissions.rules import RuleSet, read_rules

Decide = Callable[..., Decision]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path.resolve() / "p"
    (project / "src").mkdir(parents=True)
    (project.parent / "agent").mkdir()
    return project


@pytest.fixture
def zones(project: Path) -> Zones:
    return Zones(project, agent_dir=project.parent / "agent")


def rules(**written: list[str]) -> RuleSet:
    found, problems = read_rules(written)  # type: ignore[arg-type]
    assert problems == []
    return found


def bash(command: str) -> Call:
    return Call(tool_name="bash", kind="execute", command=command)


def touch(tool: str, *paths: Path, access: Access = "edit") -> Call:
    return Call(
        tool_name=tool, kind="edit" if access == "edit" else "read", paths=paths, access=access
    )


@pytest.mark.parametrize(
    ("written", "mode", "verdict"),
    [
        ({}, "ask", "ask"),
        ({}, "edits", "ask"),
        ({}, "full", "allow"),
        ({}, "readonly", "refuse"),
        ({"allow": ["bash(ls)"]}, "ask", "allow"),
        ({"allow": ["bash"]}, "ask", "allow"),
        ({"allow": ["*"]}, "ask", "allow"),
        ({"allow": ["bash(ls)"]}, "readonly", "refuse"),
        ({"allow": ["bash(ls)"], "ask": ["bash(l*)"]}, "ask", "ask"),
        ({"ask": ["bash"]}, "full", "allow"),
        ({"allow": ["bash(ls)"], "deny": ["bash"]}, "ask", "refuse"),
        ({"ask": ["bash"], "deny": ["bash(ls)"]}, "edits", "refuse"),
        ({"deny": ["bash(ls)"]}, "full", "refuse"),
        ({"deny": ["*"]}, "full", "refuse"),
        ({"deny": ["bash(cat)"]}, "full", "allow"),
        ({"allow": ["edit"]}, "ask", "ask"),
    ],
)
def test_deny_wins_then_the_mode_then_ask_then_allow(
    zones: Zones, written: dict[str, list[str]], mode: PermissionMode, verdict: str
) -> None:
    assert decide(bash("ls"), mode, rules(**written), zones).verdict == verdict


def test_a_list_is_allowed_only_when_all_of_it_is(zones: Zones) -> None:
    allowed = rules(allow=["bash(ls*)", "bash(cat a)"])
    assert decide(bash("ls | cat a"), "ask", allowed, zones).verdict == "allow"
    decision = decide(bash("ls | cat b && pwd"), "ask", allowed, zones)
    assert decision.verdict == "ask"
    assert [rule.text for rule in decision.offers[0].rules] == ["bash(cat b)", "bash(pwd)"]


def test_even_a_rule_for_every_command_does_not_reach_what_is_not_plain(zones: Zones) -> None:
    for command in ("ls $(pwd)", "sudo ls", "ls > x", "a=1"):
        decision = decide(bash(command), "ask", rules(allow=["bash"]), zones)
        assert decision.verdict == "ask"
        assert "No rule can allow this one" in decision.reason
        assert decision.offers == ()


def test_what_is_remembered_allows_the_same_again(zones: Zones) -> None:
    for command in (
        "git status -s", "npm run build -- x", "./check 'a  b' '*'", "cat x | grep y",
        "pytest tests", "git commit -m 'a (b)'", "x \\\\ ''",
    ):  # fmt: skip
        decision = decide(bash(command), "ask", RuleSet(), zones)
        assert decision.verdict == "ask"
        assert decision.offers
        for offer in decision.offers:
            assert decide(bash(command), "ask", RuleSet(offer.rules), zones).verdict == "allow"
            denied = tuple(replace(rule, effect="deny") for rule in offer.rules)
            assert decide(bash(command), "full", RuleSet(denied), zones).verdict == "refuse"
            assert offer.words


@pytest.mark.parametrize(
    ("command", "offers"),
    [
        ("git status -s", ["the command `git status -s`", "commands like `git status *`"]),
        ("npm run lint x", ["the command `npm run lint x`", "commands like `npm run lint *`"]),
        ("git push", ["the command `git push`"]),
        ("whoami; whoami", ["the command `whoami`"]),
        (
            "git diff a && whoami",
            [
                "the command `git diff a`, the command `whoami`",
                "commands like `git diff *`, the command `whoami`",
            ],
        ),
        ("x " * 300, []),
        ("echo $x", []),
    ],
)
def test_offers_are_exact_or_well_known_beginnings(
    zones: Zones, command: str, offers: list[str]
) -> None:
    found = decide(bash(command), "ask", RuleSet(), zones).offers
    assert [offer.words for offer in found] == offers


def test_an_edit_offers_its_file_and_the_project(zones: Zones, project: Path) -> None:
    decision = decide(touch("write", project / "a.py"), "ask", RuleSet(), zones)
    assert [offer.words for offer in decision.offers] == [
        "edit: the file `./a.py`",
        "all files in the project",
    ]
    everything = RuleSet(decision.offers[1].rules)
    assert decide(touch("edit", project / "b/c"), "ask", everything, zones).verdict == "allow"
    for other in (".git/config", ".pi/x", "../q"):
        again = decide(touch("edit", project / other), "ask", everything, zones)
        assert again.verdict == "ask"
        assert len(again.offers) == 1


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        ("edit(.git/**)", "allow"),
        ("edit(.git/config)", "allow"),
        ("edit(**/.git/**)", "ask"),
        ("edit(**)", "ask"),
        ("edit(*)", "ask"),
        ("edit", "ask"),
        ("*", "ask"),
        ("edit(.git/hooks/**)", "ask"),
    ],
)
def test_what_is_guarded_is_allowed_only_by_its_name(
    zones: Zones, project: Path, rule: str, verdict: str
) -> None:
    call = touch("edit", project / ".git/config")
    for mode in ("ask", "edits"):
        assert decide(call, mode, rules(allow=[rule]), zones).verdict == verdict


def test_reading_outside_offers_the_folder_but_not_one_with_secrets(
    zones: Zones, project: Path
) -> None:
    outside = project.parent / "q"
    outside.mkdir()
    decision = decide(touch("read", outside / "a", access="read"), "ask", RuleSet(), zones)
    assert [rule.text for rule in decision.offers[0].rules] == [f"read({outside}/**)"]
    again = touch("grep", outside / "b/c", access="read")
    assert decide(again, "readonly", RuleSet(decision.offers[0].rules), zones).verdict == "allow"
    above = decide(touch("read", project.parent / "x", access="read"), "ask", RuleSet(), zones)
    assert [rule.text for rule in above.offers[0].rules] == [f"read({project.parent}/x)"]


def test_secrets_are_refused_whatever_the_rules_and_the_reason_says_how(
    zones: Zones, project: Path
) -> None:
    secret = project.parent / "agent/auth.json"
    allowed = rules(allow=["*", f"read({secret})", "bash(cat *)"])
    for call in (touch("read", secret, access="read"), bash(f"cat {secret}")):
        for mode in ("ask", "edits", "readonly"):
            decision = decide(call, mode, allowed, zones)
            assert decision.verdict == "refuse"
            assert "Only the permission mode full" in decision.reason
        assert decide(call, "full", allowed, zones).verdict == "allow"


def test_the_worst_of_several_paths_counts(zones: Zones, project: Path) -> None:
    inside, outside = project / "src/a", project.parent / "x"
    assert decide(touch("edit", inside), "edits", RuleSet(), zones).verdict == "allow"
    assert decide(touch("edit", inside, outside), "edits", RuleSet(), zones).verdict == "ask"
    denied = rules(deny=["edit(src/**)"])
    assert decide(touch("edit", outside, inside), "full", denied, zones).verdict == "refuse"


def test_a_tool_without_paths_is_free_if_it_reads_and_asked_about_otherwise(zones: Zones) -> None:
    for kind, verdict in (("read", "allow"), ("other", "ask"), ("edit", "ask")):
        call = Call(tool_name="t", kind=kind)  # type: ignore[arg-type]
        assert decide(call, "edits", RuleSet(), zones).verdict == verdict
        decision = decide(call, "ask", rules(allow=["t"]), zones)
        assert decision.verdict == "allow"
    asked = decide(Call(tool_name="t", kind="other"), "ask", RuleSet(), zones)
    assert [offer.words for offer in asked.offers] == ["every use of t"]


def test_a_pattern_that_cannot_be_judged_denies_but_never_allows(zones: Zones) -> None:
    call = Call(tool_name="deploy", kind="other", args={"to": "prod"})
    assert decide(call, "full", rules(deny=["deploy(prod)"]), zones).verdict == "refuse"
    assert decide(call, "ask", rules(allow=["deploy(prod)"]), zones).verdict == "ask"


def test_a_rule_about_files_is_not_about_tools_that_touch_none(zones: Zones) -> None:
    call = Call(tool_name="fetch", kind="read")
    assert decide(call, "ask", rules(deny=["read(src/**)"]), zones).verdict == "allow"
    assert decide(call, "ask", rules(deny=["read"]), zones).verdict == "refuse"


def test_a_wide_rule_does_not_reach_the_agent_directory(zones: Zones, project: Path) -> None:
    call = touch("edit", project.parent / "agent/settings.json")
    assert decide(call, "edits", rules(allow=["edit(/**)"]), zones).verdict == "ask"
    named = rules(allow=[f"edit({project.parent}/agent/*.json)"])
    assert decide(call, "edits", named, zones).verdict == "allow"


def test_a_rule_that_could_not_be_read_says_so_when_it_refuses(zones: Zones) -> None:
    found, _ = read_rules({"deny": ["bash(rm"]})
    decision = decide(bash("ls"), "full", found, zones)
    assert decision.verdict == "refuse"
    assert "deny[0]" in decision.reason


def test_a_command_too_long_is_refused_while_rules_deny_and_asked_about_otherwise(
    zones: Zones,
) -> None:
    long = bash("echo " + "x" * 70_000)
    assert decide(long, "ask", rules(allow=["bash"]), zones).verdict == "ask"
    assert decide(long, "full", RuleSet(), zones).verdict == "allow"
    assert decide(long, "full", rules(deny=["bash(rm*)"]), zones).verdict == "refuse"
    assert decide(long, "full", rules(deny=["edit(x)"]), zones).verdict == "allow"


def test_refusals_of_a_read_only_session_name_the_way_out(zones: Zones) -> None:
    decision = decide(bash("ls"), "readonly", RuleSet(), zones)
    assert "--permission-mode" in decision.reason
