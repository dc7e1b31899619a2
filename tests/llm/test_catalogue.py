"""The catalogue: its facts hang together, and it is read only when asked for."""

import inspect
import json
import re
import subprocess
import sys
from importlib import import_module
from importlib.resources import files

import pytest

from pi_rpc.llm.catalogue import catalogue, provider_names
from pi_rpc.llm.models import THINKING_LEVELS, Model, thinking_levels
from pi_rpc.llm.provider import provider_for
from pi_rpc.llm.providers import _anthropic_compat, _completions_compat


def test_the_file_is_read_only_when_asked_for() -> None:
    code = (
        "import sys; import pi_rpc.llm.catalogue as c; "
        "assert c._providers.cache_info().currsize == 0; "
        "assert c.models_of('openai') is c.models_of('openai'); "
        "assert c.models_of.cache_info().currsize == 1"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_name_stands_for_two_models() -> None:
    refs = [model.ref for model in catalogue()]
    assert len(refs) == len(set(refs)) >= 20


def test_every_provider_has_a_name_and_a_model() -> None:
    assert set(provider_names()) == {model.provider for model in catalogue()}
    assert all(provider_names().values())


def test_a_provider_s_default_is_listed_first() -> None:
    first = {model.provider: model.id for model in reversed(catalogue())}
    assert first["anthropic"] == "claude-opus-5-5"
    assert first["openai"] == "gpt-6.2-sol"


def test_every_dialect_of_the_catalogue_can_be_asked() -> None:
    for api in {model.api for model in catalogue()}:
        assert provider_for(api)


@pytest.mark.parametrize("provider", list(provider_names()))
def test_the_facts_of_a_provider_s_models_hang_together(provider: str) -> None:
    for model in catalogue():
        if model.provider == provider:
            _check(model)


def _check(model: Model) -> None:
    own_address = model.provider == "azure"
    assert model.base_url.startswith("https://") or own_address, model.ref
    assert not model.base_url.endswith("/"), model.ref
    assert model.input in (["text"], ["text", "image"]), model.ref
    assert 0 < model.max_tokens <= model.context_window, model.ref
    prices = [model.cost.input, model.cost.output, model.cost.cache_read, model.cost.cache_write]
    assert all(price >= 0 for price in prices), model.ref
    assert all(tier.input_tokens_above > 0 for tier in model.cost.tiers or []), model.ref
    assert set(model.thinking_level_map or {}) <= set(THINKING_LEVELS), model.ref
    if model.reasoning:
        assert set(thinking_levels(model)) - {"off"} or model.thinking_level_map, model.ref
    else:
        assert not model.thinking_level_map, model.ref


def test_the_families_people_ask_for_are_there() -> None:
    refs = {model.ref for model in catalogue()}
    for family in (
        "anthropic/claude-sonnet", "openai/gpt-5", "google/gemini-3", "mistral/devstral",
        "xai/grok-4", "deepseek/deepseek-", "qwen-token-plan/qwen3", "moonshotai/kimi-k",
        "zai/glm-5",
    ):  # fmt: skip
        assert any(ref.startswith(family) for ref in refs), family


READERS = {
    "anthropic-messages": (
        _anthropic_compat.FLAGS,
        ("_anthropic_payload", "anthropic_messages"),
        _anthropic_compat.AnthropicCompat,
    ),
    "openai-completions": (
        _completions_compat.FLAGS,
        (
            "_completions_payload",
            "_completions_thinking",
            "openai_completions",
        ),
        _completions_compat.Compat,
    ),
}
"""Dialects whose flags have a table: the flags, the modules that act on them, the table."""
SOURCES = {
    "openai-responses": ("_responses_payload", "_responses_stream", "openai_responses"),
    "azure-openai-responses": ("_responses_payload", "_responses_stream", "azure_openai_responses"),
    "bedrock-converse-stream": ("_bedrock_payload", "_bedrock_families"),
    "google-generative-ai": ("_google_payload",),
    "mistral-conversations": ("_mistral_payload",),
}
"""Dialects that ask for a flag by its name, and the modules that do."""


def _source(modules: tuple[str, ...]) -> str:
    return "".join(
        inspect.getsource(import_module(f"pi_rpc.llm.providers.{name}")) for name in modules
    )


def test_every_flag_of_the_catalogue_is_one_that_its_dialect_reads() -> None:
    written = json.loads(files("pi_rpc.llm").joinpath("catalogue.json").read_bytes())
    found: dict[str, set[str]] = {}
    for provider in written["providers"].values():
        for service in provider["services"]:
            for model in service["models"]:
                found.setdefault(service["api"], set()).update(model.get("compat", {}))
    assert set(found) == set(READERS) | set(SOURCES)
    for api, flags in found.items():
        if api in READERS:
            assert flags <= READERS[api][0], api
        else:
            source = _source(SOURCES[api])
            assert {flag for flag in flags if f'"{flag}"' not in source} == set(), api
    assert "thinkingFormat" in found["openai-completions"]


@pytest.mark.parametrize("api", list(READERS))
def test_every_flag_of_a_table_changes_something(api: str) -> None:
    _, modules, table = READERS[api]
    source = _source(modules)
    unread = {name for name in table.__struct_fields__ if not re.search(rf"\.{name}\b", source)}
    assert unread == set()


def test_models_that_cannot_be_asked_in_their_dialect_are_left_out() -> None:
    ids = {model.id for model in catalogue() if model.provider == "google"}
    assert ids
    assert not {each for each in ids if "deep-research" in each or "computer-use" in each}
