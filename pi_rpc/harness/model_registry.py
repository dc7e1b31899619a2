"""The models there are, which one a name means, and which one is asked by default.

Owns the merge of the catalogue, ``models.json``, the servers of this machine, the embedded model
and the scripted one. What a
name means is ``pi_rpc.harness.model_names``'s, keys are ``pi_rpc.harness.credentials``'s."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pi_rpc.harness.credentials import Credentials, CredentialStatus
from pi_rpc.harness.model_names import (
    ModelChoice,
    UnknownModelError,
    exact_model,
    named_model,
)
from pi_rpc.harness.models_json import custom_models_file
from pi_rpc.harness.paths import agent_dir
from pi_rpc.harness.settings import Settings
from pi_rpc.llm.models import Model

__all__ = ["SCRIPT_VARIABLE", "ModelChoice", "ModelRegistry", "UnknownModelError"]

SCRIPT_VARIABLE = "PI_RPC_SCRIPT"

_SCRIPTED = "scripted"


class ModelRegistry:
    """Knows every model. Making one reads nothing; files are read again when they have changed."""

    def __init__(
        self,
        folder: Path | None = None,
        credentials: Credentials | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        served: Callable[[], list[Model]] | None = None,
    ) -> None:
        """``folder`` is the agent directory; ``credentials`` say which models can be asked.

        ``served`` are the models that servers of this machine have now, and need no key.
        """
        self._served = served or list
        self._environ: Mapping[str, str] = os.environ if environ is None else environ
        folder = agent_dir(self._environ) if folder is None else folder
        self._custom = custom_models_file(folder)
        self._credentials = credentials or Credentials(
            folder, environ=self._environ, custom=self._custom
        )

    def models(self) -> list[Model]:
        """Every model, those a person would rather mean first.

        The models of ``models.json`` in its order; the catalogue's, provider by provider, each
        provider's best default first; those that servers of this machine have; the embedded model
        when it is installed; the scripted one when ``PI_RPC_SCRIPT`` names a script.
        """
        from pi_rpc.llm.catalogue import catalogue

        custom = self._custom.current()
        found = {model.ref: model for model in custom.models}
        for model in (*custom.applied(catalogue()), *self._served(), *self._built_in()):
            found.setdefault(model.ref, model)
        return list(found.values())

    def models_of(self, provider: str) -> list[Model]:
        """The models of one provider, its default first. Reads no other provider's facts."""
        from pi_rpc.llm.catalogue import models_of

        custom = self._custom.current()
        found = {model.ref: model for model in custom.models if model.provider == provider}
        for model in (
            *custom.applied(models_of(provider)),
            *self._served(),
            *self._built_in(),
        ):
            if model.provider == provider:
                found.setdefault(model.ref, model)
        return list(found.values())

    def _built_in(self) -> list[Model]:
        from pi_rpc.llm import local

        found = [local.LOCAL_MODEL] if local.installed() else []
        if self._scripted():
            from pi_rpc.llm.scripted import scripted_model

            found.append(scripted_model())
        return found

    def problems(self) -> list[str]:
        """A line about each thing that is wrong with ``models.json``."""
        return list(self._custom.current().problems)

    def authenticated(self, model: Model) -> bool:
        """Whether ``model`` can be asked, as far as can be told without running a command."""
        from pi_rpc.llm.local import LOCAL_MODEL

        if model.ref == LOCAL_MODEL.ref or model.provider == _SCRIPTED:
            return True
        if any(each.provider == model.provider for each in self._served()):
            return True
        return self._credentials.has(model.provider)

    def usable(self) -> list[Model]:
        """Models that can be asked. A provider is looked at once: there are a thousand models and
        forty of these."""
        known: dict[str, bool] = {}
        for model in self.models():
            if model.provider not in known:
                known[model.provider] = self.authenticated(model)
        return [each for each in self.models() if known[each.provider]]

    def unusable(self, model: Model) -> str:
        """Why ``model`` cannot be asked, and what to do about it; a sentence for the person."""
        status = self.status(model.provider)
        reason = status.problem or f"no credential for {model.provider}"
        return f"{reason}: {status.hint}" if status.hint else reason

    def status(self, provider: str) -> CredentialStatus:
        """What is known of the credential of ``provider``; what runs on this machine needs none."""
        status = self._credentials.status(provider)
        here = (*self._served(), *self._built_in())
        if status.kind == "none" and any(each.provider == provider for each in here):
            return CredentialStatus(provider=provider, source="none", kind="not_needed")
        return status

    def providers(self) -> dict[str, str]:
        """The providers that have a model: id to a name for people, those of ``models.json`` first.

        Reads no facts about models.
        """
        from pi_rpc.llm.catalogue import provider_names

        custom = self._custom.current()
        names = {model.provider: model.provider for model in custom.models} | provider_names()
        here = (*self._served(), *self._built_in())
        names |= {model.provider: model.provider for model in here}
        named = {each.id: each.name for each in custom.providers.values() if each.name}
        return {provider: named.get(provider, name) for provider, name in names.items()}

    def find(self, ref: str | Mapping[str, str]) -> Model:
        """The model that ``ref`` names; see ``choose``."""
        return self.choose(ref).model

    def choose(self, ref: str | Mapping[str, str]) -> ModelChoice:
        """The model, and the thinking level if it is named, that ``ref`` means.

        ``{"provider": ..., "id": ...}`` is exact; a text is read as ``named_model`` says, where
        models that have a credential are preferred. Raises ``UnknownModelError``.
        """
        if not isinstance(ref, str):
            provider = ref.get("provider", "")
            return ModelChoice(exact_model(ref, self.models_of(provider) or self.models()), None)
        for model in self.models_of(ref.partition("/")[0]):
            if model.ref == ref and self.authenticated(model):
                return ModelChoice(model, None)  # What most names are: no other model matters.
        return named_model(ref, self.models(), self.authenticated)

    def default(self, settings: Settings) -> Model | None:
        """The model to ask when none was named; None when there is none that could be asked.

        ``defaultProvider`` and ``defaultModel`` of the settings (either alone will do), else the
        scripted model when there is a script, else the first model with credentials. Raises
        ``UnknownModelError`` when the settings name a model that does not exist.
        """
        provider, name = settings.default_provider, settings.default_model
        if name:
            try:
                return self.find({"provider": provider, "id": name} if provider else name)
            except UnknownModelError as error:
                raise UnknownModelError(f"defaultModel in settings.json: {error.message}") from None
        if provider:
            models = self.models_of(provider)
            if not models:
                raise UnknownModelError(
                    f"defaultProvider in settings.json: no provider {provider!r} is known"
                )
            return next((model for model in models if self.authenticated(model)), None)
        return next(self._preferred(), None)

    def _preferred(self) -> Iterator[Model]:
        """Models that can be asked, those a person would rather mean first."""
        from pi_rpc.llm.catalogue import provider_names

        if self._scripted():
            yield from self.models_of(_SCRIPTED)
        custom = self._custom.current().models
        yield from (model for model in custom if self.authenticated(model))
        for provider in provider_names():
            if self._credentials.has(provider):
                yield from self.models_of(provider)
        yield from self._built_in()

    def _scripted(self) -> bool:
        return bool(self._environ.get(SCRIPT_VARIABLE))
