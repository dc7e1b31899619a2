"""The catalogue: its facts hang together, and it is read only when asked for."""

import subprocess
import sys

import pytest

from pi_rpc.llm.catalogue import catalogue, provider_names
from pi_rpc.llm.models import THINKING_LEVELS, Model, thinking_levels

APIS = {"anthropic-messages", "openai-completions"}


def test_the_file_is_read_only_when_asked_for() -> None:
    code = (
        "import sys; import pi_rpc.llm.catalogue as c; "
        "assert c.catalogue.cache_info().currsize == 0; "
        "assert c.catalogue() is c.catalogue()"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_name_stands_for_two_models() -> None:
    refs = [model.ref for model in catalogue()]
    assert len(refs) == len(set(refs)) >= 20


def test_every_provider_has_a_name_and_a_model() -> None:
    assert set(provider_names()) == {model.provider for model in catalogue()}
    assert all(provider_names().values())


@pytest.mark.parametrize("model", catalogue(), ids=lambda model: model.ref)
def test_the_facts_of_a_model_hang_together(model: Model) -> None:
    assert model.api in APIS
    assert model.base_url.startswith("https://")
    assert not model.base_url.endswith("/")
    assert model.input in (["text"], ["text", "image"])
    assert 0 < model.max_tokens <= model.context_window
    assert 0 < model.cost.input < model.cost.output
    assert 0 <= model.cost.cache_read < model.cost.input
    if model.provider == "anthropic":
        assert model.cost.cache_write == pytest.approx(1.25 * model.cost.input)
    for tier in model.cost.tiers or []:
        assert 0 < tier.input_tokens_above < model.context_window
        assert tier.input > model.cost.input
    assert set(model.thinking_level_map or {}) <= set(THINKING_LEVELS)
    if model.reasoning:
        assert set(thinking_levels(model)) - {"off"}
    else:
        assert not model.thinking_level_map
