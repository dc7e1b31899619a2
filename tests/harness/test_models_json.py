"""``models.json``: what it adds, what it changes, what it gets wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.harness.models_json import CustomModels, custom_models_file, is_loopback, load_models
from pi_rpc.llm.catalogue import catalogue
from pi_rpc.llm.models import CostTier, ModelCost


def _load(folder: Path, providers: object) -> CustomModels:
    path = folder / "models.json"
    path.write_text(json.dumps({"providers": providers}))
    return load_models(path)


def _server(**extra: Any) -> dict[str, Any]:
    return {"baseUrl": "http://127.0.0.1:8080/v1", "api": "openai-completions", **extra}


def test_no_file_means_no_models_and_no_problem(tmp_path: Path) -> None:
    assert load_models(tmp_path / "models.json") == CustomModels()


def test_a_model_needs_only_an_id_where_the_provider_says_the_rest(tmp_path: Path) -> None:
    custom = _load(tmp_path, {"mine": _server(models=[{"id": "tiny"}])})
    (model,) = custom.models
    assert custom.problems == ()
    assert (model.ref, model.name, model.api) == ("mine/tiny", "tiny", "openai-completions")
    assert model.base_url == "http://127.0.0.1:8080/v1"
    assert (model.reasoning, model.input) == (False, ["text"])
    assert (model.context_window, model.max_tokens) == (128_000, 16_384)
    assert model.cost == ModelCost(input=0, output=0, cache_read=0, cache_write=0)


def test_every_fact_of_a_model_is_taken_over(tmp_path: Path) -> None:
    written = {
        "id": "big",
        "name": "Big",
        "api": "anthropic-messages",
        "baseUrl": "http://other",
        "reasoning": True,
        "input": ["text", "image"],
        "contextWindow": 10,
        "maxTokens": 5,
        "cost": {
            "input": 1,
            "output": 2.5,
            "tiers": [{"inputTokensAbove": 7, "input": 3}],
        },
        "thinkingLevelMap": {"off": None, "max": "ultra"},
        "samplingParams": {"top_p": 0.5},
        "compat": {"maxTokensField": "max_tokens"},
    }
    custom = _load(tmp_path, {"mine": _server(compat={"supportsStore": False}, models=[written])})
    (model,) = custom.models
    assert custom.problems == ()
    assert (model.name, model.api, model.base_url) == ("Big", "anthropic-messages", "http://other")
    assert (model.reasoning, model.input) == (True, ["text", "image"])
    assert (model.context_window, model.max_tokens) == (10, 5)
    assert model.cost == ModelCost(
        input=1,
        output=2.5,
        cache_read=0,
        cache_write=0,
        tiers=[CostTier(input_tokens_above=7, input=3, output=0, cache_read=0, cache_write=0)],
    )
    assert model.thinking_level_map == {"off": None, "max": "ultra"}
    assert model.sampling_params == {"top_p": 0.5}
    assert model.compat == {"supportsStore": False, "maxTokensField": "max_tokens"}


def test_header_values_stay_out_of_the_model_because_they_may_be_secret(tmp_path: Path) -> None:
    custom = _load(tmp_path, {"mine": _server(models=[{"id": "m", "headers": {"X-Key": "$K"}}])})
    assert not custom.models[0].headers
    assert custom.providers["mine"].model_headers == {"m": {"X-Key": "$K"}}
    assert "$K" not in repr(custom)


def test_a_known_provider_gets_another_address_for_all_its_models(tmp_path: Path) -> None:
    custom = _load(tmp_path, {"anthropic": {"baseUrl": "http://proxy", "compat": {"x": 1}}})
    changed = custom.applied(catalogue())
    assert custom.models == ()
    assert {m.base_url for m in changed if m.provider == "anthropic"} == {"http://proxy"}
    assert all((m.compat or {})["x"] == 1 for m in changed if m.provider == "anthropic")
    untouched = [m for m in changed if m.provider != "anthropic"]
    assert untouched == [m for m in catalogue() if m.provider != "anthropic"]


def test_an_override_changes_the_named_facts_of_one_known_model_only(tmp_path: Path) -> None:
    first, second = catalogue()[:2]
    override = {"name": "Renamed", "cost": {"output": 99}, "maxTokens": 7}
    custom = _load(tmp_path, {first.provider: {"modelOverrides": {first.id: override}}})
    changed, other = custom.applied([first, second])
    assert (changed.name, changed.max_tokens, changed.cost.output) == ("Renamed", 7, 99)
    assert changed.cost.input == first.cost.input
    assert changed.context_window == first.context_window
    assert other == second


def test_a_model_without_an_api_or_an_address_is_named_and_left_out(tmp_path: Path) -> None:
    custom = _load(
        tmp_path,
        {
            "a": {"baseUrl": "http://x", "models": [{"id": "one"}]},
            "b": {"api": "openai-completions", "models": [{"id": "two"}]},
            "c": _server(models=[{"id": "three"}]),
        },
    )
    assert [model.ref for model in custom.models] == ["c/three"]
    assert len(custom.problems) == 2
    assert "providers.a" in custom.problems[0]
    assert "`api`" in custom.problems[0]
    assert "`baseUrl`" in custom.problems[1]


def test_a_model_without_an_id_is_dropped_and_its_neighbours_stay(tmp_path: Path) -> None:
    models = [{"id": "one"}, {"name": "nameless"}, {"id": ""}, 5, {"id": "two"}]
    custom = _load(tmp_path, {"mine": _server(models=models)})
    assert [model.id for model in custom.models] == ["one", "two"]
    assert len(custom.problems) == 3
    assert "providers.mine.models[1]" in custom.problems[0]
    assert "(id)" in custom.problems[0]


@pytest.mark.parametrize(
    ("written", "where"),
    [
        ({"contextWindow": "128k"}, "contextWindow"),
        ({"contextWindow": 0}, "contextWindow"),
        ({"reasoning": "yes"}, "reasoning"),
        ({"input": ["smell"]}, "input[0]"),
        ({"cost": {"input": -1}}, "cost.input"),
        ({"compat": 1}, "compat"),
        ({"compat": {"supportsStore": "yes"}}, "compat.supportsStore"),
        ({"compat": {"forceAdaptiveThinking": 1}}, "compat.forceAdaptiveThinking"),
        ({"compat": {"maxTokensField": True}}, "compat.maxTokensField"),
        ({"compat": {"vllmPriority": "high"}}, "compat.vllmPriority"),
        ({"compat": {"serviceTierFactors": {"flex": "half"}}}, "compat.serviceTierFactors.flex"),
        ({"samplingParams": [1]}, "samplingParams"),
        ({"samplingParams": {"top_p": "most"}}, "samplingParams.top_p"),
        ({"samplingParams": {"stream": False}}, "samplingParams.stream"),
    ],
)
def test_a_bad_fact_is_named_and_the_model_keeps_its_default(
    tmp_path: Path, written: dict[str, object], where: str
) -> None:
    custom = _load(tmp_path, {"mine": _server(models=[{"id": "m", **written}])})
    assert [model.id for model in custom.models] == ["m"]
    assert custom.models[0].context_window == 128_000
    (problem,) = custom.problems
    assert f"providers.mine.models[0].{where}: " in problem


def test_a_broken_file_is_named_and_ignored(tmp_path: Path) -> None:
    path = tmp_path / "models.json"
    path.write_text('{"providers": {')
    custom = load_models(path)
    assert custom.models == ()
    assert str(path) in custom.problems[0]


def test_the_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    watched = custom_models_file(tmp_path)
    assert watched.current().models == ()
    _load(tmp_path, {"mine": _server(models=[{"id": "one"}])})
    first = watched.current()
    assert [model.id for model in first.models] == ["one"]
    assert watched.current() is first
    _load(tmp_path, {"mine": _server(models=[{"id": "one"}, {"id": "two"}])})
    assert [model.id for model in watched.current().models] == ["one", "two"]
    (tmp_path / "models.json").unlink()
    assert watched.current().models == ()


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:8080/v1", True),
        ("http://127.9.9.9", True),
        ("http://localhost:11434", True),
        ("http://[::1]:80", True),
        ("http://127.0.0.1.evil.example", False),
        ("http://localhost.evil.example", False),
        ("https://api.example.com", False),
        ("http://192.168.0.2", False),
        ("http://[::1", False),
        ("", False),
    ],
)
def test_only_this_machine_itself_is_loopback(url: str, loopback: bool) -> None:
    assert is_loopback(url) is loopback


def test_comments_and_trailing_commas_are_allowed_and_texts_stay_as_they_are(
    tmp_path: Path,
) -> None:
    path = tmp_path / "models.json"
    path.write_text(
        '{ // "mine"\n"providers": {"mine": {"baseUrl": "http://h//v1,]", // why\n'
        '"api": "openai-completions", "models": [{"id": "a\\"//b,}"},\n // end\n ],},},}'
    )
    custom = load_models(path)
    assert custom.problems == ()
    assert [(each.id, each.base_url) for each in custom.models] == [('a"//b,}', "http://h//v1,]")]


def test_the_place_of_an_error_is_that_in_the_file_as_written(tmp_path: Path) -> None:
    path = tmp_path / "models.json"
    path.write_text("{ // a remark\n  [1,],\n  x }")
    (problem,) = load_models(path).problems
    assert "line 2, column 3" in problem


def test_a_whole_number_may_be_written_as_any_json_number(tmp_path: Path) -> None:
    path = tmp_path / "models.json"
    model = '{"id": "m", "contextWindow": 2e5, "maxTokens": 8000.0}'
    path.write_text(
        '{"providers": {"mine": {"baseUrl": "http://h", "api": "openai-completions", "models": ['
        f"{model}]}}}}}}"
    )
    (found,) = load_models(path).models
    assert (found.context_window, found.max_tokens) == (200_000, 8_000)


def test_a_model_of_a_dialect_that_nobody_speaks_is_named(tmp_path: Path) -> None:
    custom = _load(tmp_path, {"mine": _server(models=[{"id": "m", "api": "smoke-signals"}])})
    (problem,) = custom.problems
    assert "the model m cannot be asked" in problem
    assert "anthropic-messages" in problem
