"""Models: thinking levels and cost."""

import msgspec
import pytest

from pi_rpc.llm.messages import ThinkingLevel, Usage, UsageCost
from pi_rpc.llm.models import (
    CostTier,
    Model,
    ModelCost,
    clamp_thinking_level,
    cost_of,
    priced,
    thinking_levels,
)


def _model(*, reasoning: bool = True, **changes: object) -> Model:
    model = Model(
        id="m",
        name="M",
        api="openai-completions",
        provider="p",
        base_url="http://x",
        reasoning=reasoning,
        input=["text"],
        cost=ModelCost(input=1, output=10, cache_read=0.1, cache_write=1.25),
        context_window=1000,
        max_tokens=100,
    )
    return msgspec.structs.replace(model, **changes)


def _usage(**tokens: int) -> Usage:
    return msgspec.structs.replace(Usage.ZERO, **tokens)


def test_a_model_that_does_not_reason_offers_only_off() -> None:
    model = _model(reasoning=False, thinking_level_map={"high": "high"})
    assert thinking_levels(model) == ["off"]
    assert clamp_thinking_level(model, "max") == "off"


def test_the_two_highest_levels_need_a_mapping_and_null_takes_a_level_away() -> None:
    assert thinking_levels(_model()) == ["off", "minimal", "low", "medium", "high"]
    model = _model(thinking_level_map={"off": None, "minimal": None, "max": "ultra"})
    assert thinking_levels(model) == ["low", "medium", "high", "max"]


@pytest.mark.parametrize(
    ("wanted", "given"),
    [("off", "low"), ("low", "low"), ("medium", "max"), ("xhigh", "max"), ("max", "max")],
)
def test_a_level_that_lacks_becomes_the_next_higher_one(
    wanted: ThinkingLevel, given: ThinkingLevel
) -> None:
    lacking = {"off": None, "minimal": None, "medium": None, "high": None, "max": "max"}
    assert clamp_thinking_level(_model(thinking_level_map=lacking), wanted) == given


def test_above_the_highest_level_the_highest_is_taken() -> None:
    assert clamp_thinking_level(_model(), "max") == "high"


def test_cost_is_tokens_times_price_per_million() -> None:
    usage = _usage(input=1_000_000, output=100_000, cache_read=2_000_000, cache_write=400_000)
    cost = cost_of(_model(), usage)
    assert cost.input == pytest.approx(1)
    assert cost.output == pytest.approx(1)
    assert cost.cache_read == pytest.approx(0.2)
    assert cost.cache_write == pytest.approx(0.5)
    assert cost.total == pytest.approx(2.7)


def test_a_cache_write_for_an_hour_costs_twice_the_input_price() -> None:
    usage = _usage(cache_write=1_000_000, cache_write_1h=400_000)
    assert cost_of(_model(), usage).cache_write == pytest.approx(0.6 * 1.25 + 0.4 * 2)


def test_the_highest_tier_below_the_whole_input_prices_the_whole_request() -> None:
    tiers = [
        CostTier(input_tokens_above=above, input=price, output=0, cache_read=0, cache_write=0)
        for above, price in [(300, 4), (100, 2)]
    ]
    model = _model(cost=ModelCost(input=1, output=0, cache_read=0, cache_write=0, tiers=tiers))

    def price(**tokens: int) -> float:
        return cost_of(model, _usage(**tokens)).input * 1e6

    assert price(input=100) == pytest.approx(100)
    assert price(input=101) == pytest.approx(202)
    assert price(input=50, cache_read=40, cache_write=11) == pytest.approx(100)
    assert price(input=301) == pytest.approx(1204)


def test_pricing_keeps_what_the_provider_billed() -> None:
    billed = msgspec.structs.replace(UsageCost.ZERO, total_from_provider=0.25)
    usage = msgspec.structs.replace(_usage(input=1_000_000), cost=billed)
    cost = priced(_model(), usage).cost
    assert (cost.total, cost.total_from_provider) == (pytest.approx(1), 0.25)


def test_pricing_keeps_the_tokens() -> None:
    usage = _usage(input=10, output=20)
    assert priced(_model(), usage).cost == cost_of(_model(), usage)
    assert msgspec.structs.replace(priced(_model(), usage), cost=usage.cost) == usage
