"""Where Azure OpenAI is asked, under which name, and with which credential."""

from collections.abc import Callable
from typing import Any

import pytest

from pi_rpc.llm.errors import BadRequestError
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, stream_simple
from pi_rpc.llm.providers.azure_openai_responses import deployment_of, url_of

MakeModel = Callable[..., Model]

RESOURCE = "https://mine.openai.azure.com"
V1 = f"{RESOURCE}/openai/v1/responses"
DATED = "2025-04-01-preview"


@pytest.fixture
def azure(make_model: MakeModel) -> MakeModel:
    def make(**changes: Any) -> Model:
        return make_model(**{"api": "azure-openai-responses", "provider": "azure", **changes})

    return make


@pytest.mark.parametrize(
    ("base_url", "environ", "expected"),
    [
        (RESOURCE, {}, V1),
        (f"{RESOURCE}/", {}, V1),
        (f"{RESOURCE}/openai", {}, V1),
        (f"{RESOURCE}/openai/v1/", {}, V1),
        (f"{RESOURCE}/openai/v1/responses?api-version=v1", {}, V1),
        ("", {"AZURE_OPENAI_RESOURCE_NAME": "mine"}, V1),
        ("https://other", {"AZURE_OPENAI_RESOURCE_NAME": " mine "}, V1),
        (
            "https://other",
            {"AZURE_OPENAI_RESOURCE_NAME": "no", "AZURE_OPENAI_BASE_URL": RESOURCE},
            V1,
        ),
        (RESOURCE, {"AZURE_OPENAI_API_VERSION": "v1"}, V1),
        (RESOURCE, {"AZURE_OPENAI_API_VERSION": "preview"}, f"{V1}?api-version=preview"),
        (
            RESOURCE,
            {"AZURE_OPENAI_API_VERSION": DATED},
            f"{RESOURCE}/openai/responses?api-version={DATED}",
        ),
        (
            "https://x.services.ai.azure.com/openai/v1",
            {},
            "https://x.services.ai.azure.com/openai/v1/responses",
        ),
        ("https://gateway.example/a/openai/", {}, "https://gateway.example/a/openai/responses"),
        (
            "https://gateway.example/a?tenant=1",
            {"AZURE_OPENAI_API_VERSION": DATED},
            f"https://gateway.example/a/responses?tenant=1&api-version={DATED}",
        ),
        (
            "",
            {"AZURE_OPENAI_RESOURCE_NAME": "evil.example/x"},
            "https://evil.example%2Fx.openai.azure.com/openai/v1/responses",
        ),
    ],
)
def test_the_address_follows_from_resource_and_version(
    azure: MakeModel, base_url: str, environ: dict[str, str], expected: str
) -> None:
    assert url_of(azure(base_url=base_url), environ) == expected


@pytest.mark.parametrize("base_url", ["", "https://[::1"])
def test_an_address_that_is_none_is_refused(azure: MakeModel, base_url: str) -> None:
    with pytest.raises(BadRequestError, match="Azure OpenAI"):
        url_of(azure(base_url=base_url), {})


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("", "gpt-5"),
        ("gpt-5=mine", "mine"),
        (" a=b , gpt-5 = mine ,gpt-5=late", "mine"),
        ("gpt-5,gpt-5=,other=x", "gpt-5"),
        ("gpt-5=a=b", "a=b"),
    ],
)
def test_a_deployment_may_have_another_name_than_its_model(
    azure: MakeModel, names: str, expected: str
) -> None:
    environ = {"AZURE_OPENAI_DEPLOYMENT_NAME_MAP": names}
    assert deployment_of(azure(id="gpt-5"), environ) == expected


@pytest.mark.anyio
async def test_a_deployment_is_asked_with_its_name_and_the_key_in_its_header(
    serve: Any, azure: MakeModel, hello: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events({"type": "response.completed", "response": {"status": "completed"}})

    own = {"Authorization": "Bearer token"}
    async with serve(answer) as server:
        monkeypatch.setenv("AZURE_OPENAI_BASE_URL", f"{server.url}/openai/v1")
        monkeypatch.setenv("AZURE_OPENAI_DEPLOYMENT_NAME_MAP", "gpt-5=mine")
        monkeypatch.delenv("AZURE_OPENAI_API_VERSION", raising=False)
        model = azure(id="gpt-5", base_url="")
        message = await stream_simple(model, hello, StreamOptions(api_key="key")).result()
        await stream_simple(model, hello, StreamOptions(api_key="key", headers=own)).result()
        await stream_simple(azure(id="gpt-5", headers=own), hello).result()
    first, second, third = server.asked
    assert (message.stop_reason, message.model, message.api) == (
        "stop",
        "gpt-5",
        "azure-openai-responses",
    )
    assert first.path == "/openai/v1/responses"
    assert (first.headers["api-key"], first.json["model"]) == ("key", "mine")
    assert "authorization" not in first.headers
    for asked in (second, third):
        assert asked.headers["authorization"] == "Bearer token"
        assert "api-key" not in asked.headers


@pytest.mark.anyio
async def test_a_missing_address_is_a_failed_reply_that_says_what_to_set(
    azure: MakeModel, hello: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("AZURE_OPENAI_RESOURCE_NAME", raising=False)
    message = await stream_simple(azure(base_url=""), hello).result()
    assert message.stop_reason == "error"
    assert "AZURE_OPENAI_RESOURCE_NAME" in (message.error_message or "")


@pytest.mark.anyio
async def test_variables_of_the_provider_go_before_those_of_the_process(
    serve: Any, azure: MakeModel, hello: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events({"type": "response.completed", "response": {"status": "completed"}})

    monkeypatch.setenv("AZURE_OPENAI_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.delenv("AZURE_OPENAI_API_VERSION", raising=False)
    async with serve(answer) as server:
        own = {
            "AZURE_OPENAI_BASE_URL": f"{server.url}/own",
            "AZURE_OPENAI_DEPLOYMENT_NAME_MAP": "gpt-5=mine",
        }
        options = StreamOptions(api_key="key", environment=own)
        message = await stream_simple(azure(id="gpt-5", base_url=""), hello, options).result()
    assert message.stop_reason == "stop"
    assert (server.asked[0].path, server.asked[0].json["model"]) == ("/own/responses", "mine")
