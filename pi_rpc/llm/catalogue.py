"""The catalogue: models known without anybody naming them, as facts in ``catalogue.json``.

Owns the reading of that file. Prices and limits are those of the providers' own price lists when
the file was last edited; ``models.json`` corrects them. A provider's models are listed best default
first. Only models that work over a dialect we speak are in it: OpenAI's newer ones refuse tools
together with reasoning over ``openai-completions`` and are therefore missing."""

from functools import cache
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from pi_rpc.llm.messages import Wire
from pi_rpc.llm.models import InputKind, Model, ModelCost

__all__ = ["catalogue", "provider_names"]


class _Entry(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    name: str
    reasoning: bool
    input: list[InputKind]
    context_window: int
    max_tokens: int
    cost: ModelCost
    thinking_level_map: dict[str, str | None] | UnsetType = UNSET
    compat: dict[str, Any] | UnsetType = UNSET


class _Provider(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    api: str
    base_url: str
    models: list[_Entry]
    compat: dict[str, Any] | UnsetType = UNSET


class _File(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    providers: dict[str, _Provider]


@cache
def _file() -> _File:
    from importlib.resources import files

    return msgspec.json.decode(
        files("pi_rpc.llm").joinpath("catalogue.json").read_bytes(), type=_File
    )


@cache
def catalogue() -> tuple[Model, ...]:
    """The models of the catalogue, provider by provider. Read once, when first asked for."""
    return tuple(
        Model(
            id=entry.id,
            name=entry.name,
            api=provider.api,
            provider=provider_id,
            base_url=provider.base_url,
            reasoning=entry.reasoning,
            input=entry.input,
            cost=entry.cost,
            context_window=entry.context_window,
            max_tokens=entry.max_tokens,
            thinking_level_map=entry.thinking_level_map,
            compat={**(provider.compat or {}), **(entry.compat or {})} or UNSET,
        )
        for provider_id, provider in _file().providers.items()
        for entry in provider.models
    )


def provider_names() -> dict[str, str]:
    """The catalogue's providers: id to a name for people."""
    return {provider_id: provider.name for provider_id, provider in _file().providers.items()}
