"""What commands see of the environment, whoever runs them and whatever the session may do."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.buffers import said
from tests.e2e.editor import Refused, call, editor, say

pytestmark = pytest.mark.anyio

KEYS = {
    "ANTHROPIC_API_KEY": "hush-1",
    "HF_TOKEN": "hush-2",
    "OF_MODELS_JSON": "hush-3",
    "OF_A_HEADER": "hush-4",
    "OF_AUTH_JSON": "hush-5",
}
OTHERS = {"MY_OWN": "mine", "GITHUB_TOKEN": "a token"}
COMMAND = "printenv"


def home_of(tmp_path: Path, settings: dict[str, Any] | None = None) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    provider = {
        "baseUrl": "http://127.0.0.1:9/v1",
        "api": "openai-completions",
        "apiKey": "$OF_MODELS_JSON",
        "headers": {"x-key": "$OF_A_HEADER"},
        "models": [{"id": "m"}],
    }
    (home / "models.json").write_text(json.dumps({"providers": {"gate": provider}}))
    entry = {"type": "api_key", "key": "$OF_AUTH_JSON"}
    (home / "auth.json").write_text(json.dumps({"groq": entry}))
    rules = {"piRpc": {"permissions": {"allow": ["bash(printenv)"]}, **(settings or {})}}
    (home / "settings.json").write_text(json.dumps(rules))
    return home


def begin(mode: str) -> dict[str, Any]:
    return {"capabilities": {}, "initializationOptions": {"session": {"permissionMode": mode}}}


async def seen(home: Path, mode: str, **environ: str) -> list[str]:
    """What the model's command and the person's print; the refusal where there is one."""
    replies = [[call("bash", command=COMMAND)], [say("done")]]
    environ = {**KEYS, **OTHERS, **environ}
    async with editor(home, replies, initialize=begin(mode), environ=environ) as client:
        await client.request("prompt", {"message": "go"})
        (end,) = [each for each in client.events if each["type"] == "tool_execution_end"]
        outputs = [said(end)]
        try:
            outputs.append((await client.request("bash", {"command": COMMAND}))["output"])
        except Refused as refused:
            assert mode == "readonly"
            outputs.append(refused.message)
    return outputs


@pytest.mark.parametrize("mode", ["ask", "edits", "full", "readonly"])
async def test_no_command_sees_the_key_of_a_provider_in_any_mode(tmp_path: Path, mode: str) -> None:
    for output in await seen(home_of(tmp_path), mode, CI=""):
        assert [value for value in KEYS.values() if value in output] == []
        if mode == "readonly":
            assert "PATH=" not in output
        else:
            assert "MY_OWN=mine" in output
            assert "GITHUB_TOKEN=a token" in output


async def test_in_ci_commands_see_only_what_is_listed_or_allowed(tmp_path: Path) -> None:
    home = home_of(tmp_path, {"commandEnvironment": {"allow": ["MY_*"]}})
    for output in await seen(home, "full", CI="true", GITHUB_SHA="abc"):
        assert [value for value in KEYS.values() if value in output] == []
        assert "GITHUB_TOKEN" not in output
        assert "MY_OWN=mine" in output
        assert "GITHUB_SHA=abc" in output
        assert "PI_SESSION_ID=" in output


async def test_a_setting_chooses_what_commands_see_wherever_they_run(tmp_path: Path) -> None:
    home = home_of(tmp_path, {"commandEnvironment": {"mode": "keys-removed"}})
    for output in await seen(home, "full", CI="true"):
        assert "GITHUB_TOKEN=a token" in output
        assert [value for value in KEYS.values() if value in output] == []
