"""Settings and directories: what is read, what is refused, what it costs when there is nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from pi_rpc.harness.paths import agent_dir, sessions_dir
from pi_rpc.harness.permissions.rules import Rule, RuleSet
from pi_rpc.harness.settings import (
    CompactionOverride,
    CompactionSettings,
    PermissionSettings,
    ProviderRetrySettings,
    RetrySettings,
    Settings,
    load_settings,
)


def _write(folder: Path, settings: object) -> Path:
    path = folder / "settings.json"
    path.write_text(settings if isinstance(settings, str) else json.dumps(settings))
    return path


def test_without_a_file_the_defaults_hold_and_nothing_is_wrong(tmp_path: Path) -> None:
    assert load_settings(tmp_path) == (Settings(), [])


def test_without_a_file_pydantic_is_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pi_rpc.harness.settings import load_settings; "
        f"load_settings(Path({str(tmp_path)!r})); sys.exit('pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_empty_file_gives_exactly_the_defaults(tmp_path: Path) -> None:
    _write(tmp_path, {})
    assert load_settings(tmp_path) == (Settings(), [])


def test_every_key_reaches_its_field(tmp_path: Path) -> None:
    _write(
        tmp_path,
        {
            "defaultProvider": "groq",
            "defaultModel": "m",
            "defaultThinkingLevel": "xhigh",
            "steeringMode": "all",
            "followUpMode": "all",
            "sessionDir": "~/s",
            "shellPath": "/bin/dash",
            "shellCommandPrefix": "set -e",
            "httpIdleTimeoutMs": 1,
            "retry": {
                "enabled": False,
                "maxRetries": 2,
                "baseDelayMs": 3,
                "maxAgentDelayMs": 4,
                "provider": {"maxRetries": 5, "maxRetryDelayMs": 6, "timeoutMs": 7},
            },
            "compaction": {
                "enabled": False,
                "reserveTokens": 8,
                "keepRecentTokens": 9,
                "modelOverrides": {"a/b": {"enabled": True, "reserveTokens": 10}},
            },
            "piRpc": {
                "commandTimeoutSeconds": 1.5,
                "hookTimeoutSeconds": 2,
                "localServers": False,
                "caFile": "certificates/ca.pem",
                "permissions": {"allow": ["read"], "timeoutSeconds": 11},
            },
        },
    )
    settings, problems = load_settings(tmp_path)
    assert problems == []
    assert dict(settings.compaction.model_overrides) == {
        "a/b": CompactionOverride(enabled=True, reserve_tokens=10)
    }
    assert replace(settings, compaction=CompactionSettings()) == Settings(
        default_provider="groq",
        default_model="m",
        default_thinking_level="xhigh",
        steering_mode="all",
        follow_up_mode="all",
        session_dir="~/s",
        shell_path="/bin/dash",
        shell_command_prefix="set -e",
        http_idle_timeout_ms=1,
        retry=RetrySettings(
            enabled=False,
            max_retries=2,
            base_delay_ms=3,
            max_agent_delay_ms=4,
            provider=ProviderRetrySettings(max_retries=5, max_retry_delay_ms=6, timeout_ms=7),
        ),
        command_timeout_s=1.5,
        hook_timeout_s=2.0,
        local_servers=False,
        ca_file=str(tmp_path / "certificates" / "ca.pem"),
        permissions=PermissionSettings(rules=RuleSet((Rule("allow", "read"),)), timeout_s=11.0),
    )
    compaction = settings.compaction
    assert (compaction.enabled, compaction.reserve_tokens, compaction.keep_recent_tokens) == (
        False,
        8,
        9,
    )


@pytest.mark.parametrize(
    ("written", "where"),
    [
        ({"steeringMode": "sometimes"}, "steeringMode"),
        ({"sessionDir": 5}, "sessionDir"),
        ({"defaultThinkingLevel": "huge"}, "defaultThinkingLevel"),
        ({"httpIdleTimeoutMs": -1}, "httpIdleTimeoutMs"),
        ({"httpIdleTimeoutMs": "300"}, "httpIdleTimeoutMs"),
        ({"retry": True}, "retry"),
        ({"retry": {"enabled": "yes"}}, "retry.enabled"),
        ({"retry": {"provider": []}}, "retry.provider"),
        ({"compaction": {"reserveTokens": 1.5}}, "compaction.reserveTokens"),
        ({"compaction": {"modelOverrides": {"a/b": 1}}}, "compaction.modelOverrides.a/b"),
        ({"piRpc": {"commandTimeoutSeconds": "long"}}, "piRpc.commandTimeoutSeconds"),
        ({"piRpc": {"hookTimeoutSeconds": -1}}, "piRpc.hookTimeoutSeconds"),
        ({"piRpc": {"localServers": "maybe"}}, "piRpc.localServers"),
        ({"sessionDir": "a\0b"}, "sessionDir"),
        ({"shellPath": "\ud800"}, "shellPath"),
        ({"shellCommandPrefix": "a\0b"}, "shellCommandPrefix"),
        ({"piRpc": None}, "piRpc"),
    ],
)
def test_a_bad_value_is_named_by_file_and_path_and_only_it_is_ignored(
    tmp_path: Path, written: dict[str, object], where: str
) -> None:
    path = _write(tmp_path, {**written, "defaultModel": "kept"})
    settings, problems = load_settings(tmp_path)
    assert len(problems) == 1
    assert problems[0].startswith(f"{path}: {where}: ")
    assert settings == Settings(default_model="kept")


def test_every_bad_value_is_named_at_once(tmp_path: Path) -> None:
    _write(tmp_path, {"steeringMode": 1, "followUpMode": 2, "retry": {"maxRetries": -1}})
    settings, problems = load_settings(tmp_path)
    assert len(problems) == 3
    assert settings == Settings()


def test_a_problem_never_shows_the_value(tmp_path: Path) -> None:
    _write(tmp_path, {"sessionDir": ["sk-secret"], "steeringMode": "sk-secret"})
    assert "sk-secret" not in str(load_settings(tmp_path)[1])


@pytest.mark.parametrize(
    "text",
    ['{"a": 1,}', "", "[]", "null", "\ufffe", "[" * 100_000, '{"steeringMode": "all"'],
    ids=["comma", "empty", "list", "null", "junk", "deep", "torn"],
)
def test_a_broken_file_is_named_and_ignored(tmp_path: Path, text: str) -> None:
    path = _write(tmp_path, text)
    settings, problems = load_settings(tmp_path)
    assert settings == Settings()
    assert len(problems) == 1
    assert problems[0].startswith(str(path))


def test_broken_json_is_named_with_line_and_column(tmp_path: Path) -> None:
    _write(tmp_path, '{\n  "defaultModel": nope\n}')
    assert "line 2, column 19" in load_settings(tmp_path)[1][0]


def test_bytes_that_are_not_utf_8_are_named(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_bytes(b'{"defaultModel": "\xff"}')
    settings, problems = load_settings(tmp_path)
    assert settings == Settings()
    assert "not UTF-8" in problems[0]


def test_a_directory_in_the_file_s_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "settings.json").mkdir()
    assert "cannot be read" in load_settings(tmp_path)[1][0]


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_bytes(b'\xef\xbb\xbf{"defaultModel": "m"}')
    assert load_settings(tmp_path) == (Settings(default_model="m"), [])


def test_keys_of_others_are_left_alone(tmp_path: Path) -> None:
    _write(tmp_path, {"theme": "dark", "retry": {"colour": 1}, "piRpc": {"later": []}})
    assert load_settings(tmp_path) == (Settings(), [])


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Settings().default_model = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        Settings().compaction.model_overrides["a/b"] = CompactionOverride()  # type: ignore[index]


def test_the_agent_directory_is_pi_s_unless_the_environment_names_another() -> None:
    assert agent_dir({}) == Path.home() / ".pi" / "agent"
    assert agent_dir({"PI_CODING_AGENT_DIR": "/x/y"}) == Path("/x/y")
    assert agent_dir({"PI_CODING_AGENT_DIR": "~/z"}) == Path.home() / "z"
    assert agent_dir({"PI_CODING_AGENT_DIR": ""}) == Path.home() / ".pi" / "agent"


def test_a_relative_home_gives_an_absolute_agent_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "here")
    assert agent_dir({}) == tmp_path / "here" / ".pi" / "agent"


def test_sessions_lie_in_one_folder_per_working_directory() -> None:
    environ = {"PI_CODING_AGENT_DIR": "/a"}
    found = sessions_dir(Settings(), Path("/home/ada/my app"), environ=environ)
    assert found == Path("/a/sessions/--home-ada-my app--")


def test_the_environment_s_session_folder_wins_over_the_setting_s_and_both_are_flat() -> None:
    settings = Settings(session_dir="~/kept")
    environ = {"PI_CODING_AGENT_SESSION_DIR": "/flat"}
    assert sessions_dir(settings, Path("/c"), environ=environ) == Path("/flat")
    assert sessions_dir(settings, Path("/c"), environ={}) == Path.home() / "kept"
