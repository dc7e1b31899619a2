"""Credentials: which source wins, what is written in them, and that no key ever shows."""

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_rpc.harness._key_values import CommandValues
from pi_rpc.harness.credentials import (
    ENVIRONMENT_KEYS,
    CredentialError,
    Credentials,
    key_variables,
)
from pi_rpc.llm.catalogue import catalogue, provider_names
from pi_rpc.llm.messages import now_ms
from pi_rpc.llm.models import Model
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

SECRET = "sk-very-secret"


def _auth(folder: Path, entries: object) -> Path:
    path = folder / "auth.json"
    path.write_text(json.dumps(entries))
    path.chmod(0o600)
    return path


def _models(folder: Path, **provider: Any) -> None:
    (folder / "models.json").write_text(json.dumps({"providers": {"mine": provider}}))


def _mine(**changes: Any) -> Model:
    from msgspec.structs import replace

    return replace(catalogue()[0], provider="mine", id="m", **changes)


def _key(text: str) -> dict[str, str]:
    return {"type": "api_key", "key": text}


async def test_nothing_anywhere_is_no_key(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path, environ={})
    assert await credentials.api_key("openai") is None
    assert not credentials.has("openai")
    assert credentials.problems() == []


async def test_sources_win_in_order(tmp_path: Path) -> None:
    environ = {"OPENAI_API_KEY": "from environment"}
    path = tmp_path / "models.json"
    path.write_text(json.dumps({"providers": {"openai": {"apiKey": "from models"}}}))
    assert await Credentials(tmp_path, environ={}).api_key("openai") == "from models"
    assert await Credentials(tmp_path, environ=environ).api_key("openai") == "from environment"
    _auth(tmp_path, {"openai": _key("from auth")})
    assert await Credentials(tmp_path, environ=environ).api_key("openai") == "from auth"
    explicit = Credentials(tmp_path, environ=environ, explicit={"openai": "explicit"})
    assert await explicit.api_key("openai") == "explicit"
    assert await explicit.api_key("groq") is None


@pytest.mark.parametrize("provider", sorted(set(provider_names())))
async def test_every_provider_of_the_catalogue_has_a_variable(
    tmp_path: Path, provider: str
) -> None:
    for name in ENVIRONMENT_KEYS[provider]:
        credentials = Credentials(tmp_path, environ={name: "k"})
        assert credentials.has(provider)
        assert await credentials.api_key(provider) == "k"
        assert name in key_variables()


@pytest.mark.parametrize(
    ("environ", "usable"),
    [
        ({"AWS_PROFILE": "work"}, True),
        ({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}, True),
        ({"AWS_ACCESS_KEY_ID": "a"}, False),
        ({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x"}, True),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1/x"}, True),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/x"}, True),
        ({"AWS_REGION": "eu-west-1"}, False),
    ],
)
async def test_what_signs_a_request_makes_a_key_unnecessary(
    tmp_path: Path, environ: dict[str, str], usable: bool
) -> None:
    credentials = Credentials(tmp_path, environ=environ)
    assert credentials.has("amazon-bedrock") is usable
    assert not credentials.has("openai")
    assert await credentials.api_key("amazon-bedrock") is None
    assert await credentials.headers(_mine()) == {}


async def test_a_stored_key_of_bedrock_wins_over_what_signs(tmp_path: Path) -> None:
    _auth(tmp_path, {"amazon-bedrock": _key("bearer")})
    credentials = Credentials(tmp_path, environ={"AWS_PROFILE": "work"})
    assert await credentials.api_key("amazon-bedrock") == "bearer"
    hint = credentials.hint("amazon-bedrock")
    assert hint.startswith("AWS_BEARER_TOKEN_BEDROCK, or AWS_PROFILE, or AWS_ACCESS_KEY_ID and ")


