"""The shape of ``models.json`` as people write it.

Apart from ``models_json`` because it imports pydantic, which is only worth its time where a file
exists."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from pi_rpc.llm.models import InputKind


def _whole(value: object) -> object:
    """``1e5`` and ``128000.0`` are whole numbers, as they are to pi."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Tokens = Annotated[int, Field(gt=0, le=2**53 - 1), BeforeValidator(_whole)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1)]


class _Section(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", strict=True, frozen=True)


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
    sampling_params: dict[str, Any] | None = None
    compat: dict[str, Any] | None = None


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
    compat: dict[str, Any] | None = None
    models: list[ModelFile] = []
    model_overrides: dict[str, OverrideFile] = {}


class ModelsFile(_Section):
    providers: dict[Name, ProviderFile] = {}
