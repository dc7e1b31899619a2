"""The catalogue: models known without anybody naming them, as facts in ``catalogue.json``.

Owns the reading of that file, a provider at a time. Prices and limits are those that were published
when the file was made; ``models.json`` corrects them. A provider's default model is listed first.
``make catalogue`` writes the file anew (``scripts/catalogue.py``); nothing in it is edited by hand.
"""

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from pi_rpc.llm.messages import Wire
from pi_rpc.llm.models import InputKind, Model, ModelCost

__all__ = ["catalogue", "models_of", "provider_names"]


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


class _Service(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Models that are asked in one dialect at one address; empty: the person's own address."""

    api: str
    base_url: str
    models: list[_Entry]
    headers: dict[str, str] | UnsetType = UNSET


class _Provider(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    default: str
    services: list[_Service]


class _Name(Wire, frozen=True, kw_only=True):
    name: str


class _File(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str
    providers: dict[str, msgspec.Raw]


@cache
def _providers() -> dict[str, msgspec.Raw]:
    """Read once, when first asked for; each provider is decoded when it is asked for."""
    written = Path(__file__).with_name("catalogue.json").read_bytes()
    return msgspec.json.decode(written, type=_File).providers


def provider_names() -> dict[str, str]:
    """The catalogue's providers: id to a name for people, in the order of preference."""
    return {
        provider_id: msgspec.json.decode(written, type=_Name).name
        for provider_id, written in _providers().items()
    }


def catalogue() -> tuple[Model, ...]:
    """All models of the catalogue, provider by provider."""
    return tuple(model for provider_id in _providers() for model in models_of(provider_id))


@cache
def models_of(provider_id: str) -> tuple[Model, ...]:
    """The models of one provider, its default first; none of one that is not in the catalogue."""
    written = _providers().get(provider_id)
    if written is None:
        return ()
    provider = msgspec.json.decode(written, type=_Provider)
    models = [
        Model(
            id=entry.id,
            name=entry.name,
            api=service.api,
            provider=provider_id,
            base_url=service.base_url,
            reasoning=entry.reasoning,
            input=entry.input,
            cost=entry.cost,
            context_window=entry.context_window,
            max_tokens=entry.max_tokens,
            thinking_level_map=entry.thinking_level_map,
            headers=service.headers,
            compat=entry.compat,
        )
        for service in provider.services
        for entry in service.models
    ]
    return tuple(sorted(models, key=lambda model: model.id != provider.default))
