"""A project's settings over the agent directory's, changing settings, and the page about them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from pi_rpc.harness._rewriting import RewriteError
from pi_rpc.harness._settings_file import SettingsFile
from pi_rpc.harness.settings import (
    BranchSummarySettings,
    CompactionOverride,
    ProviderRetrySettings,
    ResourcePaths,
    RetrySettings,
    Settings,
    load_settings,
    update_settings,
)
from pi_rpc.harness.settings_page import settings_page

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    (tmp_path / "agent").mkdir()
    return tmp_path / "agent"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "app" / ".pi").mkdir(parents=True)
    return tmp_path / "app" / ".pi"


def _write(folder: Path, settings: object) -> Path:
    path = folder / "settings.json"
    path.write_text(settings if isinstance(settings, str) else json.dumps(settings))
    return path


def test_without_either_file_the_defaults_hold(agent: Path, project: Path) -> None:
    assert load_settings(agent, project) == (Settings(), [])


def test_a_project_is_read_only_when_it_is_named(agent: Path, project: Path) -> None:
    _write(project, {"defaultModel": "ours"})
    assert load_settings(agent) == (Settings(), [])
    assert load_settings(agent, project) == (Settings(default_model="ours"), [])


def test_a_project_s_values_win_key_by_key(agent: Path, project: Path) -> None:
    _write(
        agent,
        {
            "defaultProvider": "mine",
            "defaultModel": "mine",
            "retry": {"maxRetries": 9, "enabled": False, "provider": {"maxRetries": 8}},
            "compaction": {"modelOverrides": {"a/b": {"reserveTokens": 1}, "c/d": {}}},
        },
    )
    _write(
        project,
        {
            "defaultModel": "ours",
            "retry": {"enabled": True, "provider": {"timeoutMs": 7}},
            "compaction": {"modelOverrides": {"a/b": {"enabled": False}}},
            "branchSummary": {"reserveTokens": 5},
        },
    )
    settings, problems = load_settings(agent, project)
    assert problems == []
    assert (settings.default_provider, settings.default_model) == ("mine", "ours")
    assert settings.retry == RetrySettings(
        max_retries=9, provider=ProviderRetrySettings(max_retries=8, timeout_ms=7)
    )
    assert settings.compaction.model_overrides == {
        "a/b": CompactionOverride(enabled=False, reserve_tokens=1),
        "c/d": CompactionOverride(),
    }
    assert settings.branch_summary == BranchSummarySettings(reserve_tokens=5)


def test_whom_to_trust_is_not_a_project_s_to_say(agent: Path, project: Path) -> None:
    _write(agent, {"piRpc": {"caFile": "/etc/ca.pem"}})
    _write(project, {"piRpc": {"caFile": "/tmp/other.pem"}})
    assert load_settings(agent, project)[0].ca_file == "/etc/ca.pem"


def test_a_project_may_set_a_value_back_to_its_default(agent: Path, project: Path) -> None:
    _write(agent, {"steeringMode": "all", "compaction": {"enabled": False}})
    _write(project, {"steeringMode": "one-at-a-time", "compaction": {"enabled": True}})
    assert load_settings(agent, project) == (Settings(), [])


def test_lists_of_resources_are_both_kept_with_where_they_start_from(
    agent: Path, project: Path
) -> None:
    _write(agent, {"skills": ["a", "!b"], "prompts": ["c"], "enableSkillCommands": False})
    _write(project, {"skills": ["d"], "prompts": ["e", "-f"]})
    settings, problems = load_settings(agent, project)
    assert problems == []
    assert settings == Settings(
        skills=ResourcePaths(entries=("a", "!b"), base=agent),
        prompts=ResourcePaths(entries=("c",), base=agent),
        project_skills=ResourcePaths(entries=("d",), base=project),
        project_prompts=ResourcePaths(entries=("e", "-f"), base=project),
        enable_skill_commands=False,
    )
    assert load_settings(agent)[0].skills == settings.skills
    assert load_settings(agent)[0].project_skills == ResourcePaths()


def test_a_bad_value_of_a_project_leaves_the_agent_directory_s(agent: Path, project: Path) -> None:
    mine = _write(agent, {"steeringMode": "all", "followUpMode": "never", "skills": ["a", 1]})
    ours = _write(project, {"steeringMode": "never", "defaultModel": "ours"})
    settings, problems = load_settings(agent, project)
    assert (settings.steering_mode, settings.default_model) == ("all", "ours")
    assert settings.skills.entries == ("a",)
    assert [each.rsplit(": ", 1)[0] for each in problems] == [
        f"{mine}: followUpMode",
        f"{mine}: skills[1]",
        f"{ours}: steeringMode",
    ]


@pytest.mark.parametrize("text", ["{", "[]", ""])
def test_a_broken_file_of_a_project_is_named_and_the_other_counts(
    agent: Path, project: Path, text: str
) -> None:
    _write(agent, {"defaultModel": "mine"})
    path = _write(project, text)
    settings, problems = load_settings(agent, project)
    assert settings == Settings(default_model="mine")
    assert len(problems) == 1
    assert problems[0].startswith(f"{path}: ")


def test_a_broken_file_of_the_agent_directory_leaves_the_project_s(
    agent: Path, project: Path
) -> None:
    _write(agent, "{")
    _write(project, {"defaultModel": "ours"})
    settings, problems = load_settings(agent, project)
    assert settings == Settings(default_model="ours")
    assert len(problems) == 1


def test_a_project_cannot_say_whom_to_trust(agent: Path, project: Path) -> None:
    _write(agent, {"defaultProjectTrust": "never"})
    path = _write(project, {"defaultProjectTrust": "always"})
    settings, problems = load_settings(agent, project)
    assert settings.default_project_trust == "never"
    assert problems == [f"{path}: defaultProjectTrust: not a project's to say; ignored"]


def test_a_project_folder_that_is_the_agent_directory_counts_once(agent: Path) -> None:
    _write(agent, {"skills": ["a"], "steeringMode": 1, "defaultProjectTrust": "always"})
    settings, problems = load_settings(agent, agent)
    assert settings.skills.entries == ("a",)
    assert settings.project_skills == ResourcePaths()
    assert settings.default_project_trust == "always"
    assert len(problems) == 1


def test_a_change_keeps_everything_else(agent: Path) -> None:
    path = _write(
        agent, {"theme": "dark", "compaction": {"later": 1, "enabled": True}, "defaultModel": "m"}
    )
    update_settings(path, {"compaction": {"enabled": False}, "defaultModel": "n"})
    assert json.loads(path.read_text()) == {
        "theme": "dark",
        "compaction": {"later": 1, "enabled": False},
        "defaultModel": "n",
    }


def test_a_change_to_none_removes_a_key_and_only_that(agent: Path) -> None:
    path = _write(agent, {"a": 1, "defaultModel": "m", "retry": {"enabled": True, "x": 1}})
    update_settings(path, {"defaultModel": None, "retry": {"enabled": None}, "gone": None})
    assert json.loads(path.read_text()) == {"a": 1, "retry": {"x": 1}}


def test_a_change_makes_the_file_and_its_folder(project: Path) -> None:
    path = project / "new" / "settings.json"
    update_settings(path, {"compaction": {"enabled": False}})
    assert json.loads(path.read_text()) == {"compaction": {"enabled": False}}


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"steeringMode": "sometimes"}, "steeringMode"),
        ({"compaction": {"enabled": 1}}, "compaction.enabled"),
        ({"compaction": False}, "compaction"),
    ],
)
def test_a_change_that_does_not_fit_is_refused_and_nothing_is_written(
    agent: Path, changes: dict[str, object], where: str
) -> None:
    path = _write(agent, '{"defaultModel":"m"}')
    with pytest.raises(ValueError, match=f": {where}: ") as refused:
        update_settings(path, {"defaultModel": "n", **changes})
    assert "ignored" not in str(refused.value)
    assert path.read_text() == '{"defaultModel":"m"}'


def test_a_broken_file_is_not_written_over(agent: Path) -> None:
    path = _write(agent, '{"defaultModel": "m",}')
    with pytest.raises(RewriteError, match="line 1, column 2"):
        update_settings(path, {"defaultModel": "n"})
    assert path.read_text() == '{"defaultModel": "m",}'


def _keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str | None]]:
    for field in model.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys(field.annotation, f"{prefix}{field.alias}.")
        else:
            yield f"{prefix}{field.alias}", field.description


def test_the_page_is_up_to_date() -> None:
    written = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert written == settings_page(), (
        "run: python -m pi_rpc.harness.settings_page > docs/configuration.md"
    )


def test_every_key_is_on_the_page_and_says_what_it_means() -> None:
    page = settings_page()
    for key, text in _keys(SettingsFile):
        assert text, key
        assert f"| `{key}` |" in page
        assert text in page


def test_permissions_of_a_project_only_make_stricter(agent: Path, project: Path) -> None:
    _write(
        agent,
        {"piRpc": {"permissions": {"allow": ["bash(git *)"], "deny": ["bash(rm*)"], "ask": []}}},
    )
    path = _write(
        project,
        {
            "piRpc": {
                "permissions": {
                    "allow": ["bash"],
                    "ask": ["bash(git push*)"],
                    "deny": ["edit(dist/**)"],
                    "timeoutSeconds": 1,
                }
            }
        },
    )
    settings, problems = load_settings(agent, project)
    assert [(rule.effect, rule.text) for rule in settings.permissions.rules.rules] == [
        ("allow", "bash(git *)"),
        ("deny", "bash(rm*)"),
        ("ask", "bash(git push*)"),
        ("deny", "edit(dist/**)"),
    ]
    assert settings.permissions.timeout_s == 0
    assert problems == [
        f"{path}: piRpc.permissions.allow: not a project's to say; ignored",
        f"{path}: piRpc.permissions.timeoutSeconds: not a project's to say; ignored",
    ]


def test_a_project_cannot_take_a_rule_away(agent: Path, project: Path) -> None:
    _write(agent, {"piRpc": {"permissions": {"deny": ["bash(rm*)"]}}})
    for written in ({"deny": []}, {"deny": None}, None, []):
        _write(project, {"piRpc": {"permissions": written}})
        settings, _ = load_settings(agent, project)
        assert ("deny", "bash(rm*)") in [
            (rule.effect, rule.text) for rule in settings.permissions.rules.rules
        ]


UNREADABLE = "should be a tool's name or tool(pattern), such as bash(git status*)"


@pytest.mark.parametrize(
    ("written", "rule", "problem"),
    [
        ({"deny": ["bash(rm*"]}, ("deny", "bash"), "deny[0]: {}; {} denies every use of bash"),
        ({"deny": [5]}, ("deny", "*"), "deny[0]: {}; {} denies every tool"),
        ({"ask": "(x)"}, ("ask", "*"), "ask[0]: {}; {} asks about every tool"),
        ("bash", ("deny", "*"), "deny[0]: {}; {} denies every tool"),
        (True, ("deny", "*"), "deny[0]: {}; {} denies every tool"),
        ({"allow": ["bash("]}, None, "allow[0]: {}; ignored"),
    ],
)
def test_a_rule_that_cannot_be_read_is_named_and_never_loosens(
    agent: Path, written: object, rule: tuple[str, str] | None, problem: str
) -> None:
    path = _write(agent, {"piRpc": {"permissions": written}})
    settings, problems = load_settings(agent)
    assert [(each.effect, each.text) for each in settings.permissions.rules.rules] == (
        [rule] if rule else []
    )
    told = problem.format(UNREADABLE, "until it is corrected it")
    assert problems == [f"{path}: piRpc.permissions.{told}"]


def test_a_key_of_permissions_that_is_spelled_wrong_is_named(agent: Path) -> None:
    path = _write(agent, {"piRpc": {"permissions": {"denny": ["bash"], "deny": ["write"]}}})
    settings, problems = load_settings(agent)
    assert [rule.text for rule in settings.permissions.rules.rules] == ["write"]
    assert problems == [f"{path}: piRpc.permissions.denny: Extra inputs are not permitted; ignored"]
