"""The person's own models: what ``models.json`` of the agent directory says, in pi's format.

Owns the reading of the file and what it does to the models of the catalogue: providers and models
are added, a provider gets another address, a model other facts. Does not own keys
(``pi_rpc.harness.credentials``) nor which models there are in the end
(``pi_rpc.harness.model_registry``)."""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Struct, field

from pi_rpc._os.imports import one_at_a_time
from pi_rpc.harness._written import WatchedFile, fitting, read_object
from pi_rpc.llm.models import CostTier, Model, ModelCost
from pi_rpc.llm.provider import APIS

if TYPE_CHECKING:
    from pi_rpc.harness._models_file import (
        CostFile,
        ModelFile,
        ModelsFile,
        OverrideFile,
        ProviderFile,
    )

__all__ = ["CustomModels", "CustomProvider", "custom_models_file", "is_loopback", "load_models"]

_NO_COST = ModelCost(input=0, output=0, cache_read=0, cache_write=0)


class CustomProvider(Struct, frozen=True, kw_only=True):
    """How a provider of ``models.json`` is reached. Key and headers are as written, unresolved."""

    id: str
    name: str | None = None
    """For people."""
    base_url: str | None = None
    api_key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    auth_header: bool = False
    """The key is also sent as ``Authorization: Bearer``."""
    model_headers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Further headers, by model id."""

    def __repr__(self) -> str:
        """Without the key and the headers, which may hold one."""
        return f"CustomProvider(id={self.id!r}, base_url={self.base_url!r})"

    @property
    def keyless(self) -> bool:
        """A server on this machine that was given no key: it needs none."""
        return self.api_key is None and self.base_url is not None and is_loopback(self.base_url)


class CustomModels(Struct, frozen=True, kw_only=True):
    """What ``models.json`` says. ``problems`` are lines about what is wrong with it."""

    models: tuple[Model, ...] = ()
    """New models, in the order of the file."""
    providers: Mapping[str, CustomProvider] = field(default_factory=lambda: MappingProxyType({}))
    problems: tuple[str, ...] = ()
    file: "ModelsFile | None" = None

    def __repr__(self) -> str:
        """Without the file, which may hold keys."""
        return (
            f"CustomModels(models={self.models!r}, providers={self.providers!r}, "
            f"problems={self.problems!r})"
        )

    def applied(self, known: Iterable[Model]) -> list[Model]:
        """The ``known`` models with the addresses and facts that the file gives them."""
        return [self._changed(model) for model in known]

    def _changed(self, model: Model) -> Model:
        provider = self.file.providers.get(model.provider) if self.file else None
        if provider is None:
            return model
        if provider.base_url:
            model = msgspec.structs.replace(model, base_url=provider.base_url)
        if provider.compat:
            model = msgspec.structs.replace(
                model, compat={**(model.compat or {}), **provider.compat.said()}
            )
        override = provider.model_overrides.get(model.id)
        return model if override is None else _overridden(model, override)


def load_models(path: Path) -> CustomModels:
    """What ``path`` says; never fails: what does not fit is named in ``problems`` and ignored."""
    raw, problems = read_object(path, commented=True)
    if raw is None:
        return CustomModels(problems=tuple(problems))
    with one_at_a_time:
        from pi_rpc.harness._models_file import ModelsFile

    file, unfit = fitting(ModelsFile, raw, path)
    problems += unfit
    models: list[Model] = []
    providers: dict[str, CustomProvider] = {}
    for provider_id, provider in file.providers.items():
        providers[provider_id] = _reached(provider_id, provider)
        for written in provider.models:
            model, lacking = _new_model(provider_id, provider, written)
            if model is None:
                problems.append(
                    f"{path}: providers.{provider_id}: the model {written.id} needs {lacking}, its "
                    "own or the provider's; ignored"
                )
            else:
                models.append(model)
                if model.api not in APIS:
                    problems.append(
                        f"{path}: providers.{provider_id}: the model {written.id} cannot be asked: "
                        f"its api is none of {', '.join(APIS)}"
                    )
    return CustomModels(
        models=tuple(models),
        providers=MappingProxyType(providers),
        problems=tuple(problems),
        file=file,
    )


def custom_models_file(folder: Path) -> WatchedFile[CustomModels]:
    """``models.json`` of the agent directory ``folder``, read when it is first asked for."""
    return WatchedFile(folder / "models.json", load_models)


def is_loopback(url: str) -> bool:
    """``url`` leads to this machine itself."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _reached(provider_id: str, provider: "ProviderFile") -> CustomProvider:
    written: list[tuple[str, Mapping[str, str] | None]] = [
        *((model.id, model.headers) for model in provider.models),
        *((model_id, each.headers) for model_id, each in provider.model_overrides.items()),
    ]
    own = next((model.base_url for model in provider.models if model.base_url), None)
    return CustomProvider(
        id=provider_id,
        name=provider.name,
        base_url=provider.base_url or own,
        api_key=provider.api_key,
        headers=provider.headers,
        auth_header=provider.auth_header,
        model_headers={model_id: headers for model_id, headers in written if headers},
    )


def _new_model(
    provider_id: str, provider: "ProviderFile", written: "ModelFile"
) -> tuple[Model | None, str]:
    """The model, or None and what it lacks."""
    api = written.api or provider.api
    base_url = written.base_url or provider.base_url
    if api is None:
        return None, "an `api`"
    if base_url is None:
        return None, "a `baseUrl`"
    plain = Model(
        id=written.id,
        name=written.id,
        api=api,
        provider=provider_id,
        base_url=base_url,
        reasoning=False,
        input=["text"],
        cost=_NO_COST,
        context_window=128_000,
        max_tokens=16_384,
        compat=provider.compat.said() if provider.compat else UNSET,
    )
    model = _overridden(plain, written)
    override = provider.model_overrides.get(written.id)
    return (model if override is None else _overridden(model, override)), ""


def _overridden(model: Model, said: "OverrideFile") -> Model:
    """``model`` with the facts in ``said``. Headers are resolved later, with the key."""
    changes: dict[str, Any] = {
        name: value
        for name in ("name", "reasoning", "input", "context_window", "max_tokens")
        if (value := getattr(said, name)) is not None
    }
    for name, value in (
        ("thinking_level_map", said.thinking_level_map),
        ("sampling_params", said.sampling_params.said() if said.sampling_params else None),
        ("compat", said.compat.said() if said.compat else None),
    ):
        if value is not None:
            changes[name] = {**(getattr(model, name) or {}), **value}
    if said.cost is not None:
        changes["cost"] = _cost(model.cost, said.cost)
    return msgspec.structs.replace(model, **changes)


def _cost(cost: ModelCost, said: "CostFile") -> ModelCost:
    changes: dict[str, Any] = said.model_dump(exclude_none=True, exclude={"tiers"})
    if said.tiers is not None:
        changes["tiers"] = [CostTier(**tier.model_dump()) for tier in said.tiers]
    return msgspec.structs.replace(cost, **changes)
