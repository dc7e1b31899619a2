"""Which variables commands are given."""

from pathlib import Path

import pytest

from pi_rpc.tools.command_environment import (
    ALLOWED,
    EnvironmentMode,
    EnvironmentRules,
    command_environment,
)

USUAL, LISTED = EnvironmentRules(), EnvironmentRules("allow-list")
SECRETS = (
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    "ACTIONS_RUNTIME_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "CI_JOB_TOKEN",
    "CI_REGISTRY_PASSWORD",
    "CI_REPOSITORY_URL",
    "DOCKER_AUTH_CONFIG",
    "GH_TOKEN",
    "GITHUB_ENV",
    "GITHUB_PATH",
    "GITHUB_TOKEN",
    "GITLAB_TOKEN",
    "HTTPS_PROXY",
    "MY_DEPLOY_KEY",
    "NPM_TOKEN",
    "OPENAI_API_KEY",
    "PI_RPC_TRACE",
    "PYPI_TOKEN",
    "SSH_AUTH_SOCK",
    "SYSTEM_ACCESSTOKEN",
    "TWINE_PASSWORD",
)


def given(base: dict[str, str], rules: EnvironmentRules = USUAL) -> set[str]:
    """The names of ours that commands see."""
    found = command_environment(base, {"MY_GATEWAY"}, rules)
    return {name for name, value in found.items() if base.get(name) == value}


def test_the_environment_of_commands_drops_what_is_named_and_keeps_the_rest() -> None:
    dropped = {
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_OAUTH_TOKEN",
        "AI_GATEWAY_API_KEY",
        "AWS_BEARER_TOKEN_BEDROCK",
        "COPILOT_GITHUB_TOKEN",
        "GEMINI_API_KEY",
        "HF_TOKEN",
        "OPENAI_API_KEY",
        "PI_MODEL",
        "PI_RPC_ANYTHING",
        "QWEN_TOKEN_PLAN_CN_API_KEY",
        "XIAOMI_API_KEY",
        "XIAOMI_MIMO_API_KEY",
        "ZAI_CODING_CN_API_KEY",
        "MY_GATEWAY",
    }
    kept = {
        "AWS_ACCESS_KEY_ID",
        "GITHUB_TOKEN",
        "MY_API_KEY",
        "OPENAI_API_KEY_FILE",
        "PATH",
        "PI_CODING_AGENT_DIR",
        "XIAOMI_HOME",
    }
    base = dict.fromkeys(dropped | kept, "x")
    given = command_environment(base, also={"MY_GATEWAY"})
    assert {name for name, value in given.items() if value == "x"} == kept
    assert set(given) - kept == {"EDITOR", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "TERM", "VISUAL"}


@pytest.mark.parametrize("name", SECRETS)
def test_where_only_listed_variables_are_given_no_secret_is(name: str) -> None:
    assert given({name: "x", "PATH": "/bin"}, LISTED) == {"PATH"}


def test_no_pattern_of_the_list_reaches_a_name_that_sounds_like_a_secret() -> None:
    patterns = [each for group in ALLOWED.values() for each in group]
    telling = ("TOKEN", "KEY", "SECRET", "PASSWORD", "AUTH", "CREDENTIAL")
    assert [each for each in patterns if any(word in each for word in telling)] == []
    assert len(patterns) == len(set(patterns))


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "SHELL", "CI", "GITHUB_SHA", "JAVA_HOME"],
)
def test_what_a_build_needs_is_on_the_list(name: str) -> None:
    assert given({name: "x"}, LISTED) == {name}


@pytest.mark.parametrize(
    ("ci", "mode", "kept"),
    [
        ("true", None, False),
        ("1", None, False),
        ("woodpecker", None, False),
        ("false", None, True),
        ("0", None, True),
        ("", None, True),
        (None, None, True),
        ("true", "keys-removed", True),
        (None, "allow-list", False),
    ],
)
def test_the_list_holds_where_ci_is_true_and_a_setting_says_otherwise(
    ci: str | None, mode: EnvironmentMode | None, kept: bool
) -> None:
    base = {"MY_OWN": "x"} | ({} if ci is None else {"CI": ci})
    assert ("MY_OWN" in given(base, EnvironmentRules(mode))) is kept


@pytest.mark.parametrize("mode", ["keys-removed", "allow-list"])
def test_what_is_allowed_is_given_and_a_key_only_by_its_name(mode: EnvironmentMode) -> None:
    base = dict.fromkeys(
        ("MY_ONE", "MY_OTHER", "MY_GATEWAY", "GROQ_API_KEY", "OPENAI_API_KEY", "PI_RPC_X"), "x"
    )
    rules = EnvironmentRules(mode, ("MY_*", "*_API_KEY", "GROQ_API_KEY", "PI_RPC_X"))
    assert given(base, rules) == {"MY_ONE", "MY_OTHER", "GROQ_API_KEY"}
    assert "MY_GATEWAY" in given(base, EnvironmentRules(mode, ("MY_GATEWAY",)))


def test_the_list_is_the_one_that_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tools.md").read_text(encoding="utf-8")
    for group, names in ALLOWED.items():
        assert f"| {group} | {', '.join(f'`{name}`' for name in names)} |" in page
