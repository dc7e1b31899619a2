"""What people call models: which model a text means.

Owns the rules by which a text such as ``sonnet``, ``openai/gpt-5`` or ``gpt-5:high`` is one of a
list of models, as pi resolves it. Does not own which models there are nor who has a key
(``pi_rpc.harness.model_registry``)."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pi_rpc.llm.messages import ThinkingLevel
from pi_rpc.llm.models import THINKING_LEVELS, Model

__all__ = ["ModelChoice", "UnknownModelError", "exact_model", "named_model"]

_NAMED_AT_MOST = 5
_SHORTEST_PART = 3
"""Anything shorter is part of some name or other, of which nobody thought."""
_DATED = re.compile(r"-\d{8}$")

Usable = Callable[[Model], bool]


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


def exact_model(ref: Mapping[str, str], models: Sequence[Model]) -> Model:
    """The model that ``{"provider": ..., "id": ...}`` names, or ``UnknownModelError``."""
    exact = f"{ref.get('provider', '')}/{ref.get('id', '')}"
    found = next((model for model in models if model.ref == exact), None)
    if found is None:
        raise _unknown(exact, models)
    return found


def named_model(text: str, models: Sequence[Model], usable: Usable) -> ModelChoice:
    """The model that ``text`` means, in any case, and the thinking level if it names one.

    The first of these that fits something decides:

    1. ``provider/`` and an id of that provider, or a part of one; or an id alone, which may itself
       contain a slash. If both readings fit, the provider's wins where it is ``usable``.
    2. A part of an id or of a name, as in ``sonnet``; one of fewer than three characters must be a
       whole word of the id, as ``o3`` or ``4o``. Of providers, the usable ones are preferred, of
       unusable ones the first; of models, those without a date in their id, and of these the last
       in order.
    3. Either of them, followed by ``:`` and a thinking level, as in ``gpt-5:high``.

    Raises ``UnknownModelError`` when nothing fits, or when the same id is left at several
    providers.
    """
    wanted = text.strip().lower()
    found = _reference(text, wanted, models, usable) or _fuzzy(text, wanted, models, usable)
    if found is not None:
        return ModelChoice(found, None)
    name, _, suffix = wanted.rpartition(":")
    level = next((each for each in THINKING_LEVELS if each == suffix), None)
    if name and level is not None:
        found = _reference(text, name, models, usable) or _fuzzy(text, name, models, usable)
        if found is not None:
            return ModelChoice(found, level)
    raise _unknown(text, models)


def _reference(text: str, wanted: str, models: Sequence[Model], usable: Usable) -> Model | None:
    exact = [model for model in models if model.id.lower() == wanted]
    named = _of_named_provider(wanted, models)
    others = [model for model in exact if model is not named]
    candidates = [named, *others] if named is not None else others
    if not candidates:
        return None
    if len({model.provider for model in candidates}) == 1:
        return candidates[0]
    if named is not None and usable(named):
        return named
    reachable = [model for model in others if usable(model)]
    if len({model.provider for model in reachable}) == 1:
        return reachable[0]
    if named is not None and not reachable:
        return named
    raise _ambiguous(text, reachable or others)


def _of_named_provider(wanted: str, models: Sequence[Model]) -> Model | None:
    prefixes = {model.provider.lower() for model in models}
    fitting = [each for each in prefixes if wanted.startswith(f"{each}/")]
    if not fitting:
        return None
    provider = max(fitting, key=len)
    rest = wanted[len(provider) + 1 :].strip()
    if not rest:
        return None
    own = [model for model in models if model.provider.lower() == provider]
    return next((model for model in own if model.id.lower() in {rest, wanted}), None) or _latest(
        _containing(rest, own)
    )


def _fuzzy(text: str, wanted: str, models: Sequence[Model], usable: Usable) -> Model | None:
    fitting = _containing(wanted, models)
    reachable = [model for model in fitting if usable(model)]
    # Of none that can be asked, what is named serves to say whose key is missing: the maker's.
    reachable = reachable or [each for each in fitting if each.provider == fitting[0].provider]
    best = _latest(reachable)
    if best is None:
        return None
    tied = [model for model in reachable if model.id == best.id]
    if len({model.provider for model in tied}) > 1:
        raise _ambiguous(text, tied)
    return best


def _latest(models: Sequence[Model]) -> Model | None:
    """The newest by its name: ids without a date first, of these the last in order."""
    undated = [model for model in models if not _DATED.search(model.id)]
    return max(undated or models, key=lambda model: _order(model.id), default=None)


def _order(name: str) -> list[tuple[int, int, str]]:
    """Sorts names as people do: the 10 after the 9."""
    parts = re.findall(r"\d+|\D", name.lower())
    return [(1, int(part), "") if part.isdecimal() else (part.isalpha(), 0, part) for part in parts]


def _containing(part: str, models: Sequence[Model]) -> list[Model]:
    if len(part) < _SHORTEST_PART:
        return [model for model in models if part and part in _words(model.id)]
    return [model for model in models if part in model.id.lower() or part in model.name.lower()]


def _words(name: str) -> list[str]:
    return re.split(r"[^a-z0-9.]+", name.lower())


def _ambiguous(text: str, models: Sequence[Model]) -> UnknownModelError:
    named = ", ".join(model.ref for model in models[:_NAMED_AT_MOST])
    return UnknownModelError(f"the model {text!r} is ambiguous; name one of: {named}")


def _unknown(text: str, models: Sequence[Model]) -> UnknownModelError:
    import difflib

    names = {name.lower(): model for model in reversed(models) for name in (model.ref, model.id)}
    near = difflib.get_close_matches(text.lower(), names, n=_NAMED_AT_MOST, cutoff=0.5)
    refs = list(dict.fromkeys(names[name].ref for name in near))
    hint = f"near it are: {', '.join(refs)}" if refs else "model/list names those there are"
    return UnknownModelError(f"there is no model {text!r}; {hint}")
