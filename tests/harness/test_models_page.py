"""``docs/models.md`` is what the code says, and what it shows can be used."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from pi_rpc.harness.credentials import ENVIRONMENT_KEYS, Credentials
from pi_rpc.harness.model_registry import ModelRegistry
from pi_rpc.harness.models_json import load_models
from pi_rpc.harness.models_page import DIALECTS, EXAMPLE, models_page
from pi_rpc.llm.catalogue import catalogue, provider_names
from pi_rpc.llm.messages import ThinkingLevel
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import _PROVIDERS
from pi_rpc.llm.providers import _anthropic_compat, _completions_compat

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    assert models_page() == PAGE, "run: python -m pi_rpc.harness.models_page > docs/models.md"


def test_every_dialect_is_described_and_each_of_those_is_spoken() -> None:
    assert set(DIALECTS) == set(_PROVIDERS) - {"scripted"}
    assert {model.api for model in catalogue()} <= set(DIALECTS)


def test_every_provider_of_the_catalogue_has_a_row_with_its_variables() -> None:
    for provider in provider_names():
        (row,) = [line for line in PAGE.splitlines() if f"| `{provider}` |" in line]
        assert all(f"`{name}`" in row for name in ENVIRONMENT_KEYS[provider])


def test_every_provider_is_configured_in_two_lines_that_do_it(tmp_path: Path) -> None:
    rows = [line for line in PAGE.splitlines() if "<br>" in line]
    asked = []
    for row in rows:
        first, second = re.findall(r"`([^`]*)`", row.split("|")[-2])
        environ = dict.fromkeys(re.findall(r"([A-Z_0-9]+)=…", first), "v")
        assert first.startswith("export ")
        (ref,) = re.findall(r'^pi-rpc run --model (\S+) "hello"$', second)
        registry = ModelRegistry(tmp_path, environ=environ)
        assert registry.authenticated(registry.find(ref)), row
        asked.append(ref.partition("/")[0])
    assert asked == list(provider_names())


def test_what_was_never_run_is_marked_wherever_it_is_named() -> None:
    for name, dialect in DIALECTS.items():
        mark = "" if dialect.tried else " †"
        assert f"| `{name}`{mark} |" in PAGE
        for before, after in re.findall(rf"[|,] ({name})( †)?[ ,]", PAGE):
            assert (before, after) == (name, mark)


def test_every_flag_is_described() -> None:
    for name in _completions_compat._FIELDS | _anthropic_compat._FIELDS:
        assert f"| `{name}` |" in PAGE


@pytest.fixture
def example(tmp_path: Path) -> Path:
    (written,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "models.json").write_text(written)
    assert json.loads(written) == EXAMPLE
    return tmp_path


def test_the_example_is_read_without_a_complaint(example: Path) -> None:
    custom = load_models(example / "models.json")
    assert custom.problems == ()
    assert [model.ref for model in custom.models] == [
        "work/qwen3-coder",
        "work/claude",
        "mine/whatever-runs-there",
    ]
    flags = _completions_compat.FLAGS
    for provider in EXAMPLE["providers"].values():
        for entry in (provider, *provider.get("models", ())):
            assert set(entry.get("compat", ())) <= flags
            assert set(entry.get("thinkingLevelMap", ())) <= set(get_args(ThinkingLevel))


def test_the_example_changes_what_it_says(example: Path) -> None:
    environ = {"WORK_API_KEY": "k", "ANTHROPIC_API_KEY": "a"}
    registry = ModelRegistry(example, environ=environ)
    assert registry.providers()["work"] == "The gateway at work"
    qwen = registry.find("work/qwen3-coder")
    assert qwen.compat == {
        "supportsDeveloperRole": False,
        "maxTokensField": "max_tokens",
        "thinkingFormat": "qwen",
    }
    assert registry.find("work/claude").base_url == "https://models.example.com/anthropic"
    sonnet, known = registry.find("anthropic/claude-sonnet-4-5"), plain("claude-sonnet-4-5")
    assert (sonnet.max_tokens, sonnet.cost.input) == (16000, 2.5)
    assert sonnet.cost.output == known.cost.output
    assert sonnet.base_url == "https://proxy.example.com"
    other = registry.find("anthropic/claude-opus-4-5")
    assert other.max_tokens == plain("claude-opus-4-5").max_tokens
    assert other.base_url == "https://proxy.example.com"
    credentials = Credentials(example, environ=environ)
    assert credentials.status("work").source == "models.json"
    assert credentials.status("mine").kind == "not_needed"


@pytest.mark.anyio
async def test_the_example_sends_the_key_as_a_bearer_where_it_says_so(example: Path) -> None:
    credentials = Credentials(example, environ={"ANTHROPIC_API_KEY": "a"})
    headers = await credentials.headers(plain("claude-opus-4-5"))
    assert headers == {"Authorization": "Bearer a"}


def plain(name: str) -> Model:
    return next(each for each in catalogue() if each.ref == f"anthropic/{name}")
