"""Keys of providers, asked and changed by a client; and lists of models."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.llm.catalogue import catalogue, models_of, provider_names
from tests.server.wire import Wire, wire

PLAIN = {
    name: ""
    for name in os.environ
    if name.endswith(("_API_KEY", "_TOKEN")) or name.startswith("AWS_")
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def auth(client: Wire, provider: str) -> dict[str, Any]:
    (found,) = client.ask("auth/status", {"provider": provider})["providers"]
    entry: dict[str, Any] = found
    return entry


def refused(client: Wire, method: str, params: Any) -> dict[str, Any]:
    error: dict[str, Any] = client.answer(client.say(method, params))["error"]
    return error


def test_a_key_counts_at_once_in_a_session_that_is_open(home: Path) -> None:
    refusing = {"groq": {"baseUrl": "http://0.0.0.0:9/v1"}}  # Here, but it does not look so.
    (home / "models.json").write_text(json.dumps({"providers": refusing}))
    (home / "settings.json").write_text('{"retry": {"enabled": false}}')
    with wire(home, environ=PLAIN) as client:
        model = f"groq/{models_of('groq')[0].id}"
        session = client.ask("session/new", {"model": model})["sessionId"]
        prompt = {"sessionId": session, "message": "hello"}
        error = refused(client, "prompt", prompt)
        assert error["data"] == {"kind": "authRequired", "provider": "groq"}
        assert error["message"] == (
            "no credential for groq: run `pi-rpc auth set groq`, or set GROQ_API_KEY"
        )
        assert client.ask("model/list", {"provider": "groq", "authenticated": True}) == {
            "models": []
        }
        set_ = client.ask("auth/set", {"provider": "groq", "apiKey": "k-1234"})
        assert set_["status"] == auth(client, "groq")
        assert client.ask("model/list", {"provider": "groq", "authenticated": False}) == {
            "models": []
        }
        assert client.ask("prompt", prompt)["stopReason"] == "error"  # Asked, but nobody listens.
        removed = client.ask("auth/remove", {"provider": "groq"})
        assert removed["removed"] is True
        assert removed["status"]["source"] == "none"
        assert refused(client, "prompt", prompt)["data"]["kind"] == "authRequired"
        assert client.ask("auth/remove", {"provider": "groq"})["removed"] is False


KEYLESS = {"retry": {"enabled": False}, "defaultProvider": "groq"}
"""Settings with which there is no model as long as there is no key for it."""


def test_a_session_without_a_model_takes_one_once_a_key_is_set(home: Path) -> None:
    refusing = {"groq": {"baseUrl": "http://0.0.0.0:9/v1"}}
    (home / "models.json").write_text(json.dumps({"providers": refusing}))
    (home / "settings.json").write_text(json.dumps(KEYLESS))
    with wire(home, environ=PLAIN) as client:
        session = client.ask("session/new")["sessionId"]
        prompt = {"sessionId": session, "message": "hello"}
        assert refused(client, "prompt", prompt)["data"]["kind"] == "modelRequired"
        client.ask("auth/set", {"provider": "groq", "apiKey": "k-1234"})
        state = client.ask("session/state", {"sessionId": session})
        assert state["model"]["provider"] == "groq"
        told = [event.get("model") for event in client.events("session_changed")]
        assert state["model"] in told
        assert client.ask("prompt", prompt)["stopReason"] == "error"  # Asked, but nobody listens.
        entries = client.ask("session/entries", {"sessionId": session})["entries"]
        changes = [each for each in entries if each["type"] == "model_change"]
        assert [each["provider"] for each in changes] == ["groq"]


def test_a_session_without_a_model_takes_one_that_somebody_else_has_stored_a_key_for(
    home: Path,
) -> None:
    refusing = {"groq": {"baseUrl": "http://0.0.0.0:9/v1"}}
    (home / "models.json").write_text(json.dumps({"providers": refusing}))
    (home / "settings.json").write_text(json.dumps(KEYLESS))
    with wire(home, environ=PLAIN) as client:
        session = client.ask("session/new")["sessionId"]
        said = {"sessionId": session, "message": "hello"}
        assert refused(client, "followUp", said)["data"]["kind"] == "modelRequired"
        (home / "auth.json").write_text('{"groq": {"type": "api_key", "key": "k-1234"}}')
        assert client.ask("followUp", said)["disposition"] == "started"
        state = client.ask("session/state", {"sessionId": session})
        assert state["model"]["provider"] == "groq"


def test_an_expired_login_is_refused_with_what_renews_it(home: Path) -> None:
    login = {"type": "oauth", "access": "a", "refresh": "r", "expires": 1000}
    (home / "auth.json").write_text(json.dumps({"groq": login}))
    with wire(home, environ=PLAIN) as client:
        model = f"groq/{models_of('groq')[0].id}"
        session = client.ask("session/new", {"model": model})["sessionId"]
        error = refused(client, "prompt", {"sessionId": session, "message": "hello"})
        assert error["data"]["kind"] == "authRequired"
        assert "has expired: run `pi auth login groq`" in error["message"]
        status = auth(client, "groq")
        assert (status["kind"], status["usable"], status["expires"]) == ("oauth", False, 1000)


def test_the_status_has_every_provider_and_what_else_is_stored(home: Path) -> None:
    (home / "auth.json").write_text('{"github-copilot": {"type": "api_key", "key": "k"}}')
    (home / "models.json").write_text(
        '{"providers": {"mine": {"name": "My own", "baseUrl": "http://127.0.0.1:9/v1",'
        ' "api": "openai-completions", "models": [{"id": "m"}]}}}'
    )
    with wire(home, environ={**PLAIN, "XAI_API_KEY": "k-1234"}) as client:
        found = {each["provider"]: each for each in client.ask("auth/status")["providers"]}
    assert list(found)[:2] == ["mine", next(iter(provider_names()))]
    assert set(provider_names()) <= set(found)
    assert list(found)[-1] == "github-copilot"
    assert found["mine"] | {"name": "My own", "kind": "not_needed"} == found["mine"]
    assert found["xai"]["source"] == "XAI_API_KEY"
    assert found["scripted"]["usable"] is True
    assert found["openai"]["hint"].startswith("run `pi-rpc auth set openai`")


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"provider": "groq"}, ""),
        ({"provider": "groq", "apiKey": "a", "apiKeyEnv": "B"}, ""),
        ({"provider": "groq", "apiKey": ""}, "apiKey"),
        ({"provider": "groq", "apiKey": "two\nlines"}, "apiKey"),
        ({"provider": "groq", "apiKeyEnv": "not a name"}, "apiKeyEnv"),
        ({"provider": "groq", "apiKeyCommand": " "}, "apiKeyCommand"),
        ({"provider": "grokk", "apiKey": "a"}, "provider"),
        ({"provider": "", "apiKey": "a"}, "provider"),
        ({"provider": "scripted", "apiKey": "a"}, "provider"),
        ({"apiKey": "a"}, None),
    ],
)
def test_what_cannot_be_stored_is_refused_and_nothing_is_written(
    home: Path, params: dict[str, str], path: str | None
) -> None:
    with wire(home) as client:
        error = refused(client, "auth/set", params)
    assert error["data"]["kind"] == "invalidParams"
    if path is not None:
        assert error["data"]["path"] == path
    assert not (home / "auth.json").exists()


def test_a_file_that_cannot_be_changed_is_a_failure_of_storage(home: Path) -> None:
    (home / "auth.json").write_text("not JSON")
    with wire(home) as client:
        for method, params in (
            ("auth/set", {"provider": "groq", "apiKey": "k"}),
            ("auth/remove", {"provider": "groq"}),
        ):
            error = refused(client, method, params)
            assert error["data"]["kind"] == "storage"
            assert "auth.json" in error["message"]
    assert (home / "auth.json").read_text() == "not JSON"


def test_a_variable_that_is_named_later_is_kept_from_commands_of_open_sessions(
    home: Path,
) -> None:
    # Where CI is true commands are given few variables anyway.
    variables = {"WORK": "k-1234", "CI": ""}
    with wire(home, (), "--permission-mode", "full", environ=variables) as client:
        session = client.ask("session/new", {})["sessionId"]
        command = {"sessionId": session, "command": "echo [$WORK]"}
        assert client.ask("bash", command)["output"].strip() == "[k-1234]"
        client.ask("auth/set", {"provider": "groq", "apiKeyEnv": "WORK"})
        assert client.ask("bash", command)["output"].strip() == "[]"


# --- models -------------------------------------------------------------------------------------


def refs(result: dict[str, Any]) -> list[str]:
    return [f"{each['provider']}/{each['id']}" for each in result["models"]]


def test_without_params_every_model_is_listed(home: Path) -> None:
    with wire(home) as client:
        whole = client.ask("model/list")
        assert "nextCursor" not in whole
        assert {model.ref for model in catalogue()} <= set(refs(whole))
        assert refs(client.ask("model/list", {})) == refs(whole)


def test_pages_follow_each_other_to_the_end(home: Path) -> None:
    with wire(home) as client:
        whole = refs(client.ask("model/list", {"query": "claude sonnet"}))
        assert len(whole) > 10
        found: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = client.ask("model/list", {"query": "claude sonnet", "limit": 7, **cursor})
            assert 0 < len(page["models"]) <= 7
            found += refs(page)
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert found == whole
        last = client.ask("model/list", {"query": "claude sonnet", "limit": len(whole)})
        assert "nextCursor" not in last


def test_a_query_takes_words_of_provider_id_and_name_in_any_case(home: Path) -> None:
    with wire(home) as client:
        found = refs(client.ask("model/list", {"query": "ANTHROPIC/ opus"}))
        assert "anthropic/claude-opus-4-5" in found
        assert all("anthropic/" in each and "opus" in each for each in found)
        assert refs(client.ask("model/list", {"query": "no such model"})) == []
        assert refs(client.ask("model/list", {"provider": "nobody"})) == []
        scripted = client.ask("model/list", {"provider": "scripted", "authenticated": True})
        assert refs(scripted) == ["scripted/scripted"]


@pytest.mark.parametrize(
    "params", [{"cursor": "nobody/nothing"}, {"limit": 0}, {"limit": "many"}, {"query": 7}]
)
def test_a_wrong_page_is_refused(home: Path, params: dict[str, Any]) -> None:
    with wire(home) as client:
        assert refused(client, "model/list", params)["data"]["kind"] == "invalidParams"
