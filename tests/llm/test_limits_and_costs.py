"""Tables: how long an answer may be, which level is given for which is wanted, what it costs."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pi_rpc.harness.usage import Totals
from pi_rpc.llm.messages import Usage, UserMessage
from pi_rpc.llm.models import (
    THINKING_LEVELS,
    CostTier,
    Model,
    ModelCost,
    clamp_thinking_level,
    priced,
)
from pi_rpc.llm.provider import Context, StreamOptions
from pi_rpc.llm.providers._anthropic_payload import anthropic_payload
from pi_rpc.llm.providers._request import estimated_tokens, output_limit

MakeModel = Callable[..., Model]


def of_tokens(count: int) -> Context:
    """A prompt that is estimated at ``count`` tokens."""
    context = Context(messages=[UserMessage(content="x" * (4 * count), timestamp=1)])
    assert estimated_tokens(context) == count
    return context


@pytest.mark.parametrize(
    ("window", "own_limit", "prompt", "wanted", "limit"),
    [
        # Room enough: the model's own limit, at most 32,000 without a wish.
        (200_000, 16_000, 1_000, None, 16_000),
        (200_000, 64_000, 1_000, None, 32_000),
        (200_000, 64_000, 1_000, 50_000, 50_000),
        (200_000, 64_000, 1_000, 1, 1),
        # Never more than the model can.
        (200_000, 16_000, 1_000, 50_000, 16_000),
        # What the window leaves: its size less the estimate less 15 % of it.
        (200_000, 64_000, 150_000, None, 27_500),
        (200_000, 64_000, 150_000, 64_000, 27_500),
        (128_000, 64_000, 100_000, None, 13_000),
        # The margin is 4096 at least, or an eighth of a small window.
        (40_000, 40_000, 20_000, None, 15_904),
        (8_000, 8_000, 1_000, None, 6_000),
        (4_096, 4_096, 100, None, 3_484),
        # A little is always asked for: the provider decides whether it fits.
        (128_000, 64_000, 127_000, None, 1_024),
        (128_000, 64_000, 400_000, None, 1_024),
        (128_000, 64_000, 400_000, 10, 10),
        (1_000, 100, 5_000, None, 100),
    ],
)
def test_an_answer_is_limited_to_what_the_window_leaves(
    make_model: MakeModel,
    window: int,
    own_limit: int,
    prompt: int,
    *,
    wanted: int | None,
    limit: int,
) -> None:
    model = make_model(context_window=window, max_tokens=own_limit)
    assert output_limit(model, of_tokens(prompt), StreamOptions(max_tokens=wanted)) == limit


@pytest.mark.parametrize(
    ("level", "wanted", "limit"),
    [
        ("off", None, 32_000),
        ("low", None, 36_096),
        ("medium", None, 48_384),
        ("high", None, 64_768),
        ("max", None, 64_768),
        ("max", 5_000, 5_000),
        ("max", 500_000, 128_000),
    ],
)
def test_a_model_that_thinks_as_long_as_it_likes_has_room_for_it(
    make_model: MakeModel, level: Any, wanted: int | None, limit: int
) -> None:
    model = make_model(
        id="claude-sonnet-5",
        api="anthropic-messages",
        reasoning=True,
        context_window=1_000_000,
        max_tokens=128_000,
        thinking_level_map={"max": "max"},
    )
    options = StreamOptions(thinking_level=level, max_tokens=wanted)
    assert anthropic_payload(model, of_tokens(10), options)[0]["max_tokens"] == limit


NOTHING: dict[str, None] = dict.fromkeys(THINKING_LEVELS)


@pytest.mark.parametrize(
    ("level_map", "given"),
    [
        # For off, minimal, low, medium, high, xhigh and max, in this order.
        ({}, "off minimal low medium high high high"),
        ({"xhigh": "x"}, "off minimal low medium high xhigh xhigh"),
        ({"max": "m"}, "off minimal low medium high max max"),
        ({"off": None}, "minimal minimal low medium high high high"),
        ({"off": None, "minimal": None}, "low low low medium high high high"),
        ({"medium": None}, "off minimal low high high high high"),
        ({"high": None}, "off minimal low medium medium medium medium"),
        ({"high": None, "max": "m"}, "off minimal low medium max max max"),
        ({**NOTHING, "off": "none"}, "off off off off off off off"),
        ({**NOTHING, "high": "high"}, "high high high high high high high"),
        (NOTHING, "off off off off off off off"),
    ],
)
def test_a_level_becomes_the_next_higher_else_the_next_lower(
    make_model: MakeModel, level_map: Any, given: str
) -> None:
    model = make_model(reasoning=True, thinking_level_map=level_map)
    assert [clamp_thinking_level(model, each) for each in THINKING_LEVELS] == given.split()
    plain = make_model(reasoning=False, thinking_level_map=level_map)
    assert {clamp_thinking_level(plain, each) for each in THINKING_LEVELS} == {"off"}


CHEAP = ModelCost(input=1, output=10, cache_read=0.1, cache_write=1.25)
TIERED = ModelCost(
    input=2,
    output=20,
    cache_read=0.2,
    cache_write=2.5,
    tiers=[
        CostTier(input_tokens_above=500, input=8, output=40, cache_read=0.8, cache_write=10),
        CostTier(input_tokens_above=200, input=4, output=30, cache_read=0.4, cache_write=5),
    ],
)

MESSAGES: list[tuple[ModelCost, dict[str, int], float]] = [
    # prices, tokens, cost in millionths of a dollar
    (CHEAP, {}, 0),
    (CHEAP, {"input": 100, "output": 50}, 100 + 500),
    (CHEAP, {"input": 100, "cache_read": 1000, "cache_write": 40}, 100 + 100 + 50),
    (CHEAP, {"cache_write": 100, "cache_write_1h": 60}, 40 * 1.25 + 60 * 2),
    (CHEAP, {"output": 100, "reasoning": 60}, 1000),
    (TIERED, {"input": 200, "output": 10}, 400 + 200),
    (TIERED, {"input": 201, "output": 10}, 804 + 300),
    (TIERED, {"input": 100, "cache_read": 50, "cache_write": 51}, 400 + 20 + 255),
    (TIERED, {"input": 501, "output": 1_000_000}, 4008 + 40_000_000),
    (TIERED, {"cache_write": 600, "cache_write_1h": 600}, 600 * 16),
]


def billed(make_model: MakeModel, cost: ModelCost, tokens: dict[str, Any]) -> Usage:
    usage = msgspec.structs.replace(Usage.ZERO, **tokens)
    return priced(make_model(cost=cost), usage)


@pytest.mark.parametrize(("cost", "tokens", "millionths"), MESSAGES)
def test_a_message_costs_its_tokens_at_the_tier_of_its_whole_input(
    make_model: MakeModel, cost: ModelCost, tokens: dict[str, int], millionths: float
) -> None:
    found = billed(make_model, cost, tokens).cost
    assert found.total * 1e6 == pytest.approx(millionths)
    assert found.total == pytest.approx(
        found.input + found.output + found.cache_read + found.cache_write
    )


def test_a_session_costs_what_its_messages_cost_each_at_its_own_tier(
    make_model: MakeModel,
) -> None:
    totals = Totals()
    for cost, tokens, _ in MESSAGES:
        totals.add(billed(make_model, cost, tokens))
    assert totals.cost * 1e6 == pytest.approx(sum(millionths for *_, millionths in MESSAGES))
    for name in ("input", "output", "cache_read", "cache_write"):
        assert getattr(totals.usage, name) == sum(each.get(name, 0) for _, each, _ in MESSAGES)
