"""The registry: which models there are, what names mean, which model is the default."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pi_rpc.harness.model_registry import ModelRegistry, UnknownModelError
from pi_rpc.harness.settings import Settings
from pi_rpc.llm import local
from pi_rpc.llm.catalogue import catalogue

ANTHROPIC = {"ANTHROPIC_API_KEY": "k"}


@pytest.fixture(autouse=True)
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the embedded model counts as installed: the first element."""
    state = [False]
    monkeypatch.setattr(local, "installed", lambda: state[0])
    return state


def _registry(
    folder: Path, environ: dict[str, str] | None = None, **providers: Any
) -> ModelRegistry:
    if providers:
        (folder / "models.json").write_text(json.dumps({"providers": providers}))
    return ModelRegistry(folder, environ=environ or {})


def _server(*ids: str, **extra: Any) -> dict[str, Any]:
    return {
        "baseUrl": "http://127.0.0.1:1/v1",
        "api": "openai-completions",
        "models": [{"id": each} for each in ids],
        **extra,
    }


def test_making_a_registry_and_choosing_imports_neither_pydantic_nor_httpx(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from pi_rpc.harness.model_registry import ModelRegistry\n"
        "from pi_rpc.harness.settings import Settings\n"
        "assert 'pi_rpc.llm.catalogue' not in sys.modules\n"
        f"registry = ModelRegistry(Path({str(tmp_path)!r}), environ={ANTHROPIC})\n"
        "assert 'pi_rpc.llm.catalogue' not in sys.modules\n"
        "assert registry.default(Settings())\n"
        "sys.exit(bool({'pydantic', 'httpx', 'ssl', 'difflib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_persons_own_models_come_before_the_catalogue_s(tmp_path: Path) -> None:
    models = _registry(tmp_path, mine=_server("one", "two")).models()
    assert [model.ref for model in models[:2]] == ["mine/one", "mine/two"]
    assert models[2:] == list(catalogue())


def test_a_persons_model_replaces_the_catalogue_s_of_the_same_name(tmp_path: Path) -> None:
    known = catalogue()[0]
    registry = _registry(tmp_path, **{known.provider: _server(known.id)})
    found = [model for model in registry.models() if model.ref == known.ref]
    assert [model.base_url for model in found] == ["http://127.0.0.1:1/v1"]


def test_the_embedded_model_is_there_when_it_is_installed_and_can_always_be_asked(
    tmp_path: Path, embedded: list[bool]
) -> None:
    registry = _registry(tmp_path)
    assert local.LOCAL_MODEL not in registry.models()
    assert registry.default(Settings()) is None
    embedded[0] = True
    assert registry.find("local/smollm2-135m") == local.LOCAL_MODEL
    assert registry.authenticated(local.LOCAL_MODEL)
    assert registry.default(Settings()) == local.LOCAL_MODEL


def test_a_script_brings_the_scripted_model_and_makes_it_the_default(tmp_path: Path) -> None:
    environ = {**ANTHROPIC, "PI_RPC_SCRIPT": "/some/script.json"}
    registry = _registry(tmp_path, environ)
    scripted = registry.find("scripted/scripted")
    assert registry.authenticated(scripted)
    assert registry.default(Settings()) == scripted
    settled = registry.default(Settings(default_provider="anthropic"))
    assert settled is not None
    assert settled.provider == "anthropic"


def test_without_a_script_there_is_no_scripted_model(tmp_path: Path) -> None:
    with pytest.raises(UnknownModelError):
        _registry(tmp_path, {"PI_RPC_SCRIPT": ""}).find("scripted/scripted")


def test_models_of_a_provider_with_a_key_can_be_asked_and_others_cannot(tmp_path: Path) -> None:
    registry = _registry(tmp_path, ANTHROPIC, mine=_server("m"))
    usable = {model.provider for model in registry.models() if registry.authenticated(model)}
    assert usable == {"anthropic", "mine"}


@pytest.mark.parametrize(
    ("ref", "expected", "level"),
    [
        ("anthropic/claude-haiku-4-5", "anthropic/claude-haiku-4-5", None),
        ("Anthropic/Claude-Haiku-4-5", "anthropic/claude-haiku-4-5", None),
        ("claude-haiku-4-5", "anthropic/claude-haiku-4-5", None),
        (" gpt-5 ", "openai/gpt-5", None),
        ("gpt-5:high", "openai/gpt-5", "high"),
        ("openai/gpt-5:OFF", "openai/gpt-5", "off"),
        ("haiku", "anthropic/claude-haiku-5-5", None),
        ("haiku:low", "anthropic/claude-haiku-5-5", "low"),
        ("sonnet", "anthropic/claude-sonnet-5-5", None),
        ("openai/gpt-oss-20b", "groq/openai/gpt-oss-20b", None),
        ("groq/openai/gpt-oss-20b", "groq/openai/gpt-oss-20b", None),
        ("mine/qwen:7b", "mine/qwen:7b", None),
        ("qwen:7b", "mine/qwen:7b", None),
        ("qwen:7b:high", "mine/qwen:7b", "high"),
        ("odd:high", "mine/odd:high", None),
        ("o9", "mine/new-O9-mini", None),
        ("o9:low", "mine/new-O9-mini", "low"),
    ],
)
def test_a_name_means(tmp_path: Path, ref: str, expected: str, level: str | None) -> None:
    environ = {**ANTHROPIC, "OPENAI_API_KEY": "k", "GROQ_API_KEY": "k"}
    registry = _registry(tmp_path, environ, mine=_server("qwen:7b", "odd:high", "new-O9-mini"))
    model, said = registry.choose(ref)
    assert (model.ref, said) == (expected, level)
    assert registry.find(ref) == model


def test_provider_and_id_are_exact(tmp_path: Path) -> None:
    registry = _registry(tmp_path)
    model = registry.find({"provider": "openai", "id": "gpt-5"})
    assert model.ref == "openai/gpt-5"
    for wrong in ({"provider": "openai", "id": "gpt"}, {"provider": "openai"}, {}):
        with pytest.raises(UnknownModelError):
            registry.find(wrong)


def test_of_two_providers_the_one_with_credentials_is_meant(tmp_path: Path) -> None:
    own = _server("claude-haiku-4-5", baseUrl="https://example.com")
    registry = _registry(tmp_path, ANTHROPIC, mine=own)
    assert registry.find("claude-haiku-4-5").provider == "anthropic"


def test_an_ambiguous_name_is_refused_and_the_choices_are_named(tmp_path: Path) -> None:
    registry = _registry(tmp_path, ANTHROPIC, mine=_server("claude-haiku-5-5"))
    with pytest.raises(UnknownModelError) as caught:
        registry.find("haiku")
    assert "mine/claude-haiku-5-5, anthropic/claude-haiku-5-5" in caught.value.message


@pytest.mark.parametrize("ref", ["claude-sonet-5", "anthropic/claude-sonet-5"])
def test_an_unknown_name_is_refused_and_near_ones_are_named(tmp_path: Path, ref: str) -> None:
    with pytest.raises(UnknownModelError) as caught:
        _registry(tmp_path).find(ref)
    assert ref in caught.value.message
    assert "anthropic/claude-sonnet-5" in caught.value.message


@pytest.mark.parametrize(
    "ref", ["", ":", ":high", "zzzzzzzz", "zzzzzzzz:high", "q", "/", "-", "qq", "q:high", "97531"]
)
def test_a_name_that_is_near_nothing_points_to_the_list(tmp_path: Path, ref: str) -> None:
    with pytest.raises(UnknownModelError, match="model/list"):
        _registry(tmp_path).find(ref)


def test_the_default_is_what_the_settings_name(tmp_path: Path) -> None:
    registry = _registry(tmp_path, ANTHROPIC)

    def default(provider: str | None, model: str | None) -> str | None:
        found = registry.default(Settings(default_provider=provider, default_model=model))
        return found and found.ref

    assert default("openai", "gpt-5") == "openai/gpt-5", "even without a key: the person chose it"
    assert default(None, "haiku") == "anthropic/claude-haiku-5-5"
    assert default("anthropic", None) == "anthropic/claude-opus-5-5"
    assert default("openai", None) is None
    assert default(None, None) == "anthropic/claude-opus-5-5"


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (Settings(default_provider="openai", default_model="gone"), "defaultModel"),
        (Settings(default_model="gone"), "defaultModel"),
        (Settings(default_provider="nobody"), "defaultProvider"),
    ],
)
def test_a_default_that_does_not_exist_is_an_error_that_names_the_setting(
    tmp_path: Path, settings: Settings, key: str
) -> None:
    with pytest.raises(UnknownModelError, match=f"{key} in settings.json"):
        _registry(tmp_path, ANTHROPIC).default(settings)