async def test_an_empty_variable_is_no_key(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path, environ={"OPENAI_API_KEY": ""})
    assert not credentials.has("openai")
    assert await credentials.api_key("openai") is None


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("plain", "plain"),
        ("$ONE", "1"),
        ("${ONE}x", "1x"),
        ("a-$ONE-${TWO}", "a-1-22"),
        ("$$ONE", "$ONE"),
        ("$!ONE", "!ONE"),
        ("cost: $5", "cost: $5"),
        ("a!b", "a!b"),
        ("$", "$"),
        ("${}", "${}"),
    ],
)
async def test_a_key_is_read_as_text_with_variables_in_it(
    tmp_path: Path, written: str, key: str
) -> None:
    _auth(tmp_path, {"p": _key(written)})
    credentials = Credentials(tmp_path, environ={"ONE": "1", "TWO": "22"})
    assert credentials.has("p")
    assert await credentials.api_key("p") == key


async def test_a_variable_that_is_not_set_is_named(tmp_path: Path) -> None:
    path = _auth(tmp_path, {"p": _key("$NOT_SET")})
    credentials = Credentials(tmp_path, environ={})
    assert not credentials.has("p")
    with pytest.raises(CredentialError) as caught:
        await credentials.api_key("p")
    assert "NOT_SET" in caught.value.message
    assert str(path) in caught.value.message


async def test_an_entry_s_own_environment_comes_first(tmp_path: Path) -> None:
    entry = {**_key("$ONE"), "env": {"ONE": "own"}}
    _auth(tmp_path, {"p": entry, "groq": {"type": "api_key", "env": {"GROQ_API_KEY": "g"}}})
    credentials = Credentials(tmp_path, environ={"ONE": "outer"})
    assert await credentials.api_key("p") == "own"
    assert credentials.has("groq")
    assert await credentials.api_key("groq") == "g"


async def test_values_of_an_entry_s_own_environment_are_read_as_keys_are(tmp_path: Path) -> None:
    own = {"AZURE_OPENAI_API_KEY": "${MINE}", "AZURE_OPENAI_BASE_URL": "!printf https://$((40+2))"}
    key = {**_key("$TOKEN"), "env": {"TOKEN": "a$$b-$MINE"}}
    _auth(tmp_path, {"azure": {"type": "api_key", "env": own}, "p": key})
    credentials = Credentials(tmp_path, environ={"MINE": "m", "TOKEN": "outer"})
    assert await credentials.environment("azure") == {
        "AZURE_OPENAI_API_KEY": "m",
        "AZURE_OPENAI_BASE_URL": "https://42",
    }
    assert await credentials.api_key("azure") == "m"
    assert await credentials.api_key("p") == "a$b-m"
    assert "MINE" in credentials.variables()
    assert "m" in credentials.known
    assert "https://42" not in credentials.known


async def test_plain_keys_of_entries_and_of_their_environments_are_learnt(tmp_path: Path) -> None:
    own = {"GROQ_API_KEY": SECRET, "GROQ_REGION": "eu"}
    _auth(tmp_path, {"groq": {"type": "api_key", "env": own}, "p": _key("plain"), "q": _key("$Q")})
    credentials = Credentials(tmp_path, environ={})
    credentials.learn()
    assert credentials.known == {SECRET, "plain"}


@pytest.mark.parametrize(
    ("provider", "own"),
    [
        ("azure", {"AZURE_OPENAI_API_KEY": "$GONE"}),
        ("azure", {"AZURE_OPENAI_API_KEY": "k", "AZURE_OPENAI_BASE_URL": "$GONE"}),
        ("amazon-bedrock", {"AWS_PROFILE": "$GONE"}),
    ],
)
async def test_an_entry_s_own_environment_that_lacks_a_variable_says_which(
    tmp_path: Path, provider: str, own: dict[str, str]
) -> None:
    _auth(tmp_path, {provider: {"type": "api_key", "env": own}})
    credentials = Credentials(tmp_path, environ={})
    assert "GONE is not set" in (credentials.status(provider).problem or "")
    for ask in (credentials.api_key, credentials.environment):
        with pytest.raises(CredentialError, match="GONE is not set"):
            await ask(provider)


async def test_an_entry_whose_environment_lacks_the_key_says_so(tmp_path: Path) -> None:
    _auth(tmp_path, {"groq": {"type": "api_key", "env": {"OTHER": SECRET}}})
    credentials = Credentials(tmp_path, environ={})
    assert not credentials.has("groq")
    with pytest.raises(CredentialError) as caught:
        await credentials.api_key("groq")
    assert SECRET not in caught.value.message


