"""The shape of ``models.json`` as people write it.

Apart from ``models_json`` because it imports pydantic, which is only worth its time where a file
exists."""

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model
from pydantic.alias_generators import to_camel

from pi_rpc.llm.models import InputKind
from pi_rpc.llm.providers._anthropic_compat import AnthropicCompat
from pi_rpc.llm.providers._completions_compat import Compat


def _whole(value: object) -> object:
    """``1e5`` and ``128000.0`` are whole numbers, as they are to pi."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Tokens = Annotated[int, Field(gt=0, le=2**53 - 1), BeforeValidator(_whole)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1)]


class _Section(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", strict=True, frozen=True)


class _Open(BaseModel):
    """What else is written counts, too."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    def said(self) -> dict[str, Any]:
        """What somebody wrote, by the names in the file."""
        return self.model_dump(exclude_unset=True)


def _not_to_say(value: object) -> object:
    raise ValueError("not a sampling parameter: it is what a request is made of")


def _parameters() -> dict[str, Any]:
    """They go to the provider as they are; those that are the same everywhere are numbers."""
    camel = ("topP", "topK")
    penalties = ("frequency_penalty", "presence_penalty", "repetition_penalty")
    numbers = ("temperature", "top_p", "top_k", "min_p", "seed", *camel, *penalties)
    parts = ("model", "messages", "input", "contents", "system", "instructions", "tools", "stream")
    no_parameter = Annotated[Any, BeforeValidator(_not_to_say)]
    return {
        **dict.fromkeys(numbers, (float | None, None)),
        **dict.fromkeys(parts, (no_parameter, None)),
    }


def _flags() -> dict[str, Any]:
    """The flags of all dialects, by their names in the file; those that share one agree."""
    kinds: dict[str, Any] = {}
    for each in (AnthropicCompat, Compat):
        kinds.update({to_camel(name): kind for name, kind in get_type_hints(each).items()})
    for name in ("MaxOutputTokens", "ExplicitPromptCacheMode", "ThinkingTokenBudget"):
        kinds[f"supports{name}"] = bool
    kinds["serviceTierFactors"] = dict[str, float]
    return {name: (kind | None, None) for name, kind in kinds.items()}


if TYPE_CHECKING:
    _Sampling: TypeAlias = _Open
    _Flags: TypeAlias = _Open
else:
    _Sampling = create_model("_Sampling", __base__=_Open, **_parameters())
    _Flags = create_model("_Flags", __base__=_Open, **_flags())


class TierFile(_Section):
    input_tokens_above: Tokens
    input: Price = 0
    output: Price = 0
    cache_read: Price = 0
    cache_write: Price = 0


class CostFile(_Section):
    """Prices; None leaves what an overridden model has, and is 0 for a new one."""

    input: Price | None = None
    output: Price | None = None
    cache_read: Price | None = None
    cache_write: Price | None = None
    tiers: list[TierFile] | None = None


class OverrideFile(_Section):
    """What may be said of a model; None leaves what it has."""

    name: Name | None = None
    reasoning: bool | None = None
    input: list[InputKind] | None = None
    cost: CostFile | None = None
    context_window: Tokens | None = None
    max_tokens: Tokens | None = None
    thinking_level_map: dict[str, str | None] | None = None
    headers: dict[str, str] | None = None
    sampling_params: _Sampling | None = None
    compat: _Flags | None = None


class ModelFile(OverrideFile):
    id: Name
    api: Name | None = None
    base_url: Name | None = None


class ProviderFile(_Section):
    name: Name | None = None
    base_url: Name | None = None
    api_key: Name | None = None
    api: Name | None = None
    headers: dict[str, str] = {}
    auth_header: bool = False
    compat: _Flags | None = None
    models: list[ModelFile] = []
    model_overrides: dict[str, OverrideFile] = {}


class ModelsFile(_Section):
    providers: dict[Name, ProviderFile] = {}