def test_a_change_of_models_json_counts_at_once(tmp_path: Path) -> None:
    registry = _registry(tmp_path)
    assert registry.default(Settings()) is None
    (tmp_path / "models.json").write_text(json.dumps({"providers": {"mine": _server("m")}}))
    found = registry.default(Settings())
    assert found is not None
    assert found.ref == "mine/m"


def test_what_is_wrong_in_models_json_is_told(tmp_path: Path) -> None:
    (tmp_path / "models.json").write_text("{")
    registry = _registry(tmp_path)
    assert len(registry.problems()) == 1
    assert registry.models() == list(catalogue())


def test_models_that_servers_of_this_machine_have_can_be_named_and_need_no_key(
    tmp_path: Path,
) -> None:
    served = [replace(catalogue()[0], provider="ollama", id="qwen3:8b", name="qwen3:8b")]
    registry = ModelRegistry(tmp_path, environ={}, served=lambda: served)
    model = registry.find("ollama/qwen3:8b")
    assert registry.authenticated(model)
    assert model in registry.models()
    assert registry.models_of("ollama") == [model]
    assert registry.find("qwen3:8b") == model
    served.clear()
    assert registry.models_of("ollama") == []
    assert not registry.authenticated(model)
    with pytest.raises(UnknownModelError):
        registry.find("ollama/qwen3:8b")


def test_without_any_key_a_name_means_the_model_of_its_maker(tmp_path: Path) -> None:
    registry = ModelRegistry(tmp_path, environ={})
    assert registry.find("sonnet").provider == "anthropic"
    assert "ANTHROPIC_API_KEY" in registry.unusable(registry.find("sonnet:high"))