async def test_blanks_around_a_key_are_no_part_of_it(tmp_path: Path) -> None:
    _auth(tmp_path, {"p": _key("$ONE"), "q": _key("q\n"), "groq": {**_key("$GONE")}})
    environ = {"ONE": " one\r\n", "OPENAI_API_KEY": "two\n", "XAI_API_KEY": " ", "GONE": "\n"}
    credentials = Credentials(tmp_path, environ=environ)
    assert await credentials.api_key("p") == "one"
    assert await credentials.api_key("q") == "q"
    assert await credentials.api_key("openai") == "two"
    assert not credentials.has("xai")
    assert "GONE is not set" in (credentials.status("groq").problem or "")


@pytest.mark.parametrize("expires", ["1e999", "-1e999", "NaN"])
async def test_a_login_that_ends_at_no_time_is_ignored_and_named(
    tmp_path: Path, expires: str
) -> None:
    entry = f'{{"anthropic": {{"type": "oauth", "access": "{SECRET}", "expires": {expires}}}}}'
    (tmp_path / "auth.json").write_text(entry)
    credentials = Credentials(tmp_path, environ={})
    assert credentials.status("anthropic").kind == "none"
    assert any("expires" in problem for problem in credentials.problems())


async def test_a_profile_of_an_entry_s_own_lets_requests_be_signed(tmp_path: Path) -> None:
    own = {"AWS_PROFILE": "work", "AWS_REGION": "eu-west-1"}
    _auth(tmp_path, {"amazon-bedrock": {"type": "api_key", "env": own}})
    credentials = Credentials(tmp_path, environ={})
    status = credentials.status("amazon-bedrock")
    assert (status.kind, status.source, status.usable) == ("signature", "auth.json", True)
    assert await credentials.api_key("amazon-bedrock") is None
    assert await credentials.environment("amazon-bedrock") == own
    assert await credentials.environment("openai") == {}


async def test_headers_find_the_environment_of_the_provider_s_entry(tmp_path: Path) -> None:
    _auth(tmp_path, {"mine": {**_key("k"), "env": {"TEAM": "own"}}})
    _models(tmp_path, baseUrl="https://h", headers={"x-team": "$TEAM"})
    credentials = Credentials(tmp_path, environ={"TEAM": "outer"})
    assert await credentials.headers(_mine()) == {"x-team": "own"}


async def test_a_command_that_says_without_end_is_stopped(tmp_path: Path) -> None:
    _auth(tmp_path, {"p": _key("!yes")})
    credentials = Credentials(tmp_path, environ=os.environ)
    with pytest.raises(CredentialError, match="far more than a key"):
        await credentials.api_key("p")


async def test_a_command_says_the_key_and_runs_once(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    _auth(tmp_path, {"p": _key(f"!echo x >> {ran}; printf '  key of command \\n\\n'")})
    credentials = Credentials(tmp_path, environ=os.environ)
    keys: list[str | None] = []

    async def ask() -> None:
        keys.append(await credentials.api_key("p"))

    async with anyio.create_task_group() as together:
        for _ in range(3):
            together.start_soon(ask)
    assert keys == ["key of command"] * 3
    assert ran.read_text() == "x\n"


async def test_asking_whether_there_is_a_key_runs_no_command(tmp_path: Path) -> None:
    _auth(tmp_path, {"p": _key(f"!touch {tmp_path / 'ran'}")})
    assert Credentials(tmp_path, environ=os.environ).has("p")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (f"echo {SECRET}; exit 3", "exit code 3"),
        ("true", "said nothing"),
        ("/no/such/program", "exit code 127"),
    ],
)
async def test_a_command_that_fails_is_an_error_without_what_it_said(
    tmp_path: Path, command: str, reason: str
) -> None:
    ran = tmp_path / "ran"
    _auth(tmp_path, {"p": _key(f"!echo x >> {ran}; {command}")})
    credentials = Credentials(tmp_path, environ=os.environ)
    for _ in range(2):
        with pytest.raises(CredentialError) as caught:
            await credentials.api_key("p")
        assert reason in caught.value.message
        assert SECRET not in str(caught.value)
    assert ran.read_text() == "x\n", "a failure is remembered, too"


