"""The catalogue: its facts hang together, and it is read only when asked for."""

import subprocess
import sys

import pytest

from pi_rpc.llm.catalogue import catalogue, provider_names
from pi_rpc.llm.models import THINKING_LEVELS, Model, thinking_levels
from pi_rpc.llm.provider import provider_for


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
