"""Models: what is known about a named model, thinking levels, and what a call costs.

Owns the ``Model`` struct (also the entries of pi's ``models.json`` and of our catalogue), clamping
of thinking levels and the cost arithmetic. Does not own where models come from
(``pi_rpc.llm.catalogue``) nor credentials."""

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from pi_rpc.llm.messages import ThinkingLevel, Usage, UsageCost, Wire

__all__ = [
    "THINKING_LEVELS",
    "CostTier",
    "InputKind",
    "Model",
    "ModelCost",
    "clamp_thinking_level",
    "cost_of",
    "priced",
    "thinking_levels",
]

InputKind: TypeAlias = Literal["text", "image"]

THINKING_LEVELS: tuple[ThinkingLevel, ...] = (
    "off",
    "minimal",
    "low",
    "medium",
    "high",
    "xhigh",
    "max",
)


class CostTier(Wire, frozen=True, kw_only=True):
    """Prices that hold for a whole request once its input is larger than a threshold."""

    input_tokens_above: int
    """The threshold: input and both cache numbers together."""
    input: float
    """US dollars per million uncached input tokens."""
    output: float
    """US dollars per million output tokens."""
    cache_read: float
    """US dollars per million tokens read from the cache."""
    cache_write: float
    """US dollars per million tokens written to the cache."""


class ModelCost(Wire, frozen=True, kw_only=True):
    """Prices in US dollars per million tokens."""

    input: float
    """Uncached input tokens."""
    output: float
    """Output tokens."""
    cache_read: float
    """Tokens read from the prompt cache."""
    cache_write: float
    """Tokens written to the prompt cache."""
    tiers: list[CostTier] | UnsetType = UNSET
    """Higher prices for large requests."""


class Model(Wire, frozen=True, kw_only=True):
    """A named model of a provider, and what it can do."""

    id: str
    """The provider's name for it."""
    name: str
    """A name for people."""
    api: str
    """The wire dialect, for instance ``openai-completions``."""
    provider: str
    """The provider's id, for instance ``anthropic``."""
    base_url: str
    """Where it is asked."""
    reasoning: bool
    """It can think."""
    input: list[InputKind]
    """What it can be shown."""
    cost: ModelCost
    """Prices."""
    context_window: int
    """Tokens that fit, input and output together."""
    max_tokens: int
    """Most output tokens of one reply."""
    thinking_level_map: dict[str, str | None] | UnsetType = UNSET
    """The provider's words for thinking levels; null marks a level it lacks."""
    headers: dict[str, str] | UnsetType = UNSET
    """Extra request headers."""
    sampling_params: dict[str, Any] | UnsetType = UNSET
    """Extra request parameters."""
    compat: dict[str, Any] | UnsetType = UNSET
    """How the server differs from its dialect."""

    @property
    def ref(self) -> str:
        """The name people use: ``provider/id``."""
        return f"{self.provider}/{self.id}"


def thinking_levels(model: Model) -> list[ThinkingLevel]:
    """The levels the model offers, lowest first. ``xhigh`` and ``max`` need an explicit mapping."""
    if not model.reasoning:
        return ["off"]
    level_map = model.thinking_level_map or {}
    return [
        level
        for level in THINKING_LEVELS
        if level_map.get(level, "" if level not in {"xhigh", "max"} else None) is not None
    ]


def clamp_thinking_level(model: Model, level: ThinkingLevel) -> ThinkingLevel:
    """The nearest level the model offers: the same, else the next higher, else the next lower.

    ``off`` for a model whose map takes every level away.
    """
    offered = thinking_levels(model) or ["off"]
    if level in offered:
        return level
    wanted = THINKING_LEVELS.index(level)
    ranks = [THINKING_LEVELS.index(each) for each in offered]
    higher = [rank for rank in ranks if rank > wanted]
    return THINKING_LEVELS[min(higher) if higher else max(ranks)]


def cost_of(model: Model, usage: Usage) -> UsageCost:
    """What ``usage`` costs with ``model``. An hour-long cache write costs twice the input price."""
    prices: ModelCost | CostTier = model.cost
    total_input = usage.input + usage.cache_read + usage.cache_write
    for tier in sorted(model.cost.tiers or [], key=lambda each: each.input_tokens_above):
        if total_input > tier.input_tokens_above:
            prices = tier
    long_writes = usage.cache_write_1h or 0
    input_cost = usage.input * prices.input / 1e6
    output_cost = usage.output * prices.output / 1e6
    read_cost = usage.cache_read * prices.cache_read / 1e6
    write_cost = (
        (usage.cache_write - long_writes) * prices.cache_write + long_writes * 2 * prices.input
    ) / 1e6
    return UsageCost(
        input=input_cost,
        output=output_cost,
        cache_read=read_cost,
        cache_write=write_cost,
        total=input_cost + output_cost + read_cost + write_cost,
    )


def priced(model: Model, usage: Usage, factor: float = 1.0) -> Usage:
    """``usage`` with its cost filled in; what the provider says it billed is kept.

    ``factor`` is what the request costs of the usual price.
    """
    cost = cost_of(model, usage)
    cost = UsageCost(
        input=cost.input * factor,
        output=cost.output * factor,
        cache_read=cost.cache_read * factor,
        cache_write=cost.cache_write * factor,
        total=cost.total * factor,
        total_from_provider=usage.cost.total_from_provider,
    )
    return msgspec.structs.replace(usage, cost=cost)