async def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    commands = CommandValues(os.environ, timeout_s=3)
    _auth(tmp_path, {"p": _key(f"!sleep 600 & echo $! > {pid_file}; wait")})
    credentials = Credentials(tmp_path, environ=os.environ, commands=commands)
    with pytest.raises(CredentialError, match="longer than 3 s"):
        await credentials.api_key("p")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


async def test_a_command_that_is_waited_for_no_longer_is_ended_and_may_run_again(
    tmp_path: Path,
) -> None:
    started = tmp_path / "started"
    first = f"test -e {tmp_path / 'second'} && echo key && exit; sleep 600 & echo $! > {started}.x;"
    _auth(tmp_path, {"p": _key(f"!{first} mv {started}.x {started}; wait")})
    credentials = Credentials(tmp_path, environ=os.environ)
    async with anyio.create_task_group() as asking:
        asking.start_soon(credentials.api_key, "p")
        with anyio.fail_after(DEADLINE_S):
            while not started.exists():
                await anyio.sleep(0.01)
        asking.cancel_scope.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
    (tmp_path / "second").touch()
    assert await credentials.api_key("p") == "key"


async def test_a_command_whose_child_keeps_the_output_open_holds_nobody_up(tmp_path: Path) -> None:
    _auth(tmp_path, {"p": _key("!sleep 600 & echo key")})
    credentials = Credentials(tmp_path, environ=os.environ)
    with anyio.fail_after(DEADLINE_S):
        assert await credentials.api_key("p") == "key"


async def test_a_login_is_used_while_it_is_valid(tmp_path: Path) -> None:
    login = {"type": "oauth", "access": "login", "refresh": "r", "expires": now_ms() + 600_000}
    _auth(tmp_path, {"anthropic": login})
    credentials = Credentials(tmp_path, environ={"ANTHROPIC_API_KEY": "a"})
    assert await credentials.api_key("anthropic") == "login"
    assert credentials.status("anthropic").expires == login["expires"]


async def test_an_expired_login_says_what_renews_it_and_no_other_account_takes_its_place(
    tmp_path: Path,
) -> None:
    login = {"type": "oauth", "access": SECRET, "refresh": SECRET, "expires": now_ms() - 1}
    _auth(tmp_path, {"openai": login, "groq": login})
    credentials = Credentials(tmp_path, environ={"OPENAI_API_KEY": "o"})
    assert not credentials.has("groq")
    assert not credentials.has("openai")
    with pytest.raises(CredentialError, match=r"expired; run `pi auth login groq`, or") as caught:
        await credentials.api_key("groq")
    assert SECRET not in caught.value.message
    with pytest.raises(CredentialError, match=r"auth remove openai` makes OPENAI_API_KEY count$"):
        await credentials.api_key("openai")
    assert credentials.remove("openai")
    assert await credentials.api_key("openai") == "o"


async def test_an_expired_login_does_not_keep_a_server_on_this_machine_from_being_asked(
    tmp_path: Path,
) -> None:
    _models(tmp_path, baseUrl="http://127.0.0.1:1/v1")
    _auth(tmp_path, {"mine": {"type": "oauth", "access": "old", "expires": 1}})
    credentials = Credentials(tmp_path, environ={})
    assert credentials.status("mine").kind == "not_needed"
    assert await credentials.api_key("mine") is None


async def test_a_server_on_this_machine_needs_no_key(tmp_path: Path) -> None:
    _models(tmp_path, baseUrl="http://127.0.0.1:1/v1")
    credentials = Credentials(tmp_path, environ={})
    assert credentials.has("mine")
    assert await credentials.api_key("mine") is None


async def test_a_server_elsewhere_needs_a_key(tmp_path: Path) -> None:
    _models(tmp_path, baseUrl="https://example.com/v1")
    assert not Credentials(tmp_path, environ={}).has("mine")
    _models(tmp_path, baseUrl="https://example.com/v1", apiKey="$MINE")
    assert not Credentials(tmp_path, environ={}).has("mine")
    credentials = Credentials(tmp_path, environ={"MINE": "k"})
    assert credentials.has("mine")
    assert await credentials.api_key("mine") == "k"


