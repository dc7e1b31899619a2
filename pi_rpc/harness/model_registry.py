"""The models there are, which one a name means, and which one is asked by default.

Owns the merge of the catalogue, ``models.json``, the embedded model and the scripted one. Does not
own keys (``pi_rpc.harness.credentials``) nor asking a model (``pi_rpc.llm.provider``)."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pi_rpc.harness.credentials import Credentials
from pi_rpc.harness.models_json import custom_models_file
from pi_rpc.harness.paths import agent_dir
from pi_rpc.harness.settings import Settings
from pi_rpc.llm.messages import ThinkingLevel
from pi_rpc.llm.models import THINKING_LEVELS, Model

__all__ = ["SCRIPT_VARIABLE", "ModelChoice", "ModelRegistry", "UnknownModelError"]

SCRIPT_VARIABLE = "PI_RPC_SCRIPT"

_SCRIPTED = "scripted"
_NAMED_AT_MOST = 5
_SHORTEST_PART = 3
"""Anything shorter is part of some name or other, of which nobody thought."""


class UnknownModelError(Exception):
    """No model has the name, or several do. The message names those that come near."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ModelChoice(NamedTuple):
    """What a name means."""

    model: Model
    thinking_level: ThinkingLevel | None
    """The level that the name ends in; None if it says none."""


class ModelRegistry:
    """Knows every model. Making one reads nothing; files are read again when they have changed."""

    def __init__(
        self,
        folder: Path | None = None,
        credentials: Credentials | None = None,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """``folder`` is the agent directory; ``credentials`` say which models can be asked."""
        self._environ: Mapping[str, str] = os.environ if environ is None else environ
        folder = agent_dir(self._environ) if folder is None else folder
        self._custom = custom_models_file(folder)
        self._credentials = credentials or Credentials(
            folder, environ=self._environ, custom=self._custom
        )

    def models(self) -> list[Model]:
        """Every model, those a person would rather mean first.

        The models of ``models.json`` in its order; the catalogue's, provider by provider, each
        provider's best default first; the embedded model when it is installed; the scripted one
        when ``PI_RPC_SCRIPT`` names a script.
        """
        from pi_rpc.llm import local
        from pi_rpc.llm.catalogue import catalogue

        custom = self._custom.current()
        found = {model.ref: model for model in custom.models}
        for model in custom.applied(catalogue()):
            found.setdefault(model.ref, model)
        if local.installed():
            found[local.LOCAL_MODEL.ref] = local.LOCAL_MODEL
        if self._scripted():
            from pi_rpc.llm.scripted import scripted_model

            model = scripted_model()
            found[model.ref] = model
        return list(found.values())

    def problems(self) -> list[str]:
        """A line about each thing that is wrong with ``models.json``."""
        return list(self._custom.current().problems)

    def authenticated(self, model: Model) -> bool:
        """Whether ``model`` can be asked, as far as can be told without running a command."""
        from pi_rpc.llm.local import LOCAL_MODEL

        if model.ref == LOCAL_MODEL.ref or model.provider == _SCRIPTED:
            return True
        return self._credentials.has(model.provider)

    def find(self, ref: str | Mapping[str, str]) -> Model:
        """The model that ``ref`` names; see ``choose``."""
        return self.choose(ref).model

    def choose(self, ref: str | Mapping[str, str]) -> ModelChoice:
        """The model, and the thinking level if it is named, that ``ref`` means.

        ``{"provider": ..., "id": ...}`` is exact. A text, in any case, is the first of these that
        fits something:

        1. ``provider/id``, or an id alone;
        2. either of them, followed by ``:`` and a thinking level, as in ``gpt-5:high``;
        3. a part of ``provider/id`` or of the model's name, as in ``sonnet`` or ``sonnet:low``;
           one of fewer than three characters must be a whole word of the id, as ``o3`` or ``4o``.

        Where several models fit, those with credentials are preferred; if these are one
        provider's, the first listed is meant. Raises ``UnknownModelError`` when nothing fits or
        it stays ambiguous.
        """
        models = self.models()
        if not isinstance(ref, str):
            exact = f"{ref.get('provider', '')}/{ref.get('id', '')}"
            found = next((model for model in models if model.ref == exact), None)
            if found is None:
                raise self._unknown(exact, models)
            return ModelChoice(found, None)
        wanted = ref.strip().lower()
        name, _, suffix = wanted.rpartition(":")
        level = next((each for each in THINKING_LEVELS if each == suffix), None) if name else None
        attempts: list[tuple[list[Model], ThinkingLevel | None]] = [(_named(wanted, models), None)]
        if level is not None:
            attempts += [(_named(name, models), level), (_containing(name, models), level)]
        attempts.append((_containing(wanted, models), None))
        for fitting, said in attempts:
            if fitting:
                return ModelChoice(self._preferred(ref, fitting), said)
        raise self._unknown(ref, models)

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
        models = self.models()
        if provider:
            models = [model for model in models if model.provider == provider]
            if not models:
                raise UnknownModelError(
                    f"defaultProvider in settings.json: no provider {provider!r} is known"
                )
        elif self._scripted():
            return next(model for model in models if model.provider == _SCRIPTED)
        return next((model for model in models if self.authenticated(model)), None)

    def _scripted(self) -> bool:
        return bool(self._environ.get(SCRIPT_VARIABLE))

    def _preferred(self, ref: str, fitting: list[Model]) -> Model:
        usable = [model for model in fitting if self.authenticated(model)] or fitting
        if len({model.provider for model in usable}) == 1:
            return usable[0]
        named = ", ".join(model.ref for model in usable[:_NAMED_AT_MOST])
        raise UnknownModelError(f"the model {ref!r} is ambiguous; name one of: {named}")

    def _unknown(self, ref: str, models: list[Model]) -> UnknownModelError:
        import difflib

        names = {
            name.lower(): model for model in reversed(models) for name in (model.ref, model.id)
        }
        near = difflib.get_close_matches(ref.lower(), names, n=_NAMED_AT_MOST, cutoff=0.5)
        refs = list(dict.fromkeys(names[name].ref for name in near))
        hint = f"near it are: {', '.join(refs)}" if refs else "model/list names those there are"
        return UnknownModelError(f"there is no model {ref!r}; {hint}")


def _named(name: str, models: list[Model]) -> list[Model]:
    """Those whose ``provider/id`` or id is ``name``; the former wins."""
    return [model for model in models if model.ref.lower() == name] or [
        model for model in models if model.id.lower() == name
    ]


def _containing(part: str, models: list[Model]) -> list[Model]:
    if len(part) < _SHORTEST_PART:
        return [model for model in models if part and part in _words(model.id)]
    return [model for model in models if part in model.ref.lower() or part in model.name.lower()]


def _words(name: str) -> list[str]:
    return re.split(r"[^a-z0-9.]+", name.lower())