async def test_headers_of_provider_and_model_are_resolved(tmp_path: Path) -> None:
    _models(
        tmp_path,
        baseUrl="https://example.com/v1",
        api="openai-completions",
        headers={"X-Org": "$ORG", "X-Both": "provider"},
        models=[{"id": "m", "headers": {"X-Both": "model"}}],
    )
    credentials = Credentials(tmp_path, environ={"ORG": "acme"})
    assert await credentials.headers(_mine()) == {"X-Org": "acme", "X-Both": "model"}
    with pytest.raises(CredentialError, match=r"header X-Org of mine.*ORG"):
        await Credentials(tmp_path, environ={}).headers(_mine())


async def test_the_key_is_sent_as_a_bearer_where_models_json_asks_for_it(tmp_path: Path) -> None:
    _models(tmp_path, baseUrl="https://example.com", apiKey="k", authHeader=True)
    headers = await Credentials(tmp_path, environ={}).headers(_mine())
    assert headers == {"Authorization": "Bearer k"}


async def test_tokens_of_anthropic_are_sent_as_a_bearer_and_keys_are_not(tmp_path: Path) -> None:
    model = next(each for each in catalogue() if each.provider == "anthropic")
    for name, expected in [
        ("ANTHROPIC_AUTH_TOKEN", {"Authorization": "Bearer t"}),
        ("ANTHROPIC_OAUTH_TOKEN", {"Authorization": "Bearer t"}),
        ("ANTHROPIC_API_KEY", {}),
    ]:
        assert await Credentials(tmp_path, environ={name: "t"}).headers(model) == expected
    _auth(tmp_path, {"anthropic": {"type": "oauth", "access": "a", "expires": now_ms() + 600_000}})
    credentials = Credentials(tmp_path, environ={"ANTHROPIC_API_KEY": "t"})
    assert await credentials.headers(model) == {"Authorization": "Bearer a"}
    explicit = Credentials(tmp_path, environ={}, explicit={"anthropic": "e"})
    assert await explicit.headers(model) == {}


async def test_a_changed_file_counts_at_once(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path, environ={})
    assert not credentials.has("p")
    _auth(tmp_path, {"p": _key("one")})
    assert await credentials.api_key("p") == "one"
    _auth(tmp_path, {"p": _key("another")})
    assert await credentials.api_key("p") == "another"


@pytest.mark.parametrize(
    "entry",
    [
        SECRET,
        {"type": "api_key"},
        {"type": "api_key", "key": ""},
        {"type": "api_key", "key": [SECRET]},
        {"type": "api_key", "key": SECRET, "env": {"A": 1}},
        {"type": "oauth", "access": SECRET},
        {"type": "oauth", "access": SECRET, "expires": "soon"},
        {"type": "password", "key": SECRET},
    ],
)
async def test_a_misshapen_entry_is_named_without_its_value_and_the_others_count(
    tmp_path: Path, entry: object
) -> None:
    path = _auth(tmp_path, {"bad": entry, "good": _key("k")})
    credentials = Credentials(tmp_path, environ={})
    assert not credentials.has("bad")
    assert await credentials.api_key("good") == "k"
    (problem,) = credentials.problems()
    assert problem.startswith(f"{path}: bad: ")
    assert SECRET not in problem


async def test_a_file_that_others_may_read_is_reported_and_used(tmp_path: Path) -> None:
    path = _auth(tmp_path, {"p": _key("k")})
    path.chmod(0o644)
    credentials = Credentials(tmp_path, environ={})
    assert await credentials.api_key("p") == "k"
    assert "chmod 600" in credentials.problems()[0]


async def test_no_repr_shows_a_key(tmp_path: Path) -> None:
    _auth(tmp_path, {"p": _key(SECRET)})
    _models(tmp_path, apiKey=SECRET, headers={"X": SECRET}, baseUrl="https://example.com")
    credentials = Credentials(tmp_path, environ={"OPENAI_API_KEY": SECRET}, explicit={"q": SECRET})
    assert await credentials.api_key("p") == SECRET
    assert SECRET not in repr(credentials)
    assert SECRET not in repr(credentials._custom.current())
